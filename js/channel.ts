import type { AnyModel, RenderProps } from "@anywidget/types";
import { faultBox, messageOf } from "./dom/element";
import { callbacks, ending, KERNELS } from "./hosts";
import { perObject, valueAt } from "./maps";
import { rootElement } from "./theme/sheet";
import {
  type AnswerMessage,
  type AskMessage,
  type CheckMessage,
  type OpenMessage,
  plain,
  type RevealMessage,
  type StartMessage,
  type Traits,
  type TransportModel,
  type Travelled,
  type TurnMessage,
} from "./wire";

export type { Traits };

/** The traits that the browser may set. */
export type Settable =
  | "selected"
  | "direction"
  | "constants"
  | "cursor"
  | "_inner"
  | "edits"
  | "rank";

export type Message =
  | StartMessage
  | AskMessage
  | OpenMessage
  | TurnMessage
  | CheckMessage
  | AnswerMessage
  | RevealMessage;

/** The widget's interface to its host: a notebook's model, or the demo's. */
export interface Channel<T = Traits, S extends keyof T = Settable & keyof T> {
  get<K extends keyof T>(trait: K): T[K];
  /** A model as it was sent, still packed. */
  raw<K extends keyof T>(trait: K): Travelled<T[K]>;
  set<K extends S>(trait: K, value: T[K]): void;
  /** Call `changed` after each change of the trait, from either side. Returns the function that ends it. */
  on(trait: keyof T, changed: () => void): () => void;
  /** Send a request to Python. Hosts that support it call `done` when Python has finished. */
  send(message: Message, done?: () => void): void;
}

/** The note on a picture whose kernel restarted or ended. */
export const GONE =
  "The kernel that made this picture has gone, and its tensors with it: stepping shows what was " +
  "recorded and moves no .grad. Run the cell again for a new picture.";

/** Return the `render` that anywidget calls for each view; `fill` fills an element and returns its end. */
export function drawnBy<T extends object>(
  draw: (el: HTMLElement, model: AnyModel<T>) => () => void,
) {
  return ({ model, el, signal }: RenderProps<T>): (() => void) => {
    let end = () => {};
    try {
      end = draw(el, model);
    } catch (error) {
      // anywidget shows errors only in the console.
      el.replaceChildren(rootElement("gradwalk", faultBox(messageOf(error))));
    }
    const ended = () => {
      end();
      ending(el);
    };
    signal?.addEventListener("abort", ended, { once: true });
    return () => end();
  };
}

/**
 * Return the channel to Python. Only this file knows anywidget. When the kernel of the view has gone, no pass owns a
 * `.grad`. A host that does not report this counts as having its kernel.
 */
export function channelOf<T extends object = Traits>(
  model: AnyModel<T>,
  el?: Element,
): Channel<T, Settable & keyof T> {
  let isLive: boolean | undefined;
  const isGone = () => !(isLive ?? !KERNELS.some(({ gone }) => el?.closest(gone)));
  return {
    get: (trait) => {
      const value = opened(model.get(trait));
      return isGone() ? withoutKernel(trait, value) : value;
    },
    raw: (trait) => model.get(trait),
    set(trait, value) {
      if (model.get(trait) === value) return;
      model.set(trait, value);
      model.save_changes();
    },
    on(trait, changed) {
      // A fresh function per subscription: `off` removes by identity.
      const callback = () => changed();
      type Event = `change:${keyof T & string}`;
      const heard: [Event, () => void][] = [[`change:${String(trait)}` as Event, callback]];
      if (TELLS_OWNER.has(trait))
        for (const { event, isLive: live } of KERNELS)
          heard.push([
            event as Event,
            function (this: unknown) {
              isLive = live(this);
              changed();
            },
          ]);
      for (const [event, call] of heard) model.on(event, call);
      return () => {
        for (const [event, call] of heard) model.off(event, call);
      };
    },
    send: (message, done) => model.send(message, done && callbacks(done)),
  };
}

/** Traits that depend on Python: whether stepping moves `.grad` (one graph, several graphs), and the other ranks. */
const TELLS_OWNER: ReadonlySet<unknown> = new Set(["transport", "passes", "_ranks"]);

/** The value of a trait after the kernel has gone. */
function withoutKernel<V>(trait: unknown, value: V): V {
  const transport: TransportModel = { owned: false, note: null, blocked: GONE };
  if (trait === "transport") return transport as V;
  if (trait === "_ranks") return [] as V;
  if (trait === "passes" && Array.isArray(value))
    return value.map((pass: object) => ({ ...pass, transport })) as V;
  return value;
}

/** Unpack bytes; the same bytes give the same object. */
const unpacked = perObject((bytes: ArrayBufferView) => plain<object>(bytes));

/** Unpack the value of a trait. */
function opened<V>(value: V): V {
  return ArrayBuffer.isView(value) ? (unpacked(value) as V) : value;
}

/** Return a channel without a kernel, which keeps the values itself. `change` and `receive` play Python's part. */
export function localChannel<T = Traits>(
  traits: T,
  receive: (message: Message, done: () => void) => void = () => {},
): Channel<T, Settable & keyof T> & {
  change<K extends keyof T>(trait: K, value: T[K]): void;
} {
  const listeners = new Map<keyof T, Set<() => void>>();
  const change = <K extends keyof T>(trait: K, value: T[K]) => {
    if (traits[trait] === value) return;
    traits[trait] = value;
    for (const listener of [...(listeners.get(trait) ?? [])]) listener();
  };
  return {
    get: (trait) => traits[trait],
    raw: (trait) => traits[trait],
    set: change,
    change,
    on(trait, changed) {
      const set = valueAt(listeners, trait, () => new Set());
      const callback = () => changed();
      set.add(callback);
      return () => set.delete(callback);
    },
    send: (message, done = () => {}) => receive(message, done),
  };
}
