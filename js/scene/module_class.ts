import type { GraphModel } from "../wire";

/** What class the module of a group is of; null where that is not known. User text. */
export function classOf({ modules }: Pick<GraphModel, "modules">, path: string): string | null {
  return modules.names[modules.classes[modules.namespaces.indexOf(path)]] ?? null;
}

/**
 * Whether a group is a module, rather than other operations: "load_balancing_loss()", "loss = …", "torch.func.grad",
 * "torch.cond: if true", or what is inside of a node, "CompiledFunctionBackward 2".
 */
export function isModule(path: string): boolean {
  return !/(\(\)| = …|(^|\/)torch\.[^/]*|(^|\/)\w+Backward( \d+)?)$/.test(path);
}

/** Whether a group is what control flow runs, "torch.cond: if true": it has a frame around however little. */
export function isBody(path: string): boolean {
  return /(^|\/)torch\.[^/]*: [^/]*$/.test(path);
}
