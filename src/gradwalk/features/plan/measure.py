"""Measure the bytes and the time of each node of a graph whose tensors are really there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch.autograd.graph import Node

from ...amounts import Bytes
from ...result import make
from ...sources.graph_source import GraphSource
from ...torch_api.engine import remove_hooks
from ...torch_api.modes import unseen
from ...torch_api.nodes import leaf_tensor
from ...torch_api.reading import has_data
from ...widget.controllers import Controller
from ...widget.graph_traits import GraphTraits, Measurement, NodeMeasure
from ...widget.overlay_controller import amounts

_REPEATS, _FASTEST = 7, 3


class MeasureController(Controller[GraphTraits]):
    """Measures the graph of a widget."""

    name = "measure"

    def measure(self) -> Measurement:
        """Measure each node; see `GraphWidget.measure`."""
        found = measure(self.stage.open())
        seconds = {each.node: each.seconds for each in found.nodes}
        overlay = amounts("time in backward, measured", "s", seconds)
        self.widget._feature("overlay").put({**overlay, "is_shown": True})
        return found


def measure(source: GraphSource) -> Measurement:
    """Measure each node of a graph; see `GraphWidget.measure`."""
    captured = source.autograd
    if captured is None or not source.runs_backward:
        raise ValueError("measure() needs a graph of tensors that are alive, not one of a file.")
    leaves = [leaf for _, leaf in captured.leaves()]
    if not all(map(has_data, leaves)):
        raise ValueError("measure() needs tensors with values. gradwalk.plan plans without them.")
    memory = source.memory()
    held = dict(zip(memory["nodes"], memory["bytes"], strict=True))
    roots = [captured.nodes[node] for node, _ in captured.roots]
    edges = [
        torch.autograd.graph.GradientEdge(n, nr)
        for n, (_, nr) in zip(roots, captured.roots, strict=True)
    ]
    outputs = [_ones(captured.graph.nodes[node], nr) for node, nr in captured.roots]
    run = partial(torch.autograd.grad, edges, leaves, outputs, retain_graph=True, allow_unused=True)
    with source.paused(), unseen():
        run()  # the first run allocates
        runs = [_timed(captured.nodes, run, _clock(leaves)) for _ in range(_REPEATS)]
    fastest = sorted(runs, key=lambda each: each[1])[:_FASTEST]
    drawn = source.model["nodes"]
    nodes = []
    for node in runs[0][0]:
        module, size = (drawn[node]["namespace"] or "").replace("/", "."), Bytes(held.get(node, 0))
        seconds = fmean(times[node] for times, _ in fastest)
        nodes.append(make(NodeMeasure, node, drawn[node]["op"], module, size, seconds))
    nodes.sort(key=lambda each: -each.seconds)
    wall = fmean(each for _, each in fastest)
    return make(Measurement, tuple(nodes), wall, Bytes(memory["total"]))


def _ones(data: Any, number: int) -> torch.Tensor:
    output = next(each for each in data["outputs"] if each["output_nr"] == number)
    dtype = getattr(torch, output["dtype"].removeprefix("torch."))
    return torch.ones(output["shape"], dtype=dtype, device=output["device"])


def _clock(leaves: Sequence[torch.Tensor]) -> Callable[[], int]:
    """Return a clock that waits for the accelerator of some tensors."""
    if all(leaf.device.type == "cpu" for leaf in leaves):
        return time.perf_counter_ns

    def synchronized() -> int:
        torch.accelerator.synchronize()
        return time.perf_counter_ns()

    return synchronized


def _timed(
    nodes: Sequence[Node], run: Callable[[], object], clock: Callable[[], int]
) -> tuple[dict[int, float], float]:
    """Return the seconds of each node that ran, and of the whole pass.

    A node's time ends where the next one begins, so that it includes what the engine does after the
    node: it adds up gradients and frees them.
    """
    begun: list[tuple[int, int]] = []

    def begin(node: int, _: object) -> None:
        begun.append((node, clock()))

    hooks = []
    try:
        for i, node in enumerate(nodes):
            if leaf_tensor(node) is None:
                hooks.append(node.register_prehook(partial(begin, i)))
        start = clock()
        run()
        end = clock()
    finally:
        remove_hooks(hooks)
    ends = [*(at for _, at in begun[1:]), end]
    times = {i: (until - at) / 1e9 for (i, at), until in zip(begun, ends, strict=True)}
    return times, (end - start) / 1e9
