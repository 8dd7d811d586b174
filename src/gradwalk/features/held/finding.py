"""The finding about graphs of earlier iterations that something still holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from ...checks.context import CheckContext
from ...checks.finding import Finding
from ...english import list_some, plural
from ...graph.adjacency import collector_paused
from ...graph.labels import in_bytes
from ...result import make
from ...torch_api.saved_tensors import is_freed
from .held import Group, held_graphs, number_of
from .holders import advice_for, collapsed

_FEWEST = 3  # graphs of one container from which it grows

_FEWEST_PENDING = 8
"""The same where backward ran through none: the results of one step may wait in a list."""

_SHARE = 20  # the search takes at most one part in so many of a program's time

not_before = 0.0  # when the next search may begin, as ``time.monotonic()``


def held_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Yield a finding for each container that holds graphs of earlier iterations."""
    global not_before  # noqa: PLW0603
    start = time.monotonic()
    if start < not_before:
        return
    own = {number_of(evidence.captured.nodes[node]) for node, _ in evidence.captured.roots}
    latest = max((number or 0 for _, number in own), default=0)
    names = replace(evidence.called, edges={}, tensors={})
    with collector_paused():
        groups = [each for each in held_graphs(names, without=own) if _grows(each, latest)]
        not_before = time.monotonic() + _SHARE * (time.monotonic() - start)
        for group in groups:
            yield _finding(group, [node for node, _ in evidence.captured.roots])


def _grows(group: Group, latest: int) -> bool:
    """Whether graphs are alike, older than another one, and held by one container."""
    if not group.holders or any(each.kind in ("gradwalk", "output") for each in group.holders):
        return False
    several = len({len(graph.nodes) for graph in group.graphs}) == 1 and group.age < latest
    return several and len(group.graphs) >= (_FEWEST if _has_run(group) else _FEWEST_PENDING)


def _has_run(group: Group) -> bool:
    return any(is_freed(node) for graph in group.graphs for node in graph.nodes)


def _finding(group: Group, nodes: list[int]) -> Finding:
    count, size = len(group.graphs), group.bytes()
    graphs = plural(count, "graph")
    holders = list_some(collapsed(each for each in group.holders if each.container == group.key), 3)
    if _has_run(group):
        advice, severity = advice_for(group.holders, group.is_scalar), "warning"
    else:
        severity = "info"
        advice = "If backward is not meant to run through them, compute them under torch.no_grad()."
    return make(
        Finding,
        "held",
        severity,  # type: ignore[arg-type]
        nodes,
        f"{graphs} of earlier steps are alive, {in_bytes(size)}, held by {holders}. {advice}",
        {"graphs": count, "bytes": size},
    )
