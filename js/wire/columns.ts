import { gunzipSync } from "fflate";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A packed model: the bytes of `gradwalk.schema.columns`, their columns, or plain. */
export type Travelled<T> = ArrayBufferView | { columns: Json } | T;

/** Unpack a model. */
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
  if (!isNested(value) || Array.isArray(value)) return inRecords(value, []);
  const { "": once, ...rest } = value;
  if (!Array.isArray(once) || Object.keys(rest).length === 0) return inRecords(value, []);
  const shared: unknown[] = [];
  for (const each of once) shared.push(inRecords(each, shared));
  return inRecords(rest, shared);
}

/** A value in which `{"": 3}` stands for the fourth of the `shared` values, and a text for float32. */
function inRecords(value: Json, shared: unknown[]): unknown {
  if (!isNested(value)) return value;
  const inner = (each: Json) => inRecords(each, shared);
  if (Array.isArray(value)) return value.some(isNested) ? value.map(inner) : value;
  const table = value[""];
  if (typeof table === "number") return shared[table];
  if (Array.isArray(table)) return table.map((place) => shared[place as number]);
  if (typeof table === "string") return table.split(" ").map((text) => Math.fround(Number(text)));
  if (isNested(table)) return records(table, shared);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, inner(each)]));
}

/** One record per row. A first column that counts up is stored as its first number. */
function records(table: { [name: string]: Json }, shared: unknown[]): object[] {
  const names = Object.keys(table);
  const columns = names.map((name) => column(table[name], shared));
  const { length } = columns[columns.length - 1];
  const [first] = Object.values(table);
  if (typeof first === "number") columns[0] = Array.from({ length }, (_, row) => first + row);
  // Copying one record is faster than adding its fields one by one.
  const blank: Record<string, unknown> = Object.fromEntries(names.map((name) => [name, null]));
  return Array.from({ length }, (_, row) => {
    const record = { ...blank };
    for (let place = 0; place < names.length; place++) record[names[place]] = columns[place][row];
    return record;
  });
}

/** The values of a column; integers may be stored as the first one and differences. */
function column(stored: Json, shared: unknown[]): unknown[] {
  const changes = isNested(stored) && !Array.isArray(stored) ? stored["+"] : undefined;
  if (!Array.isArray(changes)) return inRecords(stored, shared) as unknown[];
  let sum = 0;
  return changes.map((change) => {
    sum += change as number;
    return sum;
  });
}

function isNested(value: Json | undefined): value is Json[] | { [name: string]: Json } {
  return typeof value === "object" && value !== null;
}
