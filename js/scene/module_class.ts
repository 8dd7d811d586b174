import { counted } from "../text/number";
import type { GraphModel } from "../wire";

/** The class of a group's module; null if unknown. User text. */
export function classOf({ modules }: Pick<GraphModel, "modules">, path: string): string | null {
  return modules.names[modules.classes[modules.namespaces.indexOf(withoutSteps(path))]] ?? null;
}

/** Classes of containers, which no program calls; `watch()` sees no class of one. */
export const LISTS = /^(ModuleList|ModuleDict)$/;

/** The contents of a list of modules, "6 × T5Block" or "3 modules"; the class of any other module. */
export function listedOf(graph: Pick<GraphModel, "modules">, path: string): string | null {
  const kind = classOf(graph, path);
  if (kind === null || !LISTS.test(kind)) return kind;
  const { namespaces, classes, names } = graph.modules;
  const start = `${withoutSteps(path)}/`;
  const isItem = (one: string) => one.startsWith(start) && !one.includes("/", start.length);
  const items = classes.filter((_, i) => isItem(namespaces[i]));
  if (items.length === 0) return kind;
  const isOne = items.every((one) => one === items[0]);
  return isOne ? `${items.length} × ${names[items[0]]}` : counted(items.length, "module");
}

/**
 * Whether a group is a module, rather than "load_balancing_loss()", "loss = …", "torch.func.grad", "torch.cond: if
 * true", the step of a loop, a part, or an opened node, "CompiledFunctionBackward 2".
 */
export function isModule(path: string): boolean {
  if (isStep(path) || isPart(path) || isSharedLeaves(path)) return false;
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

/** Whether a group is a part of a graph without modules, "part 3/part 3.1". */
export function isPart(path: string): boolean {
  return /(^|\/)part [\d.]+$/.test(path);
}

/** Whether a group has the leaves that several parts use. */
export function isSharedLeaves(path: string): boolean {
  return path === "shared leaves";
}

/** The path of a module without the steps around it: "net/cell" for "net/step 3/cell". */
export function withoutSteps(path: string): string {
  if (!path.includes("step ")) return path;
  return path
    .split("/")
    .filter((part) => !isStep(part))
    .join("/");
}

/** The kind of a group, in one word. */
export function kindOfGroup(path: string): "module" | "part" | "step" | "box" {
  return isModule(path) ? "module" : isPart(path) ? "part" : isStep(path) ? "step" : "box";
}

/** A group's full name; of a part its own, which has the numbers of those around it. */
export function fullNameOf(path: string): string {
  return isPart(path) ? titleOf(path) : path.replaceAll("/", ".");
}

/** The end of a module's path from its last name on: "layers.0.1" of "net/layers/0/1". */
export function titleOf(path: string): string {
  const [end = path] = /[^/]+(\/\d+)*$/.exec(path) ?? [];
  return end.replaceAll("/", ".");
}
