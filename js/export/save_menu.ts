import { ICONS } from "../dom/icons";
import { createMenu } from "../dom/menu";
import { formatBytes } from "../text/number";
import type { SvgFile } from "./live";

/** Canvases beyond these come out blank in one browser or another, px. */
const LONGEST = 16_384;
const MOST_PIXELS = 2 ** 26;
/** Pixels of a PNG per px of the widget. */
const SCALE = 2;
/** Hosts that download in our stead may fetch the file a while after the click. */
const KEPT_MS = 60_000;
const INSTEAD = "Save it as";

/** The button that saves or copies the picture; `draw` makes it anew, its file goes by the names of the outputs. */
export function createSaveMenu(
  draw: () => SvgFile,
  names: () => readonly (string | null)[],
): HTMLElement {
  /** Hands a file to the reader. */
  function save(blob: Blob, type: string, words = ""): string {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${fileName(names())}.${type}`;
    link.hidden = true;
    // In the page: some hosts see only clicks that rise from there.
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
    // Asked for at once, with the picture to follow: a browser forgets in a moment that there was a click.
    await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
  } catch {
    await png; // what went wrong with the picture itself comes first
    throw new Error(
      `The browser or this page does not let a widget copy images. ${INSTEAD} PNG instead.`,
    );
  }
  return `Copied.${scaleWords(picture)}`;
}

/** Pixels per px for a PNG of a picture that browsers can draw. */
export function pngScale({ width, height }: Omit<SvgFile, "text">): number {
  return Math.min(
    SCALE,
    LONGEST / width,
    LONGEST / height,
    Math.sqrt(MOST_PIXELS / (width * height)),
  );
}

/** Says so when a large picture comes out smaller than others. */
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
    // Pages that allow few sources of images allow this one.
    image.src = `data:image/svg+xml,${encodeURIComponent(picture.text)}`;
  });
  if (!blob) throw new Error(`This browser cannot draw so large a PNG. ${INSTEAD} SVG instead.`);
  return blob;
}

function blobOf({ text }: SvgFile): Blob {
  return new Blob([text], { type: "image/svg+xml" });
}

/** A name for a file from what the graph's outputs are called. */
export function fileName(names: readonly (string | null)[]): string {
  const plain = names
    .join(" ")
    .replace(/[^\p{L}\p{M}\p{N}-]+/gu, "_")
    .slice(0, 60)
    .replace(/^_|_$/g, "");
  return plain || "graph";
}
