import { PLUMBING } from "../wire";

/** Operations whose backward only moves, reshapes, casts or sums the gradient. */
const PASSED_ON: ReadonlySet<string> = new Set(PLUMBING);

/** Calls of a static graph that autograd names differently, or lacks. */
const CALLS = /^(getitem|(aten\.)?(to|flatten|reshape|contiguous|expand_as|unflatten)\b)/;

/** Whether an operation only passes a tensor on, "aten.view.default" as well as "ViewBackward0". */
export function isPlumbing(op: string): boolean {
  const [, called] = /^(?:aten\.)?([a-z_]\w*)/.exec(op) ?? [];
  const name = called?.replace(/_+(\w)|^./g, (part) => part.slice(-1).toUpperCase());
  return PASSED_ON.has(name ? `${name}Backward0` : op.replace(/_copy$/, "")) || CALLS.test(op);
}
