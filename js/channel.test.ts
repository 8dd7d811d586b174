import type { AnyModel } from "@anywidget/types";
import { expect, it, vi } from "vitest";
import { channelOf, type Traits } from "./channel";

/** The callbacks that a host receives. */
type Callbacks = (() => void) & { iopub: { status(listed: object): void } };

it("notices when Python is done from Jupyter, not from a host that calls back at once", () => {
  let given: Callbacks | undefined;
  const send = (_: unknown, callbacks: Callbacks) => {
    given = callbacks;
  };
  const done = vi.fn();
  channelOf({ send } as unknown as AnyModel<Traits>).send({ kind: "start", cursor: 1 }, done);
  given?.(); // as marimo does once the message has left
  given?.iopub.status({ content: { execution_state: "busy" } });
  expect(done).not.toHaveBeenCalled();
  given?.iopub.status({ content: { execution_state: "idle" } });
  expect(done).toHaveBeenCalledOnce();
});
