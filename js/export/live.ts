import type { ColourLegend } from "../colours/colouring";
import type { Snapshot } from "../interact/drawing";
import { type Part, part } from "../paint/parts";
import { estimate, MONO, SANS } from "../text/measure";
import { settingOf } from "../theme/sheet";
import { MarkupWriter } from "./markup";
import { footerParts, groundOf, keyParts, pictureParts } from "./picture";

/** The text of an SVG file, and its size in px. */
export interface SvgFile {
  text: string;
  width: number;
  height: number;
}

/** Space between pictures, and for the label above each, px. */
const BETWEEN = 24;
const LABEL = 24;

/** The pictures of a widget side by side, at full detail, above the legend of the colours. */
export function liveSvg(
  snapshots: readonly (Snapshot | null)[],
  root: Element,
  title: string,
  legend: ColourLegend | null = null,
): SvgFile {
  const pictures: Part[] = [];
  let right = 0;
  let height = 0;
  for (const snapshot of snapshots) {
    if (!snapshot) throw new Error("The picture is not drawn yet. Choose again when it is.");
    const ground = groundOf(snapshot.scene, snapshot.gradients);
    const above = snapshot.label === null ? 0 : LABEL;
    const left = right > 0 ? right + BETWEEN : 0;
    const at = `translate(${left - ground.x},${above - ground.y})`;
    const { graph, scene, marks, gradients } = snapshot;
    const [under, over] = [snapshot.under, snapshot.over].map((layer) => layer.map(partOf));
    const parts = pictureParts(graph, scene, marks, gradients, { under, over });
    pictures.push(part("g", { transform: at }, parts));
    if (snapshot.label !== null) {
      const place = { class: "gw-still-label", x: left + 4, y: LABEL - 8 };
      pictures.push(part("text", place, snapshot.label));
    }
    right = left + ground.width;
    height = Math.max(height, above + ground.height);
  }
  const width = right;
  const all = { x: 0, y: 0, width, height };
  const key = keyParts(legend, all, estimate);
  height += key.height;
  const [alone] = snapshots.length === 1 ? snapshots : [];
  const footer = alone
    ? footerParts(alone.graph, { ...all, height }, estimate)
    : { parts: [], height: 0 };
  height += footer.height;
  const paper = part("rect", { class: "gw-ground", width, height });

  const setting = settingOf(root);
  const writer = new MarkupWriter(setting.theme, { sans: SANS, mono: MONO }, setting.root);
  const parts = [paper, ...pictures, ...key.parts, ...footer.parts];
  return { text: writer.file(parts, { ...all, height }, title), width, height };
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
