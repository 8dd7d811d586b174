import { ICONS } from "../dom/icons";
import { createMenu } from "../dom/menu";
import { formatBytes } from "../text/number";
import type { SvgFile } from "./live";

/** Larger canvases are blank in some browsers, px. */
const LONGEST = 16_384;
const MOST_PIXELS = 2 ** 26;
/** Pixels of a PNG per px of the widget. */
const SCALE = 2;
/** Some hosts download the file themselves, a while after the click. */
const KEPT_MS = 60_000;
const INSTEAD = "Save it as";

/** The button that saves or copies the picture. `draw` makes it; the outputs name its file. */
export function createSaveMenu(
  draw: () => SvgFile,
  names: () => readonly (string | null)[],
): HTMLElement {
  /** Save a file. */
  function save(blob: Blob, type: string, words = ""): string {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${fileName(names())}.${type}`;
    link.hidden = true;
    // Some hosts see only clicks inside the page.
    menu.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
    return `Saved ${link.download}, ${formatBytes(blob.size)}.${words}`;
  }
  const menu: HTMLElement = createMenu("Save picture", ICONS.save, [
    ["SVG", async () => save(blobOf(draw()), "svg")],
    [
      "PNG",
      async () => {
        const picture = draw();
        return save(await pngOf(picture), "png", scaleWords(picture));
      },
    ],
    ["Copy as image", () => copy(draw)],
  ]);
  return menu;
}

async function copy(draw: () => SvgFile): Promise<string> {
  const picture = draw();
  const png = pngOf(picture);
  try {
    // Write at once with a promise of the picture: a browser soon forgets the click.
    await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
  } catch {
    await png; // what went wrong with the picture itself comes first
    throw new Error(
      `The browser or this page does not let a widget copy images. ${INSTEAD} PNG instead.`,
    );
  }
  return `Copied.${scaleWords(picture)}`;
}

/** Pixels per px of a PNG that browsers can draw. */
export function pngScale({ width, height }: Omit<SvgFile, "text">): number {
  return Math.min(
    SCALE,
    LONGEST / width,
    LONGEST / height,
    Math.sqrt(MOST_PIXELS / (width * height)),
  );
}

/** Report the smaller scale of a large picture. */
function scaleWords(picture: SvgFile): string {
  const scale = pngScale(picture);
  return scale < SCALE
    ? ` Its scale is ${scale.toPrecision(2)} instead of ${SCALE}, the most for so large a picture; an SVG keeps every detail.`
    : "";
}

async function pngOf(picture: SvgFile): Promise<Blob> {
  const image = new Image();
  const scale = pngScale(picture);
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor(picture.width * scale);
  canvas.height = Math.floor(picture.height * scale);
  const blob = await new Promise<Blob | null>((done) => {
    image.onload = () => {
      canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done);
    };
    image.onerror = () => done(null);
    // Pages that restrict image sources allow this one.
    image.src = `data:image/svg+xml,${encodeURIComponent(picture.text)}`;
  });
  if (!blob) throw new Error(`This browser cannot draw so large a PNG. ${INSTEAD} SVG instead.`);
  return blob;
}

function blobOf({ text }: SvgFile): Blob {
  return new Blob([text], { type: "image/svg+xml" });
}

/** A file name from the graph's outputs. */
export function fileName(names: readonly (string | null)[]): string {
  const plain = names
    .join(" ")
    .replace(/[^\p{L}\p{M}\p{N}-]+/gu, "_")
    .slice(0, 60)
    .replace(/^_|_$/g, "");
  return plain || "graph";
}
