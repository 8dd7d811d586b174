import { describe, expect, it } from "vitest";

/** The folders, lowest first. Each imports only from itself and from those before it. */
const ROOMS = [
  "maps",
  "wire",
  "hosts",
  "dom",
  "text",
  "theme",
  "layout",
  "channel",
  "steps",
  "scene",
  "place",
  "fold",
  "arrange",
  "worker",
  "paint",
  "interact",
  "colours",
  "export",
  "controls",
  "panel",
  "compare",
  "view",
  "features",
  "page",
  "still",
  "widget",
  "comparison",
] as const;

/**
 * The text of every product file by its path, "layout/rank.ts"; tests, their tools and the demo may import anything.
 */
const FILES = new Map(
  Object.entries(
    import.meta.glob<string>(
      ["./**/*.ts", "!./**/*.test.ts", "!./testing/**", "!./demo/**", "!./node_modules/**"],
      { query: "?raw", import: "default", eager: true },
    ),
  ).map(([path, text]) => [path.slice(2), text]),
);

/** All imports and re-exports, of values and types. */
const IMPORT = /\b(?:from|import)\s*\(?\s*"(\.[^"]+)"/g;

/** Per file, its imported product files. */
const IMPORTS = new Map(
  Array.from(FILES, ([path, text]) => [
    path,
    Array.from(text.matchAll(IMPORT), ([, to]) => fileAt(path, to)),
  ]),
);

function fileAt(from: string, to: string): string {
  const path = new URL(to, `file:///${from}`).pathname.slice(1);
  const found = [`${path}.ts`, `${path}/index.ts`].find((one) => FILES.has(one));
  if (!found) throw new Error(`${from} imports ${to}, which is not a file of the product.`);
  return found;
}

/** The top folder, or the file's own name: "layout", "view". */
function roomOf(path: string): string {
  return path.split("/")[0].replace(/\.ts$/, "");
}

/** Each import cycle once, as its files. */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const number = new Map<string, number>();
  const low = new Map<string, number>();
  const open: string[] = [];
  const found: string[][] = [];
  function visit(file: string): void {
    const mine = number.size;
    number.set(file, mine);
    low.set(file, mine);
    open.push(file);
    for (const next of imports.get(file) ?? []) {
      if (!number.has(next)) visit(next);
      if (open.includes(next)) low.set(file, Math.min(low.get(file) ?? 0, low.get(next) ?? 0));
    }
    if (low.get(file) !== mine) return;
    const circle = open.splice(open.indexOf(file));
    if (circle.length > 1 || imports.get(file)?.includes(file)) found.push(circle.sort());
  }
  for (const file of imports.keys()) if (!number.has(file)) visit(file);
  return found;
}

describe("the rooms", () => {
  it("are all there are", () => {
    expect([...new Set(Array.from(FILES.keys(), roomOf))].sort()).toEqual([...ROOMS].sort());
  });

  it("import downwards only", () => {
    const order: readonly string[] = ROOMS;
    const upward = Array.from(IMPORTS).flatMap(([from, all]) =>
      all
        .filter((to) => order.indexOf(roomOf(to)) > order.indexOf(roomOf(from)))
        .map((to) => `${from} imports ${to}`),
    );
    expect(upward).toEqual([]);
  });
});

describe("features", () => {
  /** The files that put a widget, a page or a picture together. */
  const ENTRIES = new Set([
    "widget.ts",
    "comparison.ts",
    "still.ts",
    "page/entry.ts",
    "page/live.ts",
  ]);
  const roomOfFeature = (path: string) => path.split("/").slice(0, 2).join("/");
  const plugged = (path: string) => path.startsWith("features/") && path.split("/").length > 2;

  it("are imported by no file of the core", () => {
    const core = Array.from(IMPORTS).flatMap(([from, all]) =>
      from.startsWith("features/") || ENTRIES.has(from)
        ? []
        : all.filter((to) => to.startsWith("features/")).map((to) => `${from} imports ${to}`),
    );
    expect(core).toEqual([]);
  });

  it("do not import each other", () => {
    const across = Array.from(IMPORTS).flatMap(([from, all]) =>
      all
        .filter((to) => plugged(from) && plugged(to) && roomOfFeature(from) !== roomOfFeature(to))
        .map((to) => `${from} imports ${to}`),
    );
    expect(across).toEqual([]);
  });
});

describe("imports", () => {
  it("have no cycle", () => {
    expect(circles(IMPORTS)).toEqual([]);
  });

  it("would show a cycle", () => {
    const given = new Map([
      ["a", ["b"]],
      ["b", ["c", "d"]],
      ["c", ["a"]],
      ["d", []],
      ["e", ["e", "a"]],
    ]);
    expect(circles(given)).toEqual([["a", "b", "c"], ["e"]]);
  });
});
