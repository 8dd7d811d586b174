import type { Channel } from "../channel";
import {
  alarmOf,
  type ColourBy,
  type ColourLegend,
  type ColourSources,
  colouringOf,
  isKnown,
} from "../colours/colouring";
import { type GradientNorms, gradientNorms } from "../colours/gradient_norms";
import { rankStrips } from "../colours/rank_strips";
import { type TileGrads, tileGrads, uncoloured } from "../colours/tile_grads";
import { button, element } from "../dom/element";
import { ICONS } from "../dom/icons";
import { Remembered } from "../dom/remembered";
import type { Drawing } from "../interact/drawing";
import type { Folder } from "../interact/folder";
import type { Scene } from "../scene/scene";
import type { Recording } from "../steps/recording";
import type { Measure } from "../text/measure";
import type { GraphModel, RunModel } from "../wire";
import { choices } from "./choices";
import { createColourControls } from "./colour_controls";
import { createFoldingControls, toggle } from "./folding_controls";

interface ViewBar {
  /** A button, and the menu behind it. */
  element: HTMLElement;
  /** The choice of what colours say. */
  colours: HTMLElement;
  /** What the colours say, to stand beside the picture. */
  key: HTMLElement;
  /** The same in plain words, for files; null where they say nothing. */
  readonly legend: ColourLegend | null;
  /** Whether operations have torch's names rather than a board's. */
  readonly torchNames: boolean;
  /** Shows how the graph is folded now, and colours the picture again if it or what colours say has changed. */
  update(): void;
  /** Python answered: a diagnosis that was asked for is over. */
  answered(): void;
}

/** A question that is not answered for so long may have been lost: it can be asked again. */
const PATIENCE_MS = 10_000;

/**
 * How a graph is shown, behind one button: how it is folded, by which names; and what its colours say. `renamed` is called
 * when operations are to have other names.
 */
