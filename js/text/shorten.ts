type Widths = (text: string) => number;

/**
 * User text on one line: line breaks, tabs and control characters become one space; marks that turn the reading
 * direction are dropped, or they would turn what follows as well.
 */
export function oneLine(text: string): string {
  return text
    .replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}

/**
 * The text itself if it fits, else the last whole words of its name after "…", "…DecoderLayer": they say what it is.
 * Where these would fill less than half of the room, its beginning and end around "…", as much of both as fits.
 */
export function shortenMiddle(text: string, room: number, width: Widths): string {
  if (width(text) <= room) return text;
  const parts = graphemes(text);
  const cut = (kept: number) =>
    `${parts.slice(0, Math.ceil(kept / 2)).join("")}…${parts.slice(parts.length - Math.floor(kept / 2)).join("")}`;
  let low = 0;
  let high = parts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (width(cut(middle)) <= room) low = middle;
    else high = middle - 1;
  }
  return lastWords(text, room, width) ?? cut(low);
}

/** Between the words of "WhisperDecoderLayer", "token_type_embeddings" or "net.0.weight"; "Backward0" says nothing alone. */
const BETWEEN_WORDS = /(?<=[._])|(?<=[a-z\d])(?=[A-Z])(?!Backward)|(?<=[A-Z])(?=[A-Z][a-z])/;

/** A text with the first words of the name at its end cut; null if too little remains. */
function lastWords(text: string, room: number, width: Widths): string | null {
  const [name] = /[\w.]{0,200}$/.exec(text) ?? [""];
  const before = text.slice(0, text.length - name.length);
  const words = name.split(BETWEEN_WORDS);
  for (let first = 1; first < words.length; first++) {
    const last = words.slice(first).join("");
    const short = `${before}…${last}`;
    if (width(short) <= room)
      return 2 * width(short) >= room && /[a-z]{2}/i.test(last) ? short : null;
  }
  return null;
}

/** Names, "encoder · attn · out": as many whole first ones as fit before "…"; one name is cut in the middle. */
export function shortenNames(text: string, room: number, width: Widths): string {
  const names = text.split(" · ");
  for (let kept = names.length; kept > 0; kept--) {
    const some = [...names.slice(0, kept), ...(kept < names.length ? ["…"] : [])].join(" · ");
    if (width(some) <= room) return some;
  }
  return shortenMiddle(text, room, width);
}

/** Numbers in a list: as many whole ones of its beginning and end as fit, around "…". */
export function shortenList(text: string, room: number, width: Widths): string {
  if (width(text) <= room) return text;
  const items = text.split(", ");
  for (let kept = items.length - 1; kept > 1; kept--) {
    const [head, tail] = [Math.ceil(kept / 2), items.length - Math.floor(kept / 2)];
    const cut = [...items.slice(0, head), "…", ...items.slice(tail)].join(", ");
    if (width(cut) <= room) return cut;
  }
  return "…";
}

/** Long names are cut to this many characters before anything looks at them one by one. */
const ENOUGH = 400;

function graphemes(text: string): string[] {
  const short = text.length > ENOUGH ? text.slice(0, ENOUGH / 2) + text.slice(-ENOUGH / 2) : text;
  const segments = new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(short);
  return Array.from(segments, ({ segment }) => segment);
}

/** A shape as Python writes it: `(64, 3, 7, 7)`, `(3,)`, and `scalar` for a 0-dim tensor. */
export function formatShape(shape: readonly number[]): string {
  if (shape.length === 0) return "scalar";
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}
