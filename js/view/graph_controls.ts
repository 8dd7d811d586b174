import type { Channel, Traits } from "../channel";
import { choices } from "../controls/choices";
import { createFindingsList, labelInModule } from "../controls/findings_list";
import { matchWords, search } from "../controls/search";
import { SearchBox } from "../controls/searchbox";
import type { Shell } from "../controls/shell";
import { Toolbar } from "../controls/toolbar";
import { ViewBar } from "../controls/view_bar";
import { liveSvg } from "../export/live";
import { createSaveMenu } from "../export/save_menu";
import { drawsConstants } from "../scene/card";
import type { Measure } from "../text/measure";
import type { Picture, Request } from "./picture";

interface ControlEvents {
  /** A choice of the reader asks for another picture. */
  redraw(): void;
  /** The whole graph was brought into view. */
  fitted(): void;
  goTo(node: number): void;
  toggleHelp(): void;
}

export class GraphControls {
  readonly search: SearchBox;
  readonly view: ViewBar;
  readonly toolbar: Toolbar;
  readonly findings: ReturnType<typeof createFindingsList>;

  constructor(
    private readonly picture: Picture,
    private readonly shell: Shell<Traits>,
    private readonly channel: Channel,
    measure: Measure,
    tools: readonly HTMLElement[],
    private readonly events: ControlEvents,
  ) {
    const { drawing, folds } = picture;
    this.search = this.createSearch();
    this.view = new ViewBar(drawing, folds, channel, measure, () => events.redraw());
    this.toolbar = this.createTools(tools);
    this.findings = createFindingsList(events.goTo, (node) => {
      const { drawable } = picture;
      return drawable ? labelInModule(drawable.graph, node) : `node ${node}`;
    });
  }

  /** Show the properties of the next picture. */
  show({ drawable, constants, derivatives }: Request): void {
    const { toolbar } = this;
    toolbar.set("derivatives", derivatives);
    toolbar.set("constants", drawsConstants(drawable.graph) ? constants : null);
    toolbar.setCrumb(...drawable.words);
  }

  /** Show the numbers of drawn boxes and nodes, if some are hidden. */
  showDrawn(): void {
    const { drawing, drawable } = this.picture;
    const drawn = drawing.scene?.nodes.length ?? 0;
    const all = drawable?.autograd.nodes.length ?? 0;
    this.toolbar.setDrawn(drawn > 0 && drawn < all ? drawn : null);
  }

  showFindings(): void {
    this.view.answered();
    const findings = this.channel.get("_findings") ?? null;
    this.view.setFindings(findings?.length ?? null);
    this.findings.update(findings);
  }

  private createSearch(): SearchBox {
    const { picture, channel } = this;
    /** Goes back to what was seen before the search; null outside of one. */
    let goBack: (() => void) | null = null;
    return new SearchBox({
      find(query) {
        const { shown } = picture;
        const found = shown ? search(shown, query) : [];
        picture.drawing.mark({ hits: query.trim() === "" ? null : new Set(found), hit: null });
        return found;
      },
      describe: (id) => matchWords(picture.shown?.nodes[id] ?? null),
      go(id) {
        picture.drawing.mark({ hit: id });
        if (id !== null) {
          goBack ??= picture.folds.bookmark();
          picture.folds.reveal(id, true, "peek");
          return;
        }
        if (channel.get("selected") === null) goBack?.();
        else picture.folds.keep();
        goBack = null;
      },
      left: () => picture.drawing.focus(),
    });
  }

  private createTools(tools: readonly HTMLElement[]): Toolbar {
    const { picture, shell, channel, events, view } = this;
    const { viewport } = picture.drawing;
    const { element: menu, colours, diagnose } = view;
    const saving = this.createSaving();
    return new Toolbar(
      {
        zoom: (factor) => picture.drawing.zoomBy(factor),
        fit() {
          viewport.fit();
          events.fitted();
        },
        toggleConstants: () => channel.set("constants", !channel.get("constants")),
        toggleDerivatives() {
          choices.derivatives = !choices.derivatives;
          picture.folds.forget(); // the arrows change their length
          events.redraw();
        },
        toggleFull: () => shell.toggleFull(),
        toggleHelp: () => events.toggleHelp(),
        leaveTo: (depth) => picture.breadcrumbs.leave(depth),
      },
      { search: this.search, saving, view: menu, colours, diagnose, tools },
    );
  }

  private createSaving(): HTMLElement {
    const { picture, shell } = this;
    return createSaveMenu(
      () => {
        const title = `Autograd graph of ${picture.drawable?.words[2] ?? ""}`;
        return liveSvg([picture.drawing.snapshot()], shell.root, title, this.view.legend);
      },
      () => picture.drawable?.graph.roots.map((output) => output.name) ?? [],
    );
  }
}
