import type { Channel } from "../channel";
import { barsOf } from "../colours/bars";
import {
  alarmOf,
  type ColourBy,
  type ColourSources,
  colouringOf,
  isKnown,
} from "../colours/colouring";
import { type GradientNorms, gradientNorms } from "../colours/gradient_norms";
import { button, element } from "../dom/element";
import { ICONS } from "../dom/icons";
import { Remembered } from "../dom/remembered";
import type { Drawing } from "../interact/drawing";
import type { Folder } from "../interact/folder";
import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { RunModel } from "../wire";
import { createColourControls } from "./colour_controls";
import { createFoldingControls } from "./folding_controls";

interface ViewBar {
  element: HTMLElement;
  /** What the colours say, to stand beside the picture. */
  key: HTMLElement;
  /** Shows how the graph is folded now, and colours the picture again if it or what colours say has changed. */
  update(): void;
  /** Python answered: a diagnosis that was asked for is over. */
  answered(): void;
}

/** A question that is not answered for so long may have been lost: it can be asked again. */
const PATIENCE_MS = 10_000;

/**
 * Among the tools of a large graph or one with modules: how it is folded, and what its colours say. Where there is no
 * room for it, it is behind a button.
 */
export function createViewBar(
  drawing: Drawing,
  folder: Folder,
  channel: Pick<Channel, "get" | "send">,
  measure: Measure,
): ViewBar {
  let by: ColourBy = "none";
  let norms: { run: RunModel; of: unknown; values: GradientNorms } | null = null;
  const coloured = new Remembered();
  let asked = false;
  const folding = createFoldingControls(folder);
  const colours = createColourControls((choice) => {
    by = choice;
    update();
  });
  const diagnose = button(
    {
      class: "gw-button gw-diagnose",
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
    { class: "gw-view-bar", role: "group", "aria-label": "How the graph is shown" },
    folding.element,
    colours.element,
    diagnose,
  );
  const opener = button(
    { label: "View", title: "How the graph is shown", icon: ICONS.view, pressed: false },
    () => setOpen(!bar.classList.contains("is-open")),
  );
  const view = element("span", { class: "gw-view", hidden: true }, opener, bar);
  view.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !bar.classList.contains("is-open")) return;
    event.preventDefault();
    setOpen(false);
    opener.focus();
  });

  function setOpen(open: boolean): void {
    bar.classList.toggle("is-open", open);
    opener.setAttribute("aria-pressed", String(open));
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
      norms: norms?.values ?? null,
      memory: channel.get("_memory") ?? null,
      dtypes: channel.get("_dtypes") ?? null,
      tree: folder.drawnGraph?.tree ?? null,
    };
  }

  function update(): void {
    view.hidden = !folder.canFold;
    diagnose.hidden = folder.grouped?.graph.static ?? false;
    colours.element.hidden = drawing.scene === null;
    folding.update();
    const known = sources();
    if (!isKnown(by, known)) by = "none";
    if (!view.hidden && !asked && known.memory === null) {
      asked = true;
      channel.send({ kind: "memory" });
    }
    const { norms, memory, dtypes } = known;
    if (!drawing.scene || !coloured.isNew(drawing.scene, by, norms, memory, dtypes)) return;
    const { tint, legend } = colouringOf(by, drawing.scene, known);
    const recording = drawing.progress?.recording;
    drawing.mark({
      tint,
      bars: recording ? barsOf(drawing.scene, recording, measure) : null,
      alarms: known.norms && alarmsIn(drawing.scene, known.norms, by),
    });
    colours.update(by, (choice) => isKnown(choice, known), legend);
  }

  return { element: view, key: colours.key, update, answered };
}

/** What is wrong with gradients inside a closed box is said on the box, whatever it is coloured by. */
function alarmsIn(scene: Scene, norms: GradientNorms, by: ColourBy): Map<number, string> {
  const alarms = new Map<number, string>();
  for (const node of scene.nodes) {
    const alarm = node.group || by === "gradient" ? alarmOf(node, norms) : null;
    if (alarm) alarms.set(node.index, alarm);
  }
  return alarms;
}
