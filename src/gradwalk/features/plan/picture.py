"""The graph of a planned step, with its memory curve and its FLOPs."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...amounts import Bytes
from ...checks.finding import Finding
from ...graph.capture import capture_nodes
from ...graph.names import Names
from ...graph.outputs import read_outputs
from ...schema.findings import MemoryModel
from ...schema.graph import GraphModel, OverlayModel, PlanModel
from ...sources.live_graph import LiveGraph
from ...torch_api.modes import unseen
from ...tracing.annotate import annotate
from ...widget.graph_widget import GraphWidget
from ...widget.overlay_controller import amounts
from .recorder import BACKWARD, FORWARD, STEP
from .run_step import Recorded, StepInputs, loss_on_fakes

_POINTS = 240  # of forward and backward
_STEP_POINTS = 20  # of the optimizer's step, whose many operations are alike
_PLURAL = {role: f"{role}s" for role in ("parameter", "buffer", "input", "gradient")}
_NAMED = 3  # tensors at each point
_LARGE = 2000  # storages that are looked at for them


class PlannedGraph(LiveGraph):
    """The graph of a planned step, with its memory.

    Attributes:
        is_over: Whether backward has run.
    """

    def __init__(
        self,
        captured: Any,
        names: Names,
        plan: PlanModel,
        memory: MemoryModel,
        overlays: tuple[OverlayModel, ...],
    ) -> None:
        super().__init__(captured, names, 0)
        self._planned, self._held, self.overlays = plan, memory, overlays
        self.is_over = False
        self._drawn: GraphModel | None = None
        self._shown: GraphModel

    @property
    def model(self) -> GraphModel:
        """The drawn graph, with the plan: the same object until another part of it opens."""
        drawn = super().model
        if drawn is not self._drawn:
            self._drawn, self._shown = drawn, {**drawn, "plan": self._planned}
        return self._shown

    def memory(self) -> MemoryModel:
        """Return the planned bytes that each node saves."""
        return self._held

    def backward(self, **options: Any) -> None:
        """Run backward once; later the model has its own tensors again, and this raises."""
        if self.is_over:
            raise RuntimeError(
                "This is the picture of a plan, whose backward pass is recorded. Step through it, "
                "or make a GraphWidget of a real loss."
            )
        super().backward(**options)

    def findings(self, *_: Any, **__: Any) -> list[Finding]:
        """Return none: the gradients have no numbers, and the parameters are copies."""
        return []


def widget_of(
    plan: Any,
    given: StepInputs,
    recorded: Recorded,
    seconds: Sequence[float] | None,
    advised: Sequence[str],
) -> GraphWidget:
    """Return the picture of a plan: another forward pass without memory makes its graph."""
    with loss_on_fakes(given) as (loss, names):
        with unseen():
            captured = capture_nodes(read_outputs((loss,), "plan"), names)
            source = PlannedGraph(
                annotate(captured, names, infer=False),
                names,
                plan_model(plan, recorded, advised),
                memory_model(recorded, plan.forward_end),
                overlays_of(plan, recorded, seconds),
            )
        widget = GraphWidget._of(source, direction=source.direction, constants=False)
        widget.backward()  # for the steps of the bar, also in a page
    source.is_over = True
    widget.cursor = 0
    return widget


def overlays_of(
    plan: Any, recorded: Recorded, seconds: Sequence[float] | None
) -> tuple[OverlayModel, ...]:
    """Return the work of each node and, with a device, its estimated time."""
    operations = recorded.recorder.operations
    flops = _by_node(recorded, [float(each.flops) for each in operations])
    found = [amounts("FLOPs, planned", "FLOP", flops)]
    if seconds is not None:
        found.append(amounts(f"time, estimated on {plan.device}", "s", _by_node(recorded, seconds)))
    return tuple(found)


def _by_node(recorded: Recorded, values: Sequence[float]) -> dict[int, float]:
    """Add up amounts of the operations of forward and backward by the node that ran them."""
    sums: dict[int, float] = defaultdict(float)
    for each, value in zip(recorded.recorder.operations, values, strict=True):
        node = recorded.nodes.get(-1 if each.sequence_nr is None else each.sequence_nr)
        if value and node is not None and each.phase != STEP:
            sums[node[0]] += value
    return sums


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
        "total": total,
        "unknown": 0,
    }


def plan_model(plan: Any, recorded: Recorded, advised: Sequence[str]) -> PlanModel:
    """Return the curve, thinned out, and the FLOPs of each node."""
    phases = [each.phase for each in recorded.recorder.operations]
    points = _points(plan.curve, phases)
    places = [plan.place(i) for i in points]
    return {
        "summary": _summary(plan),
        "live": [plan.curve[i] for i in points],
        "nodes": [place.node for place in places],
        "words": [str(place) for place in places],
        "held": _held(points, recorded),
        "forward": sum(phases[i] == FORWARD for i in points),
        "backward": sum(phases[i] == BACKWARD for i in points),
        "peak": points.index(plan.at.index),
        "advised": [block.replace(".", "/") for block in advised],
    }


def _summary(plan: Any) -> str:
    how = "Measured by a real step" if plan.measured else "Planned, without weights"
    peak = f"peak {'at least ' * bool(plan.lower_bound)}{plan.peak}, {plan.at}."
    remarks = [each for each in plan.remarks if not each.startswith("Measured")]
    return " ".join([f"{how}: {peak}", *remarks, plan.not_counted])


def _points(curve: list[int], phases: Sequence[str]) -> list[int]:
    """Return the index of the most in each stretch of the curve; none spans two phases."""
    counts = Counter(phases)
    passes = -(-(counts[FORWARD] + counts[BACKWARD]) // _POINTS)
    points: list[int] = []
    start = 0
    for phase, count in counts.items():  # in their order
        size = -(-count // _STEP_POINTS) if phase == STEP else passes
        ends = [*range(start, start + count, size), start + count]
        points += [max(range(a, b), key=curve.__getitem__) for a, b in pairwise(ends)]
        start += count
    return points


def _held(points: list[int], recorded: Recorded) -> list[str]:
    """Say how much of each role is held at each point, and name the largest tensors."""
    saved = {id(held) for held, _ in recorded.keepers}
    roles: list[Counter[str]] = [Counter() for _ in points]
    largest: Mapping[int, list[tuple[int, str]]] = defaultdict(list)
    sized = heapq.nlargest(_LARGE, recorded.recorder.held, key=lambda each: each.bytes)
    named = {id(each) for each in sized}
    for held in recorded.recorder.held:
        role = held.role or ("saved" if id(held) in saved else "temporary")
        made = recorded.recorder.operations[held.born] if held.born >= 0 else None
        place = f"in {made.module}" if made and made.module else made.name if made else ""
        first = bisect_left(points, held.born)
        last = len(points) if held.died is None else bisect_left(points, held.died)
        for i in range(first, last):
            size = held.bytes_at(points[i])
            roles[i][_PLURAL.get(role, role)] += size
            if size and id(held) in named:
                largest[i].append((size, held.name or place))
    by_size = (heapq.nlargest(_NAMED, largest[i]) for i in range(len(points)))
    return [
        f"{_sizes((size, role) for role, size in held.most_common())}; largest: {_sizes(first)}"
        for held, first in zip(roles, by_size, strict=True)
    ]


def _sizes(amounts: Iterable[tuple[int, str]]) -> str:
    return ", ".join(f"{Bytes(size)} {words}" for size, words in amounts if size)
