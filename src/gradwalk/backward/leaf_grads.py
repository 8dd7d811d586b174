"""The `.grad` of tensors during a backward pass that gradwalk runs, and seeking through it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..torch_api.nodes import node_class
from .grad_timeline import GradTimeline, is_small
from .statistics import has_norm

MOST_LOOKED_AT = 100_000
"""Objects that are searched for one node; a function can refer to most of a program."""


def inner_leaves(node: Node) -> list[torch.Tensor]:
    """Return the leaves that a custom Function can reach from its saved objects.

    Args:
        node: An autograd node.

    Returns:
        Leaves that require grad, from its functions, their variables, modules and containers.
        Empty for nodes of torch's own functions.
    """
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
    """Every ``.grad`` that a backward pass may change.

    Attributes:
        timelines: One per leaf, and per intermediate tensor that retains its gradient.
        inner: One per leaf outside the graph that a node may accumulate into by an inner backward
            pass (reentrant checkpoint).
        fixed: A clause on why seeking leaves every ``.grad`` unchanged; None while it moves them.
    """

    def __init__(self, captured: Capture, inputs: Iterable[torch.Tensor] = ()) -> None:
        """Record every ``.grad`` before the pass.

        Args:
            captured: The graph and its tensors.
            inputs: The tensors that the pass accumulates into; intermediate ones retain their
                gradient.
        """
        asked = {id(tensor) for tensor in inputs}
        self.fixed: str | None = None
        called = functools.partial(_called, captured)
        leaves = list(captured.leaves())
        self.timelines = [GradTimeline(i, called, _always(leaf)) for i, leaf in leaves]
        for (i, _), reference in captured.tensors.items():
            tensor = reference()
            if tensor is not None and (tensor.retains_grad or id(tensor) in asked):
                self.timelines.append(GradTimeline(i, called, weakref.ref(tensor)))
        self.inner: list[GradTimeline] = []
        self._run_within: dict[int, list[GradTimeline]] = {}
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
        return frozenset([*self._by_node, *self._run_within])

    def _add_inner(self, captured: Capture) -> None:
        """Find the leaves that nodes may accumulate into by an inner backward pass."""
        functions = {cls for cls in set(map(type, captured.nodes)) if node_class(cls).is_function}
        if not functions:
            return
        known = {id(timeline.tensor()): timeline for timeline in self.timelines}
        called = functools.partial(_called_inner, captured)
        for i, node in enumerate(captured.nodes):
            for leaf in inner_leaves(node) if type(node) in functions else ():
                if id(leaf) not in known:
                    self.inner.append(GradTimeline(i, called, _always(leaf)))
                    known[id(leaf)] = self.inner[-1]
                self._run_within.setdefault(i, []).append(known[id(leaf)])

    def of(self, node: int) -> Sequence[GradTimeline]:
        """Return the timelines of the tensors that a node makes or accumulates into."""
        return self._by_node.get(node, ())

    def touched(self) -> list[GradTimeline]:
        """Return the timelines whose ``.grad`` something else has changed."""
        return [each for each in self._moved if not each.is_untouched(is_small(each.tensor()))]

    def release_grads(self, tensors: Iterable[torch.Tensor]) -> list[GradTimeline]:
        """Leave the ``.grad`` of some tensors to another pass: seeking no longer moves them.

        The timelines stay as they are.

        Args:
            tensors: The tensors; unknown ones are ignored.

        Returns:
            The timelines of the known tensors.
        """
        given = {id(tensor) for tensor in tensors}
        lent = [timeline for timeline in self._moved if id(timeline.tensor()) in given]
        self._moved = [timeline for timeline in self._moved if timeline not in lent]
        return lent

    def note(self, node: int, step: int, arrived: torch.Tensor | None = None) -> None:
        """Record the ``.grad`` that a node's step may have changed.

        Args:
            node: The node.
            step: The number of its step.
            arrived: The incoming gradient.
        """
        for timeline in self._by_node.get(node, ()):
            timeline.note(step, arrived if node in self._leaves else None)
            memory = _memory(timeline.moments[-1].grad) if self._sharing else None
            for other in self._sharing.get(memory, ()) if memory is not None else ():
                if other is not timeline:
                    other.note(step)
        for timeline in self._run_within.get(node, ()) if self._run_within else ():
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
        """Set every ``.grad`` to its state before the pass, which failed.

        Returns:
            None; if torch forbids it, a clause that says so, which ``fixed`` then holds, too.
        """
        failed: str | None = None
        for timeline in self._moved:
            if timeline.at(0) != timeline.now and (error := timeline.try_go(0)) is not None:
                failed = self.fixed = f"{timeline.name}.grad could not be put back ({error})"
        return failed

    def changed_by(self, node: int) -> GradTimeline | None:
        """Return the timeline that a node's step added a moment to."""
        for timeline in self._by_node.get(node, ()):
            if len(timeline.moments) > 1:
                return timeline
        return None

    def go(self, step: int) -> bool:
        """Set every ``.grad`` to its state after ``step`` steps.

        Returns:
            Whether it did. Once something else has changed a ``.grad`` it does nothing, and
            ``fixed`` says so.
        """
        moves = [(timeline, timeline.at(step)) for timeline in self._moved]
        for timeline, index in moves:
            if self.fixed is None and not timeline.is_untouched(closely=index != timeline.now):
                self.fixed = (
                    f"{timeline.name}.grad was changed by something else since this backward pass "
                    "ran"
                )
        if self.fixed is not None:
            return False
        stood = [(timeline, timeline.now) for timeline, _ in moves]
        try:
            _move(moves)
        except BaseException as error:
            with suppress(Exception):
                _move(stood)
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


def _called(captured: Capture, node: int) -> str:
    name: str | None = captured.graph.nodes[node]["name"]
    return name or f"the tensor of node {node}"


def _called_inner(captured: Capture, node: int) -> str:
    return f"a leaf inside {captured.graph.nodes[node]['op']} (node {node})"
