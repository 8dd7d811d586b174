import { WORKER_NAME } from "./messages";
import type { StartWorker } from "./scene_maker";

/**
 * Starts workers from the text of the script that runs here: a second copy of it would be too much for every notebook
 * to carry. Where the text is not at hand, from its address.
 */
export function workersFrom(
  text: unknown,
  type: WorkerType,
  address: string | null = null,
): StartWorker {
  return () => {
    if (typeof Worker !== "function") return null;
    // An address instead of the text is what a host that develops the widget hands on.
    const isText = typeof text === "string" && text.length > 10_000;
    const url = isText
      ? URL.createObjectURL(new Blob([text], { type: "text/javascript" }))
      : address;
    if (url === null) return null;
    const worker = new Worker(url, { type, name: WORKER_NAME });
    const loaded = () => URL.revokeObjectURL(url);
    for (const event of ["message", "error"])
      worker.addEventListener(event, loaded, { once: true });
    return worker;
  };
}
