"""The rows of a numeric comparison, and the sentences about them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ...english import list_some, plural
from ...graph.adjacency import predecessors, successors, walk
from ...graph.labels import label
from ...lazily import nx
from ...result import make, replaced, returned_by
from ...schema.comparison import ErrorModel, ErrorsModel
from ...schema.json_values import json_number
from ...schema.values import JsonNumber
from ...sources.open_nodes import Opening
from ...torch_api.tolerances import tolerances
from ..compiled.counterparts import counterparts
from .aligned import Aligned, Distances, describe_difference, differing
from .known_numbers import RunNumbers
from .tensor_distance import Compared, Number, TensorDistance, tensor_distance

Tolerance = tuple[float, float]


def rows_inside(
    both: Aligned, tolerance: Callable[[str | None, str | None], Tolerance]
) -> tuple[list[NumericsRow], list[str]]:
    """Return a row per operation known in both runs; and sentences on why others are not."""
    openings = [side.source.all_open() for side in (both.here, both.there)]
    has_code = [opening is not None and bool(opening.inside) for opening in openings]
    if has_code == [True, False]:
        swapped, why = rows_inside(both.swapped(), tolerance)
        return [replaced(row, nodes=(row.nodes[1], row.nodes[0])) for row in swapped], why
    opening = openings[1] if has_code == [False, True] else None
    recorded = both.there.source.recording
    if opening is None or recorded is None:
        return [], []
    every = (opening.numbers(node, recorded) for node in opening.inside)
    why = [numbers for numbers in every if isinstance(numbers, str)]
    plain, model = both.here.source, both.here.source.model["nodes"]
    drawn = opening.captured.drawn
    found = counterparts(plain.graph, drawn, both.pairs, lambda node: model[node]["namespace"])
    rows: list[NumericsRow] = []
    for node, each in found.of.items():
        if each.main is None:
            continue
        allowed = tolerance(plain.drawn.nodes[node]["dtype"], drawn.nodes[each.main]["dtype"])
        apart = _gap(both.here, node, _arrived(opening, both.there, each.main, each.calls), allowed)
        if apart is not None:
            rows.append(row_of(both.here, (node, each.main), (None, apart), allowed))
    return rows, list(dict.fromkeys(why))


def _gap(
    here: RunNumbers, node: int, found: Number | None, allowed: Tolerance
) -> TensorDistance | None:
    """The distance between the gradient of a call and the incoming gradient of an operation."""
    arrived = [each for each in here.gradients(node) if each is not None]
    if found is None or len(arrived) != 1:
        return None
    return tensor_distance(arrived[0], found, allowed, lambda: here.largest(node))


def _arrived(
    opening: Opening, there: RunNumbers, call: int, group: tuple[int, ...]
) -> Number | None:
    """The incoming gradient of an operation's calls; None unless there is exactly one."""
    recorded, drawn = there.source.recording, opening.captured.drawn
    assert recorded is not None
    found: list[Number] = []
    for source, _, edge in drawn.in_edges(call, data=True):
        if edge.get("kind") != "gradient" or source in group:
            continue
        place = opening.places.get(source)
        if place is None:
            step = recorded.run.steps.get(source)
            kept = None if step is None else step.grad_outputs[edge["arg_nr"]]
        else:
            kept = opening.given(place, recorded, edge["arg_nr"])
        number = Number.kept(kept)
        if number is None:
            return None
        found.append(number)
    return found[0] if len(found) == 1 else None


def notes_inside(rows: list[NumericsRow], why: list[str]) -> list[str]:
    """Return sentences on the gradients inside compiled code."""
    notes = [f"Inside compiled code: {each}" for each in why]
    if not rows:
        return notes
    out = [row for row in reversed(rows) if row.leaves]
    what = f"{plural(len(rows), 'gradient')} inside compiled code"
    if not out:
        return [*notes, f"{what} {'is' if len(rows) == 1 else 'are'} within tolerance, too."]
    row = out[0]
    where = ", ".join(filter(None, (row.module and f"in {row.module}", row.line)))
    return [
        *notes,
        f"{len(out):,} of {what} {'is' if len(out) == 1 else 'are'} out of tolerance. The first in "
        f"backward order is the gradient at {row.label}{' ' + where if where else ''}, with a "
        f"relative error of {row.grad_error:.2g}.",
    ]


