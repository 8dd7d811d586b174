import type { ColourLegend } from "../colours/colouring";
import { svgElement } from "../dom/element";
import type { Still } from "../interact/drawing";
import { Beacons } from "../paint/beacons";
import { FrameLayer } from "../paint/frame_layer";
import { SvgPainter } from "../paint/painter";
import type { Part } from "../paint/parts";
import { estimate, MONO, SANS } from "../text/measure";
import { settingOf } from "../theme/sheet";
import { escapeText, MarkupWriter } from "./markup";
import { groundOf, keyParts } from "./picture";

/** The text of an SVG file, and its size in px. */
export interface SvgFile {
  text: string;
  width: number;
  height: number;
}

const EVERYWHERE = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };

/** Space between pictures, and for the label above each, px. */
const BETWEEN = 24;
const LABEL = 24;

/**
 * The pictures of a widget with this root, side by side, redrawn whole by the same painter. The title is for screen
 * readers; the colours' legend is below.
 */
export function liveSvg(
  stills: readonly (Still | null)[],
  root: Element,
  title: string,
  legend: ColourLegend | null = null,
): SvgFile {
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
  const all = { x: 0, y: 0, width, height };
  const key = legend ? keyParts(legend, all, estimate) : { parts: [], height: 0 };
  height += key.height;
  layer.prepend(svgElement("rect", { class: "gw-ground", width, height }));

  const setting = settingOf(root);
  const writer = new MarkupWriter(setting.theme, { sans: SANS, mono: MONO }, setting.root);
  const body = writer.write([partOf(layer), ...key.parts]);
  const scope = `gw-${Date.now().toString(36)}`;
  const text =
    `<svg xmlns="http://www.w3.org/2000/svg" class="${scope}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}"><title>${escapeText(title)}</title>` +
    `<style>${writer.rules(scope)}</style>${body}</svg>`;
  return { text, width, height };
}

function pictureOf(still: Still): SVGElement[] {
  const { scene, marks, gradients, under, over } = still;
  const frames = new FrameLayer();
  const beacons = new Beacons();
  const nodes = svgElement("g");
  new SvgPainter(nodes).draw(scene, scene.nodes, scene.edges, marks, gradients, 1);
  frames.draw(scene, EVERYWHERE, 1, marks.module);
  beacons.show(scene, marks);
  beacons.place({ k: 1, x: 0, y: 0 }, false);
  return [frames.element, ...under, nodes, frames.heads, ...over, beacons.element];
}

/** Convert elements back to plain parts. */
function partOf(element: Element): Part {
  return {
    tag: element.tagName as Part["tag"],
    attributes: Object.fromEntries(
      Array.from(element.attributes, ({ name, value }) => [name, value]),
    ),
    content:
      element.childElementCount > 0
        ? Array.from(element.children, partOf)
        : (element.textContent ?? ""),
  };
}
