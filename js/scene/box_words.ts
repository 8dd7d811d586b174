import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { NodeWords } from "./node_words";
import type { ClosedGroup } from "./plan";

const TITLE_ROOM = 150;

/**
 * The words on a closed box: `kind` is the class of its module, if that is known, and `shapes` are those of the
 * parameters in it.
 */
export function boxWords(
  { paths, members }: ClosedGroup,
  kind: string | null,
  shapes: readonly (readonly number[])[],
  flags: readonly string[],
  measure: Measure,
): NodeWords {
  const room = (text: string, style: Parameters<Measure>[1]) =>
    shortenMiddle(oneLine(text), TITLE_ROOM, (part) => measure(part, style));
  const under = kind === null ? counted(members.length, "node") : (sizes(kind, shapes) ?? kind);
  return {
    title: room(groupTitle(paths[0]), "title"),
    name: null,
    shape: room(under, "shape"),
    uses: null,
    flag: flags.length === 0 ? null : room(flags.join(", "), "flag"),
    stubs: [],
  };
}

/** What a layer is best known by, from its weight: the kernel and channels of a convolution, what a linear one maps. */
function sizes(kind: string, shapes: readonly (readonly number[])[]): string | null {
  const weight = shapes.find(({ length }) => length > 1);
  if (!weight) return null;
  const [out, into, ...kernel] = weight;
  if (/^Conv\dd$/.test(kind)) return `${kernel.join("×")} · ${out}`;
  return kind === "Linear" ? `${into} → ${out}` : null;
}

/** The end of a path that tells what it is: "linear1", but "layers.0" where the last part is only a number. */
export function groupTitle(path: string): string {
  const parts = path.split("/");
  const name = parts[parts.length - 1];
  return /^\d+$/.test(name) && parts.length > 1 ? parts.slice(-2).join(".") : name;
}
