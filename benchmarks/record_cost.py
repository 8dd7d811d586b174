"""What recording costs, next to a plain `loss.backward()` and to torch's anomaly mode.

    python benchmarks/record_cost.py [--full]

The same graph runs backward in turn, in one process: plain, in anomaly mode (which looks for NaN
and so may be compared), watched by an open widget, recorded by a widget with values, and recorded
beyond its budget (statistics only). Every `.grad` is None before each. Times are wall-clock
milliseconds, medians; the ratios are medians over the rounds, to the plain backward of the round.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch
from measured_programs import resnet, transformer
from torch import Tensor

from gradwalk import GraphWidget

PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "transformer, 12 layers of 512, 32 x 10 tokens": lambda: transformer(12, 512, (32, 10)),
    "ResNet of 16 blocks of 64 to 512, 8 x 32 x 32": lambda: resnet(8, (8, 3, 32, 32)),
    "transformer, 12 layers of 16, 2 x 5 tokens": lambda: transformer(12),
    "ResNet of 16 blocks of 8 to 64, 2 x 8 x 8": resnet,
}


def ms(loss: Tensor, run: Callable[[], object]) -> float:
    """Milliseconds of one backward pass that starts without any ``.grad``."""
    for leaf in _leaves(loss):
        leaf.grad = None
    gc.collect()
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def _leaves(loss: Tensor) -> list[Tensor]:
    found: list[Tensor] = []
    waiting: list[Any] = [loss.grad_fn]
    seen = set(waiting)
    for node in waiting:
        if hasattr(node, "variable"):
            found.append(node.variable)
        new = {child for child, _ in node.next_functions if child is not None} - seen
        seen |= new
        waiting += new
    return found


def one_round(loss: Tensor) -> dict[str, float]:
    """One time of each way."""

    def plain() -> None:
        loss.backward(retain_graph=True)

    times = {"plain": ms(loss, plain)}
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        times["anomaly mode"] = ms(loss, plain)
    with closing(GraphWidget(loss, names={})):
        times["watched"] = ms(loss, plain)
    # A widget of its own: it would first have to free what the last pass kept.
    with closing(GraphWidget(loss, names={})) as widget:
        times["recorded"] = ms(loss, widget.backward)
    with closing(GraphWidget(loss, names={}, max_bytes=0)) as widget:
        times["statistics only"] = ms(loss, widget.backward)
    return times


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 15 if parser.parse_args().full else 5
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"{torch.get_num_threads()} threads, {rounds} rounds, medians\n"
    )
    print(f"{'graph':48}{'nodes':>6}{'plain ms':>10}  ratio to plain")
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        loss = program()
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            loss = program()  # anomaly mode also wants the forward pass's stack traces
        with closing(GraphWidget(loss, names={})) as widget:
            nodes = len(widget.graph["nodes"])
        one_round(loss)
        found = [one_round(loss) for _ in range(rounds)]
        plain = statistics.median(each["plain"] for each in found)
        ratios = ", ".join(
            f"{way} {statistics.median(each[way] / each['plain'] for each in found):.2f}"
            for way in found[0]
            if way != "plain"
        )
        print(f"{name:48}{nodes:6}{plain:10.1f}  {ratios}")


if __name__ == "__main__":
    main()
