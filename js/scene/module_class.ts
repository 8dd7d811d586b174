import type { GraphModel } from "../wire";

/** The class of a group's module; null if unknown. User text. */
export function classOf({ modules }: Pick<GraphModel, "modules">, path: string): string | null {
  return modules.names[modules.classes[modules.namespaces.indexOf(withoutSteps(path))]] ?? null;
}

/**
 * Whether a group is a module, rather than "load_balancing_loss()", "loss = …", "torch.func.grad", "torch.cond: if
 * true", the step of a loop, or an opened node, "CompiledFunctionBackward 2".
 */
export function isModule(path: string): boolean {
  if (isStep(path)) return false;
  return !/(\(\)| = …|(^|\/)torch\.[^/]*|(^|\/)\w+Backward( \d+)?)$/.test(path);
}

/** Whether a group is a body of control flow, "torch.cond: if true", which always has a frame. */
export function isBody(path: string): boolean {
  return /(^|\/)torch\.[^/]*: [^/]*$/.test(path);
}

/** Whether a group is one step of a loop, "cell/step 3" or "loop 2 step 3". */
export function isStep(path: string): boolean {
  return /(^|\/)(loop \d+ )?step \d+$/.test(path);
}

/** The path of a module without the steps around it: "net/cell" for "net/step 3/cell". */
export function withoutSteps(path: string): string {
  if (!path.includes("step ")) return path;
  return path
    .split("/")
    .filter((part) => !isStep(part))
    .join("/");
}

/** The end of a module's path from its last name on: "layers.0.1" of "net/layers/0/1". */
export function titleOf(path: string): string {
  const [end = path] = /[^/]+(\/\d+)*$/.exec(path) ?? [];
  return end.replaceAll("/", ".");
}
