import type { Channel } from "../channel";
import { gradientNorms } from "../colours/norms";
import { button, element } from "../dom/element";
import { Remembered } from "../dom/remembered";
import { openGroup } from "../fold/folding";
import type { Drawing } from "../interact/drawing";
import type { FoldController } from "../interact/fold_controller";
import { regionOf } from "../scene/checkpoints";
import { boxOf } from "../scene/find";
import type { Box } from "../scene/grid";
import { fullNameOf, isModule, isPart, isSharedLeaves, isStep } from "../scene/module_class";
import type { Scene, SceneNode } from "../scene/scene";
import { counted, formatBytes, formatCount, formatNumber } from "../text/number";
import { formatShape, oneLine } from "../text/shorten";
import type { GraphModel } from "../wire";
import { factList } from "./facts";
import { nodeLink } from "./links";
import { type ModuleFacts, moduleFacts } from "./module_facts";
import { section, sentence } from "./sections";

/** A module that is selected in the drawing, and its actions. */
export interface SelectedModule {
  /** Its path alone. */
  paths: readonly string[];
  facts: ModuleFacts;
  actions: [text: string, run: () => void][];
}

/** The most kinds of operations and the most nodes to list. */
const MOST_KINDS = 6;
const MOST_LISTED = 40;

/** A module's class, content, and gradients in and out. */
export function moduleView(
  graph: GraphModel,
  { paths, facts, actions }: SelectedModule,
): (HTMLElement | null)[] {
  const { kind, isInferred, operations, parameters } = facts;
  const known = isInferred ? "inferred" : "watched";
  const list = (title: string, count: number, items: Item[], rest: number) => {
    const rows = items.map((item) => element("li", {}, item));
    if (rest > 0) rows.push(element("li", "gw-dim", `and ${formatCount(rest)} more`));
    const body = element("ul", "gw-rows", rows);
    return section(
      { key: `module ${title}`, title, hint: formatCount(count), open: count > 0 },
      body,
    );
  };
  const nodes = (title: string, ids: readonly number[]) => {
    const items = ids.slice(0, MOST_LISTED).map((id) => {
      const { label, shape } = graph.nodes[id];
      const size = element("span", "gw-mono gw-dim", shape && formatShape(shape));
      return [nodeLink(id, label, `${title}.${id}`), size];
    });
    return list(title, ids.length, items, ids.length - MOST_LISTED);
  };
  return [
    element("div", "gw-heading", [
      element("h2", "gw-title", oneLine(fullNameOf(paths[0]))),
      element(
        "div",
        "gw-mono gw-dim gw-op-name",
        isPart(paths[0])
          ? "no module: cut where few results pass"
          : isSharedLeaves(paths[0])
            ? "no module: leaves that several parts use"
            : `${oneLine(kind ?? (isModule(paths[0]) ? "class not known" : "no module"))} (${known})`,
      ),
      element(
        "p",
        "gw-actions",
        actions.map(([text, run]) =>
          button({ label: text, text, class: "gw-button gw-diagnose" }, run),
        ),
      ),
    ]),
    sentence(regionOf(graph, paths[0])?.about ?? null),
    sentence(facts.isUnrecorded ? UNRECORDED : null),
    factList(rowsOf(facts, isStep(paths[0]))),
    list(
      "Operations",
      operations.reduce((sum, [, times]) => sum + times, 0),
      operations
        .slice(0, MOST_KINDS)
        .map(([op, times]) => [`${formatCount(times)} × ${oneLine(op)}`]),
      operations.length - MOST_KINDS,
    ),
    nodes("Parameters", parameters),
    nodes("Inputs from outside", facts.inputs),
    nodes("Outputs", facts.outputs),
  ];
}

type Item = (Node | string)[];

const UNRECORDED =
  "This widget has recorded no backward pass, so the gradients in and out are unknown. Make the widget before backward().";

