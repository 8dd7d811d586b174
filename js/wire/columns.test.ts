import fc from "fast-check";
import { gzipSync } from "fflate";
import { expect, it } from "vitest";
import json from "../../tests/support/travelled.json?raw";
import { type Json, plain, withRecords } from "./columns";

/** Python's test_columns.py reads the same file. */
const TRAVELLED: Record<string, { bytes: string; value: unknown }> = JSON.parse(json);

it.each(Object.keys(TRAVELLED))("reads what Python wrote of %s", (name) => {
  const { bytes, value } = TRAVELLED[name];
  expect(plain(Uint8Array.from(atob(bytes), (char) => char.charCodeAt(0)))).toEqual(value);
});

it("leaves every value without a table as it is", () => {
  const values = fc.jsonValue().filter((value) => !JSON.stringify(value).includes('"":'));
  fc.assert(
    fc.property(values, (value) => {
      expect(withRecords(value as Json)).toEqual(value);
    }),
  );
});

it("reads a part of a larger buffer", () => {
  const file = gzipSync(new TextEncoder().encode('{"":{"id":5,"op":["a","b"]}}'));
  const larger = new Uint8Array(file.length + 20);
  larger.set(file, 7);
  expect(plain(new DataView(larger.buffer, 7, file.length))).toEqual([
    { id: 5, op: "a" },
    { id: 6, op: "b" },
  ]);
});
