import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { Content } from "./content";
import type { ClosedGroup } from "./picture";

const TITLE_ROOM = 200;

/** The words on a closed box. */
export function boxContent(
  { paths, members }: ClosedGroup,
  flags: readonly string[],
  measure: Measure,
): Content {
  const room = (text: string, style: Parameters<Measure>[1]) =>
    shortenMiddle(oneLine(text), TITLE_ROOM, (part) => measure(part, style));
  return {
    title: room(groupTitle(paths[0], paths[paths.length - 1]), "title"),
    name: null,
    shape: counted(members.length, "node"),
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
