import { expect, it } from "vitest";
import { freeSpot } from "./what_if";

const STAGE = { width: 800, height: 400 };
const TOOLS = { width: 200, height: 36 };
const box = (left: number, top: number) => ({ left, top, right: left + 180, bottom: top + 130 });

it("stands above the line where nothing is there", () => {
  expect(freeSpot({ x: 300, y: 200 }, TOOLS, STAGE, [])).toEqual({ x: 300, y: 148 });
});

it("goes above or below the boxes at both ends of a short line", () => {
  const ends = [box(60, 100), box(320, 100)];
  const { y } = freeSpot({ x: 280, y: 150 }, TOOLS, STAGE, ends);
  expect(y + TOOLS.height <= 100 || y >= 230).toBe(true);
});

it("stays on the stage", () => {
  expect(freeSpot({ x: 5, y: 4 }, TOOLS, STAGE, [])).toEqual({ x: 100, y: 0 });
});
