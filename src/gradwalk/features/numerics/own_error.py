"""Find where an error arises: the error that each node adds to the error of its inputs.

Forward, the change of a node's output is compared with the change that its inputs cause, to first
order. Backward is linear, so the outgoing gradients are compared with those that the reference node
would return. The rest is the node's own error: its rounding, its dtype, another constant. For nodes
that cannot run again it is estimated: an error many times larger than the input errors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from ...graph.labels import CASTS, is_pass_through
from ...torch_api.reading import dtype_of, wider
from ..experiments.replay import Replay
from .aligned import Aligned, differing, may_differ
from .first_order import change_of_output, changes_of_outputs, passed_on
from .tensor_distance import TensorDistance, change_between, difference, least_normal, ratio


def added_to_leaf(sweep: Sweep, leaf: int) -> dict[int, float] | None:
    """Return the part of a leaf's gradient error that each node adds.

    Backward is linear. A node's part is the inner product of the error that it adds and the leaf's
    error, propagated up through the Jacobians of the nodes in between. Each node runs once.

    Returns node -> its part of 1; None if the gradients are equal. Nodes that are unmatched or
    cannot be followed are left out.
    """
    replay, error = sweep.replay, _error(sweep, leaf)
    if replay is None:
        raise RuntimeError(
            "Both runs were read from files, which have no nodes to follow an error through. "
            "Compare with a live run: compute one of the losses here and give it."
        )
    if error is None or not replay.is_leaf(leaf):
        raise ValueError(
            "The gradient of this node is not known in full in both runs, or the node is not a "
            "leaf. Give a leaf whose gradient is compared in full."
        )
    whole = float(torch.linalg.vector_norm(error)) ** 2
    if not whole or not math.isfinite(whole):
        return None
    parts = replay.beside(lambda: _parts(sweep, replay, leaf, error))
    return {node: part / whole for node, part in parts.items()}


def _error(sweep: Sweep, leaf: int) -> torch.Tensor | None:
    """The error of a leaf's gradient; None if it is not known in full."""
    arrived = sweep.aligned.here.arrived(leaf)
    other = sweep.aligned.there.arrived(sweep.aligned.pairs[leaf])
    return difference(other[0], arrived[0]) if arrived and other else None


def _parts(sweep: Sweep, replay: Replay, leaf: int, error: torch.Tensor) -> dict[int, float]:
    """The inner product of the error that each node adds with the leaf's error there."""
    found: dict[int, float] = {}
    ways = {leaf: {0: error}}  # the propagated error of the leaf: node -> output -> change
    above = replay.above([leaf])
    waiting = {node: len(replay.takers[node]) for node in above}
    for node in reversed(replay.order):
        places = replay.following[node] if node in above else []
        below = {nr: place for nr, place in enumerate(places) if place and place[0] in ways}
        known = {nr: (ways[to], output) for nr, (to, output) in below.items()}
        changes = {nr: way[output] for nr, (way, output) in known.items() if output in way}
        if changes:
            added = (sweep.added(node) if node in sweep.aligned.pairs else None) or {}
            products = [_product(added[nr], changes[nr]) for nr in changes if nr in added]
            found[node] = sum(products)
            ways[node] = changes_of_outputs(replay, node, changes)
        for place in below.values():
            waiting[place[0]] -= 1
            if not waiting[place[0]]:
                del ways[place[0]]  # no other node needs it
    return found


def _product(added: torch.Tensor, way: torch.Tensor) -> float:
    mine = added.sum_to_size(way.shape).to(way)
    return float(torch.vdot(mine.flatten(), way.flatten()).real)


USUAL = 100.0
"""The estimate assumes that an operation amplifies the error of its inputs at most this much."""

MOST_BEFORE = 0.1  # the largest relative input error for which first order holds

MOST_LIKELY = 16  # the number of candidate nodes for an error seen in a later value

_T = TypeVar("_T")


@dataclass(frozen=True)
class OwnError:
    """The relative error that a node adds itself."""

    forward: float | None  # the error added to its value; None if unknown
    backward: float | None  # the error added to its outgoing gradients; None if unknown
    is_estimate: bool  # whether either is estimated from the errors around it

    @property
    def most(self) -> float | None:
        """Return the larger of the two."""
        known = [each for each in (self.forward, self.backward) if each is not None]
        return max(known, default=None)


def beyond(error: float, before: float) -> float:
    """Return the part of an error that the input error does not explain."""
    if not error or math.isinf(error):
        return 0.0 if math.isinf(before) else error
    return error / (1 + USUAL * before / error)


def hides(before: float, error: float) -> bool:
    """Return whether a large input error may explain the whole error."""
    return before > MOST_BEFORE and not error > 10 * before


