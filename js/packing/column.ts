/** Beyond so many rows a count is taken for damage, rather than the memory filled. */
const MOST_ROWS = 1e7;

/** Throws the sentence that says which part of what Python packed does not fit the rest. */
export function damaged(name: string): never {
  throw new Error(
    `What Python sent is damaged, at its "${name}". Run the cell again to make a new widget.`,
  );
}

/** The rows of a column: a run of the same is packed as [row, how often]. Rows are integers, if no other test is given. */
export function unpackColumn<T = number>(
  packed: unknown,
  name: string,
  isRow: (row: unknown) => boolean = Number.isInteger,
): T[] {
  const rows: T[] = [];
  eachPart(packed, name, isRow, (row, often) => {
    const end = rows.length + (often ?? 1);
    if (!(end <= MOST_ROWS)) return false;
    while (rows.length < end) rows.push(row as T);
    return true;
  });
  return rows;
}

/** The numbers in ranges: those that follow each other are packed as [first, last]. */
export function unpackRanges(packed: unknown, name: string): number[] {
  const numbers: number[] = [];
  eachPart(packed, name, Number.isInteger, (first, last) => {
    const from = first as number;
    const to = last ?? from;
    if (!(numbers.length + to - from < MOST_ROWS)) return false;
    for (let number = from; number <= to; number++) numbers.push(number);
    return true;
  });
  return numbers;
}

/** Numbers of which only the differences to the number before were packed. */
export function summed(differences: readonly number[]): number[] {
  let sum = 0;
  return differences.map((difference) => {
    sum += difference;
    return sum;
  });
}

/** The entries of a table at some places; they are records, if no other test is given. */
export function entriesAt<T>(
  table: unknown,
  places: readonly number[],
  name: string,
  isEntry: (entry: unknown) => boolean = (entry) => typeof entry === "object" && entry !== null,
): T[] {
  if (!Array.isArray(table)) damaged(name);
  return places.map((place) => (isEntry(table[place]) ? table[place] : damaged(name)));
}

/** Whether an entry is a text, or stands for none. */
export function isText(entry: unknown): boolean {
  return entry === null || typeof entry === "string";
}

/** Takes the parts of a packed list: a row, and of a pair the integer that comes with it. */
function eachPart(
  packed: unknown,
  name: string,
  isRow: (row: unknown) => boolean,
  take: (row: unknown, second?: number) => boolean,
): void {
  if (!Array.isArray(packed)) damaged(name);
  for (const part of packed) {
    const pair = Array.isArray(part);
    const row = pair ? part[0] : part;
    if (!isRow(row) || !(pair ? Number.isInteger(part[1]) && take(row, part[1]) : take(row))) {
      damaged(name);
    }
  }
}
