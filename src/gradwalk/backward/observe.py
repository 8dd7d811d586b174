"""Observe backward passes, the user's too: record the gradients into and out of every node.

A hook on every node sees its gradients, in the engine's own order. Hooks hold the observer weakly:
a hook lives in a C++ node, where Python's collector cannot see it, so a strong reference would keep
the whole graph alive.

While a pass runs, a hook only stores the tensors. They are processed when read.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import Node
from torch.compiler import is_compiling, is_dynamo_compiling
from torch.utils.hooks import RemovableHandle

from ..graph.adjacency import collector_paused
from ..torch_api.capability import direct
from ..torch_api.dtensors import own_part
from ..torch_api.engine import (
    carried,
    carry,
    current_node,
    current_task,
    is_alone,
    keeps_graph,
    remove_hooks,
    replace_hook,
    when_done,
    why_unrecorded,
)
from ..torch_api.modes import is_watched, unseen
from ..torch_api.nodes import leaf_classes
from ..torch_api.reading import storage_id
from .kept_gradients import DEFAULT_BUDGET, LARGEST_COPY
from .recorded_run import Note, Passed, RecordedRun, as_padding, padding_nodes
from .stolen import Gradients, leaf_inputs

_COMPILED = (
    "compiled autograd runs a pass as one program, and shows only what is in .grad afterwards"
)

_OWNER = "gradwalk: the backward pass that it runs"
_here = threading.local()  # the same, in the thread that started it


class Observer:
    """Observes every backward pass through some nodes until it is closed."""

    def __init__(
        self,
        nodes: Sequence[Node],
        on_end: Callable[[], None],
        roots: Collection[int] = (),
        max_bytes: int = DEFAULT_BUDGET,
        *,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """Register a hook on every node.

        ``on_end``: called after a pass that touched the graph or one of its leaves. Held weakly if
        it is a bound method. ``on_begin``: called when a pass through the graph starts, before it
        changes a ``.grad`` except an output's. Held like ``on_end``.
        """
        self.runs = 0  # how many passes were seen
        # The last completed pass; while there is none, the running one; None before any.
        self.last: RecordedRun | None = None
        # A sentence if observing failed. The user's backward continues.
        self.fault: str | None = None
        # Why a pass may have run without visible steps, as a clause; None if each is seen.
        self.unseen = why_unrecorded()
        self._nodes = nodes
        self._roots = roots
        self._max_bytes = max_bytes
        self._on_end = weakly(on_end)
        self._on_begin = weakly(on_begin or (lambda: None))
        self._paused = False
        self._running: dict[int, RecordedRun] = {}
        self._own: RecordedRun | None = None  # the pass that gradwalk runs now
        classes = leaf_classes(nodes)
        self._leaves = {i for i, node in enumerate(nodes) if type(node) in classes}
        self._leaf_inputs = leaf_inputs(nodes)
        self._large = large = {nodes[i] for i in self._leaves if _is_large(nodes[i])}
        into_large = [  # nodes that pass a large gradient to a leaf, and these leaves
            i
            for i, into in self._leaf_inputs.items()
            if nodes[i] in large or any(leaf in large for _, leaf in into)
        ]
        # Fast recording functions by the number of the engine's task.
        self._recorders: Recorders = {}
        record_step, record_padding, record_node = _hooks(weakref.ref(self), self._recorders)
        padding = padding_nodes(nodes)
        self._handles: list[RemovableHandle] = []
        with collector_paused():
            self._ids: dict[Node | None, int] = {node: i for i, node in enumerate(nodes)}
            if self.unseen is not None:
                return
            hooks = dict.fromkeys(padding, record_padding) | dict.fromkeys(into_large, record_node)
            self._handles = [
                node.register_hook(hooks.get(i, record_step)) for i, node in enumerate(nodes)
            ]
            for i in padding:
                if hooks[i] is record_padding and not is_alone(self._handles[i]):
                    replace_hook(self._handles[i], record_step)

    def close(self) -> None:
        """Remove every hook and all records."""
        remove_hooks(self._handles)
        self._handles.clear()
        self._recorders.clear()
        self._running.clear()
        self.last = None

    def new_run(self, **owned: Any) -> RecordedRun:
        """Return a run of these nodes, for `owning` if gradwalk starts it."""
        return RecordedRun(self._max_bytes, leaf_inputs=self._leaf_inputs, **owned)

    @contextmanager
    def owning(self, run: RecordedRun, *, on_devices: bool) -> Iterator[None]:
        """Record the pass that the block starts as ``run``.

        Passes of other threads are not included. CPU nodes run in the calling thread; other devices
        have their own threads, which inherit torch's thread-local state. That state is set only
        ``on_devices``: its cleanup may meet the interpreter's shutdown.
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
            if run.number == 0:  # it failed within its first step
                self._count(run)
            self.last = run

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in the block."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def _record_node(self, grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        """Process a node's hook when more than storing is needed."""
        node = self._ids[current_node()]
        if is_watched():
            with unseen():
                self._record(node, grad_inputs, grad_outputs, watched=True)
        else:
            self._record(node, grad_inputs, grad_outputs, watched=False)

    def _record(
        self, node: int, grad_inputs: Gradients, grad_outputs: Gradients, *, watched: bool
    ) -> None:
        """Record a step the slow way: new passes, large leaves, unusual gradients."""
        if self._paused:
            return
        task = current_task()
        run = self._running.get(task) or self._begin(task)
        if not run.total:
            own = self._own
            if node in self._leaves and node not in self._roots:
                # Another graph's backward reached a shared leaf; perhaps as part of a step of this
                # graph (reentrant checkpoint).
                if own is not None and own.grads is not None and _owner() is own:
                    own.grads.note(node, own.total + 1)
                return
            if own is not None and own.number == 0 and _owner() is own:
                own.keeps_graph = run.keeps_graph
                run = self._running[task] = own
            self._count(run)
            if not watched and _are_plain([*grad_inputs, *grad_outputs]):
                self._recorders[task] = run.step_recorder(self._ids)
        run.record_any(node, grad_inputs, grad_outputs, self._into_large(node))

    def _into_large(self, node: int) -> list[bool]:
        if not self._large:
            return []
        behind = self._nodes[node]
        targets = [behind] if node in self._leaves else [to for to, _ in behind.next_functions]
        return [to in self._large for to in targets]

    def _count(self, run: RecordedRun) -> None:
        self.runs += 1
        run.number = self.runs
        self.last = run
        on_begin = self._on_begin()
        if on_begin is not None:
            on_begin()

    def _begin(self, task: int) -> RecordedRun:
        run = self.new_run()
        run.keeps_graph = keeps_graph()
        self._running[task] = run
        end = _EndOfRun(weakref.ref(self), task)
        # The engine calls `end` after a complete pass, and only frees it after a failure.
        weakref.finalize(end, _stopped, weakref.ref(self), self._recorders, task).atexit = False
        when_done(end)
        return run

    def _end(self, task: int) -> None:
        run = self._running.pop(task, None)
        self._recorders.pop(task, None)
        if run is None:
            return
        run.state = "done"
        if run.number:
            self.last = run
        # Code that started a run itself reads it afterwards, and may hold a lock until then.
        on_end = self._on_end() if self._own is None else None
        if on_end is None:
            return
        try:
            on_end()
        except Exception as error:  # the user's backward must continue
            self.fault = (
                "Showing this backward pass failed, so what is shown of it is incomplete: "
                f"{type(error).__name__}: {error}"
            )


