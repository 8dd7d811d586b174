import { fileURLToPath } from "node:url";
import { STAND_INS } from "./stand_ins.mjs";

const alias = Object.fromEntries(
  Object.entries(STAND_INS).map(([name, path]) => [
    name,
    fileURLToPath(new URL(path, import.meta.url)),
  ]),
);

export default {
  resolve: { alias },
  test: {
    // Files in one worker share their modules: to load them, and a page, anew for each takes longer than the tests.
    pool: "threads",
    isolate: false,
    setupFiles: ["testing/setup.ts"],
    // Against a test that never ends; how fast things are is measured by the benchmarks.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Style sheets are read as they are: the contrast of their colours is tested.
    css: true,
    // Only what vitest itself resolves can be aliased.
    server: { deps: { inline: [/d3-zoom/] } },
  },
};
