import type { GraphModel } from "../wire";

export function namespacesOf({ nodes, edges }: GraphModel): string[] {
  const known: (string | null)[] = nodes.map(({ kind, namespace }) =>
    namespace !== null && namespace !== undefined ? namespace : kind === "op" ? "" : null,
  );
  const around: (string | null)[] = known.slice();
  // Operands come after their users, so one pass is enough; cuts of cuts need a second one.
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

/** The innermost common group: "a/b" for "a/b/c" and "a/b/d". */
export function commonGroup(a: string, b: string): string {
  if (a === b) return a;
  const others = b.split("/");
  const parts = a.split("/");
  let same = 0;
  while (same < parts.length && same < others.length && parts[same] === others[same]) same++;
  return parts.slice(0, same).join("/");
}
