"""One backward pass: the data of its hooks, and the steps made of it when read."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, islice, repeat
from typing import Any, Literal, NamedTuple

import torch
from torch.autograd.graph import Node

from ..torch_api.engine import current_node
from ..torch_api.modes import unseen
from ..torch_api.reading import copied
from ..torch_api.tensors import version_of, versions_of
from .function_calls import Operations
from .kept_gradients import LARGEST_COPY, GradientStore, KeptGradient
from .leaf_grads import LeafGrads
from .padded_gradients import Gradients, Padding, keep_padding
from .stolen import Ends, GradAliases, copy_if_stolen, has_memory

_AT_HAND = 2**20
"""Bytes of gradients to read together once the budget is spent: reading one by one is slower."""

Passed = Sequence[Any]
"""A node's outgoing gradients, or the `Padding` that represents them."""

Note = Callable[[Passed, Gradients], None]
"""Records the outgoing and incoming gradients of the running node."""

Noted = tuple[int, Passed, Gradients, list[int] | None]
"""A node, its outgoing and incoming gradients, and their versions, incoming ones first and None
skipped. None if all versions are 0."""


class Step(NamedTuple):
    """One node's backward.

    Attributes:
        node: The node's id.
        grad_outputs: The incoming gradients, one per output of the node.
        grad_inputs: The outgoing ones, one per entry of ``next_functions``; empty for a leaf.
    """

    node: int
    grad_outputs: list[KeptGradient | None]
    grad_inputs: list[KeptGradient | None]