_MOST_FIRST: list[Compared] = ["all", "sample", "norm"]


@returned_by("compare_numerics(a, b)")
@dataclass(frozen=True)
class NumericsRow:
    """The same operation or leaf in both runs.

    Attributes:
        nodes: Its id in ``a`` and in ``b``, as `gradwalk.capture` numbers them.
        label: Its label: the name of its tensor, or its operation.
        op: Its class, "LogSoftmaxBackward0".
        module: The module that ran it, "encoder.layers.0"; None if unknown.
        line: Its place in the program, "train.py:5", if it was watched.
        value_error: The relative error of its forward value: the 2-norm of the difference divided
            by the norm of the value in ``a``. None unless both are known.
        grad_error: The relative error of its incoming gradient; the largest of several outputs. If
            only one run has a gradient, it is compared with zeros.
        tolerance: The relative and the absolute tolerance that were given; else those of
            ``torch.testing.assert_close`` for the coarser of the two dtypes.
        leaves: The first part out of tolerance, "value" or "gradient"; None if neither is.
        numbers: The expected and the actual number that are furthest out of tolerance.
        compared: "all" of the numbers, a "sample" of up to 64, or only the "norm": the least of
            value and gradient. None if nothing could be compared.
    """

    nodes: tuple[int, int]
    label: str
    op: str
    module: str | None
    line: str | None
    value_error: float | None
    grad_error: float | None
    tolerance: tuple[float, float]
    leaves: Literal["value", "gradient"] | None
    numbers: tuple[float | complex, float | complex] | None
    compared: Compared | None


def row_of(
    here: RunNumbers,
    nodes: tuple[int, int],
    distances: Distances,
    tolerance: tuple[float, float],
) -> NumericsRow:
    """Return the row of a node of ``here`` and its match."""
    data = here.source.drawn.nodes[nodes[0]]
    module = here.source.model["nodes"][nodes[0]]["namespace"]
    value, grad = distances
    out: list[tuple[Literal["value", "gradient"], TensorDistance]] = []
    if value and value.leaves:
        out.append(("value", value))
    if grad and grad.leaves:
        out.append(("gradient", grad))
    return make(
        NumericsRow,
        nodes=nodes,
        label=label(data),
        op=data["op"],
        module=module.replace("/", ".") if module else None,
        line=data.get("source"),
        value_error=None if value is None else value.error,
        grad_error=None if grad is None else grad.error,
        tolerance=tolerance,
        leaves=out[0][0] if out else None,
        numbers=out[0][1].worst if out else None,
        compared=least_of([each.compared for each in distances if each]),
    )


def least_of(compared: Sequence[Compared]) -> Compared | None:
    """Return the least complete of several kinds of comparison; None for none."""
    return next((each for each in reversed(_MOST_FIRST) if each in compared), None)


def verdict(
    first: NumericsRow | None, rows: Sequence[NumericsRow], *, is_whole: bool = True
) -> str:
    """Return a sentence: whether the two agree, and where they diverge first."""
    if first is None:
        values = sum(each.value_error is not None for each in rows)
        grads = sum(each.grad_error is not None for each in rows)
        if not values + grads:
            return "No numbers of the two runs could be compared."
        as_far = "" if is_whole else " as far as they could be compared"
        return (
            f"The two agree{as_far}: all {values:,} values and {grads:,} gradients that were "
            "compared are within tolerance."
        )
    error = first.value_error if first.leaves == "value" else first.grad_error
    rtol, atol = first.tolerance
    assert first.numbers is not None
    expected, found = first.numbers
    what = "the norm" if first.compared == "norm" else "a number"
    counted_in = " times its largest number" * (first.leaves == "gradient")
    counted_in += " times the square root of its size" * (first.compared == "norm")
    return (
        f"The two first diverge in the {first.leaves} of {describe_row(first)}: "
        f"{what} is {found:.6g} instead of {expected:.6g}, with rtol={rtol:g} and "
        f"atol={atol:g}{counted_in}. The relative error of the whole is {error:.2g}."
    )


