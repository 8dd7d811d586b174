"""Cost of saving a recorded pass, next to that pass and to making the widget.

    python benchmarks/save_cost.py [--full]

Every node's details are saved at every cursor at which they change, so this is the cost of looking
at everything. Times are CPU milliseconds of one thread, the least of all rounds; the passes take
turns in one process. Bytes are the size of the saved file.
"""

from __future__ import annotations

import argparse
import gc
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch
from measured_programs import mixer, resnet, resnet18, transformer
from torch import Tensor

from gradwalk import GraphWidget, save

PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "ResNet-18, 2 x 64 x 64": resnet18,
    "ResNet of 16 blocks of 8 to 64, 2 x 8 x 8": resnet,
    "MLP-Mixer, 12 blocks of 256, 2 x 64 x 64": mixer,
    "transformer, 4 layers of 16, 2 x 5 tokens": lambda: transformer(4),
}


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    gc.collect()
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 9 if parser.parse_args().full else 3
    torch.set_num_threads(1)  # one thread's CPU time is its time
    warnings.filterwarnings("ignore", "save\\(\\) has replaced")
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"one thread, least of {rounds} rounds\n"
    )
    print("| graph | nodes | backward ms | save ms | to_html ms | save ÷ backward | file, KB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    path = Path(tempfile.mkdtemp()) / "run.gw"
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        with closing(GraphWidget(program(), names={})) as widget:
            ways = {
                "backward": widget.backward,
                "save": lambda widget=widget: save(widget, path),
                "to_html": widget.to_html,
            }
            found = [{way: cpu_ms(work) for way, work in ways.items()} for _ in range(rounds)]
            least = {way: min(each[way] for each in found) for way in ways}
            print(
                f"| {name} | {len(widget.model['nodes'])} | "
                + " | ".join(f"{least[way]:.0f}" for way in ways)
                + f" | {least['save'] / least['backward']:.1f} "
                f"| {path.stat().st_size / 1e3:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
