"""`compare_numerics`: find where two runs of the same step diverge."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from ...backward.recorded_pass import refuse_within_backward
from ...comparison.compare_widget import CompareWidget, MemberPlaces
from ...graph.adjacency import collector_paused
from ...graph.names import caller_names
from ...hosts.progress import progress
from ...result import make, returned_by
from ...schema.comparison import ErrorsModel
from ...sources.graph_source import GraphSource, are_small
from ...torch_api.modes import grad_mode_kept, unseen
from ...torch_api.reading import dtype_of
from ...torch_api.tolerances import tolerances
from ...types import Gradient, Outputs, RecordedGraph, TensorNames
from .aligned import Aligned, Distances, aligned, wrongly_paired
from .known_numbers import NUMERICS, RunNumbers, read_run, read_tolerance
from .rows import (
    NumericsRow,
    causes_of,
    errors_model,
    notes_about,
    notes_inside,
    other_shapes,
    row_of,
    rows_inside,
    unmatched_in,
    verdict,
)
from .tensor_distance import Number, tensor_distance


@returned_by("compare_numerics(a, b)")
@dataclass(frozen=True)
class NumericsComparison:
    """The numeric comparison of two runs, from `compare_numerics`. ``print`` shows a summary.

    Attributes:
        rows: The matched nodes, in the order of the forward pass.
        first: The first node out of tolerance in the order of computation: values from the
            inputs to the loss, then gradients from the loss to the leaves. None if all agree.
        only_a: Ids of the nodes of ``a`` without a match in ``b``.
        only_b: Ids of the nodes of ``b`` without a match in ``a``.
        notes: Sentences on the limits of the comparison.
        inside: Rows for gradients inside compiled code, if one of the two runs is compiled. Their
            ids in the compiled run are the calls that ``capture(loss, opened=True)`` numbers.

    A notebook shows it as a widget, like `gradwalk.compare`, in which colours and numbers show the
    error of each node. `widget` returns that widget.
    """

    rows: list[NumericsRow]
    first: NumericsRow | None
    only_a: list[int]
    only_b: list[int]
    notes: list[str]
    inside: list[NumericsRow]
    _causes: list[str] = field(repr=False, compare=False)
    _both: Aligned = field(repr=False, compare=False)

    def __str__(self) -> str:
        return " ".join([self._verdict(), *self._causes, *self.notes])

    def __repr__(self) -> str:
        return f"<NumericsComparison: {self._verdict()}>"

    def _verdict(self) -> str:
        both = self._both
        is_whole = not any(unmatched_in(both, self.inside)) and not other_shapes(both, self.rows)
        return verdict(self.first, self.rows, is_whole=is_whole)

    @functools.cached_property
    def widget(self) -> CompareWidget:
        """Show both graphs side by side, coloured by their errors.

        It runs nothing by itself. As in `gradwalk.compare`, its controls for backward change
        ``.grad``.
        """
        sides = self._both.here, self._both.there
        sources = {each.label: each.source.clone() for each in sides}
        if self.inside:
            for source in sources.values():
                for node in source.openable:
                    with suppress(ValueError):  # it stays closed
                        source.expand(node)

        def errors(places: MemberPlaces) -> ErrorsModel:
            rows = [*self.rows, *self.inside]
            return errors_model(dict(enumerate(places.values())), rows, self.first, str(self))

        widget = CompareWidget._of(sources, are_small(sources.values()), errors)
        if widget.errors is not None:
            widget.selected = widget.errors["first"]
        return widget

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return self.widget._repr_mimebundle_(**asked)


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
            most numbers in leaves. Rounding alone may exceed them where numbers cancel, as below a
            softmax whose outputs are summed.
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
        >>> found.first.op, found.first.leaves
        ('SumBackward0', 'value')
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
        gaps: dict[int, Distances] = {}
        with progress("comparison", lambda: len(gaps), len(both.order)):
            for node in both.order:
                gaps[node] = _gaps(both, node, allowed)
        wrong = wrongly_paired(both, gaps)
        if wrong:
            both = both.without(wrong)
            gaps = {node: each for node, each in gaps.items() if node not in wrong}
        rows = {}
        for node, distances in gaps.items():
            within = allowed or _tolerance(both, node)
            rows[node] = row_of(both.here, (node, both.pairs[node]), distances, within)
        inside, why_not = rows_inside(both, lambda *names: allowed or _allowed(names))
        first = _first(both.here.source, rows, gaps)
        known = {node for node, (value, _) in gaps.items() if value is not None}
        causes = causes_of(both, first, known)
    found = list(rows.values())
    only_a, only_b = both.unmatched()
    return make(
        NumericsComparison,
        rows=found,
        first=first,
        only_a=only_a,
        only_b=only_b,
        notes=[*notes_about(both, found, inside), *notes_inside(inside, why_not)],
        inside=inside,
        _causes=causes,
        _both=both,
    )


def _gaps(both: Aligned, node: int, allowed: tuple[float, float] | None) -> Distances:
    a, b, within = both.here, both.there, allowed or _tolerance(both, node)
    value, found = a.value(node), b.value(both.pairs[node])
    of_value = None
    if value is not None and found is not None:
        of_value = tensor_distance(value, found, within)
    scale = functools.partial(a.largest, node)
    every = (tensor_distance(*pair, within, scale) for pair in _arrived(both, node))
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
    dtypes = [here.source.graph.nodes[node]["dtype"]]
    dtypes += [there.source.graph.nodes[both.pairs[node]]["dtype"]]
    return _allowed((*dtypes, here.working_dtype, there.working_dtype))


@functools.cache
def _allowed(names: tuple[str | None, ...]) -> tuple[float, float]:
    dtypes = [dtype_of(name) for name in names if name is not None]
    return tolerances(*(dtypes or [torch.float32]))


def _first(
    source: GraphSource, rows: Mapping[int, NumericsRow], gaps: Mapping[int, Distances]
) -> NumericsRow | None:
    ran = [step["node"] for step in source.steps if step["node"] in rows]
    for which, order in enumerate((rows, ran)):
        for node in order:
            found = gaps[node][which]
            if found is not None and found.leaves:
                return rows[node]
    return None
