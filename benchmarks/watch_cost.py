"""What `watch` costs: forward passes with and without it, in the same run.

    python benchmarks/watch_cost.py [--full]

Plain and watched passes take turns, so that a busy machine slows both. Times are CPU milliseconds,
the minimum of all passes; the ratio divides the minima. The last column is the median of the pairs.
The last row is the worst case: operations on three numbers, where there is nothing but overhead.
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


def transformer(layers: int, width: int, tokens: int, batch: int, dropout: float = 0.1) -> Build:
    """The forward pass of a transformer encoder in training mode."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout, batch_first=True)
    model = nn.TransformerEncoder(layer, layers)
    x = torch.randn(batch, tokens, width)

    def forward() -> Tensor:
        loss: Tensor = model(x).mean()
        return loss

    return forward


def layers(number: int, width: int, batch: int) -> Build:
    """The forward pass of linear layers, each with a ReLU: 3 nodes for each, and one."""
    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(number)]
    model = nn.Sequential(*[layer for block in blocks for layer in block])
    x = torch.randn(batch, width)

    def forward() -> Tensor:
        loss: Tensor = model(x).sum()
        return loss

    return forward


def unrolled_cell(steps: int) -> Build:
    """The forward pass of an LSTM cell, step by step."""
    cell = nn.LSTMCell(32, 64)
    x = torch.ones(8, 32)

    def forward() -> Tensor:
        h = c = torch.zeros(8, 64)
        for _ in range(steps):
            h, c = cell(x, (h, c))
        return h.sum()

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
    "transformer, 4 layers, 128 wide": transformer(4, 128, 32, 4, 0.0),
    "LSTM cell, 50 steps": unrolled_cell(50),
    "linear and ReLU, 20 layers, 64 wide": layers(20, 64, 16),
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
        f"{rounds} rounds\n"
    )
    print(f"{'forward pass':<38}{'plain ms':>10}{'watched ms':>12}{'ratio':>8}{'median':>8}")
    for name, build in CASES.items():
        cpu_ms(build, watched=True)
        cpu_ms(build, watched=False)
        pairs = [(cpu_ms(build, watched=False), cpu_ms(build, watched=True)) for _ in range(rounds)]
        plain, watched = map(min, zip(*pairs, strict=True))
        median = statistics.median(with_it / without for without, with_it in pairs)
        print(f"{name:<38}{plain:>10.2f}{watched:>12.2f}{watched / plain:>7.2f}x{median:>7.2f}x")


if __name__ == "__main__":
    main()
