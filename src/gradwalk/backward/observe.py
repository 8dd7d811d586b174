"""Watching backward passes, whoever runs them: what flowed into and out of every node.

A hook on every node sees its gradients, in the engine's own order. Hooks hold the observer weakly:
a hook lives in a C++ node, where Python's collector cannot see it, so a strong reference would keep
the whole graph alive.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.autograd.graph import Node

from ..graph.engine import carried, carry, current_task, keeps_graph, when_done
from ..graph.modes import is_watched, unseen
from ..graph.nodes import AccumulateGrad
from .grads import Grads
from .kept import DEFAULT_BUDGET, Keeper, Kept

Gradients = Sequence[torch.Tensor | None]

_OWNER = "gradwalk: the backward pass that it runs"
_here = threading.local()  # the same, in the thread that asked for it


@dataclass(frozen=True)
class Step:
    """One node's backward: the gradients of its outputs came in, those of its inputs went on.

    Attributes:
        node: The node's id.
        grad_outputs: One per output of the node.
        grad_inputs: One per entry of ``next_functions``; empty for a leaf.
    """

    node: int
    grad_outputs: list[Kept | None]
    grad_inputs: list[Kept | None]


@dataclass(eq=False)
class Run:
    """One backward pass through the graph.

    Attributes:
        number: Which pass this is, from 1.
        steps: What ran, by node id, in the engine's order.
        state: "running", "done", or "stopped" when an exception ended it.
        keeps_graph: Whether it was asked to retain the graph's buffers.
        once: Whether it could not be asked for that: compiled code in it can run only once.
        grads: The ``.grad`` that the pass changed, when gradwalk started it; None when it was
            only watched.
        seeds: The gradients it started from, one per output, when gradwalk started it.
        error: The exception that ended it, in words, when gradwalk started it.
        failed: The node that raised it, if one did.
    """

    keeper: Keeper
    number: int = 0
    steps: dict[int, Step] = field(default_factory=dict)
    state: Literal["running", "done", "stopped"] = "running"
    keeps_graph: bool = True
    once: bool = False
    grads: Grads | None = None
    seeds: list[torch.Tensor] | None = None
    error: str | None = None
    failed: int | None = None
    _numbers: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def numbers(self) -> dict[int, int]:
        """Each node that ran, and the number of its step, from 1."""
        if len(self._numbers) != len(self.steps):
            self._numbers = {node: number for number, node in enumerate(self.steps, 1)}
        return self._numbers


class Observer:
    """Watches every backward pass through some nodes until it is closed.

    Attributes:
        runs: How many passes were seen.
        last: The last of them to end, or while none has, to begin; None before any.
        fault: A sentence when observing itself failed; the user's backward never fails for it.
        compiled: Whether compiled autograd ran a pass, as one program in which nothing is seen.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        leaves: Sequence[bool],
        on_end: Callable[[], None],
        roots: Collection[int] = (),
        max_bytes: int = DEFAULT_BUDGET,
        *,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """Register a hook on every node.

        Args:
            nodes: The nodes, by id.
            leaves: Whether each is a leaf.
            on_end: Called when a pass has ended that touched the graph or one of its leaves. Held
                weakly when it is a bound method.
            roots: The outputs. A pass that starts at a leaf among them is one through this graph.
            max_bytes: Bytes of large gradients to keep per run.
            on_begin: Called when a pass through the graph has begun, before it has changed the
                ``.grad`` of anything but an output. Held like ``on_end``.
        """
        self.runs = 0
        self.last: Run | None = None
        self.fault: str | None = None
        self.compiled = False
        self._leaves = leaves
        self._roots = roots
        self._max_bytes = max_bytes
        self._on_end = weakly(on_end)
        self._on_begin = weakly(on_begin or _nothing)
        self._paused = False
        self._running: dict[int, Run] = {}
        self._own: Run | None = None  # the pass that gradwalk is running now
        me = weakref.ref(self)
        self._into_leaf = [
            tuple(type(child) is AccumulateGrad for child, _ in node.next_functions)
            for node in nodes
        ]
        self._handles = [node.register_hook(_hook(me, i)) for i, node in enumerate(nodes)]

    def close(self) -> None:
        """Remove every hook and forget what was seen."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._running.clear()
        self.last = None

    def own(self, grads: Grads, seeds: list[torch.Tensor], *, once: bool = False) -> Run:
        """A run for `owning`: the next one, started by gradwalk."""
        return Run(Keeper(self._max_bytes), grads=grads, seeds=seeds, once=once)

    @contextmanager
    def owning(self, run: Run, *, on_devices: bool) -> Iterator[None]:
        """Within it, the pass through the graph that the block starts is this run.

        Passes of other threads are not. The engine runs nodes of the CPU in the thread that asked;
        for other devices it has threads of its own, and what is carried follows it there.

        Args:
            run: The run.
            on_devices: Whether a node of the graph runs elsewhere than on the CPU. What is carried
                stays with the thread, whose end can then meet the interpreter's: so only if needed.
        """
        outer = _owner()
        self._own = run
        _here.run = run
        if on_devices:
            carry(_OWNER, run)
        try:
            yield
        finally:
            _here.run = outer
            if on_devices:
                carry(_OWNER, outer)
            self._own = None
            if run.number == 0:  # it failed before its first step was over
                self._count(run)
            self.last = run

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it nothing is seen, and nothing tells of it afterwards."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def _see(self, node: int, grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        if self._paused:
            return
        task = current_task()
        run = self._running.get(task) or self._begin(task)
        leaf = self._leaves[node]
        own = self._own
        if leaf and not run.steps and node not in self._roots:
            # Another graph's backward, arriving at a leaf that the two share; perhaps one that a
            # node of this graph runs as part of its own step (checkpoint).
            if own is not None and own.grads is not None and _owner() is own:
                own.grads.note(node, len(own.steps) + 1)
            return
        if not run.steps:
            if own is not None and own.number == 0 and _owner() is own:
                own.keeps_graph = run.keeps_graph
                run = self._running[task] = own
            self._count(run)
        keep = run.keeper.keep
        run.keeper.begin_step()
        arrived = [keep(grad, leaf) for grad in grad_outputs]
        passed = [
            keep(grad, into_leaf)
            for grad, into_leaf in zip(grad_inputs, self._into_leaf[node], strict=True)
        ]
        run.steps[node] = Step(node, arrived, passed)
        if run.grads is not None:
            run.grads.note(node, len(run.steps), arrived[0] if leaf else None)

    def _count(self, run: Run) -> None:
        self.runs += 1
        run.number = self.runs
        self.last = run
        on_begin = self._on_begin()
        if on_begin is not None:
            on_begin()

    def _begin(self, task: int) -> Run:
        run = Run(
            Keeper(self._max_bytes),
            keeps_graph=keeps_graph(),
        )
        self._running[task] = run
        end = _EndOfRun(weakref.ref(self), task)
        # The engine calls `end` when the pass is complete, and drops it uncalled when it failed.
        weakref.finalize(end, _stopped, weakref.ref(self), task).atexit = False
        when_done(end)
        return run

    def _end(self, task: int) -> None:
        run = self._running.pop(task, None)
        if run is None:
            return
        run.state = "done"
        if run.number:
            self.last = run
        # Whoever started the run itself looks at it afterwards, and may hold a lock until then.
        on_end = self._on_end() if self._own is None else None
        if on_end is None:
            return
        try:
            on_end()
        except Exception as error:  # the user's backward must go on
            self.fault = (
                "Showing this backward pass failed, so what is shown of it is incomplete: "
                f"{type(error).__name__}: {error}"
            )


def weakly(call: Callable[[], None]) -> Callable[[], Callable[[], None] | None]:
    """Gives a callback, a bound method for as long as its object lives."""
    return weakref.WeakMethod(call) if hasattr(call, "__self__") else lambda: call


def _nothing() -> None:
    pass


def _owner() -> Run | None:
    """The pass of gradwalk's own that the running code belongs to."""
    found: Run | None = getattr(_here, "run", None) or carried(_OWNER)
    return found


def _hook(me: weakref.ref[Observer], node: int) -> Callable[[Any, Any], None]:
    def see(grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        observer = me()
        if observer is None:
            return
        if torch.compiler.is_compiling():  # compiled autograd, which makes this a part of a program
            observer.compiled = True
            return
        try:
            if is_watched():
                with unseen():
                    observer._see(node, grad_inputs, grad_outputs)
            else:
                observer._see(node, grad_inputs, grad_outputs)
        except Exception as error:  # the user's backward must go on
            observer.fault = (
                f"Watching node {node} failed during backward, so what is shown of that pass is "
                f"incomplete: {type(error).__name__}: {error}"
            )

    return see


class _EndOfRun:
    def __init__(self, observer: weakref.ref[Observer], task: int) -> None:
        self.observer = observer
        self.task = task

    def __call__(self) -> None:
        observer = self.observer()
        if observer is not None:
            observer._end(self.task)


def _stopped(observer: weakref.ref[Observer], task: int) -> None:
    # Runs while torch unwinds an exception: note it and leave; readers look at `state` later.
    found = observer()
    run = found._running.pop(task, None) if found is not None else None
    if run is not None:
        run.state = "stopped"
        if found is not None and run.number:
            found.last = run
