import { localChannel, type Traits } from "../channel";
import { element } from "../dom/element";
import { faultBox, messageOf } from "../dom/fault";
import { unpackTrait } from "../packing/traits";
import { createView } from "../view";
import type { DetailsModel, FindingModel, MemoryModel, NodeModel } from "../wire";
import type { StartWorker } from "../worker/scene_maker";
import { detailsAt, type StageModel } from "./stages";
import { unpack } from "./unpack";

/** The widget's traits, the details of nodes at every cursor, and answers. */
export interface PageModel extends Omit<Traits, "details" | "fault"> {
  /** Of a large graph, those of the first nodes only. */
  nodes: StageModel[][];
  /** What there is to say of the first node without details; null if there is none. */
  undetailed: DetailsModel | null;
  /** What Python would answer when it is asked. */
  answers: { memory: MemoryModel; findings: FindingModel[] };
}

/**
 * Shows a saved graph in an element, without a kernel; `packed` is the graph as it travelled. Returns what takes it away
 * again.
 */
export function showPage(
  host: HTMLElement,
  { nodes, undetailed, answers, ...traits }: PageModel,
  startWorker?: StartWorker,
  packed: unknown = traits.graph,
): () => void {
  const channel = localChannel<Traits>(
    { ...traits, details: null, fault: null },
    ({ kind }, done) => {
      if (kind === "memory") channel.change("memory", answers.memory);
      else if (kind === "diagnose") channel.change("findings", answers.findings);
      else channel.change("fault", channel.get("transport").blocked);
      done();
    },
  );
  const answer = () => {
    const selected = channel.get("selected");
    let details: DetailsModel | null = null;
    if (selected !== null)
      details =
        selected < nodes.length
          ? detailsAt(nodes[selected], channel.get("cursor"))
          : undetailed && withoutDetails(undetailed, traits.graph.nodes[selected]);
    channel.change("details", details);
  };
  channel.on("selected", answer);
  channel.on("cursor", answer);
  answer();
  const raw = (trait: keyof Traits) => (trait === "graph" ? packed : channel.raw(trait));
  return createView(host, { ...channel, raw }, startWorker);
}

/** What is known of a node from the graph alone. */
function withoutDetails(like: DetailsModel, node: NodeModel): DetailsModel {
  const { id, kind, op, name, shape, no_grad_inputs, inferred } = node;
  const is_leaf = kind === "leaf";
  const known = { id, kind, op, name, shape, no_grad_inputs, inferred, is_leaf };
  return { ...like, ...known, dtype: null, device: null };
}

/** Shows what stands in the page. */
export async function start(startWorker?: StartWorker): Promise<void> {
  const host = document.getElementById("gradwalk") as HTMLElement;
  try {
    const packed = document.getElementById("gradwalk-model")?.textContent ?? "";
    const traits = await unpack<Record<string, unknown>>(packed);
    await pause();
    const entries = Object.entries(traits).map(([name, value]) => [name, unpackTrait(name, value)]);
    await pause();
    showPage(host, Object.fromEntries(entries) as PageModel, startWorker, traits.graph);
  } catch (error) {
    host.replaceChildren(element("div", { class: "gradwalk" }, faultBox(messageOf(error))));
  }
}

/** Lets the page answer between two pieces of work. */
function pause(): Promise<void> {
  return new Promise((done) => window.setTimeout(done));
}
