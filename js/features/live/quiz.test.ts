import { expect, it } from "vitest";
import { isNear, readNumber } from "./quiz";

/** Numbers between 0 and 1 that are the same in every run. */
function* random(): Generator<number> {
  let state = 12_345;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** An exercise: the derivative of an expression of w, with what autograd computes and what a reader answers. */
interface Exercise {
  truth: number;
  right: string[];
  wrong: string[];
}

const WORDS = [(one: number) => String(one), (one: number) => one.toExponential()];

function exercises(count: number): Exercise[] {
  const numbers = random();
  const next = () => numbers.next().value as number;
  return Array.from({ length: count }, () => {
    const [w, x, b] = [0, 0, 0].map(() => (next() - 0.5) * 10 ** Math.floor(next() * 4));
    const forms = [
      () => x,
      () => 2 * (w * x + b) * x,
      () => (1 - Math.tanh(w * x) ** 2) * x,
      () => (Math.exp(-w) / (1 + Math.exp(-w)) ** 2) * x,
      () => (w > 0 ? x : 0),
      () => -b / (w * w || 1),
    ];
    const truth = Math.fround(forms[Math.floor(next() * forms.length)]());
    const digits = 3 + Math.floor(next() * 5);
    const rounded = truth.toPrecision(digits);
    const unit = 10 ** (Math.floor(Math.log10(Math.abs(truth) || 1)) - 2);
    const off = truth === 0 ? 0.01 : 2 * unit;
    return {
      truth,
      right: [
        rounded,
        rounded.replace("-", "\u2212"),
        ` ${truth} `,
        ...WORDS.map((word) => word(truth)),
        ...(Math.abs(truth) > 1e-6 ? [`${truth * 7}/7`] : []),
      ],
      wrong: [
        String(truth + off),
        String(truth - off),
        (truth === 0 ? 0.5 : -truth).toPrecision(6),
        (truth === 0 ? 3 : 2 * truth).toPrecision(4),
      ],
    };
  });
}

it("marks 1,000 exercises right", () => {
  for (const { truth, right, wrong } of exercises(1_000)) {
    for (const text of right) {
      const answer = readNumber(text);
      expect(answer, text).not.toBeNull();
      expect(isNear(answer as number, truth, text, "torch.float32"), `${text} for ${truth}`).toBe(
        true,
      );
    }
    for (const text of wrong)
      expect(
        isNear(readNumber(text) as number, truth, text, "torch.float32"),
        `${text} for ${truth}`,
      ).toBe(false);
  }
});

it.each(["", "one", "1/0", "1/2/3", "0x10", "1,5", "--1"])("takes %j for no number", (text) => {
  expect(readNumber(text)).toBeNull();
});

it("knows numbers that are not finite", () => {
  expect(isNear(readNumber("nan") as number, Number.NaN, "nan", null)).toBe(true);
  expect(
    isNear(readNumber("\u2212inf") as number, Number.NEGATIVE_INFINITY, "\u2212inf", null),
  ).toBe(true);
  expect(isNear(readNumber("inf") as number, Number.NEGATIVE_INFINITY, "inf", null)).toBe(false);
});

it("takes both roundings of a number halfway between two", () => {
  for (const text of ["1.062", "1.063"])
    expect(isNear(Number(text), 1.0625, text, "torch.float32")).toBe(true);
  expect(isNear(1.06, 1.0625, "1.06", "torch.float32")).toBe(true);
  expect(isNear(1.1, 1.0625, "1.1", "torch.float32")).toBe(false);
});
