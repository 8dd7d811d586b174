import { membersOf } from "../scene/members";
import type { SceneNode } from "../scene/scene";
import type { GraphModel } from "../wire";
import { MIXED } from "./dtypes";
import { KINDS } from "./modules";

/** The kernels of compiled code that is open, and per node the places of those that run it. */
export interface Kernels {
  names: string[];
  nodes: number[][];
}

/** The kernels that are known in a graph; null for none. */
export function kernelsOf({ nodes }: GraphModel): Kernels | null {
  const places = new Map<string, number>();
  // Each opened node has kernels of its own, whatever they are called.
  const place = (inside: number | null, name: string) => {
    const key = `${inside} ${name}`;
    const at = places.get(key) ?? places.size;
    places.set(key, at);
    return at;
  };
  const found = nodes.map(({ inside, kernels }) => kernels.map((name) => place(inside, name)));
  const names = Array.from(places.keys(), (key) => key.slice(key.indexOf(" ") + 1));
  return names.length === 0 ? null : { names, nodes: found };
}

/** The class of a drawn node: that of its kernel, or of several. */
export function kernelClass(node: SceneNode, { nodes }: Kernels): string {
  const met = new Set(membersOf(node).flatMap((id) => nodes[id]));
  const [only] = met;
  if (met.size > 1) return MIXED;
  return only === undefined ? "is-c-none" : `is-k${only % KINDS}`;
}

/** The kernels that run what a drawn node stands for; null for none. */
export function kernelWords(node: SceneNode, { names, nodes }: Kernels): string | null {
  const met = new Set(membersOf(node).flatMap((id) => nodes[id]));
  return met.size === 0 ? null : Array.from(met, (at) => names[at]).join(", ");
}

/** The first kernels with their colours; more of them take turns. */
export function kernelEntries({ names }: Kernels): { name: string; text: string }[] {
  return names.slice(0, KINDS).map((text, i) => ({
    name: `is-k${i}`,
    text:
      i === KINDS - 1 && names.length > KINDS
        ? `${text} and, in turn, ${names.length - KINDS} more`
        : text,
  }));
}
