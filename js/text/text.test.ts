import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounded } from "./gradient";
import { counted, formatCount, formatNumber, fullNumber, isNotFinite, shortCount } from "./number";
import { formatShape, oneLine, shortenList, shortenMiddle, shortenNames } from "./shorten";

describe("formatShape", () => {
  it.each([
    [[], "scalar"],
    [[3], "(3,)"],
    [[0], "(0,)"],
    [[64, 3, 7, 7], "(64, 3, 7, 7)"],
  ])("writes %j as %s", (shape, text) => expect(formatShape(shape)).toBe(text));
});

describe("shortCount", () => {
  it.each([
    [5, "5"],
    [512, "512"],
    [12_345, "12.3 K"],
    [99_999, "100 K"],
    [999_999, "1.00 M"],
    [1.5e9, "1.50 G"],
  ])("writes %d as %s", (count, text) => expect(shortCount(count)).toBe(text));
});

describe("shortenList", () => {
  const width = (text: string) => text.length;

  it("keeps whole numbers of the beginning and the end", () => {
    const text = "[[-0.25, 0.5], [0.125, -0.1414]]";
    expect(shortenList(text, 40, width)).toBe(text);
    expect(shortenList(text, 31, width)).toBe("[[-0.25, 0.5], …, -0.1414]]");
    expect(shortenList(text, 22, width)).toBe("[[-0.25, …, -0.1414]]");
    expect(shortenList(text, 12, width)).toBe("…");
  });
});

describe("shortenNames", () => {
  it("keeps as many whole names as fit, and cuts one alone in the middle", () => {
    const width = (text: string) => text.length;
    const names = "embed · decoder · attn · out";
    expect(shortenNames(names, 28, width)).toBe(names);
    expect(shortenNames(names, 27, width)).toBe("embed · decoder · attn · …");
    expect(shortenNames(names, 20, width)).toBe("embed · decoder · …");
    expect(shortenNames(names, 9, width)).toBe("embed · …");
    expect(shortenNames("MixtralDecoderLayer", 14, width)).toBe("…DecoderLayer");
  });
});

describe("shortenMiddle", () => {
  const width = (text: string) => [...text].length * 7;

  it("keeps what fits and both ends of what does not", () => {
    expect(shortenMiddle("w", 100, width)).toBe("w");
    expect(shortenMiddle("a_name_without_an_end".replaceAll("_", ""), 70, width)).toBe(
      "aname…nend",
    );
  });

  it.each([
    ["encoder.layers.0.weight", 10, "…0.weight"],
    ["MixtralDecoderLayer", 18, "…DecoderLayer"],
    ["token_type_embeddings", 17, "…type_embeddings"],
    ["AdaptiveAvgPool2d", 13, "…AvgPool2d"],
    ["BinaryCrossEntropyWithLogitsBackward0", 28, "…EntropyWithLogitsBackward0"],
    ["LlamaRMSNorm", 9, "…RMSNorm"],
    ["4 × WhisperEncoderLayer", 18, "4 × …EncoderLayer"],
    ["ThresholdBackward0", 12, "Thresh…ward0"],
    // One short word says less than both ends.
    ["features_of_the_whole_superbatch_x", 10, "featu…ch_x"],
    ["layer.10", 6, "lay…10"],
  ])("keeps the last whole words of %s", (text, room, short) =>
    expect(shortenMiddle(text, room, (part) => part.length)).toBe(short),
  );

  it("never tears a character apart", () => {
    expect(shortenMiddle("👩‍👩‍👧‍👦".repeat(9), 40 * 7, width)).not.toMatch(/\uFFFD/);
    expect(shortenMiddle("🧮".repeat(50), 70, width)).toMatch(/^(🧮)+…(🧮)+$/u);
  });

  it("fits, and is made of the text's own ends", () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 600 }),
        fc.integer({ min: 14, max: 400 }),
        (text, room) => {
          const short = shortenMiddle(text, room, width);
          expect(width(short)).toBeLessThanOrEqual(room);
          if (short === text) return;
          const [start, end] = short.split(/…(?=[^…]*$)/);
          expect(text.startsWith(start)).toBe(true);
          expect(text.endsWith(end)).toBe(true);
        },
      ),
    );
  });
});

describe("oneLine", () => {
  it("leaves one line that reads in its own direction", () => {
    expect(oneLine("a\n\tb\u0000c ")).toBe("a b c");
    expect(oneLine("safe\u202Etxt")).toBe("safetxt");
  });
});

describe("formatNumber", () => {
  it.each([
    [4, "4.0"],
    [-0, "-0.0"],
    [0.123456, "0.1235"],
    [12.34567, "12.3457"],
    [1e-5, "1.0000e-05"],
    [123456.7, "1.2346e+05"],
    [2e6, "2.0000e+06"],
    [1e-300, "1.0000e-300"],
    ["nan", "nan"],
    ["-inf", "-inf"],
    [true, "True"],
  ])("writes the float %j as %s", (value, text) => expect(formatNumber(value)).toBe(text));

  it("writes integers as they are", () => {
    expect(formatNumber(7, false)).toBe("7");
    expect(formatNumber(12345678, false)).toBe("12345678");
    expect(formatNumber("9223372036854775807", false)).toBe("9223372036854775807");
  });

  it("stays within half a unit of the last digit", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, min: -1e300, max: 1e300 }), (value) => {
        const text = formatNumber(value);
        expect(Math.abs(Number(text) - value)).toBeLessThanOrEqual(
          Math.max(5.1e-5, Math.abs(value) * 5.1e-5),
        );
        expect(text.length).toBeLessThanOrEqual(13);
        expect(Number(fullNumber(value)) === value).toBe(true);
      }),
    );
  });
});

describe("counts", () => {
  it("separate thousands and know one from many", () => {
    expect(formatCount(9408)).toBe("9,408");
    expect(formatCount(1234567)).toBe("1,234,567");
    expect(counted(1, "leaf", "leaves")).toBe("1 leaf");
    expect(counted(2, "leaf", "leaves")).toBe("2 leaves");
  });

  it("know the words for what is not finite", () => {
    expect(["nan", "inf", "-inf"].every(isNotFinite)).toBe(true);
    expect(isNotFinite(1)).toBe(false);
  });
});

it("rounds up to three numbers where that makes their text shorter", () => {
  expect(rounded([0.65901, 0.24243, 0.098568])).toEqual([
    [0.659, 0.242, 0.0986],
    [0.66, 0.24, 0.099],
  ]);
  expect(rounded([1, 2, 3])).toEqual([]);
  expect(rounded([0.12345, 1, 2, 3])).toEqual([]);
  expect(rounded([[0.12345], [1]])).toEqual([]);
});
