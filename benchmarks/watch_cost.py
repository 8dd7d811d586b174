"""What `watch` costs: the forward pass of transformers, with and without it, in the same run.

    python benchmarks/watch_cost.py [--full]

Plain and watched passes take turns, so that a busy machine slows both. Times are CPU milliseconds;
the ratio is the median over the pairs. The last rows are the worst case: operations on three
numbers, where there is nothing but overhead.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from gradwalk.tracing.watch import watch

Build = Callable[[], Tensor]


def transformer(layers: int, width: int, tokens: int, batch: int) -> Build:
    """The forward pass of a transformer encoder in training mode."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, layers)
    x = torch.randn(batch, tokens, width)

    def forward() -> Tensor:
        loss: Tensor = model(x).mean()
        return loss

    return forward


def chain(operations: int) -> Tensor:
    """Multiplications of three numbers, one after the other."""
    y = torch.ones(3, requires_grad=True)
    for _ in range(operations):
        y = y * 1.5
    return y


CASES: dict[str, Build] = {
    "transformer, 12 layers, 256 wide": transformer(12, 256, 64, 4),
    "transformer, 12 layers, 64 wide": transformer(12, 64, 16, 1),
    "chain, 1,000": lambda: chain(1_000),
}


def cpu_ms(build: Build, watched: bool) -> float:
    """CPU milliseconds of one forward pass."""
    start = time.process_time()
    with watch() if watched else nullcontext():
        build()
    return (time.process_time() - start) * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 61 if parser.parse_args().full else 21
    torch.set_num_threads(1)  # one thread's CPU time is its time
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"{rounds} rounds, medians\n"
    )
    print(f"{'forward pass':<36}{'plain ms':>10}{'watched ms':>12}{'ratio':>8}")
    for name, build in CASES.items():
        cpu_ms(build, watched=True)
        cpu_ms(build, watched=False)
        pairs = [(cpu_ms(build, watched=False), cpu_ms(build, watched=True)) for _ in range(rounds)]
        plain, watched = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(with_it / without for without, with_it in pairs)
        print(f"{name:<36}{plain:>10.2f}{watched:>12.2f}{ratio:>7.2f}x")


if __name__ == "__main__":
    main()
