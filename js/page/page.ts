import { localChannel, type Traits } from "../channel";
import { element, faultBox, messageOf } from "../dom/element";
import { callsInside } from "../steps/recording";
import { createView } from "../view";
import { PAGE_PARTS, type PagePart } from "../view/page_part";
import {
  type DetailsModel,
  type GraphModel,
  inColumns,
  type Json,
  type NodeModel,
  plain,
  type SavedGraphModel,
  type StageModel,
  type Travelled,
} from "../wire";
import type { StartWorker } from "../worker/scene_maker";

/** Show a saved graph without a kernel; `given` is the packed graph. Returns the function that removes it. */
export function showPage(
  host: HTMLElement,
  saved: SavedGraphModel,
  startWorker?: StartWorker,
  given: Travelled<GraphModel> = saved.graph,
): () => void {
  const { memory, findings, dtypes, overlays } = saved;
  const unasked = { details: null, _fault: null, _memory: null, _findings: null };
  const rank = saved.graph.ranks?.shown ?? null;
  const _inner = [saved.cursor, saved.inner];
  const { graph: model, steps: _steps, ...same } = saved;
  const asked = { _dtypes: dtypes, _overlays: overlays };
  const traits: Traits = { ...same, ...unasked, ...asked, model, _steps, rank, _inner };
  let parts: readonly PagePart[] = [];
  const channel = localChannel<Traits>(traits, (message, done) => {
    const { kind } = message;
    if (parts.some((part) => part.received?.(message))) return done();
    if (kind === "memory") channel.change("_memory", memory);
    else if (kind === "diagnose") channel.change("_findings", findings);
    else channel.change("_fault", channel.get("transport").blocked);
    done();
  });
  const calls = callsInside(saved.graph);
  const answer = () => {
    const cursor = channel.get("cursor");
    const [at, inner = 0] = channel.get("_inner") ?? [];
    const ran = saved.steps[cursor - 1]?.node;
    const within = at === cursor && inner > 0 ? (calls.get(ran) ?? []) : [];
    const running = within[inner - 1] ?? (cursor < saved.steps.length ? ran : undefined);
    const node = channel.get("selected") ?? running;
    // Within a step, only the node and its completed calls differ from before the step.
    const isOf = node === ran || (node !== undefined && saved.graph.nodes[node].inside === ran);
    const isBefore =
      running !== ran && running !== undefined && (!isOf || within.indexOf(node ?? -1) >= inner);
    const seen = isBefore ? cursor - 1 : cursor;
    const found = node === undefined ? null : detailsOf(saved, node, seen);
    const changed = (details: DetailsModel, part: PagePart) => part.details?.(details) ?? details;
    channel.change("details", found && parts.reduce(changed, found));
  };
  channel.on("selected", answer);
  channel.on("cursor", answer);
  channel.on("_inner", answer);
  parts = PAGE_PARTS.map((create) => create({ saved, channel, answer }));
  answer();
  const end = createView(host, { ...channel, raw: () => given as never }, startWorker);
  for (const part of parts) part.drawn?.();
  return end;
}

/** A node's details at a cursor. */
function detailsOf(saved: SavedGraphModel, id: number, cursor: number): DetailsModel | null {
  const stages = saved.details[id];
  if (stages) return detailsAt(stages, cursor);
  return saved.undetailed && withoutDetails(saved.undetailed, saved.graph.nodes[id]);
}

/** A node's details from the graph alone. */
function withoutDetails(like: DetailsModel, node: NodeModel): DetailsModel {
  const { id, kind, op, name, shape, no_grad_inputs, inferred } = node;
  const is_leaf = kind === "leaf";
  const known = { id, kind, op, name, shape, no_grad_inputs, inferred, is_leaf };
  return { ...like, ...known, dtype: null, device: null };
}

/** Show the graph in the page. */
export async function start(startWorker?: StartWorker): Promise<void> {
  const host = document.getElementById("gradwalk") as HTMLElement;
  try {
    const columns = columnsIn(document.getElementById("gradwalk-model")?.textContent ?? "");
    await pause();
    const saved = plain<SavedGraphModel>({ columns });
    await pause();
    showPage(host, saved, startWorker, { columns: columns.graph });
  } catch (error) {
    host.replaceChildren(element("div", "gradwalk", faultBox(messageOf(error))));
  }
}

/** The saved graph that Python wrote into the page as base64. */
function columnsIn(text: string): { graph: Json } {
  try {
    const columns = inColumns(Uint8Array.from(atob(text.trim()), (char) => char.charCodeAt(0)));
    return columns as { graph: Json };
  } catch (error) {
    throw new Error(
      `The graph in this page cannot be read (${messageOf(error)}). Copy the page again, or make it again with to_html().`,
    );
  }
}

/** Give the page time to respond. */
function pause(): Promise<void> {
  return new Promise((done) => window.setTimeout(done));
}

/** A node's details after `cursor` steps. */
export function detailsAt(stages: readonly StageModel[], cursor: number): DetailsModel {
  const passed = stages.filter(({ from_step }) => from_step <= cursor);
  return Object.assign({}, ...passed.map(({ fields }) => fields));
}

/**
 * Follow messages of the page around a frame: `{ gradwalk: { theme: "dark", bare: true } }`. A bare page has no heading
 * and no margin, and answers with its height, again when it changes: `{ gradwalk: { height: 480 } }`.
 */
export function followTheme(): void {
  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent && source !== window.top) return;
    const { theme, bare } = data?.gradwalk ?? {};
    const { dataset } = document.documentElement;
    if (theme === "light" || theme === "dark") dataset.theme = theme;
    if (bare !== true || dataset.bare !== undefined) return;
    dataset.bare = "";
    const host = document.getElementById("gradwalk") as HTMLElement;
    const tell = () =>
      source?.postMessage({ gradwalk: { height: host.offsetHeight } }, { targetOrigin: "*" });
    new ResizeObserver(tell).observe(host);
  });
}
