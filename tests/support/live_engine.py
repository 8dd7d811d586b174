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

_DRIVER = """
const { Program } = require(process.argv[2]);
const text = (value) => (Number.isFinite(value) ? value : String(value));
const jobs = JSON.parse(require("fs").readFileSync(0, "utf8"));
const found = jobs.map(({ model, settings, views }) => {
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
});
process.stdout.write(JSON.stringify(found));
"""


@functools.cache
def engine() -> Path:
    """Bundle the evaluator for Node; returns its file."""
    folder = Path(tempfile.mkdtemp(prefix="gradwalk-live-"))
    bundle = folder / "run.cjs"
    subprocess.run(
        [
            str(JS / "node_modules" / ".bin" / "esbuild"),
            str(JS / "features" / "live" / "run.ts"),
            "--bundle",
            "--platform=node",
            "--format=cjs",
            f"--outfile={bundle}",
            "--log-level=warning",
        ],
        check=True,
    )
    (folder / "driver.cjs").write_text(_DRIVER, encoding="utf-8")
    return bundle


def computed(jobs: Sequence[dict[str, Any]]) -> list[Any]:
    """Run programs with settings; see the driver for both formats."""
    bundle = engine()
    done = subprocess.run(
        ["node", str(bundle.with_name("driver.cjs")), str(bundle)],
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
