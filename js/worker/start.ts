import { WORKER_NAME } from "./messages";
import type { StartWorker } from "./scene_maker";

/**
 * Start workers from the running script, because a second copy would make every notebook larger.
 *
 * @param address Of this module, which stays valid.
 */
export function workersFrom(address: string): StartWorker {
  return () => start(address, "module");
}

/** Like `workersFrom`, for the script of a page, by its text or its address. */
export function workersOfPage(script: HTMLScriptElement | null): StartWorker {
  return () => {
    if (script?.src) return start(script.src, "classic");
    if (!script?.textContent) return null;
    const address = URL.createObjectURL(
      new Blob([script.textContent], { type: "text/javascript" }),
    );
    const worker = start(address, "classic");
    const loaded = () => URL.revokeObjectURL(address);
    for (const event of ["message", "error"])
      worker?.addEventListener(event, loaded, { once: true });
    return worker;
  };
}

function start(address: string, type: WorkerType): Worker | null {
  return typeof Worker === "function" ? new Worker(address, { type, name: WORKER_NAME }) : null;
}
