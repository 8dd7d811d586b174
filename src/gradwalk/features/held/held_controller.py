"""Graphs of earlier updates that something still holds: a line of the panel, and a finding."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...checks.context import CheckContext
from ...checks.finding import Finding
from ...checks.memory import HeldGraph, HeldGraphs
from ...english import list_some, plural
from ...graph.adjacency import collector_paused
from ...graph.labels import in_bytes
from ...graph.names import Names
from ...result import make
from ...schema.findings import Severity
from ...sources.graph_source import GraphSource
from ...torch_api.nodes import is_accumulate_grad
from ...torch_api.saved_tensors import is_freed
from ...tracing.records import find_record, has_watched
from ...widget.controllers import Controller
from ...widget.graph_traits import GraphTraits
from .held import Group, LivingGraph, Number, held_graphs, number_in_thread, number_of
from .holders import advice_for, collapsed

_FEWEST = 3  # graphs of one container from which it grows

_FEWEST_PENDING = 8
"""The same where backward ran through none: the results of one step may wait in a list."""

_MOST_READ = 1000  # nodes of one graph whose records are read

_SHARE = 20  # the search takes at most one part in so many of a program's time

not_before = 0.0  # when the next search may begin, as ``time.monotonic()``


_seen: dict[str, set[Number]] = {}
"""Container, in words -> the graphs in it when `held_findings` searched the last time."""


def held_findings(context: CheckContext) -> Iterator[Finding]:
    """Yield a finding for each container that holds graphs of earlier iterations."""
    global not_before  # noqa: PLW0603
    start = time.monotonic()
    if start < not_before:
        return
    own = {number_of(context.captured.nodes[node]) for node, _ in context.captured.roots}
    latest = max((number or 0 for _, number in own), default=0)
    names = replace(context.called, edges={}, tensors={})
    with collector_paused():
        groups = [each for each in held_graphs(names, without=own) if _is_kept(each, latest)]
        not_before = time.monotonic() + _SHARE * (time.monotonic() - start)
        for group in groups:
            steps = _differ_in_time(group)
            if len(group.graphs) >= (_FEWEST if _has_run(group) else _FEWEST_PENDING) and (
                steps or _share_leaves(group)
            ):
                yield _finding(group, [node for node, _ in context.captured.roots], steps)
        _seen.clear()
        _seen.update((group.key, _numbers(group)) for group in groups)


def _is_kept(group: Group, latest: int) -> bool:
    """Whether graphs are alike, older than another one, and held by one container."""
    if not group.holders or any(each.kind in ("gradwalk", "output") for each in group.holders):
        return False
    return len({len(graph.nodes) for graph in group.graphs}) == 1 and group.age < latest


def _differ_in_time(group: Group) -> bool:
    """Whether graphs are known to be of several steps; several losses of one step are not.

    Evidence: the container held some of them at an earlier diagnosis and has more now, or a leaf
    was changed between their forward passes, as by an optimizer.
    """
    before, now = _seen.get(group.key, set()), _numbers(group)
    if before & now and now - before and _share_leaves(group):
        return True
    versions: dict[int, int] = {}
    for graph in group.graphs:
        for leaf, version in _versions(graph).items():
            if versions.setdefault(leaf, version) != version:
                return True
    return False


def _versions(graph: LivingGraph) -> dict[int, int]:
    """``id`` of each leaf of a watched graph -> how often it had been changed when it was used."""
    if not has_watched():
        return {}
    found = filter(None, map(find_record, graph.nodes[:_MOST_READ]))
    leaves = (leaf for record in found for leaf in record.facts.leaves)
    return {id(leaf.tensor()): leaf.version for leaf in leaves if leaf.tensor() is not None}


def _share_leaves(group: Group) -> bool:
    """Whether all graphs have a leaf in common; those of several models have none."""
    return bool(set.intersection(*(graph.leaves for graph in group.graphs)))


def _numbers(group: Group) -> set[Number]:
    """Tell the graphs of a group from others without a reference to them."""
    return {number_of(max(graph.nodes, key=number_in_thread)) for graph in group.graphs}


def _has_run(group: Group) -> bool:
    return any(is_freed(node) for graph in group.graphs for node in graph.nodes)


def _finding(group: Group, nodes: list[int], steps: bool) -> Finding:
    count, size = len(group.graphs), group.bytes()
    graphs = plural(count, "graph")
    holders = list_some(collapsed(each for each in group.holders if each.container == group.key), 3)
    has_run = _has_run(group)
    severity: Severity = "warning" if has_run and steps else "info"
    advice = "If backward is not meant to run through them, compute them under torch.no_grad()."
    if has_run:
        advice = advice_for(group.holders, group.is_scalar)
        if not steps:
            advice = f"If they are of earlier steps: {advice[0].lower()}{advice[1:]}"
    which = "of earlier steps" if steps else "computed before this one"
    message = f"{graphs} {which} are alive, {in_bytes(size)}, held by {holders}. {advice}"
    return make(Finding, "held", severity, nodes, message, {"graphs": count, "bytes": size})


_KEY = "gradwalk.held"
_GROWS = (
    "The graph of this step contains those of earlier ones. Detach what goes from step to step, as "
    "in `state = state.detach()`."
)


class _Mark:
    """It lives as long as the node that it marks."""


class HeldController(Controller[GraphTraits]):
    """Knows which of the graphs that the widget has shown are alive."""

    name = "held"

    def __init__(self, widget: GraphTraits) -> None:
        super().__init__(widget)
        self._shown: list[tuple[weakref.ref[_Mark], Number]] = []
        self._now: set[Number] = set()

    def on_source(self, source: GraphSource) -> None:
        """Mark the nodes that the graph starts from."""
        captured = source.autograd
        self._now = set()
        if captured is None:
            return
        self._shown = [each for each in self._shown if each[0]() is not None]
        for node in {captured.nodes[root] for root, _ in captured.roots}:
            if not is_accumulate_grad(node):
                mark = _Mark()
                known: Any = node.metadata
                known.setdefault(_KEY, mark)
                self._shown.append((weakref.ref(known[_KEY]), number_of(node)))
                self._now.add(number_of(node))

    def grows(self, names: Names) -> list[HeldGraph]:
        """Find the earlier graphs; see `GraphWidget.grows`."""
        earlier = {number for mark, number in self._shown if mark() is not None} - self._now
        if not earlier:
            return []
        with collector_paused():
            groups = held_graphs(names, among=earlier)
            for group in groups:  # the widget itself shows the last pass until the next one
                group.holders = [each for each in group.holders if each.own != id(self.widget)]
            groups = [each for each in groups if each.holders or each.others]
            return HeldGraphs(self._result(each, earlier) for each in groups)

    def _result(self, group: Group, earlier: set[Number]) -> HeldGraph:
        """Return a group; a graph that contains earlier ones counts as so many."""
        result = group.result()
        numbers = {number_of(node) for graph in group.graphs for node in graph.nodes}
        if not numbers & self._now:
            return result
        found = len(numbers & earlier)
        return make(HeldGraph, found, result.bytes, result.holders, result.line, _GROWS)

    def mask(self, trait: str, value: Any) -> Any:
        """Say in the panel of an output what the diagnosis has found about earlier graphs."""
        if trait != "details" or not value:
            return value
        about = [
            finding["message"]
            for finding in self.widget._findings or ()
            if finding["kind"] == "held" and value["id"] in finding["nodes"]
        ]
        return {**value, "about": " ".join((value["about"], *about))} if about else value
