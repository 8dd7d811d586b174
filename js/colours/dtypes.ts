import { membersOf } from "../scene/members";
import type { SceneNode } from "../scene/scene";
import type { DtypesModel } from "../wire";
import { KINDS } from "./modules";

/** The dtypes of all nodes, each name once. */
export type Dtypes = DtypesModel;

/** The class of a box whose nodes differ. */
export const MIXED = "is-c-mixed";

/** The class of a drawn node: its dtype's, or the mixed one. */
export function dtypeClass(node: SceneNode, { nodes }: Dtypes): string {
  const met = new Set(membersOf(node).map((id) => nodes[id] ?? -1));
  met.delete(-1);
  const [only] = met;
  if (met.size > 1) return MIXED;
  return only === undefined ? "is-c-none" : `is-k${only % KINDS}`;
}

/** The dtypes of a drawn node's members; null if none is known. */
export function dtypeWords(node: SceneNode, { names, nodes }: Dtypes): string | null {
  const met = new Set(membersOf(node).map((id) => nodes[id] ?? -1));
  const words = names.filter((_, i) => met.has(i));
  return words.length === 0 ? null : words.join(", ");
}

export function dtypeEntries({ names }: Dtypes): { name: string; text: string }[] {
  return names.slice(0, KINDS).map((text, i) => ({ name: `is-k${i}`, text }));
}