def causes_of(both: Aligned, first: NumericsRow | None, known: Collection[int]) -> list[str]:
    """Return sentences on what the two runs gave to the operations around the first divergence.

    ``known``: the nodes of ``here`` whose values are known in both runs.
    """
    if first is None:
        return []
    if first.op == "AccumulateGrad" and first.leaves == "value":
        return ["It is a leaf: the two runs started from different numbers."]
    return [*_hooked_at(both, first), *_arguments_at(both, first, known)]


def _arguments_at(both: Aligned, first: NumericsRow, known: Collection[int]) -> list[str]:
    """A sentence on an argument that differs, of an operation that may cause the divergence.

    For a value these are the operations after the last known values, for a gradient the ones that
    pass it.
    """
    node = first.nodes[0]
    below = successors(both.here.source.graph)
    if first.leaves == "value":
        near = set(walk([node], lambda at: below[at] if at == node or at not in known else ()))
    else:
        near = {node, *predecessors(both.here.source.graph)[node]}
    found = []
    for each in sorted(near & both.pairs.keys()):
        data = both.here.source.graph.nodes[each]
        differs = describe_difference(data["op"], differing(both, each))
        if differs:
            found.append(differs if each == node else f"At {label(data)}: {differs}")
    return found[:1]


def _hooked_at(both: Aligned, first: NumericsRow) -> list[str]:
    """A sentence if a hook of one run changed the first gradient that differs."""
    if first.leaves != "gradient":
        return []
    nodes = dict(zip("ab", zip((both.here, both.there), first.nodes, strict=True), strict=True))
    hooked = [name for name, (known, node) in nodes.items() if _is_hooked(known, node)]
    if len(hooked) != 1:
        return []
    return [f"In {hooked[0]} a hook changed this gradient: it is not the sum of its contributions."]


def _is_hooked(known: RunNumbers, node: int) -> bool:
    """Whether the gradient of a node differs from the sum of its contributions."""
    arrived, graph = known.arrived(node), known.source.graph
    edges = list(graph.in_edges(node, data=True))
    passed = {source: known.passed(source) for source, _, _ in edges}
    if arrived is None or any(node == root for root, _ in graph.graph["roots"]):
        return False
    for nr, grad in enumerate(arrived):
        parts = [
            None if (grads := passed[source]) is None else grads[edge["arg_nr"]]
            for source, _, edge in edges
            if edge["output_nr"] == nr
        ]
        given = [part for part in parts if part is not None]
        is_known = grad is not None and given and len(given) == len(parts)
        if grad is None or not is_known or any(part.shape != grad.shape for part in given):
            continue
        rtol, _ = tolerances(grad.dtype)
        largest = max((Number(part).largest for part in given), default=0.0)
        total = functools.reduce(torch.add, given)
        scale = functools.partial(float, largest)
        found = tensor_distance(Number(total), Number(grad), (rtol, rtol), scale)
        if found is not None and found.leaves:
            return True
    return False


def describe_row(row: NumericsRow) -> str:
    """Return a node's label, with its module and line."""
    name = _named(row)
    where = ", ".join(filter(None, (row.module and f"in {row.module}", row.line)))
    return f"{name} {where}" if where else name


def _named(row: NumericsRow) -> str:
    return row.label if row.label == row.op else f"{row.label} ({row.op})"


