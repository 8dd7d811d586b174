"""One operation of two runs that are compared, and what there is to say of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import networkx as nx

from ...english import list_some, plural
from ...graph.labels import label
from ...schema.comparison import ErrorModel, ErrorsModel, ErrorSourceModel
from ...schema.values import JsonNumber
from ...torch_api.json_values import json_number
from .aligned import Aligned
from .arguments import differing, words_of
from .tensor_distance import Compared

MOST_SOURCES = 100
"""Nodes that are listed where error arises."""

_MOST_FIRST: list[Compared] = ["all", "sample", "norm"]


@dataclass(frozen=True)
class NumericsRow:
    """The same operation or leaf in both runs.

    Attributes:
        nodes: Its id in ``a`` and in ``b``, as `gradwalk.capture` numbers them.
        label: What stands on it: the name of its tensor, or its operation.
        op: Its class, "LogSoftmaxBackward0".
        module: Where it ran, "encoder.layers.0"; None where that is not known.
        line: Its place in the program, "train.py:5", where it was watched.
        value_error: The relative error of what the forward pass gave: the 2-norm of the difference
            by that of the value in ``a``. None where it is not known in both.
        grad_error: The same of the gradient that arrived; of several outputs the largest. Where
            one arrived in one of the two alone, zeros stand for the other.
        own_error: How much of it arises here, relative to what the node gives: what is left of its
            error without what the errors of its inputs make of it. None of a leaf, and where it is
            not known: also where what goes in is off by more than a tenth, and most of the error
            may be what the operation makes of that.
        is_estimate: Whether ``own_error`` was estimated from the errors around the node, because
            the node could not run again, a value next to it is not known, or one run alone has
            something before it.
        tolerance: The relative and the absolute one that were asked for; else those of
            ``torch.testing.assert_close`` for the coarser of the two dtypes.
        leaves: "value" or "gradient", whichever is out of tolerance first; None for neither.
        numbers: What was expected, and what was found, where that is furthest out of tolerance.
        compared: "all" of the numbers, a "sample" of up to 64 of a tensor, or its "norm" alone,
            whichever is the least of value and gradient; None where nothing could be compared.
    """

    nodes: tuple[int, int]
    label: str
    op: str
    module: str | None
    line: str | None
    value_error: float | None
    grad_error: float | None
    own_error: float | None
    is_estimate: bool
    tolerance: tuple[float, float]
    leaves: Literal["value", "gradient"] | None
    numbers: tuple[float | complex, float | complex] | None
    compared: Compared | None


def least_of(compared: Sequence[Compared]) -> Compared | None:
    """Which of them tells the least; None of none."""
    return next((each for each in reversed(_MOST_FIRST) if each in compared), None)


def verdict(
    first: NumericsRow | None, rows: Sequence[NumericsRow], *, is_whole: bool = True
) -> str:
    """A sentence: whether the two agree, and where they part first.

    Args:
        first: The node that is out of tolerance first.
        rows: All that were compared.
        is_whole: Whether these are all that the two have.
    """
    if first is None:
        values = sum(each.value_error is not None for each in rows)
        grads = sum(each.grad_error is not None for each in rows)
        if not values + grads:
            return "No number of the two could be compared."
        as_far = "" if is_whole else " as far as they could be compared"
        return (
            f"The two agree{as_far}: of the {values:,} values and {grads:,} gradients that were "
            "compared, each is within its tolerance."
        )
    error = first.value_error if first.leaves == "value" else first.grad_error
    rtol, atol = first.tolerance
    assert first.numbers is not None
    expected, found = first.numbers
    what = "the norm" if first.compared == "norm" else "a number of it"
    counted_in = "".join(
        [
            " times its largest number" * (first.leaves == "gradient"),
            " times the root of how many numbers it has" * (first.compared == "norm"),
        ]
    )
    return (
        f"The first to part is the {first.leaves} of {called(first)}: {what} is {found:.6g}, "
        f"where {expected:.6g} was expected within rtol={rtol:g} and atol={atol:g}{counted_in}; "
        f"as a whole its relative error is {error:.2g}."
    )


def culprit(both: Aligned, first: NumericsRow | None, ranked: Sequence[NumericsRow]) -> list[str]:
    """Sentences on where most error arises, if any does, and what is other there."""
    if first is not None and first.op == "AccumulateGrad" and first.leaves == "value":
        return ["It is a leaf, so the two were given other numbers, and all below may follow."]
    if not ranked or not ranked[0].own_error:
        return []
    row = ranked[0]
    node = row.nodes[0]
    beside = "" if both.is_aligned(node) else ", or at what is not the same in both before it"
    guess = ", by estimate" if row.is_estimate else ""
    own = f"a relative error of {row.own_error:.2g} of its own"
    given = words_of(row.op, differing(both, node))
    found = f"Most error arises at {called(row)}{beside}{guess}: {own}."
    return [found, given] if given else [found]


def called(row: NumericsRow) -> str:
    """A node in words, with its module and line."""
    name = _named(row)
    where = ", ".join(filter(None, (row.module and f"in {row.module}", row.line)))
    return f"{name} {where}" if where else name


def _named(row: NumericsRow) -> str:
    return row.label if row.label == row.op else f"{row.label} ({row.op})"


def alone_in(both: Aligned, inside: Sequence[NumericsRow] = ()) -> list[list[int]]:
    """The nodes that one of the two alone has, without those found inside of compiled code."""
    return [
        sorted(set(alone) - {row.nodes[side] for row in inside})
        for side, alone in enumerate(both.alone())
    ]


def other_shapes(both: Aligned, rows: Sequence[NumericsRow]) -> list[NumericsRow]:
    """Rows of which no number could be compared because the two have other shapes."""
    here, there = both.here.subject.graph.nodes, both.there.subject.graph.nodes
    return [
        row
        for row in rows
        if row.compared is None and here[row.nodes[0]]["shape"] != there[row.nodes[1]]["shape"]
    ]


def notes_about(
    both: Aligned, rows: Sequence[NumericsRow], inside: Sequence[NumericsRow] = ()
) -> list[str]:
    """What could not be aligned, not be compared in full, or only be estimated, in sentences."""
    sides = (("a", both.here.subject), ("b", both.there.subject))
    alones = alone_in(both, inside)
    notes = [
        f"{plural(len(alone), 'node')} of {name} could not be aligned: "
        f"{_labels_of(subject.graph, alone)}."
        for (name, subject), alone in zip(sides, alones, strict=True)
        if alone
    ]
    notes += _arriving_in_one(both, rows)
    notes += [
        f"No backward pass is recorded in {name}, so no gradient is compared."
        for name, subject in sides
        if subject.recorded is None
    ]
    for how, words in (("sample", "a sample of up to 64 numbers"), ("norm", "the norms alone")):
        count = sum(row.compared == how for row in rows)
        if count:
            notes.append(f"Of {plural(count, 'node')} {words} could be compared: no more is known.")
    others = other_shapes(both, rows)
    if others:
        graph = both.here.subject.graph
        found = _labels_of(graph, [row.nodes[0] for row in others])
        notes.append(
            f"{plural(len(others), 'node')} of other shapes in the two, not compared: {found}."
        )
    unknown = sum(row.compared is None for row in rows) - len(others)
    if unknown:
        notes.append(f"Of {plural(unknown, 'node')} no number is known in both.")
    guessed = sum(row.is_estimate for row in rows)
    if guessed:
        notes.append(
            f"What arises at {plural(guessed, 'node')} is an estimate, from what is around."
        )
    return notes


def _arriving_in_one(both: Aligned, rows: Sequence[NumericsRow]) -> list[str]:
    """Where a gradient arrives in one of the two alone, in sentences."""
    if both.here.subject.recorded is None or both.there.subject.recorded is None:
        return []
    alone: dict[str, list[int]] = {"a": [], "b": []}
    for row in rows:
        here, there = both.here.lacks(row.nodes[0]), both.there.lacks(row.nodes[1])
        if here != there:
            alone["b" if here else "a"].append(row.nodes[0])
    graph = both.here.subject.graph
    return [
        f"In {name} alone a gradient arrives at {plural(len(nodes), 'node')}: "
        f"{_labels_of(graph, nodes)}; "
        "it is compared with zeros."
        for name, nodes in alone.items()
        if nodes
    ]


def errors_model(
    places: Mapping[int, Mapping[int, int]],
    rows: Sequence[NumericsRow],
    first: NumericsRow | None,
    ranked: Sequence[NumericsRow],
    said: str,
) -> ErrorsModel:
    """What the picture shows of two runs.

    Args:
        places: Side, 0 and 1 -> node of that graph -> its place among all nodes.
        rows: The nodes that both have.
        first: The one that is out of tolerance first.
        ranked: Those whose own error is known, the largest first.
        said: What there is to say of all.

    Returns:
        Plain JSON values. A row whose two nodes have places of their own has one for each.
    """
    nodes: list[ErrorModel] = []
    for row in rows:
        both = [places[side][node] for side, node in enumerate(row.nodes)]
        nodes += [_error(row, place) for place in dict.fromkeys(both)]
    sources: list[ErrorSourceModel] = [
        {
            **_error(row, places[0][row.nodes[0]]),
            "label": _named(row),
            "where": ", ".join(filter(None, (row.module, row.line))),
        }
        for row in ranked[:MOST_SOURCES]
        if row.own_error
    ]
    return {
        "said": said,
        "first": None if first is None else places[0][first.nodes[0]],
        "nodes": nodes,
        "sources": sources,
    }


def _error(row: NumericsRow, place: int) -> ErrorModel:
    return {
        "place": place,
        "value": _json(row.value_error),
        "grad": _json(row.grad_error),
        "own": _json(row.own_error),
        "is_estimate": row.is_estimate,
        "leaves": row.leaves,
    }


def _json(error: float | None) -> JsonNumber | None:
    return None if error is None else json_number(error)


def _labels_of(graph: nx.MultiDiGraph, nodes: Sequence[int]) -> str:
    return list_some([label(graph.nodes[node]) for node in nodes], 4)
