"""Watching backward passes that the user runs: what flowed into and out of every node.

A hook on every node sees its gradients, in the engine's own order. Hooks hold the observer weakly:
a hook lives in a C++ node, where Python's collector cannot see it, so a strong reference would keep
the whole graph alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.autograd.graph import Node

from .nodes import AccumulateGrad
from .summary import MOST_VALUES, summarise
from .wire import TensorSummary

DEFAULT_BUDGET = 256 * 2**20
"""Bytes of large gradients kept alive per run; beyond that only their summaries are kept."""

Gradients = Sequence[torch.Tensor | None]


@dataclass(frozen=True)
class Kept:
    """A gradient as it was when it flowed.

    Attributes:
        tensor: Its values, detached; None when the budget was spent.
        version: How often ``tensor`` had been changed in place by then.
        summary: What is left when the budget was spent.
    """

    tensor: torch.Tensor | None
    version: int
    summary: TensorSummary | None

    def summarise(self) -> TensorSummary:
        """The gradient as plain values, with a note if it was changed in place since."""
        if self.tensor is None:
            assert self.summary is not None
            return self.summary
        summary = summarise(self.tensor)
        if self.tensor._version != self.version:
            summary["note"] = (
                "This tensor was changed in place after it flowed here (by a hook or by the "
                "program); the values are those it holds now."
            )
        return summary


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


@dataclass
class Run:
    """One backward pass through the graph.

    Attributes:
        steps: What ran, by node id, in the engine's order.
        state: "running", "done", or "stopped" when an exception ended it.
        keeps_graph: Whether it was asked to retain the graph's buffers.
    """

    steps: dict[int, Step] = field(default_factory=dict)
    state: Literal["running", "done", "stopped"] = "running"
    keeps_graph: bool = True
    storages: set[int] = field(default_factory=set)
    kept_bytes: int = 0


class Observer:
    """Watches every backward pass through some nodes until it is closed.

    Attributes:
        runs: How many passes were seen.
        last: The last of them, or None.
        fault: A sentence when observing itself failed; the user's backward never fails for it.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        leaves: Sequence[bool],
        on_end: Callable[[], None],
        roots: Collection[int] = (),
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        """Register a hook on every node.

        Args:
            nodes: The nodes, by id.
            leaves: Whether each is a leaf.
            on_end: Called when a pass has ended that touched the graph or one of its leaves. Held
                weakly when it is a bound method.
            roots: The outputs. A pass that starts at a leaf among them is one through this graph.
            budget: Bytes of large gradients to keep per run.
        """
        self.runs = 0
        self.last: Run | None = None
        self.fault: str | None = None
        self._leaves = leaves
        self._roots = roots
        self._budget = budget
        self._on_end = weakref.WeakMethod(on_end) if hasattr(on_end, "__self__") else lambda: on_end
        self._running: dict[int, Run] = {}
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

    def _see(self, node: int, grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        run = self._running.get(torch._C._current_graph_task_id()) or self._begin()
        leaf = self._leaves[node]
        if leaf and not run.steps and node not in self._roots:
            return  # another graph's backward, arriving at a leaf that the two share
        if not run.steps:
            self.runs += 1
            self.last = run
        run.steps[node] = Step(
            node,
            [self._keep(run, grad, copy=leaf) for grad in grad_outputs],
            [
                self._keep(run, grad, copy=into_leaf)
                for grad, into_leaf in zip(grad_inputs, self._into_leaf[node], strict=True)
            ],
        )

    def _begin(self) -> Run:
        task = torch._C._current_graph_task_id()
        run = Run(keeps_graph=torch._C._autograd._get_current_graph_task_keep_graph())
        self._running[task] = run
        end = _EndOfRun(weakref.ref(self), task)
        # The engine calls `end` when the pass is complete, and drops it uncalled when it failed.
        weakref.finalize(end, _stopped, weakref.ref(self), task).atexit = False
        torch.autograd.Variable._execution_engine.queue_callback(end)
        return run

    def _end(self, task: int) -> None:
        run = self._running.pop(task, None)
        if run is None:
            return
        run.state = "done"
        on_end = self._on_end()
        if on_end is not None:
            on_end()

    def _keep(self, run: Run, grad: torch.Tensor | None, copy: bool) -> Kept | None:
        if grad is None:
            return None
        try:
            return self._keep_values(run, grad.detach(), copy)
        except (
            RuntimeError
        ):  # a batched gradient, as in jacobian(vectorize=True), has no values here
            return Kept(None, 0, summarise(grad))

    def _keep_values(self, run: Run, grad: torch.Tensor, copy: bool) -> Kept:
        if grad.layout is not torch.strided or grad.is_nested or grad.numel() <= MOST_VALUES:
            return Kept(grad.clone(), 0, None)
        # An alias costs no time, only memory that stays alive. What goes into a leaf may become its
        # `.grad`, to be accumulated into or clipped later, so that is copied.
        storage = _storage_id(grad)
        size = 0 if storage in run.storages and not copy else grad.numel() * grad.element_size()
        if run.kept_bytes + size > self._budget:
            summary = summarise(grad)
            summary["note"] = (
                "Only the statistics and the values shown were kept: the gradients of this "
                f"backward pass exceed the budget of {self._budget // 2**20} MB."
            )
            return Kept(None, 0, summary)
        run.kept_bytes += size
        if copy:
            return Kept(grad.clone(), 0, None)
        run.storages.add(storage)
        return Kept(grad, grad._version, None)


def _storage_id(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)  # a wrapper, such as those of torch.func, has no storage of its own


def _hook(me: weakref.ref[Observer], node: int) -> Callable[[Any, Any], None]:
    def see(grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        observer = me()
        if observer is None:
            return
        try:
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
