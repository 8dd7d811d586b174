"""Find the calls of a compiled backward program that belong to each operation of the program.

torch numbers the autograd nodes that it makes while it traces a program. Each call of the backward
program has the number of its node; a recomputed call of the forward pass has the number of the next
node. So calls form groups, one for each operation, in the order of the forward pass. Groups and
operations are aligned in that order: first the pairs that lead to the same leaf; between them by
shape of the incoming gradient, module, line and names of functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from ...graph.adjacency import Neighbours, attributes, predecessors, successors, walk
from ...lazily import nx
from ...matching.alignment import align, integers, longest_rising
from ...matching.match import Counterpart, Counterparts, called
from ...torch_api.signatures import signature

Shape = tuple[Any, ...]


@dataclass
class Group:
    """The calls of one operation, with the compiled node around them and the operation's number."""

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
                        self.came[target].append((source, edge["arg_nr"]))
                    if "via" in edge:
                        self.given.setdefault(target, set()).add(edge["via"])
        adds = (call for call in self.calls if data[call]["op"].startswith("aten.add."))
        self.adding = {call for call in adds if self._is_from_outside(data, call)}
        self.key: dict[int, tuple[int, int]] = {
            call: (data[call]["inside"], number)
            for call in self.calls
            if (number := data[call].get("seq_nr")) is not None and call not in self.adding
        }
        self.groups = self._grouped(data)

    def _grouped(self, data: Mapping[int, Mapping[str, Any]]) -> list[Group]:
        """Return the groups, in the order in which the forward pass ran their operations."""
        found: dict[tuple[int, int], Group] = {}
        begins: dict[tuple[int, int], set[int]] = {}
        for call, key in list(self.key.items()):
            group = found.setdefault(key, Group(*key))
            if data[call].get("recomputed"):
                group.again.append(call)
                continue
            if self.came[call] and not any(one in group.calls for one, _ in self.came[call]):
                # Calls of a custom Function's backward may have the number of another node.
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
        """Whether a call adds gradients, at least one of which comes from another operation."""
        came = [source for source, _ in self.came[call]]
        own = data[call]["inside"], data[call].get("seq_nr")
        keys = ((data[each].get("inside"), data[each].get("seq_nr")) for each in came)
        return len(came) == 2 and any(key != own for key in keys)

    def sources(self, call: int) -> set[int]:
        """Return the calls and compiled nodes that a call's gradients come from, without sums."""

        def above(source: int) -> Iterable[int]:
            if source in self.adding:
                return [each for each, _ in self.came[source]]
            return self.given.get(source, ())  # of compiled code above this one

        met = walk((source for source, _ in self.came[call]), above)
        return {each for each in met if each not in self.adding and each not in self.given}


def base_name(op: str) -> str:
    """Return the name of an operator: "gelu_backward" of "aten.gelu_backward.default"."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


_OUTSIDE = -1
"""The key of everything above compiled code. A group's key is its place; that below is ~node."""

_MOST_AROUND = 64  # most groups that are compared around an operation


class Around:
    """The neighbours of operations and groups along gradients, in both graphs."""

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
        """Return, for each operation, the nearest matched groups above and below it."""
        order = range(len(self._left))
        below = self._nearest(order, self._following, chosen)
        return self._nearest(reversed(order), self._takers, chosen), below

    def _nearest(
        self, order: Iterable[int], beside: Neighbours, chosen: Mapping[int, int]
    ) -> list[set[int]]:
        """Return the nearest matched groups on one side; ``order`` begins at that side."""
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
        """Return, for each operation, the groups with the same matched neighbours."""
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
                # One that passes a gradient unchanged may have calls for another input only.
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


_MOST_CELLS = 30_000_000  # the largest table that aligning fills


def counterparts(
    graph: nx.MultiDiGraph,
    compiled: nx.MultiDiGraph,
    pairs: Mapping[int, int],
    module_of: Callable[[int], str | None] = lambda _: None,
) -> Counterparts:
    """Find the compiled counterparts of a program's operations; ``pairs``: nodes that both have."""
    data, inner = attributes(graph), attributes(compiled)
    flows = CallFlows(compiled)
    left = sorted(
        (node for node in graph if data[node]["kind"] == "op" and node not in pairs),
        key=lambda node: (data[node]["sequence_nr"] or 0, -node),
    )
    groups = [group for group in flows.groups if group.carrying]
    fixed = _by_leaves(graph, pairs, flows, {node: i for i, node in enumerate(left)}, groups)
    evidence = _Evidence(
        [_facts(data[node], module_of(node)) for node in left],
        [_facts_of(inner, group) for group in groups],
    )
    around = Around(graph, pairs, flows, left, groups)
    chosen = _aligned(evidence, fixed, len(left), len(groups))
    numbers = [data[node]["sequence_nr"] or 0 for node in left]
    beside = zip(around.beside(chosen), _numbered_alike(chosen, numbers, groups), strict=True)
    evidence.beside = [[*one, *other] for one, other in beside]
    chosen = around.without_contradictions(_aligned(evidence, fixed, len(left), len(groups)))
    of = {node: Counterpart() for node in left}
    for i, j in chosen.items():
        group = groups[j]
        again = tuple(_again(inner, group))
        of[left[i]] = Counterpart(tuple(group.calls), group.carrying[0], again)
    for node in around.dropped(chosen):
        of[node] = Counterpart(is_dropped=True)
    taken = {call for each in of.values() for call in (*each.calls, *each.again)}
    return Counterparts(
        of,
        sorted(flows.adding),
        [call for call in flows.calls if call not in taken and call not in flows.adding],
    )


