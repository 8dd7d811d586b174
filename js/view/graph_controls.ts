import type { Channel, Traits } from "../channel";
import { choices } from "../controls/choices";
import { Corner } from "../controls/corner";
import { createFindingsList, labelInModule } from "../controls/findings_list";
import { createRankChoice } from "../controls/rank_choice";
import { search } from "../controls/search";
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
  private readonly ranks: ReturnType<typeof createRankChoice>;

  constructor(
    private readonly picture: Picture,
    private readonly shell: Shell<Traits>,
    private readonly channel: Channel,
    measure: Measure,
    private readonly events: ControlEvents,
  ) {
    const { drawing, folds } = picture;
    this.search = this.createSearch();
    this.view = new ViewBar(drawing, folds, channel, measure, () => events.redraw());
    this.ranks = createRankChoice((rank) => channel.set("rank", rank));
    this.toolbar = this.createTools();
    this.findings = createFindingsList(events.goTo, (node) => {
      const { drawable } = picture;
      return drawable ? labelInModule(drawable.graph.nodes[node]) : `node ${node}`;
    });
  }

  /** The keys of the colours and of the states, in a corner of the picture. */
  corner(stateKey: HTMLElement): Corner {
    const { drawing } = this.picture;
    const corner = new Corner(drawing, [this.view.key, stateKey]);
    drawing.foot.prepend(corner.element);
    return corner;
  }

  /** Show the properties of the next picture. */
  show({ drawable, constants, derivatives }: Request): void {
    const { toolbar } = this;
    toolbar.setDerivatives(derivatives);
    toolbar.setConstants(drawsConstants(drawable.graph) ? constants : null);
    toolbar.setCrumb(...drawable.words);
  }

  /** Show the numbers of drawn boxes and nodes, if some are hidden. */
  showDrawn(): void {
    const { drawing, drawable } = this.picture;
    const drawn = drawing.scene?.nodes.length ?? 0;
    const all = drawable?.autograd.nodes.length ?? 0;
    this.toolbar.setDrawn(drawn > 0 && drawn < all ? drawn : null);
  }

  showRank(): void {
    const { channel, picture } = this;
    const ranks = picture.drawable?.graph.ranks ?? null;
    this.ranks.update(ranks, channel.get("rank") ?? null, channel.get("_ranks") ?? []);
  }

  showFindings(): void {
    this.view.answered();
    this.findings.update(this.channel.get("findings") ?? null);
  }

  private createSearch(): SearchBox {
    const { picture } = this;
    return new SearchBox({
      find(query) {
        const { shown } = picture;
        const found = shown ? search(shown, query) : [];
        picture.drawing.mark({ hits: query.trim() === "" ? null : new Set(found), hit: null });
        return found;
      },
      go(id) {
        picture.drawing.mark({ hit: id });
        if (id === null) picture.folds.keep();
        else picture.folds.reveal(id, true, "peek");
      },
      left: () => picture.drawing.focus(),
    });
  }

  private createTools(): Toolbar {
    const { picture, shell, channel, events, view } = this;
    const { viewport } = picture.drawing;
    const { element: menu, colours } = view;
    const saving = this.createSaving();
    return new Toolbar(
      {
        zoom: (factor) => viewport.zoomBy(factor),
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
      { search: this.search, saving, view: menu, colours, ranks: this.ranks.element },
    );
  }

  private createSaving(): HTMLElement {
    const { picture, shell } = this;
    return createSaveMenu(
      () => {
        const title = `Autograd graph of ${picture.drawable?.words[2] ?? ""}`;
        return liveSvg([picture.drawing.still()], shell.root, title, this.view.legend);
      },
      () => picture.drawable?.graph.roots.map((output) => output.name) ?? [],
    );
  }
}
