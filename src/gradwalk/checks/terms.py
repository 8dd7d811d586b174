"""Findings about a loss that is a sum: terms that dominate others, and whole passes added up."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
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
_MANY_PASSES = 4
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
    """What is odd about the terms of an output that is a sum.

    Args:
        evidence: What there is to judge by.
    """
    terms = _terms_of(evidence.captured.graph)
    if len(terms) > 1:
        yield from _passes(evidence, terms)
        if evidence.run is not None and len(terms) <= _MOST_COMPARED:
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


def _passes(evidence: CheckContext, terms: list[_Term]) -> Iterator[Finding]:
    """Many terms, each a forward pass of its own through the same operations."""
    graph = evidence.captured.graph
    made = Counter(
        tuple(sorted(Counter(graph.nodes[node]["op"] for node in term.own).items()))
        for term in terms
        if any(graph.nodes[node]["kind"] == "op" for node in term.own)
    )
    if not made:
        return
    _, times = made.most_common(1)[0]
    length = max(len(term.own) for term in terms)
    if times < _MANY_PASSES or length < 3:
        return
    node = terms[0].taken_by
    yield Finding(
        "passes",
        "info",
        [node],
        f"{times} terms, each of the same operations ({length} nodes at most), are added up in "
        f"this graph{evidence.at(node)}, and all are held in memory until backward has run. If "
        "they are losses of as many forward passes: where the sum is for printing, add "
        "loss.item(); where gradients are to be added up, call backward() on each.",
        {"passes": times},
    )


def _dominated(evidence: CheckContext, run: RecordedRun, terms: list[_Term]) -> Iterator[Finding]:
    """A term whose gradients are next to nothing beside those of another."""
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
        f"Of the terms of this loss {evidence.words(big)}{evidence.at(big)} dominates: where their "
        f"gradients meet it adds a norm of {known[most]:.3g}, "
        f"{evidence.words(small)}{evidence.at(small)} {known[least]:.3g}, which is {ratio:.3g} "
        "times less. If both are to be learned, weigh them.",
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
