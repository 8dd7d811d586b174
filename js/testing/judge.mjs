// Draws saved graphs as `to_svg` does, and counts: `node testing/judge.mjs FOLDER OUT [WIDTH ...]`.
//
// FOLDER has files `{"graph": ..., "options": ...}`, the arguments of the export. OUT gets every picture as a file and
// `counts.json`: per picture its hash, the layouts, the searched orders and the milliseconds. To compare two states, run
// both: `node testing/judge.mjs compare OUT1 OUT2`.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runInThisContext } from "node:vm";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const here = dirname(fileURLToPath(import.meta.url));
/** The functions to count calls of, by file. */
const COUNTED = { "layout/index.ts": "layout", "layout/order.ts": "searched" };
/** A picture that takes longer is given up, ms. */
const MOST_MS = 60_000;

async function builtExport(to) {
  const { default: esbuild } = await import("esbuild");
  const { STAND_INS } = await import("../stand_ins.mjs");
  const counting = {
    name: "counting",
    setup: (build) =>
      build.onLoad({ filter: /layout\/(index|order)\.ts$/ }, ({ path }) => {
        const name = COUNTED[path.split("/").slice(-2).join("/")];
        const text = readFileSync(path, "utf8");
        const start = text.indexOf(`function ${name}(`);
        const body = /\)[^{)]*\{\n/g;
        body.lastIndex = start;
        const { index, 0: found } = body.exec(text);
        const at = index + found.length;
        const count = `globalThis.counts.${name}++;\n`;
        return { contents: text.slice(0, at) + count + text.slice(at), loader: "ts" };
      }),
  };
  await esbuild.build({
    absWorkingDir: join(here, ".."),
    entryPoints: ["still.ts"],
    bundle: true,
    format: "iife",
    globalName: "gradwalk",
    target: "es2022",
    alias: STAND_INS,
    outfile: to,
    plugins: [counting],
  });
}

/** In a worker: draw what is asked for. */
function serve() {
  const text = readFileSync(workerData, "utf8");
  parentPort.on("message", ({ graph, options }) => {
    // Nothing is known from the picture before.
    runInThisContext(text);
    globalThis.counts = { layout: 0, searched: 0 };
    const start = performance.now();
    const drawn = globalThis.gradwalk.svg(graph, options);
    const ms = Math.round(performance.now() - start);
    parentPort.postMessage({ ...drawn, ...globalThis.counts, ms });
  });
}

async function judged(folder, out, widths) {
  mkdirSync(out, { recursive: true });
  const bundle = join(out, "export.js");
  await builtExport(bundle);
  const counts = {};
  let worker = new Worker(fileURLToPath(import.meta.url), { workerData: bundle });
  const drawn = (order) =>
    new Promise((resolve) => {
      const timer = setTimeout(async () => {
        await worker.terminate();
        worker = new Worker(fileURLToPath(import.meta.url), { workerData: bundle });
        resolve({ fault: "too slow" });
      }, MOST_MS);
      worker.once("message", (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
      worker.postMessage(order);
    });
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")))
    for (const width of widths) {
      const { graph, options } = JSON.parse(readFileSync(join(folder, file), "utf8"));
      const { svg = "", ...rest } = await drawn({ graph, options: { ...options, width } });
      const name = `${basename(file, ".json")}_${width}`;
      const hash = createHash("sha1").update(svg).digest("hex").slice(0, 10);
      counts[name] = { nodes: graph.nodes.length, hash, ...rest };
      writeFileSync(join(out, `${name}.svg`), svg);
    }
  writeFileSync(join(out, "counts.json"), JSON.stringify(counts, null, 1));
  await worker.terminate();
  report(counts);
}

function report(counts) {
  const all = Object.entries(counts).sort(([, a], [, b]) => (b.ms ?? 1e6) - (a.ms ?? 1e6));
  for (const [name, { nodes, layout, searched, ms, fault }] of all.slice(0, 15))
    console.log(name, nodes, "nodes,", fault ?? `${layout} layouts, ${searched} orders, ${ms} ms`);
  const sum = (key) => all.reduce((total, [, one]) => total + (one[key] ?? 0), 0);
  const most = (key) => Math.max(...all.map(([, one]) => one[key] ?? 0));
  console.log(
    `${all.length} pictures: ${sum("layout")} layouts (at most ${most("layout")}),`,
    `${sum("searched")} orders (at most ${most("searched")}), ${sum("ms")} ms`,
  );
}

function compare(before, after) {
  const [a, b] = [before, after].map((out) =>
    JSON.parse(readFileSync(join(out, "counts.json"), "utf8")),
  );
  const changed = Object.keys(a).filter((name) => b[name] && a[name].hash !== b[name].hash);
  console.log(`${changed.length} of ${Object.keys(a).length} pictures changed:`, ...changed);
  report(a);
  report(b);
}

if (!isMainThread) serve();
else if (process.argv[2] === "compare") compare(...process.argv.slice(3));
else {
  const [folder, out, ...widths] = process.argv.slice(2);
  await judged(folder, out, widths.length > 0 ? widths.map(Number) : [1200, 700]);
}
