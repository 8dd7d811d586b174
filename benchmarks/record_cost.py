"""What recording costs, next to a plain `loss.backward()` and to torch's anomaly mode.

    python benchmarks/record_cost.py [--full]

The same graph runs backward in turn, in one process: plain, in anomaly mode (which looks for NaN
and so may be compared), with an empty Python hook on every node (the least that anything written in
Python can cost), watched by an open widget, recorded by `record` (which also walks the graph and
installs its hooks), and watched beyond its budget (statistics only). Then a widget is made, all
that is sent of it is worked out, as when it is displayed, and beside them runs `capture` alone.
Every `.grad` is None before each. Times are CPU milliseconds of one thread, the least of all
rounds; the ratios are between those, to plain backward or to `capture`. What is shown of a pass is
worked out when somebody asks, after it: "then shown" is that.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch
from measured_programs import resnet, transformer
from torch import Tensor

from gradwalk import GraphWidget, capture, record

BESIDE = (
    "anomaly mode",
    "empty hook",
    "watched",
    "then shown",
    "record",
    "then steps",
    "statistics only",
)
"""What is compared with plain backward."""

BESIDE_CAPTURE = ("making a widget", "displaying it")
"""What is compared with `capture`."""

PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "transformer, 12 layers of 16, 2 x 5 tokens": lambda: transformer(12),
    "transformer, 12 layers of 256, 2 x 128 tokens": lambda: transformer(12, 256, (2, 128)),
    "transformer, 12 layers of 512, 32 x 10 tokens": lambda: transformer(12, 512, (32, 10)),
    "ResNet of 16 blocks of 8 to 64, 2 x 8 x 8": resnet,
    "ResNet of 16 blocks of 64 to 512, 8 x 32 x 32": lambda: resnet(8, (8, 3, 32, 32)),
}


def ms(loss: Tensor, run: Callable[[], object]) -> float:
    """Milliseconds of one backward pass that starts without any ``.grad``."""
    for leaf in _leaves(loss):
        leaf.grad = None
    gc.collect()
    start = time.thread_time()
    run()
    return (time.thread_time() - start) * 1e3


def _nodes(loss: Tensor) -> list[Any]:
    waiting: list[Any] = [loss.grad_fn]
    seen = set(waiting)
    for node in waiting:
        new = {child for child, _ in node.next_functions if child is not None} - seen
        seen |= new
        waiting += new
    return waiting


def _leaves(loss: Tensor) -> list[Tensor]:
    return [node.variable for node in _nodes(loss) if hasattr(node, "variable")]


def _empty(grad_inputs: object, grad_outputs: object) -> None:
    pass


def one_round(loss: Tensor) -> dict[str, float]:
    """One time of each way."""

    def plain() -> None:
        loss.backward(retain_graph=True)

    times = {"plain": ms(loss, plain)}
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        times["anomaly mode"] = ms(loss, plain)
    handles = [node.register_hook(_empty) for node in _nodes(loss)]
    times["empty hook"] = ms(loss, plain)
    for handle in handles:
        handle.remove()
    made: list[Any] = []
    times["making a widget"] = ms(loss, lambda: made.append(GraphWidget(loss, names={})))
    with closing(made.pop()) as widget:
        times["displaying it"] = _spent(widget.get_state)
        times["watched"] = ms(loss, plain)
        times["then shown"] = _spent(lambda: (widget.state, widget.run))
    times["capture"] = ms(loss, lambda: capture(loss))
    times["record"] = ms(loss, lambda: made.append(record(loss)))
    times["then steps"] = _spent(lambda: made.pop().steps)
    with closing(GraphWidget(loss, names={}, max_bytes=0)):
        times["statistics only"] = ms(loss, plain)
    return times


def _spent(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 15 if parser.parse_args().full else 5
    torch.set_num_threads(1)  # one thread's CPU time is its time
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"one thread, least of {rounds} rounds\n"
    )
    columns = [*BESIDE, *(f"{way} ÷ capture" for way in BESIDE_CAPTURE)]
    print("| graph | nodes | plain ms | " + " | ".join(columns) + " |")
    print("|---|---:|---:|" + "---:|" * len(columns))
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        loss = program()
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            loss = program()  # anomaly mode also wants the forward pass's stack traces
        one_round(loss)
        found = [one_round(loss) for _ in range(rounds)]
        least = {way: min(each[way] for each in found) for way in found[0]}
        cells = [f"{least[way] / least['plain']:.2f}" for way in BESIDE]
        cells += [f"{least[way] / least['capture']:.1f}" for way in BESIDE_CAPTURE]
        print(
            f"| {name} | {len(_nodes(loss))} | {least['plain']:.1f} | {' | '.join(cells)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
