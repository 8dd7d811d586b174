// @vitest-environment jsdom

import { expect, test } from "vitest";
import { Cleanup, svgElement } from "../dom/element";
import type { Hit } from "./hit";
import { Pointer } from "./pointer";

type At = Hit & { at: [number, number] };

/** A picture that moves under the pointer, and the choices made in it. */
function moving() {
  const svg = svgElement("svg");
  const chosen: (string | null)[] = [];
  const under = { frame: null as string | null };
  new Pointer(
    svg as SVGSVGElement,
    {
      hitAt: (): At => ({
        node: null,
        frame: under.frame,
        folded: null,
        isSign: false,
        at: [0, 0],
      }),
      hover: () => {},
      down: () => {},
      tapped: () => {},
      pressed: () => false,
      choose: (hit) => chosen.push(hit?.frame ?? null),
    },
    new Cleanup(),
  );
  const send = (type: string, options: MouseEventInit = {}) =>
    svg.dispatchEvent(new MouseEvent(type, { button: 0, detail: 1, ...options }));
  return { chosen, under, send };
}

test.each([
  ["a", "b"],
  ["a", null],
  [null, "b"],
  ["a", "a"],
])("a click is for what it went down on, %s, though %s has moved there meanwhile", (down, up) => {
  const { chosen, under, send } = moving();
  under.frame = down;
  send("pointerdown");
  under.frame = up;
  send("click");
  expect(chosen).toEqual([down]);
  // Screen readers click without a button press.
  send("click");
  expect(chosen).toEqual([down, up]);
});

test("what another button went down on is not what the next click is for", () => {
  const { chosen, under, send } = moving();
  under.frame = "a";
  send("pointerdown", { button: 2 });
  under.frame = "b";
  send("click");
  expect(chosen).toEqual(["b"]);
});
