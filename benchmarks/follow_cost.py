"""What `follow` costs a step after the first look, beside a histogram of each gradient.

    python benchmarks/follow_cost.py [--full]

Plain, followed and histogram runs take turns in the same process. Times are CPU milliseconds of one
step, each the least of the rounds; the ratio is that of their medians. A histogram of every
gradient, read at each step, is what experiment trackers write. The last weights must be equal.
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
from torch.nn import functional

from gradwalk import follow

Made = tuple[nn.Module, Callable[[], Tensor]]

WARM_UP, STEPS = 4, 20


def transformer() -> Made:
    """A transformer of 6 layers of 128."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
    body, head = nn.TransformerEncoder(layer, 6), nn.Linear(128, 100)
    x, y = torch.randn(8, 32, 128), torch.randint(0, 100, (256,))
    net = nn.ModuleList([body, head])
    return net, lambda: functional.cross_entropy(head(body(x)).flatten(0, 1), y)


def lstm() -> Made:
    """An LSTM of 2 layers of 128."""
    body, head = nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, 50)
    x, y = torch.randn(16, 32, 64), torch.randint(0, 50, (16,))
    return nn.ModuleList([body, head]), lambda: functional.cross_entropy(head(body(x)[0][:, -1]), y)


def perceptron() -> Made:
    """Eight layers of 64, whose step takes about 1 ms."""
    net = nn.Sequential(*(each for _ in range(8) for each in (nn.Linear(64, 64), nn.ReLU())))
    x = torch.randn(32, 64)

    def loss() -> Tensor:
        found: Tensor = net(x).square().mean()
        return found

    return net, loss


CASES = {
    "transformer, 6 layers of 128": transformer,
    "LSTM, 2 layers of 128": lstm,
    "8 layers of 64": perceptron,
}
MODES = ("plain", "follow", "histograms")


def times(make: Callable[[], Made], mode: str) -> tuple[list[float], Tensor]:
    """Train for some steps; return the CPU milliseconds of each, and the last weights."""
    torch.manual_seed(0)
    net, loss = make()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    rows: list[list[float]] = []
    if mode == "histograms":
        for parameter in net.parameters():
            parameter.register_hook(
                lambda grad: rows.append(torch.histc(grad.detach().flatten(), 64).tolist())
            )
    found = []
    with follow(net, optimizer) if mode == "follow" else nullcontext():
        for _ in range(WARM_UP + STEPS):
            start = time.process_time()
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            found.append((time.process_time() - start) * 1e3)
    weights = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    return found[WARM_UP:], weights


def measure(rounds: int) -> None:
    """Print a table."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {rounds} rounds\n")
    print("| program | plain, ms | follow | histograms | weights equal |\n|---|---|---|---|---|")
    for name, make in CASES.items():
        every: dict[str, list[list[float]]] = {mode: [] for mode in MODES}
        weights: dict[str, Tensor] = {}
        for _ in range(rounds):
            for mode in MODES:
                found, weights[mode] = times(make, mode)
                every[mode].append(found)
        least = {m: statistics.median(map(min, zip(*every[m], strict=True))) for m in MODES}
        plain = least["plain"]
        ratios = " | ".join(f"{least[mode] / plain:.2f}" for mode in MODES[1:])
        equal = all(torch.equal(weights["plain"], each) for each in weights.values())
        print(f"| {name} | {plain:.2f} | {ratios} | {'yes' if equal else 'no'} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what follow() costs.")
    parser.add_argument("--full", action="store_true", help="more rounds")
    measure(10 if parser.parse_args().full else 4)
