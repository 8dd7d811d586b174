import type { GraphModel } from "../wire";

/** The class of a group's module; null if unknown. User text. */
export function classOf({ modules }: Pick<GraphModel, "modules">, path: string): string | null {
  return modules.names[modules.classes[modules.namespaces.indexOf(path)]] ?? null;
}

/**
 * Whether a group is a module, rather than "load_balancing_loss()", "loss = …", "torch.func.grad", "torch.cond: if
 * true", or an opened node, "CompiledFunctionBackward 2".
 */
export function isModule(path: string): boolean {
  return !/(\(\)| = …|(^|\/)torch\.[^/]*|(^|\/)\w+Backward( \d+)?)$/.test(path);
}

/** Whether a group is a body of control flow, "torch.cond: if true", which always has a frame. */
export function isBody(path: string): boolean {
  return /(^|\/)torch\.[^/]*: [^/]*$/.test(path);
}
