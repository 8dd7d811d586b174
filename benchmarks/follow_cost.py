"""What `follow` costs a step after the first look, beside trackers that write histograms.

    python benchmarks/follow_cost.py [--full]

Runs of each kind take turns in the same process. Times are CPU milliseconds of the training thread
for one step: the mean of twenty steps, two of which compare the weights before and after, of each
the least of the rounds. A tracker writes a histogram of every gradient at each step, where `follow`
takes a norm. That of wandb is measured where it is installed. The last weights must be equal.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import platform
import tempfile
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
Logs = Callable[[nn.Module], Callable[[int], None]]
"""Begins to log a model's gradients, and returns what logs a step."""


def histograms(net: nn.Module) -> Callable[[int], None]:
    """A histogram of each gradient, as numbers alone."""

    def log(_: int) -> None:
        for parameter in net.parameters():
            if parameter.grad is not None:
                torch.histc(parameter.grad.flatten(), 64).tolist()

    return log


def tensorboard(net: nn.Module) -> Callable[[int], None]:
    """A histogram of each gradient in a file of TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  slow to import

    writer = SummaryWriter(tempfile.mkdtemp(dir=FOLDER.name))

    def log(step: int) -> None:
        for name, parameter in net.named_parameters():
            if parameter.grad is not None:
                writer.add_histogram(name, parameter.grad, step)

    return log


def wandb(net: nn.Module) -> Callable[[int], None]:
    """The histograms of ``wandb.watch(log="all")`` at each step, kept on this machine."""
    tracker = importlib.import_module("wandb")  # is there only where somebody installed it
    run = tracker.init(mode="offline", dir=FOLDER.name, settings=tracker.Settings(silent=True))
    run.watch(net, log="all", log_freq=1)
    return lambda step: run.log({"step": step})


FOLDER = tempfile.TemporaryDirectory()
LOGS: dict[str, Logs] = {"histograms": histograms}
if importlib.util.find_spec("tensorboard") is not None:
    LOGS["TensorBoard"] = tensorboard
if importlib.util.find_spec("wandb") is not None:
    LOGS['wandb.watch(log="all")'] = wandb


def times(make: Callable[[], Made], mode: str) -> tuple[list[float], Tensor]:
    """Train for some steps; return the CPU milliseconds of each, and the last weights."""
    torch.manual_seed(0)
    net, loss = make()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    log = LOGS[mode](net) if mode in LOGS else lambda _: None
    found = []
    gc.collect()
    with follow(net, optimizer) if mode == "follow" else nullcontext():
        for step in range(WARM_UP + STEPS):
            start = time.thread_time()
            optimizer.zero_grad()
            loss().backward()
            log(step)
            optimizer.step()
            found.append((time.thread_time() - start) * 1e3)
    weights = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    return found[WARM_UP:], weights


def measure(rounds: int) -> None:
    """Print a table."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {rounds} rounds\n")
    modes = ("follow", *LOGS)
    print(f"| program | plain, ms | {' | '.join(modes)} | weights equal |")
    print("|---" * (len(modes) + 3) + "|")
    for name, make in CASES.items():
        every: dict[str, list[list[float]]] = {mode: [] for mode in ("plain", *modes)}
        weights: dict[str, Tensor] = {}
        for _ in range(rounds):
            for mode, rows in every.items():
                found, weights[mode] = times(make, mode)
                rows.append(found)
        mean = {m: sum(map(min, zip(*every[m], strict=True))) / STEPS for m in every}
        ratios = " | ".join(f"{mean[mode] / mean['plain']:.2f}" for mode in modes)
        equal = all(torch.equal(weights["plain"], each) for each in weights.values())
        print(
            f"| {name} | {mean['plain']:.2f} | {ratios} | {'yes' if equal else 'no'} |", flush=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what follow() costs.")
    parser.add_argument("--full", action="store_true", help="more rounds")
    measure(10 if parser.parse_args().full else 4)
