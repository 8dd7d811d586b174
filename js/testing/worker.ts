import { estimate, type Measure } from "../text/measure";
import type { Port } from "../worker/messages";
import type { SceneWorker } from "../worker/scene_maker";
import { serve } from "../worker/serve";

export interface FakeWorker extends SceneWorker {
  ended: boolean;
  hold(): void;
  go(): void;
  /** Requests that have not begun. */
  waiting(): unknown[];
}

/** A worker on the same thread: both ends get copies, a moment later. */
export function fakeWorker(measure: Measure = estimate, serves = true): FakeWorker {
  const inbox: unknown[] = [];
  let held = false;
  const later = (data: unknown, port: () => Port | null) =>
    setTimeout(() => port()?.onmessage?.({ data } as MessageEvent), 0);
  const far: Port = {
    onmessage: null,
    postMessage(message, transfer) {
      const data = structuredClone(message, { transfer });
      if (!near.ended) later(data, () => (near.ended ? null : near));
    },
  };
  const near: FakeWorker = {
    onmessage: null,
    onerror: null,
    ended: false,
    postMessage(message, transfer) {
      inbox.push(structuredClone(message, { transfer }));
      if (!held) near.go();
    },
    terminate() {
      near.ended = true;
    },
    hold() {
      held = true;
    },
    go() {
      held = false;
      for (const data of inbox.splice(0)) later(data, () => (near.ended ? null : far));
    },
    waiting: () => inbox,
  };
  if (serves) serve(far, measure);
  return near;
}
