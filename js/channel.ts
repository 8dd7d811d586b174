import type { AnyModel, RenderProps } from "@anywidget/types";
import { faultBox, messageOf } from "./dom/fault";
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

/** Jupyter's hosts set this on the model when its kernel has gone, and mark later views. */
const LIVENESS = "comm_live_update";
const DISCONNECTED = ".jupyter-widgets-disconnected";

/** The element that VS Code's renderer puts around a widget. */
const VSCODE_OUTPUT = ".cell-output-ipywidget-background";

/**
 * Return the `render` that anywidget calls for each view, from a function that fills an element and returns its end.
 */
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
      putBack(el);
    };
    signal?.addEventListener("abort", ended, { once: true });
    return () => end();
  };
}

/**
 * When a cell runs again, VS Code removes its output from the page before the widget ends. Its renderer then detaches
 * the widget, which fails outside a page, so this puts the output back for that moment.
 */
function putBack(el: HTMLElement): void {
  if (el.isConnected || !el.closest(VSCODE_OUTPUT)) return;
  const output = el.getRootNode() as HTMLElement;
  output.hidden = true;
  document.body.append(output);
  setTimeout(() => output.remove());
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
  const isGone = () => !(isLive ?? !el?.closest(DISCONNECTED));
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
      const event = `change:${String(trait)}` as `change:${keyof T & string}`;
      model.on(event, callback);
      if (!TELLS_OWNER.has(trait)) return () => model.off(event, callback);
      const live = LIVENESS as typeof event;
      const liveChanged = function (this: View | undefined) {
        isLive = this?.model?.comm_live;
        changed();
      };
      model.on(live, liveChanged);
      return () => {
        model.off(event, callback);
        model.off(live, liveChanged);
      };
    },
    send: (message, done) => model.send(message, done && callbacks(done)),
  };
}

/** The view, which anywidget passes as `this`. Its mark does not change, because anywidget removes its listeners. */
interface View {
  model?: { comm_live?: boolean };
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

/** Unpacked values by their bytes, so that the same bytes give the same object. */
const known = new WeakMap<ArrayBufferView, object>();

/** Unpack the value of a trait. */
function opened<V>(value: V): V {
  if (!ArrayBuffer.isView(value)) return value;
  const found = known.get(value) ?? plain<object>(value);
  known.set(value, found);
  return found as V;
}

/** Jupyter's messages about the kernel's state. */
interface Told {
  content?: { execution_state?: string };
}

/** Jupyter wants an object of callbacks. marimo calls a function once the message has been sent. */
function callbacks(done: () => void): object {
  return Object.assign(() => {}, {
    iopub: { status: (told: Told) => isIdle(told) && done() },
  });
}

function isIdle({ content }: Told): boolean {
  return content?.execution_state === "idle";
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
      const set = listeners.get(trait) ?? new Set();
      listeners.set(trait, set);
      const callback = () => changed();
      set.add(callback);
      return () => set.delete(callback);
    },
    send: (message, done = () => {}) => receive(message, done),
  };
}
