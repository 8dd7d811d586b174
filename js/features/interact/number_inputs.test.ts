// @vitest-environment jsdom
import { expect, it, vi } from "vitest";
import { localChannel, type Message } from "../../channel";
import { MODELS } from "../../demo/models";
import { nextFrame, testPage } from "../../testing/browser";
import { freshTraits } from "../../testing/traits";
import { createView } from "../../view";
import type { QuestionModel } from "../../wire";

const page = testPage(1800, 900);

async function view() {
  const host = document.body.appendChild(document.createElement("div"));
  const sent: Message[] = [];
  const waiting: (() => void)[] = [];
  const channel = localChannel(
    freshTraits(MODELS["h = w * x + b"](), { direction: "left" }),
    (message, done) => {
      sent.push(message);
      waiting.push(done);
    },
  );
  page.remove = createView(host, channel);
  await nextFrame();
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const key = (target: Element, name: string) =>
    target.dispatchEvent(
      new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }),
    );
  return { host, channel, sent, waiting, one, key };
}

const question = (node: number, change: Partial<QuestionModel> = {}): QuestionModel => ({
  ...{ node, name: "w", state: "open", hint: null, answer: null },
  ...change,
});
const score = { right: 0, wrong: 0, revealed: 0, of: 2 };

it("sets a number with the keys, one at a time", async () => {
  const { channel, sent, waiting, one, key } = await view();
  channel.change("_values", [1, 1, 2, 1, 1]);
  channel.change("_number_inputs", [{ node: 2, name: "w", at: [], min: -5, max: 5, step: 0.5 }]);
  const numberInput = one('[role="slider"][aria-label="w"]');
  expect(numberInput.getAttribute("aria-valuenow")).toBe("2");
  key(numberInput, "ArrowRight");
  key(numberInput, "ArrowRight");
  // While Python is busy with the first request, only the last one waits.
  expect(sent).toEqual([{ kind: "turn", node: 2, at: [], value: 2.5 }]);
  waiting[0]();
  expect(sent.at(-1)).toEqual({ kind: "turn", node: 2, at: [], value: 3 });
  waiting[1]();
  expect(sent).toHaveLength(2);
  key(numberInput, "End");
  expect(sent.at(-1)).toEqual({ kind: "turn", node: 2, at: [], value: 5 });
});

it("sets each number of a tensor by itself, and the keyboard stays on it", async () => {
  const { channel, sent, waiting, host, one, key } = await view();
  const places = [
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
  ];
  const numberInputs = () =>
    places.map((at) => ({ node: 2, name: "w", at, min: -5, max: 5, step: 0.5 }));
  const grid = [
    [1, 2],
    [-3, 4],
  ];
  channel.change("_values", [1, 1, grid, 1, 1]);
  channel.change("_number_inputs", numberInputs());
  const group = one('[role="group"][aria-label="w"]');
  const sliders = () =>
    Array.from(group.children, (slider) => [
      slider.getAttribute("aria-label"),
      slider.textContent,
      slider.getAttribute("aria-valuenow"),
    ]);
  expect(sliders()).toEqual([
    ["w[0, 0]", "1", "1"],
    ["w[0, 1]", "2", "2"],
    ["w[1, 0]", "\u22123", "-3"],
    ["w[1, 1]", "4", "4"],
  ]);
  const third = group.children[2] as HTMLElement;
  third.focus();
  key(third, "ArrowRight");
  expect(sent).toEqual([{ kind: "turn", node: 2, at: [1, 0], value: -2.5 }]);
  channel.change("_values", [1, 1, [grid[0], [-2.5, 4]], 1, 1]);
  channel.change("_number_inputs", numberInputs());
  waiting[0]();
  expect(sliders()[2]).toEqual(["w[1, 0]", "\u22122.5", "-2.5"]);
  expect(document.activeElement).toBe(third);
  expect(host.querySelectorAll(".gw-number-input-grid")).toHaveLength(1);
});

it("has room for the numbers of tensors in their boxes, but none while they are asked for", async () => {
  const numberInputs = (node: number, name: string, ...sizes: number[]) =>
    places(sizes).map((at) => ({ node, name, at, min: -5, max: 5, step: 0.5 }));
  const { channel, host, one } = await view();
  const boxOf = (node: number) => {
    const group = one<SVGGElement>(`.gw-node[data-node="${node}"]`);
    const [x, y] = (group.getAttribute("transform")?.match(/-?[\d.]+/g) ?? []).map(Number);
    const rect = group.querySelector(".gw-box") as SVGRectElement;
    const of = (name: string) => Number(rect.getAttribute(name));
    const [left, top] = [x + of("x"), y + of("y")];
    return { left, top, right: left + of("width"), bottom: top + of("height") };
  };
  const isApart = (a: ReturnType<typeof boxOf>, b: ReturnType<typeof boxOf>) =>
    a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  channel.change("_values", [1, 1, ["nan", "inf", 1, 2], [1, 2, 3], 1]); // whatever a step has left
  const plain = boxOf(2);
  for (const sizes of [[4], [2, 2], [16], [4, 4], [2, 3, 2]]) {
    channel.change("_number_inputs", [
      ...numberInputs(2, "w", ...sizes),
      ...numberInputs(3, "x", 3),
      numberInputs(4, "b")[0],
    ]);
    await nextFrame();
    const [left, top, k] = (
      one(".gw-layer")
        .getAttribute("transform")
        ?.match(/-?[\d.]+/g) ?? []
    ).map(Number);
    for (const [node, name] of [
      [2, "w"],
      [3, "x"],
    ] as const) {
      const { style } = one(`.gw-number-input-grid[aria-label="${name}"]`);
      const [x, y] = (style.transform.match(/-?[\d.]+/g) ?? []).map(Number);
      const inside = {
        ...{ left: (x - left) / k, top: (y - top) / k },
        right: (x - left) / k + Number.parseFloat(style.width),
        bottom: (y - top) / k + Number.parseFloat(style.minHeight),
      };
      const box = boxOf(node);
      expect(inside.left).toBeGreaterThan(box.left - 0.5);
      expect(inside.top).toBeGreaterThan(box.top + 20);
      expect(inside.right).toBeLessThan(box.right + 0.5);
      expect(inside.bottom).toBeLessThan(box.bottom + 0.5);
    }
    const boxes = [0, 1, 2, 3, 4].map(boxOf);
    for (const [i, box] of boxes.entries())
      for (const other of boxes.slice(0, i)) expect(isApart(box, other)).toBe(true);
  }
  channel.change("_quiz", { what: "grad", questions: [question(2)] });
  channel.change("score", score);
  await nextFrame();
  expect(host.querySelectorAll(".gw-number-input-grid")).toHaveLength(0);
  const now = boxOf(2);
  expect(now.bottom - now.top).toBe(plain.bottom - plain.top);
  // It is beside the picture and covers no node.
  expect(one(".gw-stage").contains(one(".gw-quiz"))).toBe(false);
});

