import { expect, it } from "vitest";
import { smaller } from "./smaller.mjs";

/** What a module's `run` gives, before and after. */
async function both(text) {
  const run = async (code) =>
    (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(code)}`)).run();
  return [await run(text), await run(await smaller(text))];
}

it.each([
  [
    "functions before they stand there",
    "export const run = () => a(2); const b = a(1); function a(n) { return [n, typeof a]; }",
  ],
  [
    "functions within functions",
    "export function run() { return f(3); function f(n) { return n ? f(n - 1) + 1 : 0; } }",
  ],
  ["functions in blocks", "export function run() { { return f(); function f() { return 1; } } }"],
  [
    "what is made with new",
    "function A() {} function B(x) { this.x = x; } var C = function () {}; let D; D = function () {}; export const run = () => [new A() instanceof A, new B(1).x, new C() instanceof C, new D() instanceof D];",
  ],
  [
    "prototypes",
    "function A() {} A.prototype = { one: function () { return this.two(); }, two: function () { return 2; } }; export const run = () => new A().one();",
  ],
  [
    "arguments, also of an arrow within",
    "const all = function () { return (() => arguments.length)(); }; function some(a) { return arguments[1]; } export const run = () => [all(1, 2), some(1, 5)];",
  ],
  [
    "this of an object",
    "const o = { n: 4, get: function () { return this.n; }, sum: function (a) { return a + 1; } }; export const run = () => [o.get(), o.sum(1)];",
  ],
  [
    "fields without a value",
    "class A { a; b = 2; static c; constructor(a) { this.a = a; } } export const run = () => [new A(1).a, new A().b, A.c, 'c' in A];",
  ],
  [
    "generators and promises",
    "function* two() { yield 1; yield 2; } async function later() { return [...two()]; } export const run = () => later();",
  ],
  [
    "functions that are called at once",
    "export const run = () => [(function () { return 1; })(), true && (function (a) { return a; })(2)];",
  ],
  [
    "defaults and patterns",
    "function f({ a = 1, ...rest }, [b] = [2], ...more) { return [a, rest, b, more]; } export const run = () => f({ c: 3 }, undefined, 4);",
  ],
])("keeps %s", async (_, text) => {
  const [before, after] = await both(text);
  expect(after).toEqual(before);
});

it("leaves less to write", async () => {
  const code = await smaller(
    "export function f(a) { return a.map(function (x) { return x; }); } class A { b; } f(A);",
  );
  expect(code).not.toMatch(/function \(x\)|\bb;/);
});