def unmatched_in(both: Aligned, inside: Sequence[NumericsRow] = ()) -> list[list[int]]:
    """Return the unmatched nodes of each run, without those found inside compiled code."""
    return [
        sorted(set(alone) - {row.nodes[side] for row in inside})
        for side, alone in enumerate(both.unmatched())
    ]


def other_shapes(both: Aligned, rows: Sequence[NumericsRow]) -> list[NumericsRow]:
    """Return the rows that could not be compared because their shapes differ."""
    here, there = both.here.source.graph.nodes, both.there.source.graph.nodes
    return [
        row
        for row in rows
        if row.compared is None and here[row.nodes[0]]["shape"] != there[row.nodes[1]]["shape"]
    ]


def notes_about(
    both: Aligned, rows: Sequence[NumericsRow], inside: Sequence[NumericsRow] = ()
) -> list[str]:
    """Return sentences on nodes not aligned or not compared in full."""
    sides = (("a", both.here.source), ("b", both.there.source))
    alones = unmatched_in(both, inside)
    notes = [
        f"{plural(len(alone), 'node')} of {name} could not be aligned: "
        f"{_labels_of(source.graph, alone)}."
        for (name, source), alone in zip(sides, alones, strict=True)
        if alone
    ]
    notes += _arriving_in_one(both, rows)
    notes += [
        f"No backward pass is recorded in {name}, so no gradient is compared."
        for name, source in sides
        if source.recorded is None
    ]
    for how, words in (("sample", "a sample of up to 64 numbers"), ("norm", "the norms")):
        count = sum(row.compared == how for row in rows)
        if count:
            notes.append(f"For {plural(count, 'node')} only {words} could be compared.")
    others = other_shapes(both, rows)
    if others:
        graph = both.here.source.graph
        found = _labels_of(graph, [row.nodes[0] for row in others])
        notes.append(
            f"{plural(len(others), 'node')} with different shapes could not be compared: {found}."
        )
    unknown = sum(row.compared is None for row in rows) - len(others)
    if unknown:
        notes.append(f"Of {plural(unknown, 'node')} no number is known in both.")
    return notes


def _arriving_in_one(both: Aligned, rows: Sequence[NumericsRow]) -> list[str]:
    """Sentences on the nodes that receive a gradient in only one of the runs."""
    if both.here.source.recorded is None or both.there.source.recorded is None:
        return []
    alone: dict[str, list[int]] = {"a": [], "b": []}
    for row in rows:
        here, there = both.here.lacks(row.nodes[0]), both.there.lacks(row.nodes[1])
        if here != there:
            alone["b" if here else "a"].append(row.nodes[0])
    graph = both.here.source.graph
    return [
        f"Only in {name}, {plural(len(nodes), 'node')} got a gradient, which is compared with "
        f"zeros: {_labels_of(graph, nodes)}."
        for name, nodes in alone.items()
        if nodes
    ]


def errors_model(
    places: Mapping[int, Mapping[int, int]],
    rows: Sequence[NumericsRow],
    first: NumericsRow | None,
    summary: str,
) -> ErrorsModel:
    """Return the errors as JSON values; ``places``: side -> node of its graph -> drawn place."""
    nodes: list[ErrorModel] = []
    for row in rows:
        both = [places[side][node] for side, node in enumerate(row.nodes)]
        nodes += [_error(row, place) for place in dict.fromkeys(both)]
    return {
        "sentence": summary,
        "first": None if first is None else places[0][first.nodes[0]],
        "nodes": nodes,
    }


def _error(row: NumericsRow, place: int) -> ErrorModel:
    return {
        "place": place,
        "value": _json(row.value_error),
        "grad": _json(row.grad_error),
        "leaves": row.leaves,
    }


def _json(error: float | None) -> JsonNumber | None:
    return None if error is None else json_number(error)


def _labels_of(graph: nx.MultiDiGraph, nodes: Sequence[int]) -> str:
    return list_some([label(graph.nodes[node]) for node in nodes], 4)
