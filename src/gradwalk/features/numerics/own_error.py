"""Where an error arises, rather than where it has grown to: what each node adds of its own.

Forwards, the difference of a node's output is compared with what its inputs' differences make of
it, to first order; backwards, in which every node is linear, what a node passes on with what it
would have passed on had it worked as in the reference. What is left arose in that node: by its
rounding, its dtype, another constant. Of nodes that cannot run again it is estimated: error that
is many times that of what went in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from ...graph.pass_through import CASTS, is_pass_through
from ...torch_api.tensors import dtype_of, wider
from ..experiments.replay import Replay
from .aligned import Aligned
from .arguments import differing, may_differ
from .first_order import change_of_output, passed_on
from .tensor_distance import TensorDistance, change_between, difference, least_normal, ratio

USUAL = 100.0
"""An operation whose nodes cannot run again is believed to make an error so many times as large."""

MOST_BEFORE = 0.1
"""Where what goes in is further off, what comes of that is not known to first order."""

MOST_LIKELY = 16
"""Nodes among which it is guessed where an error arises that is seen in the value after them."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class OwnError:
    """The error that a node adds of its own, relative to what it gives.

    Attributes:
        forward: Of its value; None where that is not known.
        backward: Of what it passes on; None where that is not known.
        is_estimate: Whether either was estimated from the errors around it.
    """

    forward: float | None
    backward: float | None
    is_estimate: bool

    @property
    def most(self) -> float | None:
        """The larger of the two."""
        known = [each for each in (self.forward, self.backward) if each is not None]
        return max(known, default=None)


def beyond(error: float, before: float) -> float:
    """How much of an error is more than what an operation makes of the error before it.

    Example::

        >>> beyond(1e-2, 0.0), round(beyond(1e-2, 1e-2), 6)
        (0.01, 9.9e-05)
    """
    if not error or math.isinf(error):
        return 0.0 if math.isinf(before) else error
    return error / (1 + USUAL * before / error)


def hides(before: float, error: float) -> bool:
    """Whether an error may be but what an operation makes of one before it that is large."""
    return before > MOST_BEFORE and not error > 10 * before


