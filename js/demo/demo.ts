import { type Channel, localChannel, type Traits } from "../channel";
import { asDirection } from "../layout/direction";
import { type Progress, recordingOf } from "../steps/recording";
import { createView } from "../view";
import type { StateModel } from "../wire";
import { DEEP_MODELS, transformer } from "./deep_models";
import { fakeDetails } from "./fake_details";
import { fakeDtypes, fakeFindings, fakeMemory } from "./fake_diagnosis";
import { fakeRun, fakeTransport, SITUATIONS, type Situation } from "./fake_run";
import { MODELS as SMALL_MODELS } from "./models";

const MODELS = { ...SMALL_MODELS, ...DEEP_MODELS };

const NOTHING_YET: StateModel = {
  runs: 0,
  reached: [],
  flowed: [],
  freed: [],
  held: [],
  note: "No backward pass through this graph has been seen yet.",
};

const query = new URLSearchParams(location.search);
let remove = () => {};

/** Shows one of the models; the address remembers which, so that a page can be linked and reloaded. */
function show(): void {
  remove();
  const name = query.get("model") ?? Object.keys(MODELS)[0];
  const layers = Number(query.get("layers"));
  const graph = layers > 0 ? transformer(layers) : (MODELS[name] ?? Object.values(MODELS)[0])();
  const host = document.getElementById("widget") as HTMLElement;
  host.style.maxWidth = query.has("width") ? `${query.get("width")}px` : "";
  document.body.dataset.theme = query.get("theme") ?? "light";
  const situation = (query.get("situation") ?? "fine") as Situation;
  const traits: Traits = {
    graph,
    details: null,
    state: NOTHING_YET,
    _fault: query.get("fault"),
    selected: null,
    direction: asDirection(query.get("direction")),
    constants: query.get("constants") !== "no",
    cursor: 0,
    steps: [],
    run: null,
    transport: fakeTransport(situation, false),
    _memory: fakeMemory(graph),
    _dtypes: fakeDtypes(graph),
    findings: null,
  };
  const channel = localChannel(traits, (message) => {
    if (message.kind === "start") setTimeout(() => backward(message.cursor), 150);
    else if (message.kind === "diagnose")
      channel.change("findings", fakeFindings(graph, channel.get("run")));
  });
  const answer = () => {
    const selected = channel.get("selected");
    // Python answers a moment later.
    setTimeout(() => {
      if (selected !== channel.get("selected")) return;
      channel.change(
        "details",
        selected === null
          ? null
          : fakeDetails(graph, selected, channel.get("state"), progressOf(channel)),
      );
    }, 60);
  };
  channel.on("selected", answer);
  channel.on("cursor", answer);
  channel.on("direction", () => remember("direction", channel.get("direction")));
  remove = createView(host, channel);
  backward = (cursor) => {
    const runs = channel.get("state").runs + 1;
    const { steps, run } = fakeRun(graph, situation);
    channel.change("run", run);
    channel.change("steps", steps);
    channel.change("transport", fakeTransport(situation, true));
    channel.change("findings", fakeFindings(graph, run));
    channel.change("cursor", cursor ?? steps.length);
    channel.change("state", {
      runs,
      reached: steps.map((step) => step.node),
      flowed: run.edges,
      held: [],
      freed: graph.nodes
        .filter((node) => node.kind === "op" && node.id % 2 === 1)
        .map((node) => node.id),
      note: `Backward pass ${runs}: gradients reached ${steps.length} of ${graph.nodes.length} nodes.`,
    });
    answer();
  };
  if (query.has("cursor")) backward(Number(query.get("cursor")));
  if (query.has("backward")) backward(null);
  if (query.has("selected")) channel.set("selected", Number(query.get("selected")));
}

let backward = (_cursor: number | null) => {};

function progressOf(channel: Channel): Progress | null {
  const steps = channel.get("steps");
  if (steps.length === 0) return null;
  const recording = recordingOf(channel.get("graph"), steps, channel.get("run"));
  return { recording, cursor: channel.get("cursor") };
}

function remember(key: string, value: string): void {
  query.set(key, value);
  history.replaceState(null, "", `?${query}`);
}

function chooser(key: string, values: string[]): HTMLSelectElement {
  const select = document.createElement("select");
  select.append(...values.map((value) => new Option(value, value)));
  select.value = query.get(key) ?? values[0];
  select.addEventListener("change", () => {
    remember(key, select.value);
    show();
  });
  return select;
}

const run = document.createElement("button");
run.textContent = "backward()";
run.addEventListener("click", () => backward(null));
document
  .getElementById("controls")
  ?.append(
    chooser("model", Object.keys(MODELS)),
    chooser("situation", [...SITUATIONS]),
    chooser("theme", ["light", "dark"]),
    chooser("width", ["1180", "900", "500"]),
    run,
  );
show();