export function createViewBar(
  drawing: Drawing,
  folder: Folder,
  channel: Pick<Channel, "get" | "send">,
  measure: Measure,
  renamed: () => void,
): ViewBar {
  let legend: ColourLegend | null = null;
  let tiles: { scene: Scene; recording: Recording; grads: TileGrads } | null = null;
  let norms: { run: RunModel; of: unknown; values: GradientNorms } | null = null;
  /** The same object as long as it says the same. */
  let alarms: Map<number, string> | null = null;
  const ranked = new Remembered();
  const coloured = new Remembered();
  /** What colours are to say, as soon as it is known; null for what suits the picture. */
  let wanted = choices.colour;
  let { torchNames } = choices;
  let asked = false;
  const folding = createFoldingControls(folder);
  const colours = createColourControls((choice) => {
    choices.colour = choice;
    wanted = choice;
    update();
  });
  const names = toggle(
    "Torch's names",
    "Call operations as torch calls them, MulBackward0, and not as on a board",
    () => {
      torchNames = !torchNames;
      choices.torchNames = torchNames;
      renamed();
    },
  );
  const diagnose = button(
    {
      class: "gw-menu-item gw-diagnose",
      label: "Diagnose",
      text: "Diagnose",
      title:
        "Look for vanishing, exploding, dead and NaN gradients, for parameters without any, and for what holds most memory",
    },
    ask,
  );
  let patience = 0;
  const bar = element(
    "div",
    { class: "gw-menu-list gw-view-bar", role: "group", "aria-label": "How the graph is shown" },
    folding.element,
    names,
    diagnose,
  );
  const opener = button({ label: "View", title: "How the graph is shown", icon: ICONS.view }, () =>
    setOpen(bar.hidden === true),
  );
  const view = element("span", { class: "gw-menu gw-view", hidden: true }, opener, bar);
  view.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || bar.hidden) return;
    event.preventDefault();
    setOpen(false);
    opener.focus();
  });
  view.addEventListener("focusout", ({ relatedTarget }) => {
    // In some browsers a button that is clicked takes no focus: that is not leaving.
    if (relatedTarget !== null && !view.contains(relatedTarget as Node)) setOpen(false);
  });
  setOpen(false);

  function setOpen(open: boolean): void {
    bar.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
  }

  /** A second press before the answer does nothing; the keyboard stays where it is. */
  function ask(): void {
    if (diagnose.ariaDisabled === "true") return;
    setWorking(true);
    patience = window.setTimeout(answered, PATIENCE_MS);
    channel.send({ kind: "diagnose" }, answered);
  }

  function answered(): void {
    window.clearTimeout(patience);
    setWorking(false);
  }

  function setWorking(works: boolean): void {
    diagnose.ariaDisabled = String(works);
    diagnose.classList.toggle("is-working", works);
  }

  /** Norms are found once per run. */
  function sources(): ColourSources {
    const graph = folder.drawnGraph?.graph ?? null;
    const run = drawing.progress?.recording.run ?? null;
    if (!graph || !run) norms = null;
    else if (norms?.run !== run || norms.of !== graph)
      norms = { run, of: graph, values: gradientNorms(graph, run) };
    return {
      tiles: tilesOf(graph, drawing.progress?.recording ?? null),
      norms: norms?.values ?? null,
      memory: channel.get("_memory") ?? null,
      dtypes: channel.get("_dtypes") ?? null,
      tree: folder.drawnGraph?.tree ?? null,
    };
  }

  /** And these once per picture and pass. */
  function tilesOf(graph: GraphModel | null, recording: Recording | null): TileGrads | null {
    const { scene } = drawing;
    if (!graph || !scene || !recording?.run) tiles = null;
    else if (tiles?.scene !== scene || tiles.recording !== recording)
      tiles = { scene, recording, grads: tileGrads(graph, scene, recording, measure) };
    return tiles?.grads ?? null;
  }

  function update(): void {
    const { canFold, grouped } = folder;
    const isStatic = grouped?.graph.static ?? false;
    view.hidden = !canFold && isStatic;
    diagnose.hidden = isStatic;
    names.hidden = isStatic;
    names.setAttribute("aria-pressed", String(torchNames));
    colours.element.hidden = drawing.scene === null || !canFold;
    folding.update();
    const known = sources();
    const suits = isKnown("parameters", known) ? "parameters" : "none";
    const by = !canFold ? "none" : wanted !== null && isKnown(wanted, known) ? wanted : suits;
    if (canFold && !asked && known.memory === null) {
      asked = true;
      channel.send({ kind: "memory" });
    }
    showRanks();
    const { norms, memory, dtypes } = known;
    const grads = known.tiles;
    if (!drawing.scene || !coloured.isNew(drawing.scene, by, grads, norms, memory, dtypes)) return;
    const colouring = colouringOf(by, drawing.scene, known);
    const { tint } = colouring;
    legend = colouring.legend;
    const found = norms && alarmsIn(drawing.scene, norms, by);
    const isOther = JSON.stringify([...(found ?? [])]) !== JSON.stringify([...(alarms ?? [])]);
    if (isOther || !found || !alarms) alarms = found;
    drawing.mark({
      tint,
      tiles: grads && (by === "none" ? uncoloured(grads.tiles) : grads.tiles),
      alarms,
    });
    colours.update(by, (choice) => isKnown(choice, known), legend);
  }

  /** The strips over the ranks of a run, once per picture, pass and rank. */
  function showRanks(): void {
    const { scene, progress } = drawing;
    const graph = folder.drawnGraph?.graph;
    const shown = channel.get("rank") ?? null;
    const isAsked = (channel.get("_quiz") ?? null) !== null; // nothing is told away
    const recording = progress?.recording ?? null;
    if (!scene || !graph || !ranked.isNew(scene, graph.ranks, recording, shown, isAsked)) return;
    drawing.mark({ ranks: isAsked ? null : rankStrips(graph, scene, recording, shown) });
  }

  return {
    element: view,
    colours: colours.element,
    key: colours.key,
    get legend() {
      return legend;
    },
    get torchNames() {
      return torchNames;
    },
    update,
    answered,
  };
}

/** What is wrong with gradients inside a closed box is said on the box, whatever it is coloured by. */
function alarmsIn(scene: Scene, norms: GradientNorms, by: ColourBy): Map<number, string> {
  const alarms = new Map<number, string>();
  for (const node of scene.nodes) {
    const alarm = node.group || by === "gradient" ? alarmOf(node, norms) : null;
    // What has a number of its own says itself that it is zero.
    const isSaid = alarm === "0" && (node.bar || typeof node.shape.tile?.number === "number");
    if (alarm && !isSaid) alarms.set(node.index, alarm);
  }
  return alarms;
}