class RecordedRun:
    """One backward pass through the graph.

    Attributes:
        number: The number of the pass, from 1.
        state: "running", "done", or "stopped" if an exception ended it.
        keeps_graph: Whether it retains the graph's buffers.
        once: Whether it cannot: compiled code in it can run only once.
        grads: The ``.grad`` that the pass changed, if gradwalk started it; None if it was only
            watched.
        seeds: The gradients it started from, one per output, if gradwalk started it.
        error: The exception that ended it, in words, if gradwalk started it.
        failed: The node that raised it, if any.
        max_bytes: Bytes of large gradients to keep.
        operations: The operations of custom backwards by node id, if they were recorded.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        grads: LeafGrads | None = None,
        seeds: list[torch.Tensor] | None = None,
        once: bool = False,
        padding: frozenset[int] = frozenset(),
        ends: Ends | None = None,
    ) -> None:
        """Create a pass that has not started.

        Args:
            max_bytes: Bytes of large gradients to keep.
            padding: The nodes that pad their incoming gradient with zeros.
            grads: The ``.grad`` that it changes, if gradwalk starts it.
            seeds: The gradients that it then starts from.
            once: Whether it can run only once.
            ends: Which of its gradients go into leaves.
        """
        self.number = 0
        self.max_bytes = max_bytes
        self.state: Literal["running", "done", "stopped"] = "running"
        self.keeps_graph = True
        self.once = once
        self.grads = grads
        self.seeds = seeds
        self.error: str | None = None
        self.failed: int | None = None
        self.operations: dict[int, Operations] = {}
        self._touched = frozenset[int]() if grads is None else grads.nodes
        self._padding = padding
        self._keeper = GradientStore(max_bytes)
        self._noted: deque[Noted] = deque()  # one thread appends, another reads
        self._ends = {} if ends is None else ends
        self._lender = GradAliases(self._noted)
        self._room = max_bytes // 2
        self._counted = 0  # entries of `_noted` that the budget already counts
        self._steps: dict[int, Step] = {}
        self._numbers: dict[int, int] = {}
        self._reading = threading.RLock()

    @property
    def total(self) -> int:
        """The number of steps."""
        return len(self._steps) + len(self._noted)

    @property
    def steps(self) -> dict[int, Step]:
        """The steps by node id, in the engine's order."""
        if self._noted:
            self._read()
        return self._steps

    def arrived(self, node: int, output_nr: int = 0) -> torch.Tensor | None:
        """Return the gradient that arrived at a node's output, while its values are known."""
        step = self.steps.get(node)
        came = [] if step is None else step.grad_outputs
        kept = came[output_nr] if output_nr < len(came) else None
        return None if kept is None else kept.tensor

    @property
    def numbers(self) -> dict[int, int]:
        """The step number, from 1, of each node that ran."""
        steps = self.steps
        if len(self._numbers) != len(steps):
            self._numbers = {node: number for number, node in enumerate(steps, 1)}
        return self._numbers

    def noting(self, ids: dict[Node | None, int]) -> Note:
        """Return the hook function that records a node's step in a microsecond.

        Args:
            ids: The id of each node.
        """
        append, touched, ends = self._noted.append, self._touched, self._ends

        # One function with plain loops, because it runs once per node and pass.
        def note(grad_inputs: Passed, grad_outputs: Gradients) -> None:
            node = ids[current_node()]
            changes = size = 0
            try:
                for grad in grad_outputs:
                    if grad is not None:
                        changes |= grad._version
                for grad in grad_inputs or grad_outputs:  # a leaf's may become a copy
                    if grad is not None:
                        changes |= grad._version
                        size += grad.nbytes
            except Exception:  # sparse, inference mode, or a class that raises
                self.note_any(node, grad_inputs, grad_outputs)
                return
            if node in ends:
                grad_inputs, grad_outputs = self._let_go(node, grad_inputs, grad_outputs)
            versions = versions_of(grad_outputs, grad_inputs) if changes else None
            append((node, grad_inputs, grad_outputs, versions))
            if node in touched:
                self._note_grad(node, grad_outputs)
            # Incoming gradients were passed on by others or are their sum: at most as much again.
            self._room -= size
            if self._room < 0:
                self._make_room()

        return note

    def note_any(
        self,
        node: int,
        grad_inputs: Gradients,
        grad_outputs: Gradients,
        handed_over: Sequence[bool] = (),
    ) -> None:
        """Record a step with gradients of any kind, in a pass of any kind.

        Args:
            node: The node's id.
            grad_inputs: The outgoing gradients.
            grad_outputs: The incoming gradients.
            handed_over: Which of the gradients, outgoing first, go into a large leaf.
        """
        count = len(grad_inputs) + len(grad_outputs)
        flags = [*handed_over, *[False] * (count - len(handed_over))]
        if self._ends.get(node) or (node in self._ends and not any(handed_over)):
            grad_inputs, grad_outputs = self._let_go(node, grad_inputs, grad_outputs)
        with self._reading:
            self._read()
            self._keeper.begin_step()
            kept = [
                _keep(self._keeper, grad, flag)
                for grad, flag in zip([*grad_inputs, *grad_outputs], flags, strict=True)
            ]
            passed, arrived = kept[: len(grad_inputs)], kept[len(grad_inputs) :]
            self._steps[node] = Step(node, arrived, passed)
        if node in self._touched:
            self._note_grad(node, grad_outputs)

    def _let_go(
        self, node: int, grad_inputs: Passed, grad_outputs: Gradients
    ) -> tuple[Passed, Gradients]:
        """Let torch move an outgoing gradient into a leaf; copy it where it has."""
        with self._reading:
            if not self._ends[node]:
                (came,) = grad_outputs
                copy = copy_if_stolen(current_node(), came)
                if came is None or (copy is None and not has_memory(came)):
                    return grad_inputs, grad_outputs
                if copy is None:  # torch may move the same tensor into another leaf
                    return grad_inputs, (came.detach(),)
                self._keeper.note_stolen(came, copy)
                return grad_inputs, (copy,)
            passed, arrived, held = self._lender.alias(self._ends[node], grad_inputs, grad_outputs)
            for grad, alias in held:
                self._keeper.let_go(grad, alias)
        return passed, arrived

    def _note_grad(self, node: int, grad_outputs: Gradients) -> None:
        assert self.grads is not None
        self.grads.note(node, self.total, grad_outputs[0] if len(grad_outputs) == 1 else None)

    def _make_room(self) -> None:
        """Count new gradients against the budget; process them now if not all fit."""
        with self._reading, unseen():
            noted = list(self._noted)
            new = islice(noted, self._counted, None)
            grads = chain.from_iterable((*came, *went) for _, went, came, _ in new)
            fits = self._keeper.has_room(grad for grad in grads if type(grad) is not Padding)
            self._counted, self._room = len(noted), self._keeper.bytes_left // 2
            if not fits or self._room < _AT_HAND:
                self._read()

    def _read(self) -> None:
        """Make steps of the recorded data."""
        with self._reading, unseen():
            noted, keep = self._noted, self._keeper.keep
            while noted:
                node, grad_inputs, grad_outputs, noted_versions = noted[0]
                self._keeper.begin_step()
                versions = repeat(0) if noted_versions is None else iter(noted_versions)
                came = [
                    None if grad is None else keep(grad, next(versions), False)
                    for grad in grad_outputs
                ]
                middle = came[0] if len(came) == len(grad_inputs) == 1 else None
                if middle is not None and isinstance(grad_inputs[0], Padding):
                    went: list[KeptGradient | None] = [
                        keep_padding(self._keeper, grad_inputs[0], middle)
                    ]
                elif node in self._padding and _is_padded(grad_inputs, grad_outputs):
                    went = [self._keeper.keep_padded(grad_inputs[0], next(versions), came[0])]
                else:
                    went = [
                        None if grad is None else keep(grad, next(versions), False)
                        for grad in grad_inputs
                    ]
                self._steps[node] = Step(node, came, went)
                noted.popleft()
            self._keeper.forget_stolen()
            self._lender.forget()
            self._counted = 0
            self._room = max(self._keeper.bytes_left // 2, _AT_HAND)


def _is_padded(went: Gradients, came: Gradients) -> bool:
    """Return whether a node's outgoing gradient has more numbers than its incoming one."""
    one, other = went[0], came[0]
    return one is not None and other is not None and one.numel() > other.numel()


def _keep(
    keeper: GradientStore, grad: torch.Tensor | None, handed_over: bool
) -> KeptGradient | None:
    if grad is None:
        return None
    try:
        large = handed_over and grad.numel() * grad.element_size() > LARGEST_COPY
        if large or grad.requires_grad:  # keep no reference to the tensor or its own graph
            grad = grad.detach()
        if (handed_over and not large) or grad.is_inference():  # it has no version counter
            grad = copied(grad)
        return keeper.keep(grad, version_of(grad), large)
    except RuntimeError:
        # A batched gradient, as in jacobian(vectorize=True), has no values here.
        return keeper.without_values(grad)
