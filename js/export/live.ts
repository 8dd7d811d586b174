import { svgElement } from "../dom/element";
import type { Still } from "../interact/drawing";
import { Beacons } from "../paint/beacons";
import { FrameLayer } from "../paint/frame_layer";
import { SvgPainter } from "../paint/painter";
import { groundOf } from "./picture";

/** A picture as the text of an SVG file, and its size in px. */
export interface SvgFile {
  text: string;
  width: number;
  height: number;
}

const EVERYWHERE = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };

/** Between pictures side by side, and the room for a label above each, px. */
const BETWEEN = 24;
const LABEL = 24;

/**
 * The whole pictures as a widget with this root shows them, side by side: drawn once more by the same painter, with what
 * the style sheets make of it written down. The title is for who cannot see it, and no user text.
 */
export function liveSvg(stills: readonly (Still | null)[], root: Element, title: string): SvgFile {
  const layer = svgElement("g");
  let right = 0;
  let height = 0;
  for (const still of stills) {
    if (!still) throw new Error("The picture is not drawn yet. Choose again when it is.");
    const ground = groundOf(still.scene, still.gradients);
    const above = still.label === null ? 0 : LABEL;
    const left = right > 0 ? right + BETWEEN : 0;
    const at = `translate(${left - ground.x},${above - ground.y})`;
    layer.append(svgElement("g", { transform: at }, ...pictureOf(still)));
    if (still.label !== null) {
      const text = svgElement("text", { class: "gw-still-label", x: left + 4, y: LABEL - 8 });
      text.textContent = still.label;
      layer.append(text);
    }
    right = left + ground.width;
    height = Math.max(height, above + ground.height);
  }
  const width = right;
  layer.prepend(svgElement("rect", { class: "gw-ground", width, height }));

  // Unseen, and below the root: there the style sheets apply.
  const holder = svgElement("svg", { hidden: true }, layer);
  root.append(holder);
  const rules = new Map<string, string>();
  const looks: Looks = [];
  readLooks(layer, "", rules, new Map(), looks);
  holder.remove();
  // Only now: in the page, every change would have the browser look at the rest again.
  for (const [element, name] of looks) {
    if (name === null) element.remove();
    else element.setAttribute("class", name);
  }
  const scope = `gw-${Date.now().toString(36)}`;
  const style = Array.from(rules, ([css, name]) => `.${scope} .${name}{${css}}`).join("");
  const text =
    `<svg xmlns="http://www.w3.org/2000/svg" class="${scope}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}"><title>${title}</title><style>${style}</style>` +
    `${new XMLSerializer().serializeToString(layer)}</svg>`;
  // User text can hold characters that XML does not allow, and that a browser writes nonetheless.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML forbids.
  const forbidden = /[\0-\x08\v\f\x0e-\x1f\ufffe\uffff]|\p{Cs}/gu;
  return { text: text.replace(forbidden, "\ufffd"), width, height };
}

function pictureOf(still: Still): SVGElement[] {
  const { scene, marks, gradients, under, over } = still;
  const frames = new FrameLayer();
  const beacons = new Beacons();
  const nodes = svgElement("g");
  new SvgPainter(nodes).draw(scene, scene.nodes, scene.edges, marks, gradients);
  frames.draw(scene, EVERYWHERE, 1, marks.module);
  beacons.show(scene, marks);
  beacons.place({ k: 1, x: 0, y: 0 }, false);
  return [frames.element, ...under, nodes, frames.heads, ...over, beacons.element];
}

const SHAPE =
  "fill fill-opacity opacity stroke stroke-dasharray stroke-linecap stroke-linejoin stroke-opacity stroke-width";
const WORDS = "fill opacity font-family font-size font-style font-weight text-anchor";

/** Elements with a class for how they look; null for what is not shown. */
type Looks = [Element, string | null][];

/**
 * Finds how all that lies in an element looks. `rules` has the class of each look, `known` that of each chain of classes.
 */
function readLooks(
  within: Element,
  path: string,
  rules: Map<string, string>,
  known: Map<string, string | null>,
  looks: Looks,
): void {
  for (const child of within.children) {
    const kind = ["class", "text-anchor"].map((name) => child.getAttribute(name));
    const here = `${path} ${child.tagName} ${kind}`;
    let name = known.get(here);
    if (name === undefined) {
      name = nameOf(child, rules);
      known.set(here, name);
    }
    looks.push([child, name]);
    if (name !== null) readLooks(child, here, rules, known, looks);
  }
}

function nameOf(child: Element, rules: Map<string, string>): string | null {
  const shown = getComputedStyle(child);
  if (shown.display === "none") return null;
  const { tagName } = child;
  const names = tagName === "g" ? "opacity" : tagName[0] === "t" ? WORDS : SHAPE;
  const css = names
    .split(" ")
    .map((name) => `${name}:${plainColour(shown.getPropertyValue(name))}`)
    .join(";");
  const name = rules.get(css) ?? `c${rules.size}`;
  rules.set(css, name);
  return name;
}

/** A mixed colour in the words that every reader of SVG knows. */
function plainColour(value: string): string {
  return value.replace(
    /^color\(srgb (\S+) (\S+) (\S+).*/,
    (_, ...parts) =>
      `rgb(${parts.slice(0, 3).map((part) => Math.round(255 * Number.parseFloat(part)))})`,
  );
}
