"""The ``.grad`` of tensors through a backward pass that gradwalk runs, and seeking in it."""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..torch_api.nodes import node_class
from ..torch_api.reading import (
    has_data,
    has_hooks_on_grad,
    refuse_versions,
    set_version,
    version_of,
    why_unreadable,
)
from .kept_gradients import LARGEST_COPY, has_norm, norm_of

_FEW = 16


class Moment(NamedTuple):
    """A tensor's ``.grad`` from some step on."""

    step: int  # the number of completed steps
    grad: torch.Tensor | None  # the ``.grad`` object itself
    version: int  # how often it had been changed in place
    # A copy of its values. None for a large ``.grad`` that the pass created, which no other moment
    # can change.
    values: torch.Tensor | None
    norm: torch.Tensor | None = None  # its norm, if ``values`` is None


class GradTimeline:
    """The ``.grad`` of one tensor through a backward pass."""

    __slots__ = ("_name_of", "moments", "node", "now", "tensor")

    def __init__(
        self, node: int, name_of: Callable[[int], str], tensor: Callable[[], torch.Tensor | None]
    ) -> None:
        self.node = node  # the node that accumulates into the tensor, or the node that made it
        self._name_of = name_of
        self.tensor = tensor  # returns the tensor, or None once it is gone
        found = tensor()
        # The states of ``.grad``, in step order; the first is from before the pass.
        self.moments = [_EMPTY if found is None else _moment(0, found)]
        self.now = 0  # the index of the tensor's current moment

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self._name_of(self.node)

    def note(self, step: int, arrived: torch.Tensor | None = None) -> None:
        """Add the current ``.grad`` as a moment after ``step`` steps.

        ``arrived`` is the incoming gradient of the leaf, in its own step: an empty ``.grad`` now
        holds it or a copy of it, unless a hook has changed it.
        """
        tensor = self.tensor()
        if tensor is None:
            return
        # In the leaf's own step: nothing else in this pass adds to an empty `.grad`.
        if len(self.moments) > 1 or self.moments[0].grad is not None:
            arrived = None
        self.moments.append(_moment(step, tensor, arrived))
        self.now = len(self.moments) - 1

    def at(self, step: int) -> int:
        """Return the index of the moment after ``step`` steps."""
        return bisect_right([moment.step for moment in self.moments], step) - 1

    def is_untouched(self, closely: bool) -> bool:
        """Return whether ``.grad`` is as left here; ``closely`` compares every value."""
        tensor, expected = self.tensor(), self.moments[self.now]
        if tensor is None:
            return True
        grad = _grad(tensor)
        if grad is not expected.grad:
            return False
        if grad is None:
            return True
        # Two leaves that cat() joined share one memory, and so one version counter.
        changed = version_of(grad) != expected.version
        return _is_as(grad, expected) if closely or changed else True

    def go(self, index: int) -> None:
        """Set ``.grad`` to a moment: the same object with the same bits."""
        tensor, moment = self.tensor(), self.moments[index]
        if tensor is not None:
            grad = moment.grad
            shared = sum(other.grad is grad for other in self.moments) > 1  # added to in place
            if grad is not None and shared and (moment.values is not None or not has_data(grad)):
                refuse_versions()  # before the copy, which could not be undone
                if moment.values is not None:
                    with torch.no_grad(), torch.inference_mode(grad.is_inference()):
                        grad.copy_(moment.values)
                # Reset the version, too: a node that saved this tensor finds it unchanged.
                set_version(grad, moment.version)
            tensor.grad = grad
        self.now = index

    def explain_removed(self) -> str | None:
        """Say that ``.grad`` was None after a pass that had set it; None otherwise."""
        if self.moments[-1].grad is not None or all(each.grad is None for each in self.moments):
            return None
        return f"{self.name}.grad was None when this backward pass ended, though it had set it"

    def explain_stuck(self) -> str | None:
        """Say why torch forbids setting the present ``.grad``; None if it does not."""
        tensor = self.tensor()
        grad = None if tensor is None else _grad(tensor)
        if tensor is None or grad is None:
            return None
        try:
            tensor.grad = grad  # the same object: this changes nothing
        except (RuntimeError, TypeError):
            kind = f"{_kind(tensor)} tensor"
            if grad.layout == tensor.layout:
                return f"{self.name} is a {kind}, whose .grad torch cannot set"
            return f"{self.name} is a {kind} with a {_kind(grad)} .grad, which torch cannot set"
        return None


