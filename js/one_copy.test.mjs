import { afterEach, expect, it } from "vitest";
import { oneCopy } from "./one_copy.mjs";

afterEach(() => {
  delete globalThis.starts;
});

let copies = 0;
/** The default export of another copy of a module. */
async function copy(text) {
  copies += 1;
  const url = `data:text/javascript,${encodeURIComponent(`${text}//${copies}`)}`;
  return (await import(/* @vite-ignore */ url)).default;
}

const bundle = (name) =>
  oneCopy(
    `(globalThis.starts??=[]).push("${name}");var a={name:"${name}"};export{a as default};\n`,
  );

it("starts a module once, however many copies of it come", async () => {
  const first = await copy(bundle("once"));
  expect(first).toEqual({ name: "once" });
  for (let i = 0; i < 3; i++) expect(await copy(bundle("once"))).toBe(first);
  expect(globalThis.starts).toEqual(["once"]);
});

it("keeps two versions apart", async () => {
  const [one, other] = [await copy(bundle("1.0")), await copy(bundle("1.1"))];
  expect([one.name, other.name]).toEqual(["1.0", "1.1"]);
  expect(await copy(bundle("1.0"))).toBe(one);
});

it("starts again after a copy that failed", async () => {
  const text =
    'if(!globalThis.starts){globalThis.starts=[];throw new Error("no")}var a={name:"later"};';
  const module = oneCopy(`${text}export{a as default};`);
  await expect(copy(module)).rejects.toThrow("no");
  expect(await copy(module)).toEqual({ name: "later" });
});

it("reads whatever name a minifier gives", async () => {
  const named = oneCopy('var $$_1={name:"$"};export{$$_1 as default};');
  expect(await copy(named)).toEqual({ name: "$" });
});

it("refuses a bundle without a default export", () => {
  expect(() => oneCopy("var a=1;")).toThrow("does not end with its default export.");
});
