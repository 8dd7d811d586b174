"""Findings about a loss that is a sum: terms that dominate others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from ..backward.kept_gradients import KeptGradient, norms
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import predecessors, successors
from .context import CheckContext
from .finding import Finding

_DOMINATES = 1e3  # times as large as what another term adds to the same gradients
_MOST_COMPARED = 16  # terms
_MOST_TERMS = 1000


@dataclass(frozen=True)
class _Term:
    """One of several parts that an output is the sum of.

    Attributes:
        node: Its node.
        taken_by: The addition that took it.
        own: The nodes that lead to no other term.
    """

    node: int
    taken_by: int
    own: frozenset[int]


def term_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Find terms of a sum that dominate others.

    Args:
        evidence: The evidence.
    """
    terms = _terms_of(evidence.captured.graph)
    if evidence.run is not None and 1 < len(terms) <= _MOST_COMPARED:
        yield from _dominated(evidence, evidence.run, terms)


def _terms_of(graph: nx.MultiDiGraph) -> list[_Term]:
    """The parts of one number that was added up, with what each is alone in leading to."""
    roots = list(dict.fromkeys(node for node, _ in graph.graph["roots"]))
    while len(roots) == 1 and not _is_sum(graph, roots[0]) and len(graph.succ[roots[0]]) == 1:
        roots = list(graph.succ[roots[0]])  # a sum that was scaled
    if len(roots) != 1 or not _is_sum(graph, roots[0]):
        return []
    sums, parts = list(roots), []
    for node in sums:  # grows while we walk
        for child, edges in successors(graph)[node].items():
            if _is_sum(graph, child) and len(graph.pred[child]) == 1:
                sums.append(child)
            elif graph.nodes[child]["kind"] == "op":
                parts += [(child, node)] * len(edges)
        if len(parts) > _MOST_TERMS:
            return []
    own = _exclusive(graph, [node for node, _ in parts])
    return [
        _Term(node, taken_by, frozenset(own[number]))
        for number, (node, taken_by) in enumerate(parts)
    ]


def _is_sum(graph: nx.MultiDiGraph, node: int) -> bool:
    data = graph.nodes[node]
    shape = data["shape"]
    return data["op"] == "AddBackward0" and shape is not None and math.prod(shape) == 1


def _exclusive(graph: nx.MultiDiGraph, starts: list[int]) -> dict[int, list[int]]:
    """By the number of each start, the nodes that it alone leads to."""
    owner: dict[int, int] = {}
    shared = -1
    order = list(zip(starts, range(len(starts)), strict=True))
    for node, number in order:  # grows while we walk; a node is passed at most twice
        known = owner.get(node)
        if known in (number, shared):
            continue
        owner[node] = number if known is None else shared
        order += [(child, owner[node]) for child in graph.succ[node]]
    own: dict[int, list[int]] = defaultdict(list)
    for node, number in owner.items():
        own[number].append(node)
    return own


def _dominated(evidence: CheckContext, run: RecordedRun, terms: list[_Term]) -> Iterator[Finding]:
    """Find a term whose gradients are tiny beside those of another."""
    known = {number: norm for number, norm in _met(evidence, run, terms).items() if norm > 0}
    if len(known) < 2:
        return
    most, least = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    ratio = known[most] / known[least]
    if ratio < _DOMINATES:
        return
    big, small = terms[most].node, terms[least].node
    yield Finding(
        "dominated",
        "info",
        [small, big],
        f"One term of the loss dominates: where both gradients meet, the term from "
        f"{evidence.place(big)} has a norm of {known[most]:.3g}. The one from "
        f"{evidence.place(small)} has {known[least]:.3g}, {ratio:.3g} times less. If both "
        "should be learned, weigh them.",
        {"ratio": ratio},
    )


def _met(evidence: CheckContext, run: RecordedRun, terms: list[_Term]) -> dict[int, float]:
    """The norm of what each term adds to gradients that another one adds to, too."""
    graph = evidence.captured.graph
    owner = {node: number for number, term in enumerate(terms) for node in term.own}
    shares: list[tuple[int, int, KeptGradient | None]] = []
    for node in run.steps:
        if node in owner:
            continue
        for source, edges in predecessors(graph)[node].items():
            step = run.steps.get(source)
            if source in owner and step is not None:
                passed = [step.grad_inputs[edge["input_nr"]] for edge in edges.values()]
                shares += [(owner[source], node, kept) for kept in passed]
    added: dict[int, dict[int, float]] = defaultdict(dict)
    for (number, node, _), norm in zip(shares, norms([kept for *_, kept in shares]), strict=True):
        if norm is not None and math.isfinite(norm):
            added[node][number] = math.hypot(added[node].get(number, 0.0), norm)
    sums: dict[int, float] = {}
    for by_term in added.values():
        for number, norm in by_term.items() if len(by_term) > 1 else ():
            sums[number] = math.hypot(sums.get(number, 0.0), norm)
    return sums