function rowsOf(facts: ModuleFacts, isOneStep: boolean): [string, string][] {
  const { parameters, numbers, own, bytes, gradients, held } = facts;
  const rows: [string, string][] = [
    ["parameters", `${counted(parameters.length, "tensor")}, ${counted(numbers, "element")}`],
  ];
  if (bytes > 0) rows.push(["memory", `${formatBytes(bytes)} held, ${formatBytes(own)} by itself`]);
  const shared = isOneStep ? ", of parameters that all steps share" : "";
  if (!Number.isNaN(held)) rows.push([".grad now", `${normsText([held])}${shared}`]);
  if (!gradients) return rows;
  const { arrived, passedOn, stored, dead, notFinite } = gradients;
  rows.push(
    ["gradient in", normsText(arrived)],
    ["gradient out", normsText(passedOn)],
    [".grad", `reached ${stored} of ${counted(parameters.length, "parameter")}`],
  );
  if (dead > 0) rows.push(["only zeros", `at ${counted(dead, "node")}`]);
  if (notFinite > 0) rows.push(["NaN or Inf", `at ${counted(notFinite, "node")}`]);
  return rows;
}

/** A norm, or the least and largest of several. */
function normsText(norms: readonly number[]): string {
  if (norms.length === 0) return "none";
  const [least, most] = [Math.min(...norms), Math.max(...norms)].map((norm) =>
    Number.isFinite(norm) ? formatNumber(norm) : "NaN or Inf",
  );
  return least === most ? `norm ${least}` : `norms ${least} to ${most}`;
}

/** The size of the part of a frame's title that shows which module it is, px. */
const TITLE = { width: 120, height: 28 };

function titleOf({ left, top, right }: Box): Box {
  return { left, top, right: Math.min(right, left + TITLE.width), bottom: top + TITLE.height };
}

/** The selected module of a view. Python only knows selected nodes. */
export class ModuleSelection {
  private paths: readonly string[] | null = null;
  private made: SelectedModule | null = null;
  private readonly madeOf = new Remembered();

  constructor(
    private readonly drawing: Drawing,
    private readonly folds: FoldController,
    private readonly channel: Pick<Channel, "get">,
  ) {}

  select(paths: readonly string[] | null): void {
    if (paths === this.paths) return;
    this.paths = paths;
    this.drawing.mark({ module: paths });
  }

  /** Bring the box, or the title of its frame, into view if it is hidden. */
  reveal(): void {
    const { viewport } = this.drawing;
    viewport.whenQuiet(() => {
      const [path] = this.paths ?? [];
      const { nodes = [], frames = [] } = this.drawing.scene ?? {};
      const box = nodes.find(({ group }) => path !== undefined && group?.paths.includes(path));
      const frame = frames.find((one) => one.path === path);
      if (box) viewport.revealBox(boxOf(box));
      else if (frame) viewport.revealBox(titleOf(frame));
    });
  }

  /** The selected module as drawn, the same object while nothing changes; null for none. */
  get current(): SelectedModule | null {
    const { drawing, folds, channel } = this;
    const { scene, progress } = drawing;
    const drawn = folds.drawnGraph;
    if (!this.paths || !scene || !drawn) return null;
    const [path] = this.paths;
    const box = scene.nodes.find(({ group }) => group?.paths.includes(path));
    const recording = progress?.recording ?? null;
    const memory = channel.get("_memory") ?? null;
    const { ran, held } = drawing.seen;
    if (!this.madeOf.isNew(path, scene, drawn, recording, memory, ran, held)) return this.made;
    const { paths } = this;
    const { graph, tree } = drawn;
    const run = recording?.run ?? null;
    const pass = recording && run && { recording, norms: gradientNorms(graph, run) };
    const at = openAt(scene, path, box);
    const actions: SelectedModule["actions"] = [
      at
        ? ["Close", () => folds.close(path, at)]
        : box?.bar
          ? ["Open", () => folds.open(box)]
          : ["Open", () => folds.change((folding) => openGroup(tree, folding, path))],
    ];
    this.made = { paths, facts: moduleFacts(graph, paths, memory, pass, drawing.seen), actions };
    return this.made;
  }
}

/** Where an open module is: its frame, or what is inside it, since an open list may have no frame; null if it is closed. */
function openAt(
  { nodes, frames }: Scene,
  path: string,
  closed?: SceneNode,
): [number, number] | null {
  const isInside = (other = "") => other.startsWith(`${path}/`);
  const inner = closed ? undefined : frames.find((one) => isInside(one.path));
  const frame = frames.find((one) => one.path === path) ?? inner;
  if (frame) return [(frame.left + frame.right) / 2, frame.top];
  const box = closed ? undefined : nodes.find(({ group }) => isInside(group?.paths[0]));
  return box ? [box.x, box.y] : null;
}
