import { localChannel, type Traits } from "../channel";
import { element } from "../ui/dom";
import { faultBox, messageOf } from "../ui/fault";
import { createView } from "../view";
import type { FindingModel, MemoryModel } from "../wire";
import type { StartWorker } from "../worker/scene_maker";
import { detailsAt, type StageModel } from "./stages";
import { unpack } from "./unpack";

/** What Python writes into the page: the widget's traits, the details of every node at every cursor, and answers. */
export interface PageModel extends Omit<Traits, "details" | "fault"> {
  nodes: StageModel[][];
  /** What Python would answer when it is asked. */
  answers: { memory: MemoryModel; findings: FindingModel[] };
}

/** Shows a saved graph in an element, without a kernel. Returns what takes it away again. */
export function showPage(
  host: HTMLElement,
  { nodes, answers, ...traits }: PageModel,
  startWorker?: StartWorker,
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
    const stages = selected === null ? undefined : nodes[selected];
    channel.change("details", stages ? detailsAt(stages, channel.get("cursor")) : null);
  };
  channel.on("selected", answer);
  channel.on("cursor", answer);
  answer();
  return createView(host, channel, startWorker);
}

/** Shows what stands in the page. */
export async function start(startWorker?: StartWorker): Promise<void> {
  const host = document.getElementById("gradwalk") as HTMLElement;
  try {
    const packed = document.getElementById("gradwalk-model")?.textContent ?? "";
    showPage(host, await unpack<PageModel>(packed), startWorker);
  } catch (error) {
    host.replaceChildren(element("div", { class: "gradwalk" }, faultBox(messageOf(error))));
  }
}
