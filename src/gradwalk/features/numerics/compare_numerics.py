"""`compare_numerics`: find where two runs of the same step diverge."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...backward.recorded_pass import refuse_within_backward
from ...comparison.compare_widget import CompareWidget, MemberPlaces
from ...graph.adjacency import collector_paused
from ...graph.arguments import find_node
from ...graph.names import caller_names
from ...result import make, returned_by
from ...schema.comparison import ErrorsModel
from ...sources.graph_source import GraphSource, are_small
from ...torch_api.modes import grad_mode_kept, unseen
from ...torch_api.reading import dtype_of
from ...torch_api.tolerances import tolerances
from ...types import Gradient, Outputs, RecordedGraph, TensorNames
from .aligned import Aligned, Distances, aligned, wrongly_paired
from .known_numbers import NUMERICS, RunNumbers, read_run, read_tolerance
from .own_error import Sweep, added_to_leaf
from .rounding import Rounding
from .rows import (
    NumericsRow,
    errors_model,
    hooked_at,
    largest_error,
    notes_about,
    notes_inside,
    other_shapes,
    row_of,
    rows_inside,
    unmatched_in,
    verdict,
)
from .tensor_distance import Number, TensorDistance, tensor_distance


@returned_by("compare_numerics(a, b).contributors(leaf)")
@dataclass(frozen=True)
class ErrorShare:
    """The part of a leaf's gradient error that one node adds.

    Attributes:
        row: The node; None for the rest.
        share: The part of the error. All parts sum to 1. A part that cancels others is negative.
    """

    row: NumericsRow | None
    share: float

    def __repr__(self) -> str:
        return f"<ErrorShare: {self.share:.3g} at {self.row.label if self.row else 'the rest'}>"


@returned_by("compare_numerics(a, b)")
@dataclass(frozen=True)
class NumericsComparison:
    """The numeric comparison of two runs, from `compare_numerics`. ``print`` shows a summary.

    Attributes:
        rows: The matched nodes, in the order of the forward pass.
        first: The first node out of tolerance in the order of computation: values from the
            inputs to the loss, then gradients from the loss to the leaves. None if all agree.
        ranked: The rows with a known ``own_error``, the largest first.
        only_a: Ids of the nodes of ``a`` without a match in ``b``.
        only_b: Ids of the nodes of ``b`` without a match in ``a``.
        notes: Sentences on the limits of the comparison.
        inside: Rows for gradients inside compiled code, if one of the two runs is compiled. Their
            ids in the compiled run are the calls that ``capture(loss, opened=True)`` numbers.

    A notebook shows it as a widget, like `gradwalk.compare`, in which colours and numbers show the
    error of each node, and a table lists where errors arise. `widget` returns that widget.
    """

    rows: list[NumericsRow]
    first: NumericsRow | None
    ranked: list[NumericsRow]
    only_a: list[int]
    only_b: list[int]
    notes: list[str]
    inside: list[NumericsRow]
    _largest_error: list[str] = field(repr=False, compare=False)
    _sweep: Sweep = field(repr=False, compare=False)
    _is_straight: bool = field(repr=False, compare=False)

    def __str__(self) -> str:
        return " ".join([self._verdict(), *self._largest_error, *self.notes])

    def __repr__(self) -> str:
        return f"<NumericsComparison: {self._verdict()}>"

    def _verdict(self) -> str:
        both = self._sweep.aligned
        is_whole = not any(unmatched_in(both, self.inside)) and not other_shapes(both, self.rows)
        return verdict(self.first, self.rows, is_whole=is_whole)

    @functools.cached_property
    def widget(self) -> CompareWidget:
        """Show both graphs side by side, coloured by their errors.

        It runs nothing by itself. As in `gradwalk.compare`, its controls for backward change
        ``.grad``.
        """
        both = self._sweep.aligned if self._is_straight else self._sweep.aligned.swapped()
        subjects = {each.label: each.subject.clone() for each in (both.here, both.there)}
        if self.inside:
            for subject in subjects.values():
                for node in subject.openable:
                    with suppress(ValueError):  # it stays closed
                        subject.expand(node)

        def errors(places: MemberPlaces) -> ErrorsModel:
            sides = dict(enumerate(places.values()))
            rows = [*self.rows, *self.inside]
            return errors_model(sides, rows, self.first, self.ranked, str(self))

        widget = CompareWidget._of(subjects, are_small(subjects.values()), errors)
        if widget.errors is not None:
            widget.selected = widget.errors["first"]
        return widget

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return self.widget._repr_mimebundle_(**asked)

    def contributors(self, leaf: int | str) -> list[ErrorShare]:
        """Split the error of a leaf's gradient into the parts that nodes add, the largest first.

        The backward of a node adds error by rounding, and through saved values that differ.
        Backward is linear in the gradients, so the parts sum to the error.

        Args:
            leaf (int | str): Its name, or its id in ``a``.

        Returns:
            One part per node, and the rest at the end: nodes without a match, and errors that
            cannot be followed to the leaf. Empty if the two gradients are equal.

        Raises:
            TypeError: ``leaf`` is neither a name nor an id.
            ValueError: The runs do not share this leaf, or its gradient is not known in full.
            RuntimeError: Neither run is live: both were read from files, or were freed.

        Example::

            >>> import torch
            >>> from gradwalk import compare_numerics
            >>> w = torch.tensor([1.1, 2.3], requires_grad=True)
            >>> found = compare_numerics((w * w).sum(), (w.bfloat16() * w.bfloat16()).float().sum())
            >>> found.contributors("w")[0].share > 0.5
            True
        """
        a = (self._sweep.aligned if self._is_straight else self._sweep.aligned.swapped()).here
        node = find_node(a.subject.graph, leaf)
        rows = {row.nodes[0 if self._is_straight else 1]: row for row in self.rows}
        pair = next((row.nodes for row in self.rows if row.nodes[0] == node), None)
        if pair is None:
            raise ValueError(
                f"contributors() was given {leaf!r}, which has no match in b. Give a leaf that is "
                "among the rows."
            )
        with unseen(), torch.no_grad():
            parts = added_to_leaf(self._sweep, pair[0 if self._is_straight else 1])
        if parts is None:
            return []
        shares = [make(ErrorShare, rows[each], share) for each, share in parts.items() if share]
        shares.sort(key=lambda each: -abs(each.share))
        return [*shares, make(ErrorShare, None, 1 - math.fsum(each.share for each in shares))]


def compare_numerics(
    a: Outputs | RecordedGraph | str | os.PathLike[str],
    b: Outputs | RecordedGraph | str | os.PathLike[str],
    *,
    names: TensorNames | None = None,
    gradient: Gradient | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    stacklevel: int = 1,
) -> NumericsComparison:
    """Find where two runs of the same step diverge.

    For example the same step eager and compiled, in float32 and bfloat16, before and after a
    change, or on two machines. The graphs are aligned by structure and names. Values and
    gradients are compared node by node, in double precision.

    For a tensor, backward runs once, as in `record`: hooks run, and every ``.grad`` is restored.
    To find where errors arise, the nodes of the run with the finer dtypes run again one by one,
    outside the engine: no ``.grad`` changes and no hook runs. For two files this is estimated from
    the errors of neighbouring nodes.

    The known values are those of leaves, those that backward saves, and under `watch` those of
    every small result.

    Args:
        a (Outputs | RecordedGraph | str | os.PathLike[str]): The expected run: a tensor that
            requires grad, or several in a list or dict; a `Recording`; a `GraphWidget` that has
            recorded a pass; or the path of a file that `gradwalk.save` wrote.
        b (Outputs | RecordedGraph | str | os.PathLike[str]): The run to compare with it, of the
            same kinds.
        names (TensorNames, optional): Names of tensors: a mapping from names to tensors or modules,
            or one module. By default the caller's variables.
        gradient (Gradient, optional): The gradient that backward starts from in both, as in
            ``Tensor.backward``: a tensor of the output's shape, or a list of them, one per output.
            It is cast to the dtype of each output. None for outputs of one number.
        rtol (float, optional): The relative tolerance, given together with ``atol``. By default
            both are those of ``torch.testing.assert_close`` for the coarsest dtype of a node and of
            most numbers in leaves, and ``atol`` is larger where rounding alone moves a result
            further, as a sum that cancels.
        atol (float, optional): The absolute tolerance, given together with ``rtol``; None as there.
            For gradients it is multiplied by the largest number in ``a`` of the gradient and of its
            contributions, so that the scale of the loss does not matter.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The comparison. It keeps the graphs alive.

    Raises:
        TypeError: An argument has no gradients to compare, only one of ``rtol`` and ``atol`` is
            given, or one is not a number of at least 0.
        ValueError: An output does not require grad, or is not a scalar and has no ``gradient``; a
            widget is closed; or a file is damaged.
        OSError: A file cannot be read.
        RuntimeError: Tensors that backward needs were freed by an earlier one.

    Example::

        >>> import torch
        >>> from gradwalk import compare_numerics
        >>> w = torch.linspace(-1, 1, 8, dtype=torch.float64, requires_grad=True)
        >>> def step(w, dtype):
        ...     return torch.softmax((3 * w).to(dtype), 0).to(w.dtype).pow(2).sum()
        >>> found = compare_numerics(step(w, torch.float64), step(w, torch.bfloat16))
        >>> found.ranked[0].op
        'SoftmaxBackward0'
    """
    allowed = read_tolerance(rtol, atol)
    called = caller_names(names, NUMERICS, stacklevel)
    refuse_within_backward("A comparison of numerics")
    sides = [read_run(each, side, called, gradient) for side, each in (("a", a), ("b", b))]
    return _compare(sides, allowed)


@grad_mode_kept
def _compare(
    sides: Sequence[RunNumbers], allowed: tuple[float, float] | None
) -> NumericsComparison:
    with collector_paused(), unseen(), torch.no_grad():
        both = aligned(*sides)
        is_straight = _is_straight(both)
        rounding = Rounding(*((both.here,) if is_straight else (both.there, both.pairs)))
        gaps = {node: _gaps(both, node, allowed, rounding) for node in both.order}
        wrong = wrongly_paired(both, gaps)
        if wrong:
            both = both.without(wrong)
            gaps = {node: each for node, each in gaps.items() if node not in wrong}
        sweep = _sweep(both, gaps, is_straight)
        own = sweep.run()
        if sweep.aligned is not both:
            own = {sweep.aligned.pairs[node]: each for node, each in own.items()}
        rows = {}
        for node, distances in gaps.items():
            within = allowed or _tolerance(both, node)
            pair = node, both.pairs[node]
            rows[node] = row_of(both.here, pair, distances, own.get(node), within)
        inside, why_not = rows_inside(both, lambda *names: allowed or _allowed(names))
    found = list(rows.values())
    only_a, only_b = both.unmatched()
    known = (row for row in found if row.own_error is not None)
    ranked = sorted(known, key=lambda row: -(row.own_error or 0.0))
    first = _first(both.here.subject, rows, gaps)
    return make(
        NumericsComparison,
        rows=found,
        first=first,
        ranked=ranked,
        only_a=only_a,
        only_b=only_b,
        notes=[*notes_about(both, found, inside), *notes_inside(inside, why_not)],
        inside=inside,
        _largest_error=[*hooked_at(both, first), *largest_error(both, first, ranked)],
        _sweep=sweep,
        _is_straight=sweep.aligned is both,
    )


_FURTHEST = 4.0
"""The largest of many rounding errors, relative to the typical move times rtol."""


def _gaps(
    both: Aligned, node: int, allowed: tuple[float, float] | None, rounding: Rounding
) -> Distances:
    a, b, other = both.here, both.there, both.pairs[node]

    def distance(
        expected: Number, found: Number, scale: Callable[[], float], move: Callable[[int], float]
    ) -> TensorDistance | None:
        rtol, atol = allowed or _tolerance(both, node)
        plain = tensor_distance(expected, found, (rtol, atol), scale)
        if allowed or plain is None or not (plain.leaves or plain.error > rtol) or not atol:
            return plain
        furthest = _FURTHEST * move(node) * rtol
        moved = tensor_distance(expected, found, (rtol, atol), lambda: furthest / atol)
        return plain if moved is None or moved.leaves else replace(moved, is_rounding=True)

    value, found = a.value(node), b.value(other)
    of_value = None
    if value is not None and found is not None:
        of_value = distance(value, found, lambda: 1.0, rounding.of_value)
    scale = functools.partial(a.largest, node)
    pairs = _arrived(both, node)
    every = (distance(*pair, scale, rounding.of_gradient) for pair in pairs)
    known = (each for each in every if each is not None)
    # Prefer a gradient out of tolerance, then the largest error.
    return of_value, max(known, key=lambda each: (each.leaves, each.error), default=None)


def _arrived(both: Aligned, node: int) -> Iterator[tuple[Number, Number]]:
    """The incoming gradients of a node in both runs; zeros where only one run has one."""
    other = both.pairs[node]
    mine, theirs = both.here.gradients(node), both.there.gradients(other)
    if not mine and both.here.lacks(node):
        mine = [None] * len(theirs)
    if not theirs and both.there.lacks(other):
        theirs = [None] * len(mine)
    for one, two in zip(mine, theirs, strict=False):
        if one is not None:
            yield one, one.zeros() if two is None else two
        elif two is not None:
            yield two.zeros(), two


def _tolerance(both: Aligned, node: int) -> tuple[float, float]:
    """The tolerance of torch.testing for the dtypes of a node and of most leaves in both runs."""
    here, there = both.here, both.there
    dtypes = [here.subject.graph.nodes[node]["dtype"]]
    dtypes += [there.subject.graph.nodes[both.pairs[node]]["dtype"]]
    return _allowed((*dtypes, here.working_dtype, there.working_dtype))


@functools.cache
def _allowed(names: tuple[str | None, ...]) -> tuple[float, float]:
    dtypes = [dtype_of(name) for name in names if name is not None]
    return tolerances(*(dtypes or [torch.float32]))


def _is_straight(both: Aligned) -> bool:
    """Whether ``a`` is the reference: the run with the finer dtypes that is live."""
    return _coarseness(both.there) >= _coarseness(both.here)


def _sweep(both: Aligned, gaps: Mapping[int, Distances], is_straight: bool) -> Sweep:
    """The search for own errors."""
    if is_straight:
        return Sweep(both, gaps)
    swapped = both.swapped()
    return Sweep(swapped, {other: gaps[node] for other, node in swapped.pairs.items()})


def _coarseness(known: RunNumbers) -> float:
    """How coarse the dtypes of a run are as a whole; infinite if its nodes cannot run again."""
    if known.subject.autograd is None:
        return math.inf
    names = {name for _, name in known.subject.graph.nodes(data="dtype") if name is not None}
    return sum(tolerances(dtype_of(name))[0] for name in names)


def _first(
    subject: GraphSource, rows: Mapping[int, NumericsRow], gaps: Mapping[int, Distances]
) -> NumericsRow | None:
    ran = [step["node"] for step in subject.steps if step["node"] in rows]
    for which, order in enumerate((rows, ran)):
        for node in order:
            found = gaps[node][which]
            if found is not None and found.leaves:
                return rows[node]
    return None
