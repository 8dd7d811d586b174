"""Findings about a loss that is a sum: terms that are constant, or dominate others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass

from ..backward.kept_gradients import KeptGradient, norms
from ..backward.recorded_run import RecordedRun
from ..explain.constants_and_cuts import words_of
from ..explain.zero_rules import FLAT
from ..graph.adjacency import predecessors, successors, walk
from ..lazily import nx
from ..result import make
from ..tracing.cuts import Constant, Cut
from ..tracing.operands import NO_DERIVATIVE
from .context import CheckContext
from .finding import Finding

_DOMINATES = 1e3  # times as large as what another term adds to the same gradients
_MOST_COMPARED = 16  # terms
_MOST_TERMS = 1000
_ADDS = frozenset({"AddBackward0", "SubBackward0"})
_JOINS = frozenset({"StackBackward0", "CatBackward0"})
_SCALES = frozenset({"MulBackward0", "DivBackward0", "NegBackward0"})
_COPIED = frozenset({"item", "copy", "numpy"})
_UNMEANT = _COPIED | {NO_DERIVATIVE, "integer result", "integer cast"}


@dataclass(frozen=True)
class _Term:
    """One of several parts that an output is the sum of."""

    node: int  # its node
    taken_by: int  # the addition that took it
    own: frozenset[int]  # the nodes that lead to no other term


def term_findings(context: CheckContext) -> Iterator[Finding]:
    """Find terms of a sum that are constant or dominate others."""
    yield from _constant_terms(context)
    terms = _terms_of(context.captured.graph)
    if context.run is not None and 1 < len(terms) <= _MOST_COMPARED:
        yield from _dominated(context, context.run, terms)


def constant_terms(context: CheckContext) -> dict[Cut, int]:
    """The first cut before each constant that is a term of the loss -> the addition."""
    found: dict[Cut, int] = {}
    for node in _sums(context.captured.graph):
        seen = context.captured.annotations.get(node)
        for each in () if seen is None else seen.constants:
            cuts = _by_mistake(each) if math.prod(each.shape) == 1 else []
            if cuts and not any(_takes_away(context, cut) for cut in cuts):
                found.setdefault(cuts[0], node)
    return found


def _constant_terms(context: CheckContext) -> Iterator[Finding]:
    """Find terms that train nothing, although they come from tensors that require grad."""
    graph = context.captured.graph
    for cut, node in constant_terms(context).items():
        remedy = "the tensor itself" if cut.how in _COPIED else "one with a derivative"
        yield _constant_term(context, [node], f"{words_of(cut.cause)}. Use {remedy}")
    flat = {node for node, op in graph.nodes(data="op") if op in FLAT}
    trained = _above_leaves(graph, flat) if flat else set()
    for node in _sums(graph) if flat else ():
        for term in graph.succ[node]:
            if term not in trained:
                steps = _steps_before(graph, term, flat)
                why = f"{context.place(steps[0])} gives the same for inputs that differ a little"
                yield _constant_term(context, [term, *steps], f"{why}. Use one with a slope")


def _constant_term(context: CheckContext, nodes: list[int], why: str) -> Finding:
    message = (
        f"A term of the loss trains nothing, at {context.place(nodes[0])}. It was computed from "
        f"a tensor that requires grad, but without a gradient: {why} if the term should train."
    )
    return make(Finding, "constant-term", "info", nodes, message)


def _sums(graph: nx.MultiDiGraph) -> Iterator[int]:
    """Yield the operations that add up the one number that backward starts from."""
    waiting = list(dict.fromkeys(node for node, _ in graph.graph["roots"]))
    if len(waiting) > 1:
        return
    for node in waiting:  # grows while we walk
        op, children = graph.nodes[node]["op"], list(graph.succ[node])
        is_one = _is_number(graph, node)
        if op in _JOINS or (is_one and op in _ADDS):
            yield node
            waiting += [each for each in children if len(graph.pred[each]) == 1]
        elif is_one and len(children) == 1 and (op in _SCALES or _joins(graph, children[0])):
            waiting += children


def _joins(graph: nx.MultiDiGraph, node: int) -> bool:
    return graph.nodes[node]["op"] in _JOINS and len(graph.pred[node]) == 1


def _by_mistake(constant: Constant) -> list[Cut]:
    """The cuts on the way to a constant, if nothing on it was cut on purpose."""
    hows = [how for cut in constant.cuts for how, _ in (cut.cause, *cut.again)]
    return list(constant.cuts) if set(hows) <= _UNMEANT else []


def _takes_away(context: CheckContext, cut: Cut) -> bool:
    """Whether a cut keeps a parameter from every gradient: another finding says so."""
    behind = (id(tensor) for leaf in cut.leaves if (tensor := leaf()) is not None)
    return any(key in context.expected and not context.is_used(key) for key in behind)


def _above_leaves(graph: nx.MultiDiGraph, flat: Container[int]) -> set[int]:
    """The nodes from which a way leads to a leaf, or another end, without operations of slope 0."""
    before = predecessors(graph)
    ends = [node for node, after in successors(graph).items() if not after and node not in flat]
    return set(walk(ends, lambda i: [each for each in before[i] if each not in flat]))


def _steps_before(graph: nx.MultiDiGraph, term: int, flat: Container[int]) -> list[int]:
    """The operations of slope zero behind which all leaves of a term are."""
    after = successors(graph)
    return [i for i in walk([term], lambda i: () if i in flat else after[i]) if i in flat]


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
    return graph.nodes[node]["op"] == "AddBackward0" and _is_number(graph, node)


def _is_number(graph: nx.MultiDiGraph, node: int) -> bool:
    shape = graph.nodes[node]["shape"]
    return shape is not None and math.prod(shape) == 1


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


def _dominated(context: CheckContext, run: RecordedRun, terms: list[_Term]) -> Iterator[Finding]:
    """Find a term whose gradients are tiny beside those of another."""
    known = {number: norm for number, norm in _met(context, run, terms).items() if norm > 0}
    if len(known) < 2:
        return
    most, least = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    ratio = known[most] / known[least]
    if ratio < _DOMINATES:
        return
    big, small = terms[most].node, terms[least].node
    message = (
        f"One term of the loss dominates: where both gradients meet, the term from "
        f"{context.place(big)} has a norm of {known[most]:.3g}. The one from "
        f"{context.place(small)} has {known[least]:.3g}, {ratio:.3g} times less. If both "
        "should be learned, weigh them."
    )
    yield make(Finding, "dominated", "info", [small, big], message, {"ratio": ratio})


def _met(context: CheckContext, run: RecordedRun, terms: list[_Term]) -> dict[int, float]:
    """The norm of what each term adds to gradients that another one adds to, too."""
    graph = context.captured.graph
    owner = {node: number for number, term in enumerate(terms) for node in term.own}
    shares: list[tuple[int, int, KeptGradient | None]] = []
    for node in run.steps:
        if node in owner:
            continue
        for source, edges in predecessors(graph)[node].items():
            step = run.steps.get(source)
            if source in owner and step is not None:
                passed = [step.grad_inputs[edge["arg_nr"]] for edge in edges.values()]
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
