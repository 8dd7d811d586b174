import fc from "fast-check";
import { expect, it } from "vitest";
import { Grid } from "./grid";

const number = fc.integer({ min: -500, max: 3000 });
const box = fc
  .tuple(number, number, fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 400 }))
  .map(([x, y, w, h]) => [x, y, x + w, y + h] as const);

it("hits what touches, of any other owner, as a comparison with every box does", () => {
  const owned = fc.record({ box, owner: fc.integer({ min: 0, max: 3 }) });
  fc.assert(
    fc.property(
      fc.array(owned, { maxLength: 60 }),
      fc.array(owned, { maxLength: 20 }),
      (all, asked) => {
        const grid = new Grid();
        for (const { box, owner } of all) grid.add(...box, owner);
        for (const { box, owner } of asked) {
          const [l, t, r, b] = box;
          const expected = all.some(
            ({ box: [left, top, right, bottom], owner: whose }) =>
              whose !== owner && left <= r && right >= l && top <= b && bottom >= t,
          );
          expect(grid.hits(...box, owner)).toBe(expected);
        }
      },
    ),
  );
});
