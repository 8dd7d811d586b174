import { expect, it } from "vitest";
import { seenMarks } from "./marks";

const NODES = ["MulBackward0", "AddBackward0", "MulBackward0"].map((op) => ({ op }));
const STATE = { runs: 0, reached: [], flowed: [], held: [], note: "" };
const isPartly = (freed: number[]) => seenMarks({ ...STATE, freed }, NODES).isPartlyFreed;

it("marks freed nodes where others of their class are not freed", () => {
  expect(isPartly([])).toBe(false);
  expect(isPartly([0])).toBe(true);
  expect(isPartly([0, 2])).toBe(false); // an addition saves nothing
  expect(seenMarks(undefined, []).isPartlyFreed).toBe(false);
});
