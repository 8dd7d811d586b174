"""Find checkpointed regions: operations that run forward again in backward.

A saved tensor shows the region of its operation. torch numbers nodes in the order in which a thread
makes them, so all nodes between the first and the last known one belong to the region too. Only at
its two ends can operations that save nothing be missed, and there `watch` knows.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

from torch import nn

from ..graph.capture import Capture
from ..torch_api.checkpoints import CheckpointedPart, Frame


@dataclass(frozen=True)
class Region:
    """A part of the program that runs forward again in backward."""

    nodes: tuple[int, ...]  # its operations in program order, those of inner regions included
    parent: int | None  # the number of the enclosing region; None for none
    is_reentrant: bool  # whether it is one node, with operations that are not in the graph
    is_exact: bool  # whether it is known that no other operation belongs to it
    # What runs again: the class of a module, the name of a function; None if unknown.
    called: str | None
    module: weakref.ref[nn.Module] | None  # that module, while it lives
    frame: Frame | None  # torch's own record of it, while it lives


def find_regions(
    captured: Capture, parts: Sequence[CheckpointedPart], watched: Container[int]
) -> list[Region]:
    """Return the checkpointed regions of a graph in program order, outer ones first."""
    if not parts:
        return []
    order = Order(captured)
    within: dict[int, list[int]] = {place: [] for place in range(len(parts))}
    for place, part in enumerate(parts):
        if part.around is not None:
            within[part.around].append(place)
    depths = [_depth(part, parts) for part in parts]
    regions: dict[int, tuple[int, Region]] = {}
    for place in sorted(within, key=lambda place: -depths[place]):  # inner parts first
        part = parts[place]
        called, module = _called(part.function)
        if part.frame is None:
            one = Region(tuple(part.nodes), None, True, True, called, module, None)
            regions[place] = len(parts), one
            continue
        inner = [regions[each][1].nodes for each in within[place] if each in regions]
        known = part.nodes.union(*inner)
        if not known:
            continue
        nodes = order.between(known)
        is_exact = all(i in watched for i in order.adjacent(nodes))
        nodes = nodes if is_exact else order.with_weights(nodes)
        region = Region(nodes, None, False, is_exact, called, module, part.frame)
        regions[place] = depths[place], region
    return _numbered(list(regions.values()), order)


def innermost(regions: Sequence[Region]) -> dict[int, int]:
    """Map each node id to the number of its innermost region."""
    return {i: number for number, region in enumerate(regions) for i in region.nodes}


class Order:
    """The operations of a graph in the order in which the program made them."""

    def __init__(self, captured: Capture) -> None:
        self._data = captured.attributes
        self._following, self._before = captured.successors, captured.predecessors
        self._nodes = captured.operations
        numbers = {self._data[i]["sequence_nr"] for i in self._nodes}
        # Threads number their nodes separately, so several threads have no common order.
        self._has_one_order = len(numbers) == len(self._nodes)
        self._place = {i: place for place, i in enumerate(self._nodes)}

    def place(self, node: int) -> int:
        """Return an operation's position in program order."""
        return self._place[node]

    def _ends(self, nodes: Collection[int]) -> tuple[int, int]:
        places = [self._place[i] for i in nodes]
        return min(places), max(places)

    def between(self, nodes: Collection[int]) -> tuple[int, ...]:
        """Return all operations from the first to the last of ``nodes``."""
        if not self._has_one_order:
            return tuple(sorted(nodes, key=self._place.__getitem__))
        first, last = self._ends(nodes)
        return tuple(self._nodes[first : last + 1])

    def adjacent(self, nodes: Collection[int]) -> Iterator[int]:
        """Yield the operations right before and right after consecutive ``nodes``."""
        first, last = self._ends(nodes)
        if first > 0:
            yield self._nodes[first - 1]
        if last + 1 < len(self._nodes):
            yield self._nodes[last + 1]

    def with_weights(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Prepend what ``linear`` makes right before: the weight's transpose, and a view."""
        first, _ = self._ends(nodes)
        start = first
        while start > max(0, first - 2) and self._leads_to(self._nodes[start - 1], nodes[0]):
            start -= 1
        before = self._nodes[start:first]
        is_linear = any(self._data[i]["op"] == "TBackward0" for i in before)
        return (*before, *nodes) if self._has_one_order and is_linear else nodes

    def _leads_to(self, node: int, taker: int) -> bool:
        op = self._data[node]["op"]
        if set(self._before[node]) != {taker}:
            return False
        if op == "TBackward0":
            return all(self._data[i]["kind"] == "leaf" for i in self._following[node])
        return bool(op == "ViewBackward0")

    def extended(self, nodes: tuple[int, ...], others: Collection[int]) -> tuple[int, ...]:
        """Extend ``nodes`` on both ends by adjacent operations of ``others``."""
        if not self._has_one_order:
            return nodes
        first, last = self._ends(nodes)
        while first > 0 and self._nodes[first - 1] in others:
            first -= 1
        while last + 1 < len(self._nodes) and self._nodes[last + 1] in others:
            last += 1
        return tuple(self._nodes[first : last + 1])


def _depth(part: CheckpointedPart, parts: Sequence[CheckpointedPart]) -> int:
    depth = 0
    while part.around is not None:
        depth, part = depth + 1, parts[part.around]
    return depth


def _numbered(found: Sequence[tuple[int, Region]], order: Order) -> list[Region]:
    """Return the regions in order, each with the number of its parent."""
    ordered = sorted(
        found, key=lambda each: (order.place(each[1].nodes[0]), -len(each[1].nodes), each[0])
    )
    owner: dict[int, int] = {}
    regions: list[Region] = []
    for number, (_, region) in enumerate(ordered):
        regions.append(replace(region, parent=owner.get(region.nodes[0])))
        owner.update(dict.fromkeys(region.nodes, number))
    return regions


def _called(function: Any) -> tuple[str | None, weakref.ref[nn.Module] | None]:
    while isinstance(function, functools.partial):
        function = function.func
    module = function.__self__ if isinstance(function, MethodType) else function
    if isinstance(module, nn.Module):
        return type(module).__name__, weakref.ref(module)
    name = getattr(function, "__name__", None)
    return (name if isinstance(name, str) else None), None
