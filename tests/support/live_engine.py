"""Run the evaluator of live pages in Node."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gradwalk.features.live.tape import Tape

JS = Path(__file__).parents[2] / "js"
ULPS = {torch.float32: 4.0, torch.float64: 4500.0}  # 1e-12 in double precision

ENTRY = """
import { CALLS } from "./calls";
import { LiveProgram } from "./live_program";
import { Program } from "./run";
import { effectOf } from "./what_if";

const text = (value) => (Number.isFinite(value) ? value : String(value));

/** The effects of edits, for each list of them. */
function effects({ model, graph, run, edits }) {
  const saved = { graph, run };
  const program = new LiveProgram(model, saved);
  return edits.map((list) => effectOf(program, saved, list));
}

/** What each call gives, and what it is given. */
function traced(model, setting) {
  const program = new Program(model);
  for (const [view, numbers] of setting) program.set(view, numbers.map(Number));
  const found = [];
  model.calls.forEach(({ name, outputs }, at) => {
    const call = CALLS[name];
    const seen = { inputs: {}, outputs: [] };
    const views = (value) =>
      value && typeof value === "object"
        ? typeof value.t === "number" ? [value.t] : Object.values(value).flatMap(views)
        : [];
    program.prepared[at].call = (args, given) => {
      for (const view of views(model.calls[at].args))
        seen.inputs[view] = program.read(view).map(text);
      call(args, given);
      seen.outputs = outputs.map((view) => (view === null ? null : program.read(view).map(text)));
    };
    found.push(seen);
  });
  program.run();
  return found;
}

function computed(job) {
  if (job.edits) return effects(job);
  const { model, settings, views } = job;
  if (views === null) return settings.map((setting) => traced(model, setting));
  const program = new Program(model);
  return settings.map((setting) => {
    for (const [view, numbers] of setting) program.set(view, numbers.map(Number));
    let broken = null;
    try {
      broken = program.run();
    } catch (error) {
      return { error: String(error.stack) };
    }
    const values = model.values.map((value) => program.value(value).map(text));
    return { broken, values, views: views.map((view) => program.read(view).map(text)) };
  });
}

globalThis.liveJobs = (jobs) => jobs.map(computed);
if (typeof process !== "undefined")
  process.stdout.write(JSON.stringify(liveJobs(JSON.parse(require("fs").readFileSync(0, "utf8")))));
"""


@functools.cache
def engine() -> Path:
    """Bundle the evaluator as one script, for Node and for a browser; returns its file."""
    bundle = Path(tempfile.mkdtemp(prefix="gradwalk-live-")) / "run.cjs"
    subprocess.run(
        [
            str(JS / "node_modules" / ".bin" / "esbuild"),
            "--bundle",
            "--format=iife",
            "--external:fs",
            "--loader=js",
            f"--outfile={bundle}",
            "--log-level=error",
        ],
        input=ENTRY,
        text=True,
        cwd=JS / "features" / "live",
        check=True,
    )
    return bundle


def computed(jobs: Sequence[dict[str, Any]]) -> list[Any]:
    """Run programs with settings, trace their calls, or edit their gradients; see ``ENTRY``."""
    done = subprocess.run(
        ["node", str(engine())],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads(done.stdout))


def taped_model(tape: Tape) -> dict[str, Any]:
    """Return the model of a tape without a graph."""
    return {
        "storages": [
            {"dtype": str(each.dtype)[6:], "size": each.size, "numbers": each.numbers}
            for each in tape.storages
        ],
        "views": [[v.storage, list(v.shape), list(v.strides), v.offset] for v in tape.views],
        "calls": [{"name": c.name, "args": c.arguments, "outputs": c.outputs} for c in tape.calls],
        "guards": [],
        "inputs": [],
        "values": [],
        "edges": [],
        "arrived": [],
        "note": None,
    }


def tensor_of(numbers: list[Any], like: torch.Tensor) -> torch.Tensor:
    """Return what the evaluator computed as a tensor."""
    given = [float(str(each).replace("Infinity", "inf")) for each in numbers]
    return torch.tensor(given, dtype=torch.float64).to(like.dtype).reshape(like.shape)


def off_by(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest error: in units of the last place of the largest number, at least."""
    if not expected.is_floating_point():
        return 0.0 if torch.equal(found, expected) else float("inf")
    same = (found == expected) | (found.isnan() & expected.isnan())
    if bool(same.all()):
        return 0.0
    if not bool((found.isfinite() | same).all()):
        return float("inf")
    unit = torch.finfo(expected.dtype).eps * expected.abs().clamp(min=1e-30)
    error = (found - expected).abs() / unit
    return float(error[~same].max())


SUMS = {"add", "avg_pool2d", "avg_pool2d_backward", "bmm", "convolution", "convolution_backward"}
SUMS |= {"cumsum", "index_add", "index_put", "mean", "mm", "scatter_add", "sub", "sum", "var"}
SUMS |= {"rsub", "prod", "cumprod"}


def is_right(found: torch.Tensor, expected: torch.Tensor, kinds: set[str]) -> bool:
    """Whether numbers are torch's: within 4 units, where sums cancel of the largest number."""
    most = ULPS.get(expected.dtype, 4.0)
    if off_by(found, expected) <= most:
        return True
    if not kinds & SUMS or not expected.is_floating_point():
        return False
    finite = expected[expected.isfinite()]
    both = (found == expected) | (found.isnan() & expected.isnan())
    size = float(finite.abs().max()) if finite.numel() else 0.0
    unit = torch.finfo(expected.dtype).eps * max(size, 1.0)
    return bool((both | ((found - expected).abs() <= 16 * unit)).all())