def weakly(call: Callable[[], None]) -> Callable[[], Callable[[], None] | None]:
    """Return a callback that holds a bound method weakly."""
    return weakref.WeakMethod(call) if hasattr(call, "__self__") else lambda: call


def _owner() -> RecordedRun | None:
    """Return gradwalk's own pass that the running code belongs to."""
    found: RecordedRun | None = getattr(_here, "run", None) or carried(_OWNER)
    return found


def runs_own_pass() -> bool:
    """Return whether gradwalk started the backward pass that the running code belongs to."""
    return _owner() is not None


def _is_large(leaf: Any) -> bool:
    """Return whether torch moves a leaf's gradient into ``.grad``: a DTensor, or a large one."""
    try:
        return bool(leaf.variable.nbytes > LARGEST_COPY) or own_part(leaf.variable) is not None
    except Exception:  # sparse, nested, or a class that raises
        return True


def _are_plain(grads: Gradients) -> bool:
    """Return whether a pass with these first gradients can be recorded the fast way."""
    return not torch.is_grad_enabled() and all(
        grad is None
        or (not grad.requires_grad and not grad.is_inference() and storage_id(grad) is not None)
        for grad in grads
    )


Recorders = dict[int, Note]  # the number of a pass -> the function that records a step of it


def _hooks(me: weakref.ref[Observer], recorders: Recorders) -> tuple[Note, Note, Note]:
    """Return the hooks: for most nodes, for padding nodes, and for sources of large leaf gradients.

    All nodes share the three, which ask the engine for the node: one function per node would cost
    as much as half a backward pass of small tensors.
    """

    def record_node(grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        observer = me()
        if observer is None:
            return
        if is_compiling() or current_node() is None:
            observer.unseen = _COMPILED  # it makes this hook part of a program
            return
        try:
            observer._record_node(grad_inputs, grad_outputs)
        except Exception as error:  # the user's backward must continue
            failed(error)

    def failed(error: Exception) -> None:
        observer = me()
        if observer is not None:
            node = observer._ids.get(current_node())
            observer.fault = (
                f"Watching node {node} failed during backward, so what is shown of that pass is "
                f"incomplete: {type(error).__name__}: {error}"
            )

    def padded(grad_inputs: Gradients, grad_outputs: Gradients) -> tuple[Passed, Gradients]:
        observer, node = me(), current_node()
        # A later hook of the user runs after this one and may change the gradient in place.
        if observer is None or not is_alone(observer._handles[observer._ids[node]]):
            return grad_inputs, grad_outputs
        return as_padding(node, grad_inputs, grad_outputs), grad_outputs

    step_recorder = functools.partial(_hook, recorders, record_node, failed)
    return step_recorder(), step_recorder(padded), record_node


# It runs once per node and pass: this is the whole cost of observing.
def _hook(
    recorders: Recorders,
    record_node: Note,
    failed: Callable[[Exception], None],
    instead: Callable[[Gradients, Gradients], tuple[Passed, Gradients]] | None = None,
) -> Note:
    task = direct(current_task)

    def record_step(grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        # Half the cost of `is_compiling`, which `record_node` asks where no pass is known.
        note = None if is_dynamo_compiling() else recorders.get(task())
        if note is None:
            record_node(grad_inputs, grad_outputs)
            return
        try:
            if instead is None:
                note(grad_inputs, grad_outputs)
            else:
                note(*instead(grad_inputs, grad_outputs))
        except Exception as error:  # the user's backward must continue
            failed(error)

    return record_step


class _EndOfRun:
    def __init__(self, observer: weakref.ref[Observer], task: int) -> None:
        self.observer = observer
        self.task = task

    def __call__(self) -> None:
        observer = self.observer()
        if observer is not None:
            observer._end(self.task)


def _stopped(observer: weakref.ref[Observer], recorders: Recorders, task: int) -> None:
    # Runs while torch unwinds an exception: store it and return; `state` is read later.
    recorders.pop(task, None)
    found = observer()
    if found is None:
        return
    run = found._running.pop(task, None)
    if run is not None:
        run.state = "stopped"
        if run.number:
            found.last = run
