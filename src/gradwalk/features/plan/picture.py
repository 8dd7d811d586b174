"""The graph of a planned step, with its memory curve and its FLOPs."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Protocol

from ...amounts import Bytes
from ...graph.capture import capture_nodes
from ...graph.names import Names
from ...graph.outputs import read_outputs
from ...schema.findings import MemoryModel
from ...schema.graph import GraphModel, PlanModel
from ...sources.live_graph import LiveGraph
from ...torch_api.modes import unseen
from ...tracing.annotate import annotate
from ...widget.graph_widget import GraphWidget
from .run_step import Recorded, StepInputs, loss_on_fakes

_POINTS = 240
_NAMED = 3  # tensors at each point
_LARGE = 2000  # storages that are looked at for them


class _Planned(Protocol):
    """The parts of a plan that the picture needs."""

    curve: list[int]
    forward_end: int
    peak: Bytes
    at: Any
    not_counted: str

    def place(self, index: int) -> Any: ...


class PlannedGraph(LiveGraph):
    """The graph of a planned step; its memory is the planned one."""

    def __init__(self, captured: Any, names: Names, plan: PlanModel, memory: MemoryModel) -> None:
        super().__init__(captured, names, 0)
        self._planned, self._held = plan, memory

    @property
    def model(self) -> GraphModel:
        """The drawn graph, with the plan."""
        return {**super().model, "plan": self._planned}

    def memory(self) -> MemoryModel:
        """Return the planned bytes that each node saves."""
        return self._held


def widget_of(plan: _Planned, given: StepInputs, recorded: Recorded) -> GraphWidget:
    """Return the picture of a plan: another forward pass without memory makes its graph."""
    loss, names = loss_on_fakes(given)
    with unseen():
        captured = annotate(capture_nodes(read_outputs((loss,), "plan"), names), names, infer=False)
        subject = PlannedGraph(
            captured, names, plan_model(plan, recorded), memory_model(recorded, plan.forward_end)
        )
    return GraphWidget._of(subject, direction=subject.direction, constants=False)


def memory_model(recorded: Recorded, forward_end: int) -> MemoryModel:
    """Return the saved bytes of each node: those of its storages that no earlier node keeps."""
    nodes: Counter[int] = Counter()
    total = 0
    for held, numbers in recorded.keepers:
        size = held.bytes_at(forward_end - 1)
        total += size
        if numbers:
            nodes[recorded.nodes[min(numbers)][0]] += size
    found = dict(sorted(nodes.items()))
    return {
        "nodes": list(found),
        "bytes": list(found.values()),
        "namespaces": [],
        "namespace_bytes": [],
        "total": total,
        "unknown": 0,
    }


def plan_model(plan: _Planned, recorded: Recorded) -> PlanModel:
    """Return the curve, thinned out, and the FLOPs of each node."""
    points = _points(plan.curve, plan.forward_end)
    places = [plan.place(i) for i in points]
    flops: Counter[int] = Counter()
    for each in recorded.recorder.operations:
        node = recorded.nodes.get(-1 if each.sequence_nr is None else each.sequence_nr)
        if each.flops and node is not None:
            flops[node[0]] += each.flops
    return {
        "summary": f"Planned, without weights: peak {plan.peak}, {plan.at}. {plan.not_counted}",
        "live": [plan.curve[i] for i in points],
        "nodes": [place.node for place in places],
        "words": [str(place) for place in places],
        "held": _held(points, recorded),
        "forward": sum(i < plan.forward_end for i in points),
        "peak": points.index(plan.at.index),
        "flop_nodes": list(flops),
        "flops": list(flops.values()),
    }


def _points(curve: list[int], forward_end: int) -> list[int]:
    """Return the index of the most in each stretch of the curve; none spans two phases."""
    size = -(-len(curve) // _POINTS)
    starts = sorted({*range(0, len(curve), size), forward_end} - {len(curve)})
    stretches = zip(starts, [*starts[1:], len(curve)], strict=True)
    return [max(range(start, end), key=curve.__getitem__) for start, end in stretches]


def _held(points: list[int], recorded: Recorded) -> list[str]:
    """Name the largest tensors that are held at each point."""
    saved = {id(held) for held, _ in recorded.keepers}
    largest: Mapping[int, list[tuple[int, str]]] = defaultdict(list)
    sized = [(held.bytes, held) for held in recorded.recorder.held]
    for _, held in heapq.nlargest(_LARGE, sized, key=lambda each: each[0]):
        role = held.role or ("saved" if id(held) in saved else "temporary")
        made = recorded.recorder.operations[held.born] if held.born >= 0 else None
        words = f"{role} {held.name or (made.module or made.name if made else '')}".strip()
        for place, i in enumerate(points):
            size = held.bytes_at(i)
            if size:
                largest[place].append((size, words))
    texts = []
    for place in range(len(points)):
        first = heapq.nlargest(_NAMED, largest[place])
        texts.append(", ".join(f"{Bytes(size)} {words}" for size, words in first))
    return texts
