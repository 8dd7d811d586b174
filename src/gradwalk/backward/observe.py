"""Watching backward passes, whoever runs them: what flowed into and out of every node.

A hook on every node sees its gradients, in the engine's own order. Hooks hold the observer weakly:
a hook lives in a C++ node, where Python's collector cannot see it, so a strong reference would keep
the whole graph alive.

While a pass runs, a hook only notes what it was handed. All that is said of it is worked out when
somebody asks.
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
from torch.compiler import is_compiling

from ..graph.garbage_collector import collector_paused
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
)
from ..torch_api.modes import is_watched, unseen
from ..torch_api.nodes import AccumulateGrad
from ..torch_api.reading import own_part, storage_id
from .kept_gradients import DEFAULT_BUDGET, LARGEST_COPY
from .leaf_grads import LeafGrads
from .padded_gradients import Gradients, are_added_up, are_padding, without_padding
from .recorded_run import Note, Passed, RecordedRun
from .stolen import ends_of

_OWNER = "gradwalk: the backward pass that it runs"
_here = threading.local()  # the same, in the thread that asked for it


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
        on_end: Callable[[], None],
        roots: Collection[int] = (),
        max_bytes: int = DEFAULT_BUDGET,
        *,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """Register a hook on every node.

        Args:
            nodes: The nodes, by id.
            on_end: Called when a pass has ended that touched the graph or one of its leaves. Held
                weakly when it is a bound method.
            roots: The outputs. A pass that starts at a leaf among them is one through this graph.
            max_bytes: Bytes of large gradients to keep per run.
            on_begin: Called when a pass through the graph has begun, before it has changed the
                ``.grad`` of anything but an output. Held like ``on_end``.
        """
        self.runs = 0
        self.last: RecordedRun | None = None
        self.fault: str | None = None
        self.compiled = False
        self._nodes = nodes
        self._roots = roots
        self._max_bytes = max_bytes
        self._on_end = weakly(on_end)
        self._on_begin = weakly(on_begin or _nothing)
        self._paused = False
        self._running: dict[int, RecordedRun] = {}
        self._own: RecordedRun | None = None  # the pass that gradwalk is running now
        self._leaves = {i for i, node in enumerate(nodes) if type(node) is AccumulateGrad}
        self._ends = ends_of(nodes)
        self._large = large = {nodes[i] for i in self._leaves if _is_large(nodes[i])}
        into_large = [  # those that hand a large gradient to a leaf, and these leaves
            i
            for i, into in self._ends.items()
            if nodes[i] in large or any(leaf in large for _, leaf in into)
        ]
        # What notes the passes that are quick to note, by the number of the engine's task.
        self._quick: Quick = {}
        see, pad, look = _hooks(weakref.ref(self), self._quick)
        padding = list(are_padding(nodes))
        added_up = are_added_up(nodes, padding)
        with collector_paused():
            self._ids: dict[Node | None, int] = {node: i for i, node in enumerate(nodes)}
            hooks = dict.fromkeys(added_up, pad) | dict.fromkeys(into_large, look)
            self._handles = [node.register_hook(hooks.get(i, see)) for i, node in enumerate(nodes)]
            alone = {i for i in padding if is_alone(self._handles[i])}
            self._padding = frozenset(alone)
            for i in added_up - alone:
                if hooks[i] is pad:
                    replace_hook(self._handles[i], see)

    def close(self) -> None:
        """Remove every hook and forget what was seen."""
        remove_hooks(self._handles)
        self._handles.clear()
        self._quick.clear()
        self._running.clear()
        self.last = None

    def own(
        self, grads: LeafGrads, seeds: list[torch.Tensor], *, once: bool = False
    ) -> RecordedRun:
        """A run for `owning`: the next one, started by gradwalk."""
        return RecordedRun(
            self._max_bytes,
            grads=grads,
            seeds=seeds,
            once=once,
            padding=self._padding,
            ends=self._ends,
        )

    @contextmanager
    def owning(self, run: RecordedRun, *, on_devices: bool) -> Iterator[None]:
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

    def _look(self, grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        """What a hook does where there is more to do than to note."""
        node = self._ids[current_node()]
        if is_watched():
            with unseen():
                self._see(node, grad_inputs, grad_outputs, watched=True)
        else:
            self._see(node, grad_inputs, grad_outputs, watched=False)

    def _see(
        self, node: int, grad_inputs: Gradients, grad_outputs: Gradients, *, watched: bool
    ) -> None:
        """What a hook does in a pass that is not known to be quick to note, and of large leaves.

        Args:
            node: The node.
            grad_inputs: What it passed on.
            grad_outputs: What came in.
            watched: Whether a mode of the user's sees what torch does.
        """
        if self._paused:
            return
        task = current_task()
        run = self._running.get(task) or self._begin(task)
        if not run.total:
            own = self._own
            if node in self._leaves and node not in self._roots:
                # Another graph's backward, arriving at a leaf that the two share; perhaps one that
                # a node of this graph runs as part of its own step (checkpoint).
                if own is not None and own.grads is not None and _owner() is own:
                    own.grads.note(node, own.total + 1)
                return
            if own is not None and own.number == 0 and _owner() is own:
                own.keeps_graph = run.keeps_graph
                run = self._running[task] = own
            self._count(run)
            if not watched and _are_plain([*grad_inputs, *grad_outputs]):
                self._quick[task] = run.noting(self._ids)
        run.note_carefully(node, grad_inputs, grad_outputs, self._into_large(node))

    def _into_large(self, node: int) -> list[bool]:
        """Which gradients at a node go into a large leaf."""
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
        run = RecordedRun(self._max_bytes, padding=self._padding, ends=self._ends)
        run.keeps_graph = keeps_graph()
        self._running[task] = run
        end = _EndOfRun(weakref.ref(self), task)
        # The engine calls `end` when the pass is complete, and drops it uncalled when it failed.
        weakref.finalize(end, _stopped, weakref.ref(self), self._quick, task).atexit = False
        when_done(end)
        return run

    def _end(self, task: int) -> None:
        run = self._running.pop(task, None)
        self._quick.pop(task, None)
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


def _owner() -> RecordedRun | None:
    """The pass of gradwalk's own that the running code belongs to."""
    found: RecordedRun | None = getattr(_here, "run", None) or carried(_OWNER)
    return found