/** The indices of a tensor's numbers. */
function places(sizes: readonly number[]): number[][] {
  return sizes.reduce<number[][]>(
    (found, size) => found.flatMap((at) => Array.from({ length: size }, (_, i) => [...at, i])),
    [[]],
  );
}

it("asks at a node, hints, and goes on to the next question", async () => {
  const { channel, sent, one, key, host } = await view();
  const ask = (...questions: QuestionModel[]) => {
    channel.change("_quiz", { what: "grad", questions });
    channel.change("score", { ...score });
  };
  ask(question(2), question(3, { name: "x" }));
  expect(one(".gw-quiz").textContent).toContain("the grad of w?");
  one('input[aria-label="grad of x"]').focus();
  expect(one(".gw-quiz").textContent).toContain("the grad of x?");
  const field = one<HTMLInputElement>('input[aria-label="grad of w"]');
  field.focus();
  expect(one(".gw-quiz").textContent).toContain("the grad of w?");
  field.value = "24";
  key(field, "Enter");
  expect(sent.at(-1)).toEqual({ kind: "answer", node: 2, text: "24" });
  ask(question(2, { state: "wrong", hint: "Look at the sign." }), question(3, { name: "x" }));
  expect(one(".gw-hint").textContent).toContain("Look at the sign.");
  // The text and the focus stay.
  expect(document.activeElement).toBe(field);
  expect(field.value).toBe("24");
  ask(question(2, { state: "right", answer: "\u221224" }), question(3, { name: "x" }));
  await nextFrame();
  expect(document.activeElement).toBe(one('input[aria-label="grad of x"]'));
  channel.change("_quiz", null);
  channel.change("score", null);
  expect(host.querySelectorAll(".gw-guess")).toHaveLength(0);
  expect(one(".gw-quiz").hidden).toBe(true);
});

it("takes clicks for answers where the order is asked, and keys as well", async () => {
  const { channel, sent, one, key } = await view();
  channel.change("_quiz", { what: "order", questions: [question(0), question(1)] });
  channel.change("score", score);
  one('.gw-node[data-node="1"] .gw-box').dispatchEvent(new MouseEvent("click", { bubbles: true }));
  expect(sent.at(-1)).toEqual({ kind: "answer", node: 1, text: null });
  expect(channel.get("selected")).toBeNull();
  const canvas = one(".gw-canvas");
  canvas.focus();
  key(canvas, "Home");
  key(canvas, "Enter");
  expect(sent.at(-1)).toMatchObject({ kind: "answer", text: null });
  const done = { state: "right", answer: "1" } as const;
  channel.change("_quiz", { what: "order", questions: [question(0, done), question(1, done)] });
  key(canvas, "Enter");
  expect(channel.get("selected")).not.toBeNull();
});

it("says what finite differences say", async () => {
  const { channel, host } = await view();
  channel.change("_differences", [
    { node: 2, quotient: "Δh/Δw", value: -12, agrees: true },
    { node: 3, quotient: "Δh/Δx", value: 1e-9, agrees: false },
  ]);
  const given = Array.from(host.querySelectorAll(".gw-difference"), (one) => one.textContent);
  expect(given).toEqual(["✓Δh/Δw\u221212.0000", "≠Δh/Δx1e\u22129"]);
});

it("puts a hint above its node if there is too little room below", async () => {
  const { channel, one } = await view();
  const sizes = { room: 2000 };
  const has = (name: string, wanted: string, size: () => number) =>
    vi.spyOn(HTMLElement.prototype, name as "offsetHeight", "get").mockImplementation(function (
      this: HTMLElement,
    ) {
      return this.classList.contains(wanted) ? size() : 0;
    });
  const spies = [
    has("clientHeight", "gw-pins", () => sizes.room),
    has("offsetHeight", "gw-hint", () => 80),
  ];
  const topOf = (selector: string) =>
    Number(/, (-?[\d.]+)px/.exec(one(selector).style.transform)?.[1]);
  const ask = (hint: string) => {
    channel.change("score", score);
    channel.change("_quiz", { what: "grad", questions: [question(2, { state: "wrong", hint })] });
  };
  ask("first");
  expect(topOf(".gw-hint")).toBeGreaterThan(topOf(".gw-guess"));
  sizes.room = topOf(".gw-hint") + 10;
  ask("second");
  expect(topOf(".gw-hint")).toBeLessThan(topOf(".gw-guess"));
  expect(topOf(".gw-hint")).toBeGreaterThanOrEqual(0);
  for (const spy of spies) spy.mockRestore();
});
