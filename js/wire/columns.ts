import { gunzipSync } from "fflate";

/** What JSON has. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A model as it came: the bytes that `gradwalk.schema.columns` wrote, the columns that were in them, or plain. */
export type Travelled<T> = ArrayBufferView | { columns: Json } | T;

/** A model, however it came. */
export function plain<T extends object>(given: Travelled<T>): T {
  if (ArrayBuffer.isView(given)) return withRecords(inColumns(given)) as T;
  return "columns" in given ? (withRecords(given.columns) as T) : given;
}

/** The content of the bytes, in columns. */
export function inColumns({ buffer, byteOffset, byteLength }: ArrayBufferView): Json {
  const text = gunzipSync(new Uint8Array(buffer, byteOffset, byteLength));
  return JSON.parse(new TextDecoder().decode(text));
}

/** The same value, with the columns in it turned into records. */
export function withRecords(value: Json): unknown {
  if (!isNested(value)) return value;
  if (Array.isArray(value)) return value.some(isNested) ? value.map(withRecords) : value;
  const table = value[""];
  if (isNested(table)) return records(table as { [name: string]: Json });
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withRecords(each)]));
}

/** One record per row. A first column that only counts is its first number. */
function records(table: { [name: string]: Json }): object[] {
  const names = Object.keys(table);
  const columns = names.map((name) => withRecords(table[name]) as unknown[]);
  const { length } = columns[columns.length - 1];
  const [first] = Object.values(table);
  if (typeof first === "number") columns[0] = Array.from({ length }, (_, row) => first + row);
  // Copies of one record are quicker to make and to read than records that grow field by field.
  const blank: Record<string, unknown> = Object.fromEntries(names.map((name) => [name, null]));
  return Array.from({ length }, (_, row) => {
    const record = { ...blank };
    for (let place = 0; place < names.length; place++) record[names[place]] = columns[place][row];
    return record;
  });
}

function isNested(value: Json | undefined): value is Json[] | { [name: string]: Json } {
  return typeof value === "object" && value !== null;
}
