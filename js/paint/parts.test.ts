// @vitest-environment jsdom
import { expect, it } from "vitest";
import { changeParts, makePart, type Part, part } from "./parts";

const FORMS: Part[][] = [
  [part("text", { x: 1, class: "a" }, "one"), part("g", {}, [part("rect", { rx: 2 })])],
  [part("text", { x: 2 }, "two"), part("g", { class: "b" }, [part("rect", { rx: 2, y: 1 })])],
  [part("text", { x: 2, class: "a" }, ""), part("g", {}, [part("rect", {})])],
  [part("text", { x: 1 }, "one"), part("g", {}, [part("circle", { r: 2 })])],
  [part("text", { x: 1 }, "one")],
  [part("text", { x: 1 }, "one"), part("g", {}, "words")],
];

function group(parts: Part[]): SVGElement {
  const made = makePart(part("g"));
  made.append(...parts.map(makePart));
  return made;
}

it("changes elements to what was to be made anew, where both have one form, and else nothing", () => {
  let changed = 0;
  for (const was of FORMS)
    for (const now of FORMS) {
      const made = group(was);
      const before = [...made.querySelectorAll("*")];
      if (changeParts(made, was, now)) {
        changed++;
        expect([...made.querySelectorAll("*")]).toEqual(before);
        expect(made.isEqualNode(group(now))).toBe(true);
      } else expect(made.isEqualNode(group(was))).toBe(true);
    }
  expect(changed).toBe(3 * 3 + 3);
});
