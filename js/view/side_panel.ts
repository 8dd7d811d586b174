import { Arrangement } from "../bars/arrangement";
import { choices } from "../bars/choices";
import { createHelp } from "../bars/help";
import { drawingEntries } from "../bars/legend";
import type { Shell } from "../bars/shell";
import type { Channel, Traits } from "../channel";
import type { Drawing } from "../interact/drawing";
import type { Folder } from "../interact/folder";
import type { WhatIf } from "../laboratory/what_if";
import { ModuleSelection } from "../panel/module_selection";
import { Panel } from "../panel/panel";
import type { DirectionChoice } from "../wire";
import type { Drawable } from "./drawable";
import type { Following } from "./following";

interface SidePanelEvents {
  /** What is drawn now. */
  drawable(): Drawable | null;
  /** The node that runs now. */
  running(): number | null;
  /** Another direction was chosen. */
  turned(): void;
  /** The legend and the keys are shown now, or no more. */
  helped(shows: boolean): void;
}

interface SidePanel {
  readonly arrangement: Arrangement;
  readonly modules: ModuleSelection;
  /** Whether anything is selected. */
  isChosen(): boolean;
  /** Selects a node or a module, or nothing. */
  select(id: number | null, module?: readonly string[] | null): void;
  /** Shows the legend and the keys in place of what is selected, or hides them. */
  toggleHelp(): void;
  /** Says which way the graph is drawn; `isStatic`: that it is the way of data. */
  setDirection(direction: DirectionChoice, isStatic: boolean): void;
  update(): void;
  updateLegend(): void;
  destroy(): void;
}

/** What is selected, and what stands beside the picture: the details of it or of what runs, or the legend with the keys. */
export function createSidePanel(
  { legend, note }: Pick<Shell<Traits>, "legend" | "note">,
  channel: Channel,
  drawing: Drawing,
  folder: Folder,
  whatIf: WhatIf,
  following: Following,
  events: SidePanelEvents,
): SidePanel {
  let showsHelp = choices.help;
  const modules = new ModuleSelection(drawing, folder, channel);
  const help = createHelp(legend, note, (direction) => {
    choices.direction = direction;
    channel.set("direction", direction);
    events.turned();
  });
  const panel = new Panel(
    {
      goTo(id) {
        select(id);
        panel.focus();
      },
      goToModule(path) {
        select(null, [path]);
        panel.focus();
      },
      close() {
        if (showsHelp) toggleHelp();
        else if (!isChosen()) choices.follows = false;
        whatIf.close();
        select(null);
        drawing.focus();
      },
      rank() {
        const there = (channel.get("_ranks") ?? []).length > 1;
        const show = there ? (rank: number) => channel.set("rank", rank) : null;
        const ranks = events.drawable()?.graph.ranks ?? null;
        return { ranks, shown: channel.get("rank") ?? null, show };
      },
    },
    help.element,
    whatIf,
    () =>
      channel.get("_checked") === undefined
        ? null
        : {
            found: () => channel.get("_checked") ?? null,
            ask: (node) => channel.send({ kind: "check", node }),
          },
  );
  const arrangement = new Arrangement(drawing, panel.element);

  function isChosen(): boolean {
    return channel.get("selected") !== null || modules.current !== null;
  }

  function select(id: number | null, module: readonly string[] | null = null): void {
    if (id !== null || module) choices.follows = true;
    modules.select(module);
    if (channel.get("selected") === id) update();
    else channel.set("selected", id);
  }

  function toggleHelp(): void {
    showsHelp = !showsHelp || isChosen();
    choices.help = showsHelp;
    events.helped(showsHelp);
    if (showsHelp) select(null);
    updateLegend();
    update();
  }

  const updateLegend = following.part(() => {
    const drawable = events.drawable();
    // It stands in the panel: what nobody sees is not written.
    if (!drawable || !showsHelp) return;
    const shown = drawable.shown(channel.get("constants"));
    const { nodes } = drawable.size;
    legend.replaceChildren(...drawingEntries(drawing, shown, nodes, channel.get("state")));
  });

  const update = following.part(() => {
    const drawable = events.drawable();
    if (!drawable) return;
    const running = events.running();
    const isAsked = isChosen() || showsHelp || whatIf.isOpen;
    const follows = choices.follows && running !== null && arrangement.hasRoomToFollow;
    const node = channel.get("selected") ?? (showsHelp ? null : running);
    const shows = isAsked || follows;
    // What nobody sees is not written: to keep its place the page would be laid out.
    if (shows || arrangement.hasPanel)
      panel.update(drawable.graph, node, channel.get("details"), drawing.progress, modules.current);
    arrangement.setPanel(shows);
  });

  return {
    arrangement,
    modules,
    isChosen,
    select,
    toggleHelp,
    setDirection: help.setDirection,
    update,
    updateLegend,
    destroy: () => panel.destroy(),
  };
}
