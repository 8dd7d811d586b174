import type { GraphModel } from "../wire";

/** Which nodes are parameters: leaves, but where these go by dotted names one without is what the model was given. */
export function parametersIn({ nodes }: Pick<GraphModel, "nodes">): (id: number) => boolean {
  const isDotted = (id: number) => nodes[id].name?.includes(".") ?? false;
  const areNamed = nodes.some(({ kind, id }) => kind === "leaf" && isDotted(id));
  return (id) => nodes[id].kind === "leaf" && isDotted(id) === areNamed;
}

/** How many numbers a tensor of this shape holds; 0 where it is not known. */
export function sizeOf(shape: readonly number[] | null): number {
  return (shape ?? [0]).reduce((product, size) => product * size, 1);
}
