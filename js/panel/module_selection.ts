import type { Channel } from "../channel";
import { gradientNorms } from "../colours/gradient_norms";
import { Remembered } from "../dom/remembered";
import { openGroup } from "../fold/folding";
import type { Drawing } from "../interact/drawing";
import type { FoldController } from "../interact/fold_controller";
import type { SelectedModule } from "./module";
import { moduleFacts } from "./module_facts";

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
    if (!this.madeOf.isNew(path, scene, drawn, recording, memory)) return this.made;
    const { paths } = this;
    const { graph, tree } = drawn;
    const run = recording?.run ?? null;
    const pass = recording && run && { recording, norms: gradientNorms(graph, run) };
    const frame = scene.frames.find((one) => one.path === path);
    const actions: SelectedModule["actions"] = [
      frame
        ? ["Close", () => folds.close(path, [(frame.left + frame.right) / 2, frame.top])]
        : box?.bar
          ? ["Open", () => folds.open(box)]
          : ["Open", () => folds.change((folding) => openGroup(tree, folding, path))],
    ];
    this.made = { paths, facts: moduleFacts(graph, paths, memory, pass), actions };
    return this.made;
  }
}
