import { localChannel } from "../channel";
import { asDirection } from "../drawing/direction";
import { createView } from "../view";
import type { StateModel } from "../wire";
import { fakeDetails } from "./fake_details";
import { MODELS } from "./models";

const NOTHING_YET: StateModel = {
  runs: 0,
  reached: [],
  flowed: [],
  freed: [],
  note: "No backward pass through this graph has been seen yet.",
};

const query = new URLSearchParams(location.search);
let remove = () => {};

/** Shows one of the models; the address remembers which, so that a page can be linked and reloaded. */
function show(): void {
  remove();
  const name = query.get("model") ?? Object.keys(MODELS)[0];
  const graph = (MODELS[name] ?? Object.values(MODELS)[0])();
  const host = document.getElementById("widget") as HTMLElement;
  host.style.maxWidth = query.has("width") ? `${query.get("width")}px` : "";
  document.body.dataset.theme = query.get("theme") ?? "light";
  const channel = localChannel({
    graph,
    details: null,
    state: NOTHING_YET,
    fault: query.get("fault"),
    selected: null,
    direction: asDirection(query.get("direction")),
  });
  const answer = () => {
    const selected = channel.get("selected");
    // Python answers a moment later.
    setTimeout(() => {
      if (selected !== channel.get("selected")) return;
      channel.change(
        "details",
        selected === null ? null : fakeDetails(graph, selected, channel.get("state")),
      );
    }, 60);
  };
  channel.on("selected", answer);
  channel.on("direction", () => remember("direction", channel.get("direction")));
  remove = createView(host, channel);
  backward = () => {
    const runs = channel.get("state").runs + 1;
    const unreached = new Set(
      graph.nodes.length > 8
        ? graph.nodes.filter((node) => node.id % 11 === 10).map((node) => node.id)
        : [],
    );
    const reached = graph.nodes.map((node) => node.id).filter((id) => !unreached.has(id));
    channel.change("state", {
      runs,
      reached,
      flowed: [...graph.edges.keys()].filter((at) => {
        const { source, target } = graph.edges[at];
        return !unreached.has(source) && !unreached.has(target);
      }),
      freed: graph.nodes
        .filter((node) => node.kind === "op" && node.id % 2 === 1)
        .map((node) => node.id),
      note: `Backward pass ${runs}: gradients reached ${reached.length} of ${graph.nodes.length} nodes.`,
    });
    answer();
  };
  if (query.has("backward")) backward();
  if (query.has("selected")) channel.set("selected", Number(query.get("selected")));
}

let backward = () => {};

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
run.addEventListener("click", () => backward());
document
  .getElementById("controls")
  ?.append(
    chooser("model", Object.keys(MODELS)),
    chooser("theme", ["light", "dark"]),
    chooser("width", ["1180", "900", "500"]),
    run,
  );
show();
