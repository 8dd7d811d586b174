"""How fast a graph is captured, next to torchviz's `make_dot` in the same run.

    python benchmarks/capture_speed.py [--full]

Both walk `grad_fn`; `make_dot` builds Graphviz source without shapes, or with what the nodes saved
(`show_attrs=True`); `capture` builds a networkx graph with shapes, dtypes and argument names. Times
are CPU milliseconds; the ratio is the median over paired runs.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from measured_programs import chain, lenet, mlp, resnet, transformer, unrolled
from torchviz import make_dot

from gradwalk import capture

BESIDE = {
    "MLP": mlp,
    "LeNet": lenet,
    "ResNet, 16 blocks": resnet,
    "transformer, 2 layers": lambda: transformer(2),
    "transformer, 12 layers": lambda: transformer(12),
    "RNN, 50 steps": lambda: unrolled(50),
    "chain, 300": lambda: chain(300),
}
ALONE = {
    "chain, 10,000": lambda: chain(10_000),
    "RNN, 1,000 steps": lambda: unrolled(1_000),
    "chain, 100,000": lambda: chain(100_000),
}


def cpu_ms(work: Callable[[], object], at_least: float = 0.05) -> float:
    """CPU milliseconds of one call, averaged over as many calls as fill ``at_least`` seconds."""
    gc.collect()
    calls, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < at_least or not calls:
        work()
        calls += 1
    return elapsed / calls * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 21 if parser.parse_args().full else 7
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"{rounds} rounds, medians\n"
    )
    print(
        f"{'graph':<24}{'nodes':>8}{'capture ms':>12}{'make_dot ms':>13}{'ratio':>8}"
        f"{'with attributes':>17}{'ratio':>8}"
    )
    for name, build in BESIDE.items():
        torch.manual_seed(0)
        loss = build()  # type: ignore[no-untyped-call]
        works = (
            partial(capture, loss),
            partial(make_dot, loss),
            partial(make_dot, loss, show_attrs=True),
        )
        times = [[cpu_ms(work) for work in works] for _ in range(rounds)]
        ours, plain, attributes = (statistics.median(column) for column in zip(*times, strict=True))
        ratios = [statistics.median(row[peer] / row[0] for row in times) for peer in (1, 2)]
        print(
            f"{name:<24}{len(capture(loss)):>8,}{ours:>12.2f}{plain:>13.2f}{ratios[0]:>7.1f}x"
            f"{attributes:>17.2f}{ratios[1]:>7.1f}x"
        )
    for name, build in ALONE.items():
        loss = build()
        ours = statistics.median(cpu_ms(partial(capture, loss)) for _ in range(3))
        print(f"{name:<24}{len(capture(loss)):>8,}{ours:>12.2f}{'RecursionError':>17}")


if __name__ == "__main__":
    main()
