// @vitest-environment jsdom
import { expect, it } from "vitest";
import { type Channel, localChannel, type Message } from "../channel";
import { MODELS } from "../demo/models";
import { freshTraits } from "../testing/traits";
import type { CheckedModel, DetailsModel, OperationModel } from "../wire";
import { functionSection, operationsSection } from "./function";

const operation = (called: string, behind: string | null = null): OperationModel => ({
  called,
  behind,
  gave: null,
});

const details = (more: Partial<DetailsModel>) =>
  ({ function: null, operations: [], operation_count: 0, ...more }) as DetailsModel;

it("shows the source of a backward as text, and where it stands", () => {
  expect(functionSection(details({}))).toBeNull();
  const found = functionSection(
    details({
      function: {
        method: "<b>.backward",
        place: { file: "net.py", line: 7, text: "", function: "f" },
        code: "<script>",
        note: null,
      },
    }),
  );
  expect(found?.textContent).toBe("<b>.backwardnet.py:7<script>");
  expect(found?.querySelector("script")).toBeNull();
});

it("lists what a backward ran, with the nodes of a pass within it, and how many more", () => {
  expect(operationsSection(details({}))).toBeNull();
  const operations = [
    operation("aten.mul.Tensor"),
    operation("aten.detach.default", "ReluBackward0"),
    operation("aten.neg.default", "ReluBackward0"),
    operation("mine.op.default", "torch::autograd::AccumulateGrad"),
  ];
  const found = operationsSection(details({ operations, operation_count: 1234 }));
  expect([...(found?.querySelectorAll("li") ?? [])].map((row) => row.textContent)).toEqual([
    "mul.Tensor",
    "ReluBackward0 ran",
    "detach",
    "neg",
    "AccumulateGrad ran",
    "mine.op.default",
    "and 1,230 more",
  ]);
});

it("checks a backward when it is asked to, where somebody can", () => {
  const asked: number[] = [];
  let found: CheckedModel | null = null;
  const checks = {
    ...localChannel(freshTraits(MODELS["h = w * x + b"]())),
    get: (() => found) as Channel["get"],
    send: (message: Message) => void (message.kind === "check" && asked.push(message.node)),
  };
  const of = details({
    id: 3,
    function: { method: "f.backward", place: null, code: "", note: null },
  });
  expect(functionSection(of)?.querySelector("button")).toBeNull();
  functionSection(of, checks)?.querySelector("button")?.click();
  expect(asked).toEqual([3]);
  found = { node: 3, agrees: false, sentence: "It is wrong." };
  const note = functionSection(of, checks)?.querySelector(".gw-note");
  expect([note?.textContent, note?.className]).toEqual(["It is wrong.", "gw-note is-wrong"]);
  found = { node: 4, agrees: true, sentence: "Of another." };
  expect(functionSection(of, checks)?.textContent).not.toContain("another");
});
