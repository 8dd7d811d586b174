"""How fast a graph is captured, next to torchviz's `make_dot` in the same run.

    python benchmarks/capture_speed.py [--full]

Both walk `grad_fn`; `make_dot` builds Graphviz source, `capture` a networkx graph with shapes, dtypes
and argument names. Times are CPU milliseconds; the ratio is the median of the ratios of paired runs.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable

import torch
from programs import chain, mlp, resnet, transformer, unrolled
from torchviz import make_dot

from gradwalk import capture

BESIDE = {
    "MLP": mlp,
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


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    gc.collect()
    start = time.process_time()
    result = work()
    elapsed = time.process_time() - start
    del result
    return elapsed * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 21 if parser.parse_args().full else 7
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"{rounds} rounds, medians\n"
    )
    print(f"{'graph':<24}{'nodes':>8}{'capture ms':>12}{'make_dot ms':>13}{'ratio':>8}")
    slowest = float("inf")
    for name, build in BESIDE.items():
        torch.manual_seed(0)
        loss = build()
        nodes = len(capture(loss))
        pairs = [
            (cpu_ms(lambda: capture(loss)), cpu_ms(lambda: make_dot(loss))) for _ in range(rounds)
        ]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        slowest = min(slowest, ratio)
        print(f"{name:<24}{nodes:>8,}{ours:>12.2f}{theirs:>13.2f}{ratio:>7.1f}x")
    for name, build in ALONE.items():
        loss = build()
        nodes = len(capture(loss))
        ours = statistics.median(cpu_ms(lambda: capture(loss)) for _ in range(3))
        print(f"{name:<24}{nodes:>8,}{ours:>12.1f}{'fails':>13}{'':>8}")
    print(f"\nAt least {slowest:.1f} times faster than make_dot wherever both finish.")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
