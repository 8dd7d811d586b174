/**
 * Lays out and judges on request, so that a tool that hangs or crashes takes only this process with it.
 *
 *   node worker.mjs TOOL      one JSON request per line of input, one JSON answer per line of output
 */
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { type Drawn, judge } from "../../js/testing/drawn";
import { dotSource, readDot } from "./dot";
import { type Prepared, prepare } from "./prepare";
import { type Job, type Placed, TOOLS } from "./tools";

type Request =
  /** Reads a graph and makes it ready for the tool; with `dot`, also writes it there for Graphviz. */
  | { do: "load"; path: string; dot?: string }
  /** CPU milliseconds of one layout, averaged over as many as fill `fill` milliseconds. */
  | { do: "lay"; fill: number }
  /** Judges the last layout, or the one that Graphviz wrote to `dot`. */
  | { do: "judge"; dot?: string };

const tool = TOOLS[process.argv[2]];
let graph: Prepared;
let job: Job | null = null;

async function answer(request: Request): Promise<object> {
  if (request.do === "load") {
    graph = prepare(JSON.parse(readFileSync(request.path, "utf8")));
    if (request.dot !== undefined) writeFileSync(request.dot, dotSource(graph));
    job = tool ? tool(graph) : null;
    return {};
  }
  if (request.do === "lay") return { ms: await layAgain(request.fill) };
  const placed =
    request.dot === undefined ? ready().read() : readDot(readFileSync(request.dot, "utf8"), graph);
  return { nodes: graph.n, ...judge(drawn(placed)) };
}

function ready(): Job {
  if (job === null) throw new Error("Nothing is laid out yet: load a graph and lay it out first.");
  return job;
}

async function layAgain(fill: number): Promise<number> {
  const { fresh, run } = ready();
  let spent = 0;
  for (let runs = 1; ; runs++) {
    fresh?.();
    const start = process.cpuUsage();
    await run();
    const { user, system } = process.cpuUsage(start);
    spent += (user + system) / 1000;
    if (spent >= fill) return spent / runs;
  }
}

function drawn(placed: Placed): Drawn {
  return { ...placed, ...graph, points: placed.points, start: placed.start };
}

for await (const line of createInterface({ input: process.stdin })) {
  let reply: object;
  try {
    reply = await answer(JSON.parse(line));
  } catch (error) {
    reply = { fault: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
