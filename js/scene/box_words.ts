import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { NodeWords } from "./node_words";
import type { ClosedGroup } from "./plan";

const TITLE_ROOM = 200;

/** The words on a closed box; `kind` is the class of its module, if that is known. */
export function boxWords(
  { paths, members }: ClosedGroup,
  kind: string | null,
  flags: readonly string[],
  measure: Measure,
): NodeWords {
  const room = (text: string, style: Parameters<Measure>[1], taken = 0) =>
    shortenMiddle(oneLine(text), TITLE_ROOM - taken, (part) => measure(part, style));
  const size = counted(members.length, "node");
  return {
    title: room(groupTitle(paths[0], paths[paths.length - 1]), "title"),
    name: null,
    shape:
      kind === null ? size : `${room(kind, "shape", measure(` · ${size}`, "shape"))} · ${size}`,
    uses: paths.length > 1 ? `×${paths.length}` : null,
    flag: flags.length === 0 ? null : room(flags.join(", "), "flag"),
    stubs: [],
  };
}

/** The end of a path that tells what it is: "linear1", but "layers.0" where the last part is only a number. */
export function groupTitle(path: string, last = path): string {
  const parts = path.split("/");
  const name = parts[parts.length - 1];
  const title = /^\d+$/.test(name) && parts.length > 1 ? parts.slice(-2).join(".") : name;
  return last === path ? title : `${title} … ${last.slice(last.lastIndexOf("/") + 1)}`;
}
