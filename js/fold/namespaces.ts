import type { GraphModel } from "../wire";

/**
 * Per graph node, the group that it lies in, "" for none. What has no module of its own (a leaf, a constant) lies with the
 * operations that use it: in the innermost group around all of them.
 */
export function namespacesOf({ nodes, edges }: GraphModel): string[] {
  const known: (string | null)[] = nodes.map(({ kind, namespace }) =>
    namespace !== null && namespace !== undefined ? namespace : kind === "op" ? "" : null,
  );
  const around: (string | null)[] = known.slice();
  // Nodes that make no operand come after those that use them, so one pass over the edges is enough but for cuts of
  // cuts, which a second one settles.
  for (let pass = 0; pass < 2; pass++) {
    for (const { source, target } of edges) {
      const outer = around[source];
      if (known[target] !== null || outer === null) continue;
      const so = around[target];
      around[target] = so === null ? outer : commonGroup(so, outer);
    }
  }
  return around.map((namespace) => namespace ?? "");
}

/** The innermost group around two: "a/b" of "a/b/c" and "a/b/d". */
export function commonGroup(a: string, b: string): string {
  if (a === b) return a;
  const others = b.split("/");
  const parts = a.split("/");
  let same = 0;
  while (same < parts.length && same < others.length && parts[same] === others[same]) same++;
  return parts.slice(0, same).join("/");
}
