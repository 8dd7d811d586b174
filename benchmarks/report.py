"""Run every benchmark and write the results down.

    python benchmarks/report.py [--full]

A full run writes `results.md`, which is part of the repository; a quick one writes a file of that
name to `.cache`. Both say what they ran on: the processor and the versions of everything.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import torch
from layout_tools import CACHE, dot_version, peer_version

HERE = Path(__file__).parent
QUESTIONS = (
    ("Layout, beside its peers", "layout_speed.py"),
    ("Capturing a graph, beside torchviz", "capture_speed.py"),
    ("From a graph to the browser", "wire_size.py"),
    ("Moving a large graph in Chromium", "frames.py"),
    ("Cost of a move of a slider", "drag.py"),
    ("Cost of a drag on a live page", "live_drag.py"),
    ("Cost of recording a backward pass", "record_cost.py"),
    ("Cost of watching a forward pass", "watch_cost.py"),
    ("How well measured times agree with the profiler", "measured_times.py"),
    ("Cost of saving a recorded pass", "save_cost.py"),
)


def processor() -> str:
    """The processor's name, "AMD EPYC"."""
    for line in (
        Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    ):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """Machine and versions that the numbers depend on, in two lines."""
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    peers = ", ".join(f"{p} {peer_version(p)}" for p in ("d3-dag", "@dagrejs/dagre", "elkjs"))
    return (
        f"{date.today():%B %Y}, {processor()}, {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"Node {node.stdout.strip()[1:]}; "
        f"Graphviz {dot_version()}, {peers}."
    )


def run(script: str, full: bool) -> str:
    """Return the output of a benchmark; it is also shown while it runs."""
    command = [sys.executable, str(HERE / script), *(["--full"] if full else [])]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(f"{script} ended with an error, so the results were not written.")
    text = "".join(line for line in lines if not line.startswith("<!--")).strip()
    return text if "\n| " in text else f"```\n{text}\n```"


def main() -> None:
    """Run all, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all sizes; writes results.md")
    full = parser.parse_args().full
    start = time.monotonic()
    parts = [f"# Results\n\nWritten by `make bench{' FULL=1' if full else ''}`: {machine()}"]
    parts += [f"## {question}\n\n{run(script, full)}" for question, script in QUESTIONS]
    path = HERE / "results.md" if full else CACHE / "results.md"
    path.write_text("\n\n".join(parts) + "\n")
    minutes = (time.monotonic() - start) / 60
    print(f"\nWritten to {path.relative_to(HERE.parent)} after {minutes:.0f} minutes.")


if __name__ == "__main__":
    main()
