import type { GraphModel } from "../wire";

/** What class the module of a group is of; null where that is not known. User text. */
export function classOf({ modules }: Pick<GraphModel, "modules">, path: string): string | null {
  return modules.names[modules.classes[modules.namespaces.indexOf(path)]] ?? null;
}

/**
 * Whether a group is a module, rather than other operations: "load_balancing_loss()", "loss = …", "torch.func.grad", or
 * what is inside of a node, "CompiledFunctionBackward 2".
 */
export function isModule(path: string): boolean {
  return !/(\(\)| = …|(^|\/)torch\.func\.[^/]*|(^|\/)\w+Backward( \d+)?)$/.test(path);
}
