"""Group the calls of compiled code by operation, with the paths of gradients between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from ...graph.adjacency import Neighbours, attributes, predecessors, successors

Shape = tuple[Any, ...]


@dataclass
class Group:
    """The calls of one operation: the node around them, and its number."""

    inside: int
    number: int
    calls: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    carrying: list[int] = field(default_factory=list)
    takes: set[Shape | None] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


class CallFlows:
    """The grouped calls of a graph, and the paths of gradients between them."""

    def __init__(self, graph: nx.MultiDiGraph) -> None:
        data, following = attributes(graph), successors(graph)
        self.calls = [node for node in graph if data[node]["kind"] == "call"]
        self.came: dict[int, list[tuple[int, int]]] = {call: [] for call in self.calls}
        own = {data[call]["inside"] for call in self.calls}
        self.given: dict[int, set[int]] = {}
        """Node below compiled code -> the calls that give its gradient."""
        for source in [*own, *self.calls]:
            for target, between in following[source].items():
                for edge in between.values():
                    if edge.get("kind") == "gradient" and target in self.came:
                        self.came[target].append((source, edge["input_nr"]))
                    if "via" in edge:
                        self.given.setdefault(target, set()).add(edge["via"])
        self.adding = {
            call
            for call in self.calls
            if data[call]["op"].startswith("aten.add.") and self._is_from_outside(data, call)
        }
        self.key: dict[int, tuple[int, int]] = {
            call: (data[call]["inside"], number)
            for call in self.calls
            if (number := data[call].get("seq_nr")) is not None and call not in self.adding
        }
        self.groups = self._grouped(data)

    def _grouped(self, data: Mapping[int, Mapping[str, Any]]) -> list[Group]:
        """The groups, in the order in which the forward pass ran their operations."""
        found: dict[tuple[int, int], Group] = {}
        begins: dict[tuple[int, int], set[int]] = {}
        for call, key in list(self.key.items()):
            group = found.setdefault(key, Group(*key))
            if data[call].get("recomputed"):
                group.again.append(call)
                continue
            if self.came[call] and not any(one in group.calls for one, _ in self.came[call]):
                # What the backward of a custom Function calls may bear the number of another.
                sources = self.sources(call)
                if not sources & begins.setdefault(key, sources):
                    del self.key[call]
                    continue
            group.calls.append(call)
            group.names.add(base_name(data[call]["op"]))
            if self.came[call]:
                group.carrying.append(call)
            for source, part in self.came[call]:
                if self.key.get(source) != key:
                    outputs = data[source]["outputs"]
                    shape = outputs[part]["shape"] if part < len(outputs) else None
                    group.takes.add(None if shape is None else tuple(shape))
        order = sorted(found, key=lambda key: (data[key[0]]["sequence_nr"] or 0, key[1]))
        return [found[key] for key in order]

    def _is_from_outside(self, data: Mapping[int, Any], call: int) -> bool:
        """Whether it adds gradients, at least one of which belongs to another operation."""
        came = [source for source, _ in self.came[call]]
        own = data[call]["inside"], data[call].get("seq_nr")
        others = [
            each for each in came if (data[each].get("inside"), data[each].get("seq_nr")) != own
        ]
        return len(came) == 2 and bool(others)

    def sources(self, call: int) -> set[int]:
        """The calls and compiled nodes that give a call its gradients, past what adds them up."""
        found: set[int] = set()
        waiting = [source for source, _ in self.came[call]]
        while waiting:
            source = waiting.pop()
            if source in self.adding:
                waiting += [each for each, _ in self.came[source]]
            elif source in self.given:  # compiled code above this one
                waiting += self.given[source]
            else:
                found.add(source)
        return found


def base_name(op: str) -> str:
    """Return the name of an operator: "gelu_backward" of "aten.gelu_backward.default"."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


_OUTSIDE = -1
"""The key of all that is above compiled code; groups have their place, nodes below it ~node."""

_MOST_AROUND = 64
"""Most groups that are compared around an operation."""