def _is_large(leaf: Any) -> bool:
    """Whether torch hands its gradient over to a leaf without a copy: a DTensor, or a large one."""
    try:
        return bool(leaf.variable.nbytes > LARGEST_COPY) or own_part(leaf.variable) is not None
    except Exception:  # sparse, nested, a class that refuses to tell
        return True


def _are_plain(grads: Gradients) -> bool:
    """Whether the gradients of a pass, judged by its first, can be noted as they are."""
    return not torch.is_grad_enabled() and all(
        grad is None
        or (not grad.requires_grad and not grad.is_inference() and storage_id(grad) is not None)
        for grad in grads
    )


Quick = dict[int, Note]
"""The number of a pass -> what notes a step of it."""


def _hooks(me: weakref.ref[Observer], quick: Quick) -> tuple[Note, Note, Note]:
    """The hooks: of most nodes, of padding, and of what hands a leaf a large gradient.

    All nodes share the three, which ask the engine for the node: to make a function for each takes
    as long as half a backward pass of small tensors.
    """

    def look(grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        observer = me()
        if observer is None:
            return
        if is_compiling() or current_node() is None:
            observer.compiled = True  # compiled autograd, which makes this a part of a program
            return
        try:
            observer._look(grad_inputs, grad_outputs)
        except Exception as error:  # the user's backward must go on
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
        # A hook that came since runs after this one, and may change what is passed on in place.
        if observer is None or not is_alone(observer._handles[observer._ids[node]]):
            return grad_inputs, grad_outputs
        return without_padding(node, grad_inputs, grad_outputs), grad_outputs

    noting = functools.partial(_noting, quick, look, failed)
    return noting(), noting(padded), look


# It runs once per node and pass, so it is all that a pass costs while nobody asks.
def _noting(
    quick: Quick,
    look: Note,
    failed: Callable[[Exception], None],
    instead: Callable[[Gradients, Gradients], tuple[Passed, Gradients]] | None = None,
) -> Note:
    def see(grad_inputs: Gradients, grad_outputs: Gradients) -> None:
        note = None if is_compiling() else quick.get(current_task())
        if note is None:
            look(grad_inputs, grad_outputs)
            return
        try:
            if instead is None:
                note(grad_inputs, grad_outputs)
            else:
                note(*instead(grad_inputs, grad_outputs))
        except Exception as error:  # the user's backward must go on
            failed(error)

    return see


class _EndOfRun:
    def __init__(self, observer: weakref.ref[Observer], task: int) -> None:
        self.observer = observer
        self.task = task

    def __call__(self) -> None:
        observer = self.observer()
        if observer is not None:
            observer._end(self.task)


def _stopped(observer: weakref.ref[Observer], quick: Quick, task: int) -> None:
    # Runs while torch unwinds an exception: note it and leave; readers look at `state` later.
    quick.pop(task, None)
    found = observer()
    if found is None:
        return
    run = found._running.pop(task, None)
    if run is not None:
        run.state = "stopped"
        if run.number:
            found.last = run
