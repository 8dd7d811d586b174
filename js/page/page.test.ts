// @vitest-environment jsdom
import { gzipSync } from "fflate";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { MODELS } from "../demo/models";
import { fakeBrowser, nextFrame } from "../testing/browser";
import { detailsOf, memoryOf } from "../testing/details";
import { fakeRun } from "../testing/fake_run";
import type { SavedGraphModel, StateModel } from "../wire";
import { detailsAt, showPage, start } from "./page";

const STATE: StateModel = { runs: 1, reached: [], flowed: [], freed: [], held: [], note: "" };

beforeEach(() => void fakeBrowser());

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

function model(change: Partial<SavedGraphModel> = {}): SavedGraphModel {
  const graph = MODELS["h = w * x + b"]();
  return {
    format: "gradwalk",
    version: 3,
    graph,
    network: { graph: { roots: [], torch_version: "" }, nodes: [], edges: [] },
    dtypes: { names: [], nodes: graph.nodes.map(() => -1) },
    overlays: [],
    watched: false,
    state: STATE,
    selected: null,
    direction: "down",
    constants: true,
    cursor: 0,
    inner: 0,
    ...fakeRun(graph, "fine"),
    transport: { owned: false, note: null, blocked: null },
    details: graph.nodes.map((_, id) => [
      { from_step: 0, fields: { ...detailsOf(graph, id, { about: "At the start." }) } },
      { from_step: 2, fields: { about: "After two steps." } },
    ]),
    undetailed: null,
    all_cursors: true,
    memory: memoryOf(graph),
    findings: [
      {
        kind: "memory",
        severity: "info",
        nodes: [0],
        message: "It holds 8 bytes for backward.",
        numbers: [],
        module: null,
        line: null,
      },
    ],
    ...change,
  };
}

async function page(change: Partial<SavedGraphModel> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  showPage(host, model(change));
  await nextFrame();
  const click = async (selector: string) => {
    host.querySelector<HTMLElement>(selector)?.click();
    await nextFrame();
  };
  return { host, click, about: () => host.querySelector(".gw-about")?.textContent };
}

it("shows the details of the selected node at the cursor", async () => {
  const { about, click } = await page({ selected: 0 });
  expect(about()).toBe("At the start.");
  await click("[aria-label='One step']");
  expect(about()).toBe("At the start.");
  await click("[aria-label='One step']");
  expect(about()).toBe("After two steps.");
});

it("shows the details at the cursor that was saved", async () => {
  const { about } = await page({ selected: 1, cursor: 3 });
  expect(about()).toBe("After two steps.");
});

it("shows of what a step has not got to what was true before it", async () => {
  const graph = MODELS["h = w * x + b"]();
  const { steps, run } = fakeRun(graph, "fine");
  const open = steps[1].node;
  const call = { ...graph.nodes[open], kind: "call" as const, op: "mul", inside: open };
  const calls = [0, 1].map((i) => ({ ...call, id: graph.nodes.length + i }));
  const nodes = [...graph.nodes, ...calls];
  const details = nodes.map(({ id }) => [
    { from_step: 0, fields: { ...detailsOf(graph, 0, { id, about: "Not yet." }) } },
    { from_step: 2, fields: { about: `Ran: ${id}.` } },
  ]);
  const [first, second] = calls.map(({ id }) => id);
  const given = { graph: { ...graph, nodes }, steps, run, details, cursor: 2 };
  const whole = await page(given);
  expect(whole.about()).toBe(`Ran: ${open}.`);
  // The panel follows the call that runs.
  expect((await page({ ...given, inner: 1 })).about()).toBe(`Ran: ${first}.`);
  const within = await page({ ...given, inner: 1, selected: first });
  expect(within.about()).toBe(`Ran: ${first}.`);
  const later = await page({ ...given, inner: 1, selected: second });
  expect(later.about()).toBe("Not yet.");
  await later.click("[aria-label='One step']");
  expect(later.about()).toBe(`Ran: ${second}.`);
  const leaf = steps[2].node;
  expect((await page({ ...given, inner: 2, selected: leaf })).about()).toBe("Not yet.");
  expect((await page({ ...given, inner: 2, selected: open })).about()).toBe(`Ran: ${open}.`);
});

it("puts later stages over earlier ones, up to the cursor", () => {
  const stages = [
    { from_step: 0, fields: { name: "w", state: "waiting" } },
    { from_step: 3, fields: { state: "running" } },
    { from_step: 4, fields: { state: "done" } },
  ];
  expect(detailsAt(stages, 0)).toEqual({ name: "w", state: "waiting" });
  expect(detailsAt(stages, 3)).toEqual({ name: "w", state: "running" });
  expect(detailsAt(stages, 9)).toEqual({ name: "w", state: "done" });
});

it("says of a node whose details were left out what the graph has", async () => {
  const graph = MODELS["h = w * x + b"]();
  const like = detailsOf(graph, 0, { about: "Not saved." });
  const { host, about } = await page({
    selected: 2,
    details: graph.nodes.map(() => null),
    undetailed: like,
  });
  expect(about()).toBe("Not saved.");
  expect(host.querySelector(".gw-title")?.textContent).toBe(graph.nodes[2].label);
});

it("answers the questions that Python would answer", async () => {
  const { host, click } = await page();
  expect(host.querySelector<HTMLElement>(".gw-findings")?.hidden).toBe(true);
  await click("[aria-label='Diagnose']");
  expect(host.querySelector(".gw-finding-message")?.textContent).toContain("bytes for backward");
  expect(host.querySelector(".gw-fault")).toBeNull();
});

/** A page that holds some bytes, after it has started. */
async function started(bytes: Uint8Array) {
  const host = document.body.appendChild(document.createElement("div"));
  host.id = "gradwalk";
  const held = document.body.appendChild(document.createElement("script"));
  held.id = "gradwalk-model";
  held.type = "text/plain";
  held.textContent = btoa(String.fromCharCode(...bytes));
  await start();
  await nextFrame();
  return host;
}

const FILE = gzipSync(new TextEncoder().encode(JSON.stringify(model({ selected: 0 }))));

it("shows the graph of the page", async () => {
  const host = await started(FILE);
  expect(host.querySelector(".gw-about")?.textContent).toBe("At the start.");
});

it.each([
  ["is missing", new Uint8Array()],
  ["is cut off", FILE.slice(0, 200)],
  ["is not compressed", new TextEncoder().encode("{}")],
  ["is another text", gzipSync(new TextEncoder().encode("<html>"))],
  ["is changed in the middle", FILE.map((byte, i) => (i > 300 && i < 320 ? 255 - byte : byte))],
])("says so when its content %s", async (_, bytes) => {
  const host = await started(bytes);
  expect(host.querySelector(".gw-fault")?.textContent).toMatch(
    /^The graph in this page cannot be read \(.+\)\. Copy the page again, or make it again with to_html\(\)\.$/,
  );
});
