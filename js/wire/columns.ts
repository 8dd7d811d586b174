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
  if (!isNested(value)) return value;
  if (Array.isArray(value)) return value.some(isNested) ? value.map(withRecords) : value;
  const table = value[""];
  if (isNested(table)) return records(table as { [name: string]: Json });
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withRecords(each)]));
}

/** One record per row. A first column that counts up is stored as its first number. */
function records(table: { [name: string]: Json }): object[] {
  const names = Object.keys(table);
  const columns = names.map((name) => column(table[name]));
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
function column(stored: Json): unknown[] {
  const changes = isNested(stored) && !Array.isArray(stored) ? stored["+"] : undefined;
  if (!Array.isArray(changes)) return withRecords(stored) as unknown[];
  let sum = 0;
  return changes.map((change) => {
    sum += change as number;
    return sum;
  });
}

function isNested(value: Json | undefined): value is Json[] | { [name: string]: Json } {
  return typeof value === "object" && value !== null;
}
