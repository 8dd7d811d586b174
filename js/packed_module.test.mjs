import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { packedModule } from "./packed_module.mjs";

// Node imports no blobs, so here the address holds their text.
beforeEach(() => {
  vi.stubGlobal(
    "Blob",
    class {
      constructor([text]) {
        this.text = text;
      }
    },
  );
  vi.spyOn(URL, "createObjectURL").mockImplementation(({ text }) => addressOf(text));
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  delete globalThis.starts;
});

let copies = 0;
function addressOf(text) {
  copies += 1;
  return `data:text/javascript,${encodeURIComponent(`${text}//${copies}`)}`;
}

/** What another copy of a packed module gives. */
async function copy(text) {
  return (await import(/* @vite-ignore */ addressOf(text))).default();
}

const packed = (name) =>
  packedModule(
    `(globalThis.starts??=[]).push("${name}");var a={name:"${name}"};export{a as default};\n`,
  );

it("starts a module once, however many copies of it come", async () => {
  const first = await copy(packed("once"));
  expect(first).toEqual({ name: "once" });
  for (let i = 0; i < 3; i++) expect(await copy(packed("once"))).toBe(first);
  expect(globalThis.starts).toEqual(["once"]);
});

it("keeps two versions apart", async () => {
  const [one, other] = [await copy(packed("1.0")), await copy(packed("1.1"))];
  expect([one.name, other.name]).toEqual(["1.0", "1.1"]);
  expect(await copy(packed("1.0"))).toBe(one);
});

it("starts again after a copy that failed", async () => {
  const module = packedModule(
    'if(!globalThis.starts){globalThis.starts=[];throw new Error("no")}var a={name:"later"};export{a as default};',
  );
  await expect(copy(module)).rejects.toThrow("no");
  expect(await copy(module)).toEqual({ name: "later" });
});

it("carries any letter", async () => {
  const found = await copy(packedModule('export default {sign: "×12 → 𝛁"};'));
  expect(found).toEqual({ sign: "×12 → 𝛁" });
});
