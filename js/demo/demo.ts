import { localChannel, type Traits } from "../channel";
import { showPage } from "../page/page";
import { createView } from "../view";
import { inColumns, type Json, plain, type SavedGraphModel } from "../wire";
import { transformer } from "./deep_models";

/** Files that `python tools/demo_graphs.py` writes. */
const GRAPHS = ["expression", "perceptron", "residual"];

const query = new URLSearchParams(location.search);
let remove = () => {};

/** Show a graph. The address names it, so that a page can be linked and reloaded. */
async function show(): Promise<void> {
  remove();
  const host = document.getElementById("widget") as HTMLElement;
  host.style.maxWidth = query.has("width") ? `${query.get("width")}px` : "";
  document.body.dataset.theme = query.get("theme") ?? "light";
  const layers = Number(query.get("layers"));
  remove = layers > 0 ? showLarge(host, layers) : await showSaved(host);
}

async function showSaved(host: HTMLElement): Promise<() => void> {
  const file = await fetch(`graphs/${query.get("graph") ?? GRAPHS[0]}.gw`);
  const columns = inColumns(new Uint8Array(await file.arrayBuffer())) as { graph: Json };
  const given = { columns: columns.graph };
  return showPage(host, plain<SavedGraphModel>({ columns }), undefined, given);
}

/** A transformer with this many layers and no pass, to measure large graphs. */
function showLarge(host: HTMLElement, layers: number): () => void {
  const note = "No backward pass through this graph has been seen yet.";
  const state = { runs: 0, reached: [], flowed: [], freed: [], held: [], note };
  const traits: Traits = {
    model: transformer(layers),
    details: null,
    state,
    _fault: null,
    selected: null,
    direction: "auto",
    constants: true,
    cursor: 0,
    _steps: [],
    run: null,
    transport: { owned: false, note: null, blocked: note },
    _findings: null,
  };
  return createView(host, localChannel(traits));
}

function chooser(key: string, values: string[]): HTMLSelectElement {
  const select = document.createElement("select");
  select.append(...values.map((value) => new Option(value, value)));
  select.value = query.get(key) ?? values[0];
  select.addEventListener("change", () => {
    query.set(key, select.value);
    history.replaceState(null, "", `?${query}`);
    void show();
  });
  return select;
}

const controls = document.getElementById("controls") as HTMLElement;
controls.append(
  chooser("graph", GRAPHS),
  chooser("theme", ["light", "dark"]),
  chooser("width", ["1180", "900", "500"]),
);
void show();