def _grad(tensor: torch.Tensor) -> torch.Tensor | None:
    # torch warns when reading the .grad of a tensor that never keeps one.
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _kind(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return "nested"
    if tensor.layout is torch.strided:
        return "dense"
    return str(tensor.layout).removeprefix("torch.").replace("_", " ")


_EMPTY = Moment(0, None, 0, None)


def _moment(step: int, tensor: torch.Tensor, last: torch.Tensor | None = None) -> Moment:
    """Return a tensor's ``.grad`` as a moment; ``last`` arrived in it and nothing else will."""
    grad = _grad(tensor) if last is None else tensor.grad  # it is a leaf
    if grad is None:
        return Moment(step, None, 0, None) if step else _EMPTY
    version = version_of(grad)
    if (
        last is not None
        and last.layout is grad.layout is torch.strided
        and has_data(grad)
        and last.data_ptr() != grad.data_ptr()
        and last.shape == grad.shape
        and not has_hooks_on_grad(tensor)
    ):
        return Moment(step, grad, version, last)  # torch has copied it
    values = grad.detach()
    if why_unreadable(values) is not None:
        return Moment(step, grad, version, None)
    if last is not None and values.numel() * values.element_size() > LARGEST_COPY:
        norm = norm_of(values)
        if norm is not None:
            return Moment(step, grad, version, None, norm)
    return Moment(step, grad, version, values.clone())


def _is_as(grad: torch.Tensor, moment: Moment) -> bool:
    """Return whether a ``.grad`` holds the moment's values, even if changed through ``.data``."""
    with torch.no_grad():
        if moment.values is not None:
            return same_values(grad, moment.values)
        norm = norm_of(grad)
        if norm is None or moment.norm is None:
            return norm is moment.norm
        return same_values(norm, moment.norm)


def is_small(tensor: torch.Tensor | None) -> bool:
    """Return whether all numbers of a tensor can be compared without waiting for a device."""
    if tensor is None or not has_data(tensor):
        return False
    return tensor.device.type == "cpu" and tensor.numel() <= _FEW


def same_values(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether a tensor is unchanged; True if the values cannot be compared."""
    if not has_data(now):
        return True
    if why_unreadable(now) is not None or why_unreadable(before) is not None:  # freed meanwhile
        return False
    try:
        # torch.equal is much faster, but NaN differs from NaN, and nested tensors fail.
        if not now.is_nested and torch.equal(now, before):
            return True
        return torch.allclose(now, before, rtol=0, atol=0, equal_nan=True)
    except RuntimeError:  # sparse and other layouts
        return True


MOST_LOOKED_AT = 100_000
"""Objects that are searched for one node; a function can refer to most of a program."""


def inner_leaves(node: Node) -> list[torch.Tensor]:
    """Return the leaves that require grad and that a custom Function can reach from its objects."""
    if not node_class(type(node)).is_function:
        return []
    waiting: list[Any] = list(getattr(node, "__dict__", {}).values())
    seen: set[int] = set()
    found: dict[int, torch.Tensor] = {}
    while waiting and len(seen) < MOST_LOOKED_AT:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            if each.requires_grad and each.is_leaf:
                found[id(each)] = each
        else:
            waiting += _referred(each)
    return list(found.values())


def _referred(each: Any) -> Iterable[Any]:
    """Return the objects that calling or reading an object uses."""
    if isinstance(each, torch.nn.Module):
        return _instance_variables(each)
    if isinstance(each, MethodType):
        return [each.__self__, each.__func__]
    if isinstance(each, FunctionType):
        return _variables(each)
    if isinstance(each, functools.partial):
        return [each.func, *each.args, *each.keywords.values()]
    if isinstance(each, (list, tuple, set)):
        return each
    if isinstance(each, dict):
        return each.values()
    if callable(each) and not isinstance(each, type):
        return _instance_variables(each)
    return []


def _instance_variables(each: Any) -> list[Any]:
    return list(getattr(each, "__dict__", {}).values())


def _variables(function: FunctionType) -> Iterator[Any]:
    """Yield the free and global variables that a function uses."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if function.__module__ is not None and function.__module__.split(".")[0] == "torch":
        return  # torch's own globals hold no user parameters
    space = function.__globals__
    for name in _names(function.__code__):
        if name in space:
            yield space[name]


def _names(code: CodeType) -> Iterator[str]:
    waiting = [code]
    for each in waiting:
        yield from each.co_names
        waiting += [inner for inner in each.co_consts if isinstance(inner, CodeType)]


class LeafGrads:
    """Every ``.grad`` that a backward pass may change."""

    def __init__(self, captured: Capture, inputs: Iterable[torch.Tensor] = ()) -> None:
        """Record every ``.grad`` before a pass, which may accumulate into ``inputs`` only."""
        asked = {id(tensor) for tensor in inputs}
        # A clause on why seeking leaves every ``.grad`` unchanged; None while it moves them.
        self.fixed: str | None = None
        name_of = functools.partial(_name_of, captured)
        leaves = list(captured.leaves())
        # One per leaf, and per intermediate tensor that retains its gradient.
        self.timelines = [GradTimeline(i, name_of, _always(leaf)) for i, leaf in leaves]
        for (i, _), reference in captured.tensors.items():
            tensor = reference()
            if tensor is not None and (tensor.retains_grad or id(tensor) in asked):
                self.timelines.append(GradTimeline(i, name_of, weakref.ref(tensor)))
        # One per leaf outside the graph that a node may accumulate into by an inner backward pass
        # (reentrant checkpoint).
        self.inner: list[GradTimeline] = []
        self._inner_by_node: dict[int, list[GradTimeline]] = {}
        self._add_inner(captured)
        self._by_node: dict[int, list[GradTimeline]] = {}
        for timeline in self.timelines:
            self._by_node.setdefault(timeline.node, []).append(timeline)
        # Leaves may share the memory of their .grad after an earlier pass (the backward of
        # stack().sum(0) does that): then a step of one changes them all.
        self._sharing: dict[tuple[int, ...], list[GradTimeline]] = {}
        for timeline in self.timelines:
            if (memory := _memory(timeline.moments[0].grad)) is not None:
                self._sharing.setdefault(memory, []).append(timeline)
        self._moved = [*self.timelines, *self.inner]
        self._leaves = {i for i, _ in leaves}

    @property
    def nodes(self) -> frozenset[int]:
        """The nodes whose steps may change a ``.grad``."""
        return frozenset([*self._by_node, *self._inner_by_node])

    def _add_inner(self, captured: Capture) -> None:
        """Find the leaves that nodes may accumulate into by an inner backward pass."""
        functions = {cls for cls in set(map(type, captured.nodes)) if node_class(cls).is_function}
        if not functions:
            return
        known = {id(timeline.tensor()): timeline for timeline in self.timelines}

        def name_of(i: int) -> str:
            return f"a leaf inside {captured.graph.nodes[i]['op']} (node {i})"

        for i, node in enumerate(captured.nodes):
            for leaf in inner_leaves(node) if type(node) in functions else ():
                if id(leaf) not in known:
                    self.inner.append(GradTimeline(i, name_of, _always(leaf)))
                    known[id(leaf)] = self.inner[-1]
                self._inner_by_node.setdefault(i, []).append(known[id(leaf)])

    def of(self, node: int) -> Sequence[GradTimeline]:
        """Return the timelines of the tensors that a node makes or accumulates into."""
        return self._by_node.get(node, ())

    def of_tensor(self, tensor: torch.Tensor) -> GradTimeline | None:
        """Return the timeline of a tensor; None if it has none."""
        found = self._by_tensor.get(id(tensor))
        return found if found is not None and found.tensor() is tensor else None

    @functools.cached_property
    def _by_tensor(self) -> dict[int, GradTimeline]:
        return {id(each.tensor()): each for each in [*self.inner, *self.timelines]}

    def touched(self) -> list[GradTimeline]:
        """Return the timelines whose ``.grad`` something else has changed."""
        return [each for each in self._moved if not each.is_untouched(is_small(each.tensor()))]

    def release_grads(self, tensors: Iterable[torch.Tensor]) -> list[GradTimeline]:
        """Leave the ``.grad`` of some tensors to another pass; return their timelines."""
        given = {id(tensor) for tensor in tensors}
        is_lent = [id(timeline.tensor()) in given for timeline in self._moved]
        lent = [each for each, is_one in zip(self._moved, is_lent, strict=True) if is_one]
        self._moved = [
            each for each, is_one in zip(self._moved, is_lent, strict=True) if not is_one
        ]
        return lent

    def note(self, node: int, step: int, arrived: torch.Tensor | None = None) -> None:
        """Record the ``.grad`` that a node's step may have changed."""
        for timeline in self._by_node.get(node, ()):
            timeline.note(step, arrived if node in self._leaves else None)
            memory = _memory(timeline.moments[-1].grad) if self._sharing else None
            for other in self._sharing.get(memory, ()) if memory is not None else ():
                if other is not timeline:
                    other.note(step)
        for timeline in self._inner_by_node.get(node, ()) if self._inner_by_node else ():
            if not timeline.is_untouched(closely=False):
                timeline.note(step)

    def finish(self, steps: int) -> None:
        """Record the end of the pass, with what user hooks changed after a step."""
        for timeline in [*self.timelines, *self.inner]:
            if not timeline.is_untouched(closely=False):
                timeline.note(steps)
            if self.fixed is None:
                self.fixed = timeline.explain_removed() or timeline.explain_stuck()

    def put_back(self) -> str | None:
        """Undo a failed pass in every ``.grad``; return a clause if torch forbids it."""
        failed: str | None = None
        for timeline in self._moved:
            try:
                if timeline.at(0) != timeline.now:
                    timeline.go(0)
            except (RuntimeError, TypeError) as error:  # noqa: PERF203  torch forbids some
                failed = self.fixed = f"{timeline.name}.grad could not be put back ({error})"
        return failed

    def changed_by(self, node: int) -> GradTimeline | None:
        """Return the timeline that a node's step added a moment to."""
        return next((each for each in self.of(node) if len(each.moments) > 1), None)

    def go(self, step: int) -> bool:
        """Set every ``.grad`` as after ``step`` steps, unless ``fixed``; return whether it did."""
        moves = [(timeline, timeline.at(step)) for timeline in self._moved]
        for timeline, index in moves:
            if self.fixed is None and not timeline.is_untouched(closely=index != timeline.now):
                self.fixed = (
                    f"{timeline.name}.grad was changed by something else since this backward pass "
                    "ran"
                )
        if self.fixed is not None:
            return False
        before = [(timeline, timeline.now) for timeline, _ in moves]
        try:
            _move(moves)
        except BaseException as error:
            with suppress(Exception):
                _move(before)
            if not isinstance(error, Exception):
                raise
            self.fixed = f"moving .grad failed ({type(error).__name__}: {error})"
            return False
        return True


def _move(moves: Iterable[tuple[GradTimeline, int]]) -> None:
    for timeline, index in moves:
        if index != timeline.now:
            timeline.go(index)


def _memory(grad: torch.Tensor | None) -> tuple[int, ...] | None:
    if grad is None or not has_norm(grad) or not grad.numel():
        return None
    return grad.data_ptr(), grad.numel()


def _always(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: tensor


def _name_of(captured: Capture, node: int) -> str:
    name: str | None = captured.graph.nodes[node]["name"]
    return name or f"the tensor of node {node}"
