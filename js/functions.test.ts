import { expect, it } from "vitest";

const MOST_LINES = 80;

/** The text of every product file by its path. */
const FILES = Object.entries(
  import.meta.glob<string>(["./**/*.ts", "!./**/*.test.ts", "!./node_modules/**"], {
    query: "?raw",
    import: "default",
    eager: true,
  }),
);

/** The start of a block that is not a function: types, classes and tables. */
const OTHER = /^(export )?(default )?(abstract )?(class|interface|type|enum)\b|[=(:[,]\s*\{$/;

/** The functions with more lines: file, first line and length. Relies on the formatter's indentation. */
function longFunctions([path, text]: [string, string]): string[] {
  const lines = text.split("\n");
  const indentOf = (line: string) => line.length - line.trimStart().length;
  const open: { line: number; indent: number }[] = [];
  return lines.flatMap((line, i) => {
    const indent = indentOf(line);
    const last = open.at(-1);
    if (last?.indent === indent && line.trimStart().startsWith("}")) {
      const { line: first } = open.pop() as { line: number };
      const header = lines[first].trim();
      if (i - first >= MOST_LINES && !OTHER.test(header))
        return [`${path.slice(2)}:${first + 1} has ${i - first + 1} lines`];
    }
    if (!line.endsWith("{")) return [];
    // A signature over several lines starts at the last line with its end's indentation.
    let first = i;
    if (line.trimStart().startsWith(")"))
      for (first = i - 1; indentOf(lines[first]) > indent; ) first--;
    open.push({ line: first, indent });
    return [];
  });
}

it(`no function has more than ${MOST_LINES} lines`, () => {
  expect(FILES.flatMap(longFunctions)).toEqual([]);
});

it("a long function is found, whatever its signature", () => {
  const body = Array.from({ length: MOST_LINES }, () => "  step();").join("\n");
  const long = [
    `function one() {\n${body}\n}\n`,
    `export function one(\n  a: number,\n): void {\n${body}\n}\n`,
    `const one = () => {\n${body}\n};\n`,
  ];
  for (const text of long) expect(longFunctions(["./a.ts", text])).toHaveLength(1);
  expect(longFunctions(["./a.ts", `class One {\n${body}\n}\n`])).toEqual([]);
});