class Around:
    """The neighbours along gradients, in both graphs."""

    def __init__(
        self,
        graph: nx.MultiDiGraph,
        pairs: Mapping[int, int],
        flows: CallFlows,
        left: Sequence[int],
        groups: Sequence[Group],
    ) -> None:
        self._takers, self._following = predecessors(graph), successors(graph)
        self._left, self._pairs = left, pairs
        self._ours = {node: i for i, node in enumerate(left)}
        self._up: dict[int, set[int]] = {}
        self._down: dict[int, set[int]] = {}
        self._group_of = {call: j for j, group in enumerate(groups) for call in group.calls}
        self._calls = set(flows.calls)
        for call, j in self._group_of.items():
            for source in flows.sources(call):
                self._link(source, j)
        below = {other: node for node, other in pairs.items()}
        for target, calls in flows.given.items():
            for call in calls if target in below else ():
                for source in flows.sources(call) if call in flows.adding else {call}:
                    self._link(source, ~below[target])

    def _link(self, source: int, target: int) -> None:
        start = self._group_of.get(source, _OUTSIDE)
        if start != target and (start != _OUTSIDE or source not in self._calls):
            self._up.setdefault(target, set()).add(start)
            self._down.setdefault(start, set()).add(target)

    def _near(self, chosen: Mapping[int, int]) -> tuple[list[set[int]], list[set[int]]]:
        """Per operation the nearest groups above and below it that stand for operations."""
        order = range(len(self._left))
        below = self._nearest(order, self._following, chosen)
        return self._nearest(reversed(order), self._takers, chosen), below

    def _nearest(
        self, order: Iterable[int], beside: Neighbours, chosen: Mapping[int, int]
    ) -> list[set[int]]:
        """The groups on one side of each operation, what is on that side of it first."""
        found: list[set[int]] = [set() for _ in self._left]
        for i in order:
            others = beside[self._left[i]]
            if not others and beside is self._takers:
                found[i].add(_OUTSIDE)
            for other in others:
                at = self._ours.get(other)
                if at is not None and at not in chosen:
                    found[i] |= found[at] if len(found[i]) < _MOST_AROUND else set()
                elif at is not None:
                    found[i].add(chosen[at])
                elif beside is self._takers:
                    found[i].add(_OUTSIDE)
                elif other in self._pairs:
                    found[i].add(~other)
        return found

    def beside(self, chosen: Mapping[int, int]) -> list[list[int]]:
        """Per operation the groups that stand where it does: beside those of its neighbours."""
        above, below = self._near(chosen)
        return [
            [j for one in above[i] for j in self._down.get(one, ()) if one != _OUTSIDE and j >= 0]
            + [j for one in below[i] for j in self._up.get(one, ()) if j >= 0]
            for i in range(len(self._left))
        ]

    def without_contradictions(self, chosen: Mapping[int, int]) -> dict[int, int]:
        """Return the pairs whose neighbours agree in the two graphs."""
        kept = dict(chosen)
        for _ in range(3):
            above, below = self._near(kept)
            of = {j: i for i, j in kept.items()}
            found: dict[int, int] = {}
            for i, j in kept.items():
                # What hands a gradient on as it is may have calls for another of its inputs alone.
                up = above[i].union(*(above[of[one]] for one in above[i] if one in of))
                down = below[i].union(*(below[of[one]] for one in below[i] if one in of))
                there = self._up.get(j, set()), self._down.get(j, set())
                agree = len(there[0] & up) + len(there[1] & down)
                found[i] = len(there[0] - up) + len(there[1] - down) - agree
            worst = max(found.values(), default=0)
            if worst <= 0:
                break
            kept = {i: j for i, j in kept.items() if found[i] < worst}
        return kept

    def dropped(self, chosen: Mapping[int, int]) -> list[int]:
        """Return the operations without calls that every gradient passes unchanged."""
        above, below = self._near(chosen)
        return [
            node
            for i, node in enumerate(self._left)
            if i not in chosen and below[i]
            if all(above[i] & self._up.get(end, set()) for end in below[i])
        ]
