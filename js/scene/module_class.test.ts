import { expect, it } from "vitest";
import { fullNameOf, isModule, kindOfGroup } from "./module_class";

it("tells parts and steps from modules", () => {
  expect(kindOfGroup("net/layers/0")).toBe("module");
  expect(kindOfGroup("part 3/part 3.1")).toBe("part");
  expect(kindOfGroup("loop 2 step 7")).toBe("step");
  expect(kindOfGroup("loss()")).toBe("box");
  expect(isModule("part 3")).toBe(false);
  expect(kindOfGroup("shared leaves")).toBe("box");
});

it("names a part by its own number, a module by its path", () => {
  expect(fullNameOf("part 3/part 3.1")).toBe("part 3.1");
  expect(fullNameOf("net/layers/0")).toBe("net.layers.0");
});