class Sweep:
    """Compute the own error of each node of aligned graphs.

    Attributes:
        aligned: The graphs.
        errors: Node of ``here`` -> the error of its value and of its gradient.
        replay: Runs the nodes of ``here`` again; None if it is not live.
    """

    def __init__(
        self,
        aligned: Aligned,
        errors: Mapping[int, tuple[TensorDistance | None, TensorDistance | None]],
    ) -> None:
        self.aligned = aligned
        self.errors = errors
        self._relative: dict[int, float] = {}  # of values; an unknown one has that of its inputs
        self._forward: dict[int, float] = {}
        self._backward: dict[int, float] = {}
        self._guessed: set[int] = set()
        self._unknown: dict[int, dict[int, float]] = {}
        live = aligned.here.subject.autograd
        self.replay = None if live is None else Replay(live)
        self._changes: dict[int, torch.Tensor | None] = {}

    def run(self) -> dict[int, OwnError]:
        """Return node of ``here`` -> its own error, without leaves."""
        if self.replay is None:
            return self._work()
        with torch.no_grad():
            return self.replay.beside(self._work)

    def _work(self) -> dict[int, OwnError]:
        aligned = self.aligned
        inputs = {node: aligned.inputs(node) for node in aligned.order}
        uses = Counter(child for found in inputs.values() for child in found.values())
        for node in aligned.order:
            taken = inputs[node]
            self._note_value(node, taken)
            if aligned.here.subject.graph.nodes[node]["kind"] == "op":
                self._backwards(node, taken)
                self._forwards(node, taken)
            for child in taken.values():
                uses[child] -= 1
                if not uses[child]:
                    self._changes.pop(child, None)
        return {
            node: OwnError(self._forward.get(node), self._backward.get(node), node in self._guessed)
            for node in aligned.order
            if aligned.here.subject.graph.nodes[node]["kind"] == "op"
        }

    def _note_value(self, node: int, inputs: Mapping[int, int]) -> None:
        """Note the error of a node's value; if it is unknown, that of its inputs."""
        before = max((self._relative.get(child, 0.0) for child in inputs.values()), default=0.0)
        known = self.errors[node][0]
        self._relative[node] = before if known is None else known.error
        one = self.aligned.here.value(node)
        other = self.aligned.there.value(self.aligned.pairs[node])
        if one is not None and other is not None:
            self._changes[node] = difference(other.tensor, one.tensor)

    def _forwards(self, node: int, inputs: Mapping[int, int]) -> None:
        """Find the error that arises in a node's value, and its source."""
        known, change = self.errors[node][0], self._changes.get(node)
        expected = self._expected(node, inputs)
        before = max((self._relative.get(child, 0.0) for child in inputs.values()), default=0.0)
        if change is None:
            self._changes[node] = expected
        likely = self._likely(node, inputs)
        if known is None:
            self._unknown[node] = likely
            return
        value = self.aligned.here.value(node)
        if change is not None and expected is not None and value is not None:
            assert value.tensor is not None
            added = change - expected.to(change)
            error, is_guess = ratio([added], [value.tensor], self._faint(node)), False
        else:
            error, is_guess = beyond(known.error, before), True
        if error > self._step(node) and (known.is_rounding or not known.error):
            error = 0.0  # the value is rounding errors of numbers that cancel
        if error and hides(before, error):
            return
        if not likely:  # an earlier cast that only one graph has caused it
            self._changes[node] = expected
            error = 0.0
        source = self._source(node, likely, error)
        self._forward.setdefault(node, 0.0)
        self._forward[source] = max(self._forward.get(source, 0.0), error)
        if error and (is_guess or source != node or not self.aligned.is_aligned(node)):
            self._guessed.add(source)

    def _likely(self, node: int, inputs: Mapping[int, int]) -> dict[int, float]:
        """Candidate sources of the error of a node's value -> the rounding error expected there."""
        graph = self.aligned.here.subject.graph
        found: dict[int, float] = {}
        for child in inputs.values():
            found |= self._unknown.get(child, {})
        if len(found) > MOST_LIKELY:
            best = sorted(found, key=lambda each: -found[each])[:MOST_LIKELY]
            found = {each: found[each] for each in found if each in best}
        data = graph.nodes[node]
        if is_pass_through(data["op"]) and data["op"] not in CASTS:
            return found
        shapes = [graph.nodes[child]["shape"] for child in inputs.values()]
        sizes = [math.prod(shape) for shape in (*shapes, data["shape"]) if shape is not None]
        terms = max(sizes, default=1) / max(1, math.prod(data["shape"] or ()))
        found[node] = max(map(_step, self._dtypes(node))) * math.sqrt(terms)
        return found

    def _source(self, node: int, likely: Mapping[int, float], error: float) -> int:
        """Choose the source of an error: by arguments, backward error, then expected rounding."""
        backward = {each: self._backward.get(each) or 0.0 for each in likely}
        worst = max(backward, key=backward.__getitem__, default=node)
        is_large = error > 10 * max(likely.values(), default=0.0)  # too large for rounding
        others = [each for each in likely if is_large and differing(self.aligned, each)]
        if not others and backward.get(worst, 0.0) > error / 10:
            return worst
        others = others or [each for each in likely if is_large and may_differ(self.aligned, each)]
        return max(others or likely, key=likely.__getitem__, default=node)

    def _expected(self, node: int, inputs: Mapping[int, int]) -> torch.Tensor | None:
        """The change of a node's output that its inputs cause; None if unknown."""
        data = self.aligned.here.subject.graph.nodes[node]
        if self.replay is None or len(data["outputs"]) != 1:
            return None
        changes: dict[int, torch.Tensor] = {}
        for nr, child in inputs.items():
            change = self._changes.get(child)
            place = self.replay.following[node][nr]
            if change is None or place is None:
                return None
            like = self.replay.like(place[0])[place[1]]
            if like is None or math.prod(like[0]) != change.numel():
                return None
            if change.count_nonzero():
                changes[nr] = change.reshape(like[0])
        like = self.replay.like(node)[0]
        if like is None:
            return None
        if not changes:
            return torch.zeros(like[0], dtype=wider(like[1]), device=like[2])
        replay = self.replay
        found = _tried(lambda: change_of_output(replay, node, changes))
        return found if found is not None and bool(found.isfinite().all()) else None

    def _backwards(self, node: int, inputs: Mapping[int, int]) -> None:
        """Find the error that a node adds to its outgoing gradients."""
        values = max(self._relative.get(each, 0.0) for each in (node, *inputs.values()))
        added, passed = self.added(node), self.aligned.here.passed(node)
        if added is not None and passed is not None:
            whole = [each for each in passed if each is not None]
            found = ratio(added.values(), whole, self._faint(node))
            if found > self._step(node) and self._are_noise(node, inputs, found):
                found = 0.0
            if not found or not hides(values, found):
                self._backward[node] = beyond(found, values)
            return
        mine = self.errors[node][1]
        below = [gap.error for child in inputs.values() if (gap := self.errors[child][1])]
        if mine is not None and below:
            if hides(values, max(below)):
                return
            self._backward[node] = beyond(max(below), max(mine.error, values))
            if self._backward[node]:
                self._guessed.add(node)

    def _are_noise(self, node: int, inputs: Mapping[int, int], error: float) -> bool:
        """Whether the outgoing gradients are rounding errors of numbers that cancel."""
        arrived = self.errors[node][1]
        if arrived and arrived.is_rounding and error < arrived.error:
            return True
        below = [gap for child in inputs.values() if (gap := self.errors[child][1]) and gap.error]
        return bool(below) and all(gap.is_rounding for gap in below)

    def _dtypes(self, node: int) -> tuple[str | None, str | None]:
        graph, other = self.aligned.here.subject.graph, self.aligned.there.subject.graph
        return graph.nodes[node]["dtype"], other.nodes[self.aligned.pairs[node]]["dtype"]

    def _step(self, node: int) -> float:
        """Ten times the rounding error of the coarser dtype of a node."""
        return 10 * max(map(_step, self._dtypes(node)))

    def _faint(self, node: int) -> float:
        """The smallest normal number of both dtypes: a smaller error means nothing."""
        return least_normal(*map(dtype_of, filter(None, self._dtypes(node))))

    def added(self, node: int) -> dict[int, torch.Tensor] | None:
        """Return arg_nr -> the error that a node adds, within `Replay.beside`; None if unknown."""
        here, there, other = self.aligned.here, self.aligned.there, self.aligned.pairs[node]
        replay = self.replay
        came = _changes(here.arrived(node), there.arrived(other))
        went = _changes(here.passed(node), there.passed(other))
        if replay is None or came is None or went is None:
            return None
        if not all(bool(each.isfinite().all()) for each in came.values()):
            return None
        expected: list[torch.Tensor | None] = [None] * (max(went, default=-1) + 1)
        if any(bool(each.count_nonzero()) for each in came.values()):
            given = [came.get(nr) for nr in range(len(replay.like(node)))]
            found = _tried(lambda: passed_on(replay, node, given))
            if found is None:
                return None
            expected = found
        for nr, change in went.items():
            due = expected[nr]
            if due is not None:  # the engine sums a gradient to the shape of its input
                went[nr] = change.sum_to_size(due.shape) - due.to(change)
        return went


def _changes(
    one: list[torch.Tensor | None] | None, other: list[torch.Tensor | None] | None
) -> dict[int, torch.Tensor] | None:
    """The differences of gradients, by place; None if one is unknown."""
    if one is None or other is None or len(one) != len(other):
        return None
    found: dict[int, torch.Tensor] = {}
    for nr, (here, there) in enumerate(zip(one, other, strict=True)):
        if here is None and there is None:
            continue
        change = change_between(here, there)
        if change is None:
            return None
        found[nr] = change
    return found


def _tried(work: Callable[[], _T]) -> _T | None:
    """Call a function; None if a node cannot run again, or its backward has no derivative."""
    try:
        return work()
    except Exception:  # a custom Function may raise anything
        return None


def _step(name: str | None) -> float:
    """The machine epsilon of a dtype; 0 for integers."""
    dtype = torch.int64 if name is None else dtype_of(name)
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0
