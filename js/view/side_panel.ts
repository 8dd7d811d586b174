import type { Channel, Traits } from "../channel";
import { Arrangement } from "../controls/arrangement";
import { choices } from "../controls/choices";
import { createHelp } from "../controls/help";
import { drawingEntries } from "../controls/legend";
import type { Shell } from "../controls/shell";
import { ModuleSelection } from "../panel/module";
import { Panel } from "../panel/panel";
import type { DirectionChoice } from "../wire";
import type { Following } from "./live_graph";
import type { Picture } from "./picture";
import type { ViewPart } from "./view_part";

interface SidePanelEvents {
  /** The node that runs now. */
  running(): number | null;
  turned(): void;
  /** The legend and the keys were shown or hidden. */
  helped(shows: boolean): void;
}

/** The selection, and the panel: details of the selected or running node, or the legend. */
export class SidePanel {
  readonly arrangement: Arrangement;
  readonly modules: ModuleSelection;
  readonly update: () => void;
  readonly updateLegend: () => void;
  private readonly help: ReturnType<typeof createHelp>;
  private readonly panel: Panel;
  private showsHelp = false;

  constructor(
    { legend, note }: Pick<Shell<Traits>, "legend" | "note">,
    private readonly channel: Channel,
    private readonly picture: Pick<Picture, "drawing" | "folds" | "drawable">,
    private readonly parts: readonly ViewPart[],
    following: Following,
    private readonly events: SidePanelEvents,
  ) {
    const { drawing, folds } = picture;
    this.modules = new ModuleSelection(drawing, folds, channel);
    this.help = createHelp(legend, note, (direction) => {
      choices.direction = direction;
      channel.set("direction", direction);
      events.turned();
    });
    const sections = parts.flatMap(({ section }) => section ?? []);
    this.panel = new Panel(this.panelEvents(), this.help.element, sections, channel);
    this.arrangement = new Arrangement(drawing, this.panel.element);
    this.update = following.part(() => this.show());
    this.updateLegend = following.part(() => this.writeLegend(legend));
  }

  isChosen(): boolean {
    return this.channel.get("selected") !== null || this.modules.current !== null;
  }

  select(id: number | null, module: readonly string[] | null = null): void {
    if (id !== null || module) choices.follows = true;
    this.modules.select(module);
    if (this.channel.get("selected") === id) this.update();
    else this.channel.set("selected", id);
    this.modules.reveal();
  }

  /** Show the legend and the keys instead of the selection, or hide them. */
  toggleHelp(): void {
    this.showsHelp = !this.showsHelp || this.isChosen();
    this.events.helped(this.showsHelp);
    if (this.showsHelp) this.select(null);
    this.updateLegend();
    this.update();
  }

  /** Hide the legend and the keys; false if they were hidden. */
  closeHelp(): boolean {
    const { showsHelp } = this;
    if (showsHelp && !this.isChosen()) this.toggleHelp();
    return showsHelp;
  }

  /** Show the direction; `isStatic`: it is the data's. */
  setDirection(direction: DirectionChoice, isStatic: boolean): void {
    this.help.setDirection(direction, isStatic);
  }

  destroy(): void {
    this.panel.destroy();
  }

  private panelEvents(): ConstructorParameters<typeof Panel>[0] {
    const { parts } = this;
    const { drawing } = this.picture;
    const goTo = (id: number | null, module: readonly string[] | null) => {
      this.select(id, module);
      this.panel.focus();
    };
    return {
      goTo: (id) => goTo(id, null),
      goToModule: (path) => goTo(null, [path]),
      close: () => {
        if (this.showsHelp) this.toggleHelp();
        else if (!this.isChosen()) choices.follows = false;
        for (const part of parts) part.closed?.();
        this.select(null);
        drawing.focus();
      },
    };
  }

  private writeLegend(legend: HTMLElement): void {
    const { channel } = this;
    const drawable = this.picture.drawable;
    // A hidden legend is not written.
    if (!drawable || !this.showsHelp) return;
    const shown = drawable.shown(channel.get("constants"));
    const of = {
      drawing: this.picture.drawing,
      autograd: drawable.size.nodes,
      state: channel.get("state"),
    };
    legend.replaceChildren(...drawingEntries([{ ...of, graph: shown }]));
  }

  private show(): void {
    const { channel, arrangement, panel, modules, showsHelp } = this;
    const drawable = this.picture.drawable;
    if (!drawable) return;
    const running = this.events.running();
    const isAsked =
      this.isChosen() || showsHelp || this.parts.some(({ section }) => section?.isOpen);
    const follows = choices.follows && running !== null && arrangement.isOver;
    const node = channel.get("selected") ?? (showsHelp ? null : running);
    const shows = isAsked || follows;
    // A hidden panel is not written, since keeping its place forces a layout.
    if (shows || arrangement.hasPanel) {
      const { progress } = this.picture.drawing;
      panel.update(drawable.graph, node, channel.get("details"), progress, modules.current);
    }
    arrangement.setPanel(shows);
  }
}
