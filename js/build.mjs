// Builds the widget's bundle; `--watch` rebuilds it, `--serve` serves the demo page on this machine only.
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { minify } from "@swc/core";
import esbuild from "esbuild";
import { packedModule } from "./packed_module.mjs";
import { STAND_INS } from "./stand_ins.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "src", "gradwalk", "assets");
/** Each widget's script and style sheet, together, as they travel into every page and every saved notebook. */
const MOST_BYTES = { widget: 256_000, comparison: 256_000 };

const shared = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  logLevel: "warning",
  alias: STAND_INS,
};
const bundle = {
  ...shared,
  entryPoints: Object.keys(MOST_BYTES).flatMap((name) => [
    { in: `${name}.ts`, out: name },
    { in: `styles/${name}.css`, out: name },
  ]),
  outdir: out,
  define: { "Number.POSITIVE_INFINITY": "Infinity", "Error.captureStackTrace": "undefined" },
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
};

/** The still picture, for an engine without a page; it never reaches a browser. */
const still = {
  ...shared,
  entryPoints: [{ in: "still.ts", out: "export" }],
  format: "iife",
  globalName: "gradwalk",
  outdir: out,
  minify: true,
  legalComments: "none",
};

/** A page of its own, without a notebook or a kernel. */
const page = {
  ...still,
  entryPoints: [{ in: "page/entry.ts", out: "page" }],
};

/** The same page with a program that it computes. */
const live = {
  ...still,
  entryPoints: [
    { in: "page/live.ts", out: "live" },
    { in: "styles/live.css", out: "live" },
  ],
};

const mode = process.argv[2];
if (mode === "--serve") {
  const context = await esbuild.context({
    ...shared,
    entryPoints: [
      { in: "demo/demo.ts", out: "demo" },
      { in: "styles/widget.css", out: "widget" },
    ],
    outdir: join(here, "demo", "build"),
    sourcemap: true,
  });
  const port = Number(process.env.PORT ?? 8017);
  const { hosts } = await context.serve({ servedir: join(here, "demo"), host: "127.0.0.1", port });
  console.log(`The demo is at http://${hosts[0]}:${port}/`);
} else if (mode === "--watch") {
  const context = await esbuild.context({ ...bundle, minify: false, sourcemap: "inline" });
  await context.watch();
  console.log(`Rebuilding ${out} at every change.`);
} else {
  await Promise.all([bundle, still, page, live].map((one) => esbuild.build(one)));
  for (const [name, most] of Object.entries(MOST_BYTES)) await finish(name, most);
}

/** Minifies a widget's script once more, packs it, and fails the build where it and its style sheet are too large. */
async function finish(name, most) {
  const [script, style] = [join(out, `${name}.js`), join(out, `${name}.css`)];
  // A second minifier finds 3 % that the first one leaves, and a little more in what it has left itself.
  let code = readFileSync(script, "utf8");
  for (let round = 0; round < 2; round++) code = await minified(code);
  const packed = packedModule(code);
  writeFileSync(script, packed);
  const css = statSync(style).size;
  const travels = Buffer.byteLength(packed) + css;
  const [all, unpacked] = [travels, Buffer.byteLength(code) + css].map((n) =>
    n.toLocaleString("en"),
  );
  console.log(
    `${name}: ${all} bytes of script and style sheet, ${unpacked} once the page has unpacked them`,
  );
  if (travels <= most) return;
  console.error(`${name} is larger than ${most.toLocaleString("en")} bytes.`);
  process.exitCode = 1;
}

async function minified(text) {
  const options = { module: true, mangle: true, compress: { ecma: 2022, passes: 6 } };
  return (await minify(text, options)).code;
}
