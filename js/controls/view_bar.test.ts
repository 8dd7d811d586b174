// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { localChannel, type Message, type Traits } from "../channel";
import { transformer } from "../demo/deep_models";
import { fakeBrowser } from "../testing/browser";
import { memoryOf } from "../testing/details";
import { freshTraits } from "../testing/traits";
import { createView } from "../view";

let remove = () => {};
beforeEach(() => {
  fakeBrowser();
  vi.useFakeTimers();
});
afterEach(() => {
  remove();
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function bar(layers = 1) {
  const sent: string[] = [];
  let done = () => {};
  const channel = localChannel<Traits>(
    freshTraits(transformer(layers)),
    (message: Message, answered) => {
      sent.push(message.kind);
      done = answered;
    },
  );
  const host = document.body.appendChild(document.createElement("div"));
  remove = createView(host, channel);
  const button = host.querySelector(".gw-diagnose") as HTMLButtonElement;
  return {
    channel,
    diagnoses: () => sent.filter((kind) => kind === "diagnose").length,
    press: () => button.click(),
    isWorking: () => button.classList.contains("is-working"),
    done: () => done(),
  };
}

it("asks for one diagnosis at a time, and shows that it works", () => {
  const { channel, diagnoses, press, isWorking } = bar();
  press();
  press();
  expect([diagnoses(), isWorking()]).toEqual([1, true]);
  channel.change("_findings", []);
  expect(isWorking()).toBe(false);
  press();
  expect(diagnoses()).toBe(2);
});

it("knows that a diagnosis is over when it found the same as before, or something went wrong", () => {
  const { channel, press, isWorking, done } = bar();
  press();
  done();
  expect(isWorking()).toBe(false);
  press();
  channel.change("_fault", "No backward was seen.");
  expect(isWorking()).toBe(false);
});

it("lets a diagnosis be asked for again that was never answered", () => {
  const { diagnoses, press } = bar();
  press();
  vi.advanceTimersByTime(9000);
  press();
  expect(diagnoses()).toBe(1);
  vi.advanceTimersByTime(2000);
  press();
  expect(diagnoses()).toBe(2);
});

it("offers memory as a colour as soon as it is counted", () => {
  const { channel } = bar(4);
  vi.advanceTimersByTime(1000);
  const isOffered = () =>
    !document.querySelector<HTMLOptionElement>(".gw-colour-by [value=memory]")?.disabled;
  expect(isOffered()).toBe(false);
  channel.change("_memory", memoryOf(channel.get("model")));
  expect(isOffered()).toBe(true);
});