class Sweep:
    """Works out what arises at each node of aligned graphs; `run` does it.

    Attributes:
        aligned: The graphs.
        errors: By node of ``here``, the error of its value and of its gradient.
        replay: ``here``, to have its nodes run again; None where there are none.
    """

    def __init__(
        self,
        aligned: Aligned,
        errors: Mapping[int, tuple[TensorDistance | None, TensorDistance | None]],
    ) -> None:
        """Nothing runs yet.

        Args:
            aligned: The graphs.
            errors: By node of ``here``, the error of its value and of its gradient.
        """
        self.aligned = aligned
        self.errors = errors
        self._relative: dict[int, float] = {}  # of values, known or after those that went in
        self._forward: dict[int, float] = {}
        self._backward: dict[int, float] = {}
        self._guessed: set[int] = set()
        self._unknown: dict[int, dict[int, float]] = {}
        live = aligned.here.subject.autograd
        self.replay = None if live is None else Replay(live)
        self._changes: dict[int, torch.Tensor | None] = {}

    def run(self) -> dict[int, OwnError]:
        """What arises, by node of ``here``; without leaves."""
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
        """How far a node's value is off; of one that is not known, what its inputs are."""
        before = max((self._relative.get(child, 0.0) for child in inputs.values()), default=0.0)
        known = self.errors[node][0]
        self._relative[node] = before if known is None else known.error
        one = self.aligned.here.value(node)
        other = self.aligned.there.value(self.aligned.pairs[node])
        if one is not None and other is not None:
            self._changes[node] = difference(other.tensor, one.tensor)

    def _forwards(self, node: int, inputs: Mapping[int, int]) -> None:
        """Find the error that arises in a node's value, and with it where."""
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
            error = ratio([change - expected.to(change)], [value.tensor], self._faint(node))
            is_guess = False
        else:
            error, is_guess = beyond(known.error, before), True
        if error and hides(before, error):
            return
        if not likely:  # it only hands on what was cast before it, in one of the graphs alone
            self._changes[node] = expected
            error = 0.0
        source = self._source(node, likely, error)
        self._forward.setdefault(node, 0.0)
        self._forward[source] = max(self._forward.get(source, 0.0), error)
        if error and (is_guess or source != node or not self.aligned.is_aligned(node)):
            self._guessed.add(source)

    def _likely(self, node: int, inputs: Mapping[int, int]) -> dict[int, float]:
        """Where the error of a node's value may arise, and how much: there or in what it uses.

        Nodes whose values are not known hand on where theirs may have arisen.
        """
        graph, other = self.aligned.here.subject.graph, self.aligned.there.subject.graph
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
        coarsest = max(_step(data["dtype"]), _step(other.nodes[self.aligned.pairs[node]]["dtype"]))
        found[node] = coarsest * math.sqrt(terms)
        return found

    def _source(self, node: int, likely: Mapping[int, float], error: float) -> int:
        """Where an error arises that is seen in the value of a node.

        What goes wrong forwards does so backwards. Else what is more than rounding is told by what
        operations were given that is not the same in both, and rounding by its terms.
        """
        backward = {each: self._backward.get(each) or 0.0 for each in likely}
        worst = max(backward, key=backward.__getitem__, default=node)
        if backward.get(worst, 0.0) > error / 10:
            return worst
        if error > USUAL * max(likely.values(), default=0.0):  # no rounding makes that
            for is_other in (differing, may_differ):
                others = [each for each in likely if is_other(self.aligned, each)]
                if others:
                    return max(others, key=likely.__getitem__)
        return max(likely, key=likely.__getitem__, default=node)

    def _expected(self, node: int, inputs: Mapping[int, int]) -> torch.Tensor | None:
        """What the changes of a node's inputs make of its output; None where that is not known."""
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
        """Find the error that arises in what a node passes on."""
        values = max(self._relative.get(each, 0.0) for each in (node, *inputs.values()))
        added, passed = self.added(node), self.aligned.here.passed(node)
        if added is not None and passed is not None:
            whole = [each for each in passed if each is not None]
            found = ratio(added.values(), whole, self._faint(node))
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

    def _faint(self, node: int) -> float:
        """The least that both dtypes hold with all digits: an error below it tells nothing."""
        graph, other = self.aligned.here.subject.graph, self.aligned.there.subject.graph
        names = graph.nodes[node]["dtype"], other.nodes[self.aligned.pairs[node]]["dtype"]
        return least_normal(*(dtype_of(name) for name in names if name is not None))

    def added(self, node: int) -> dict[int, torch.Tensor] | None:
        """What a node adds of its own to the error of what it passes on, by input_nr.

        To be called within `Replay.beside`.

        Returns:
            The change of each gradient; None where it is not known.
        """
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
            if due is not None:  # of the shape of what it goes to, as the engine makes it
                went[nr] = change.sum_to_size(due.shape) - due.to(change)
        return went


def _changes(
    one: list[torch.Tensor | None] | None, other: list[torch.Tensor | None] | None
) -> dict[int, torch.Tensor] | None:
    """The differences of gradients by their places; None where one of them is not known."""
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
    """What it gives; None where a node cannot run again, or its backward has no derivative."""
    try:
        return work()
    except Exception:  # whatever a node, perhaps a function of the user's, raises
        return None


def _step(name: str | None) -> float:
    """The distance from 1 to the next number of a dtype; 0 where it has none such."""
    if name is None:
        return 0.0
    dtype = dtype_of(name)
    is_rounded = dtype.is_floating_point or dtype.is_complex
    return torch.finfo(dtype).eps if is_rounded else 0.0
