"""The data for the browser: bytes per node by trait, and the CPU time until it is ready.

    python benchmarks/wire_size.py [--full]

Bytes are those that `get_state` gives, after one recorded backward. Seconds are CPU seconds,
medians over the rounds: `capture`, then the wire model, then encoding it; `GraphWidget` is all that
making and displaying the widget takes, hooks on every node and sending included; `select` is the
median over nodes, from setting `selected` to the details that are sent.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from typing import Any

import torch
from measured_programs import chain, resnet, transformer, unrolled
from torch import Tensor, nn

from gradwalk import GraphWidget, watch
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import read_names
from gradwalk.graph.outputs import read_outputs
from gradwalk.schema.columns import encode
from gradwalk.sources.graph_model import graph_model

TRAITS = ("model", "_dtypes", "state", "_steps", "run")

Program = Callable[[], tuple[Tensor, Any]]
"""Gives the output and what to name tensors by."""


def plain(program: Callable[[], Tensor]) -> Program:
    """Without names: as in a notebook that kept nothing but the loss."""
    return lambda: (program(), {})


def named_transformer(layers: int, watched: bool) -> Program:
    """Parameters named by the model; modules inferred from them, or watched."""

    def build() -> tuple[Tensor, Any]:
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        model = nn.TransformerEncoder(layer, layers)
        x = torch.randn(2, 5, 16)
        if not watched:
            return model(x).mean(), model
        with watch():
            return model(x).mean(), model

    return build


def lstm(steps: int) -> Tensor:
    """A recurrent cell that uses the same four weights at every step."""
    cell = nn.LSTMCell(8, 8)
    h = c = torch.zeros(1, 8)
    for _ in range(steps):
        h, c = cell(torch.randn(1, 8), (h, c))
    return h.sum()


def random_dag(operations: int) -> Tensor:
    """Operations on two earlier results each, most of them recent: no pattern to exploit."""
    draw = random.Random(0)
    made = [torch.ones(2, requires_grad=True) for _ in range(20)]
    for i in range(operations):
        a = made[-1 - draw.randrange(min(500, len(made)))]
        b = made[-1 - draw.randrange(min(2_000, len(made)))]
        made.append((torch.add, torch.mul, torch.maximum, torch.sub)[i % 4](a, b))
    return torch.stack(made[-500:]).sum()


SMALL: dict[str, Program] = {
    "transformer, 12 layers": plain(lambda: transformer(12)),
    "transformer, 12 layers, with names": named_transformer(12, watched=False),
    "transformer, 12 layers, watched": named_transformer(12, watched=True),
    "ResNet, 16 blocks": plain(resnet),
    "LSTM, 200 steps": plain(lambda: lstm(200)),
    "RNN, 1,000 steps": plain(lambda: unrolled(1_000)),
    "chain, 10,000": plain(lambda: chain(10_000)),
    "random DAG, 10,000": plain(lambda: random_dag(10_000)),
}
FULL: dict[str, Program] = {
    "transformer, 48 layers": plain(lambda: transformer(48)),
    "transformer, 48 layers, with names": named_transformer(48, watched=False),
    "transformer, 48 layers, watched": named_transformer(48, watched=True),
    "transformer, 1,300 layers, names": named_transformer(1_300, watched=False),
    "RNN, 16,000 steps": plain(lambda: unrolled(16_000)),
    "chain, 100,000": plain(lambda: chain(100_000)),
    "random DAG, 100,000": plain(lambda: random_dag(100_000)),
}


def stages(output: Tensor, names: Any) -> list[float]:
    """CPU seconds of capturing, of the wire model and of encoding it."""
    given, found = read_outputs((output,), "capture"), read_names(names, "capture")
    times = [time.process_time()]
    captured = capture_nodes(given, found)
    times.append(time.process_time())
    model = graph_model(captured.graph)
    times.append(time.process_time())
    encode(model)
    times.append(time.process_time())
    return [after - before for before, after in pairwise(times)]


def making(output: Tensor, names: Any) -> float:
    """CPU seconds of making a widget, and of all that it sends when it is displayed."""
    start = time.process_time()
    widget = GraphWidget(output, names=names)
    widget.get_state()
    elapsed = time.process_time() - start
    widget.close()
    return elapsed


def selecting(widget: GraphWidget, times: int = 50) -> float:
    """CPU milliseconds of selecting a node, the median over nodes drawn at random."""
    draw, found = random.Random(0), []
    total = len(widget.model["nodes"])
    for node in [draw.randrange(total) for _ in range(times)]:
        start = time.process_time()
        widget.selected = node
        found.append(time.process_time() - start)
    return statistics.median(found) * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to 100,000 nodes")
    full = parser.parse_args().full
    torch.set_num_threads(1)  # threads that wait for each other's tiny tensors count as CPU time
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}\n\n"
        f"{'':34}{'nodes':>8}{'bytes per node':>32}{'':9}{'CPU seconds':>31}{'ms':>8}\n"
        f"{'graph':34}{'':8}{'graph':>8}"
        + "".join(f"{trait:>8}" for trait in TRAITS[1:])
        + f"{'capture':>9}{'model':>7}{'encode':>7}{'GraphWidget':>12}{'select':>8}"
    )
    for name, program in (SMALL | FULL if full else SMALL).items():
        torch.manual_seed(0)
        output, names = program()
        rounds = 3
        making(output, names)
        parts = [stages(output, names) for _ in range(rounds)]
        seconds = [statistics.median(column) for column in zip(*parts, strict=True)]
        seconds.append(statistics.median(making(output, names) for _ in range(rounds)))
        with closing(GraphWidget(output, names=names)) as widget:
            widget.backward()
            nodes = len(widget.model["nodes"])
            sent = {trait: widget.get_state(trait)[trait] for trait in TRAITS}
            select = selecting(widget)
        per_node = [len(sent[trait]) / nodes for trait in TRAITS]
        print(
            f"{name:34}{nodes:8,}{per_node[0]:8.1f}"
            + "".join(f"{each:8.1f}" for each in per_node[1:])
            + f"{seconds[0]:9.3f}{seconds[1]:7.3f}{seconds[2]:7.3f}{seconds[3]:12.3f}{select:8.1f}"
        )


if __name__ == "__main__":
    main()