def _aligned(
    evidence: _Evidence, fixed: Sequence[tuple[int, int]], ours: int, theirs: int
) -> dict[int, int]:
    """Map operations to groups, by place: the fixed pairs, and the best ones in between."""
    chosen = dict(fixed)
    for (i, j), (next_i, next_j) in pairwise([(-1, -1), *fixed, (ours, theirs)]):
        here, there = range(i + 1, next_i), range(j + 1, next_j)
        if here and there and len(here) * len(there) <= _MOST_CELLS:
            nowhere = [-1] * len(here), [-1] * len(there)
            found = align(evidence.scores(here, there), *nowhere)
            chosen |= {here[one]: there[other] for one, other in found}
    return chosen


def _numbered_alike(
    chosen: Mapping[int, int], numbers: Sequence[int], groups: Sequence[Group]
) -> list[list[int]]:
    """Return, for each operation, the groups of its number, shifted as in most known pairs."""
    apart = Counter((groups[j].inside, groups[j].number - numbers[i]) for i, j in chosen.items())
    usual: dict[int, int] = {}
    for (inside, by), _ in apart.most_common():
        usual.setdefault(inside, by)
    place = {(group.inside, group.number): j for j, group in enumerate(groups)}
    return [
        [place[at] for inside, by in usual.items() if (at := (inside, number + by)) in place] * 2
        for number in numbers
    ]


def _by_leaves(
    graph: nx.MultiDiGraph,
    pairs: Mapping[int, int],
    flows: CallFlows,
    place: Mapping[int, int],
    groups: Sequence[Group],
) -> list[tuple[int, int]]:
    """Pair operations and groups, by place, that lead to the same leaf, as far as in one order."""
    group_of = {call: j for j, group in enumerate(groups) for call in group.calls}
    found: dict[int, int] = {}
    for node, other in pairs.items():
        takers = list(predecessors(graph)[node])
        (group, *more) = {group_of.get(call) for call in flows.given.get(other, {-1})}
        if len(takers) == 1 and takers[0] in place and group is not None and not more:
            found[place[takers[0]]] = group
    listed = sorted(found.items())
    return [listed[k] for k in longest_rising([j for _, j in listed])]


@dataclass(frozen=True)
class _Facts:
    """The known facts about one side of a pair."""

    shapes: frozenset[Shape | None]
    module: str | None
    line: str | None
    names: frozenset[str]


def _facts(node: Mapping[str, Any], module: str | None) -> _Facts:
    shapes = {None if each["shape"] is None else tuple(each["shape"]) for each in node["outputs"]}
    known = node.get("namespace")
    around = module if known is None else known
    return _Facts(frozenset(shapes), around, node.get("source"), _names(node["op"]))


def _facts_of(data: Mapping[int, Mapping[str, Any]], group: Group) -> _Facts:
    attributes = [data[call] for call in group.calls]
    modules = (each["namespace"] for each in attributes if each["namespace"] is not None)
    lines = (each["source"] for each in attributes if each.get("source"))
    places = next(modules, None), next(lines, None)
    return _Facts(frozenset(group.takes), *places, frozenset(group.names))


_WORD = re.compile(r"[A-Za-z_]\w*")


def _names(op: str) -> frozenset[str]:
    """Return the functions that an operation's backward may call, from its formulas and name."""
    known = signature(op)
    formulas = () if known is None else known.formulas.values()
    words = {word for formula in formulas for word in _WORD.findall(formula)}
    parts = {part for word in words if "_" in word for part in word.split("_")}
    return frozenset({called(op), *words, *parts})


class _Evidence:
    """Scores for pairs of operations and groups."""

    def __init__(self, ours: Sequence[_Facts], theirs: Sequence[_Facts]) -> None:
        self._ours = ours
        self.beside: list[list[int]] = []
        self._any = [None in each.shapes or not each.shapes for each in theirs]
        self._shapes = _places(each.shapes for each in theirs)
        self._modules = _places({each.module} - {None} for each in theirs)
        self._lines = _places({each.line} - {None} for each in theirs)
        self._names = _places(each.names for each in theirs)

    def scores(self, here: range, there: range) -> Iterable[torch.Tensor]:
        """Return the score of each operation with each group; 0 for no match."""
        first, count = there.start, len(there)
        anything = integers([int(self._any[j]) for j in there])
        for i in here:
            facts = self._ours[i]

            def those(known: Mapping[Any, list[int]], keys: Iterable[Any]) -> torch.Tensor:
                row = torch.zeros(count, dtype=torch.int32, device="cpu")
                places = [j - first for key in keys for j in known.get(key, ()) if j in there]
                row[places] = 1
                return row

            if None in facts.shapes:
                fits = torch.ones_like(anything)
            else:
                fits = torch.maximum(those(self._shapes, facts.shapes), anything)
            nearby = [j for j in self.beside[i] if j in there] if self.beside else []
            evidence = 2 * those(self._modules, {facts.module} - {None})
            evidence += 2 * those(self._lines, {facts.line} - {None})
            evidence += 3 * those(self._names, facts.names)
            for j in nearby:
                evidence[j - first] += 3
            yield fits * (1 + evidence)


def _places(keys: Iterable[Iterable[Any]]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for place, some in enumerate(keys):
        for key in some:
            found.setdefault(key, []).append(place)
    return found


def _again(data: Mapping[int, Mapping[str, Any]], group: Group) -> list[int]:
    """Return the recomputed forward calls of a group.

    A call that makes no autograd node has the number of the next node. So a call of another module
    or line belongs to another operation.
    """
    own = data[group.carrying[0]]

    def is_alike(call: int, key: str) -> bool:
        both = own.get(key), data[call].get(key)
        return None in both or both[0] == both[1]

    return [c for c in group.again if is_alike(c, "namespace") and is_alike(c, "source")]
