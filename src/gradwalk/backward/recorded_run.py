"""One backward pass: the data of its hooks, and the steps made of it when read.

An indexing operation passes a smaller gradient on, padded with zeros to the size of the indexed
tensor. Where torch adds several of them up, only gradwalk would keep them alive. So it keeps the
smaller gradient, and pads it with torch's own operation if needed.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any, Literal, NamedTuple

import torch
from torch.autograd.graph import Node

from ..schema.details import TensorSummary
from ..torch_api.capability import direct
from ..torch_api.dtensors import copied
from ..torch_api.engine import current_node
from ..torch_api.modes import unseen
from ..torch_api.nodes import knows_saved
from ..torch_api.reading import has_data, read_version, version_of, versions_of
from ..torch_api.saved_tensors import plain_value
from ..torch_api.summary import MOST_VALUES, Summarise, summarise, without_values
from .function_calls import Operations
from .kept_gradients import (
    CHANGED,
    LARGEST_COPY,
    GradientStore,
    KeptGradient,
    has_norm,
    padded,
    statistics_of,
)
from .leaf_grads import LeafGrads
from .stolen import GradAliases, Gradients, LeafInputs, copy_if_stolen, has_memory

_PADDING: dict[str, tuple[Callable[..., torch.Tensor], dict[str, int]]] = {
    "SelectBackward0": (torch.ops.aten.select_backward, {"dim": 0, "index": 0}),
    "SliceBackward0": (
        torch.ops.aten.slice_backward,
        {"dim": 0, "start": 0, "end": 2**63 - 1, "step": 1},
    ),
}
"""Node -> its backward, and the saved numbers that it takes, with their defaults."""


def padding_nodes(nodes: Sequence[Node]) -> set[int]:
    """Return the nodes that pad their gradient with zeros, which torch then sums and frees."""
    classes = {cls for cls in set(map(type, nodes)) if cls.__name__ in _PADDING}
    if not classes or not knows_saved():  # the places that they pad are saved
        return set()
    places = {i: n.next_functions[0] for i, n in enumerate(nodes) if type(n) in classes}
    count = Counter(places.values())
    return {i for i, place in places.items() if count[place] > 1}


@dataclass(frozen=True, slots=True)
class Padding:
    """Represents a padded gradient that is not kept."""

    node: Node | None  # the node that passed it on
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    nbytes: int
    _version: int = 0  # always 0: it was new when it was seen


def as_padding(node: Node | None, outgoing: Gradients, incoming: Gradients) -> Any:
    """Replace the outgoing gradient of a padding node by a `Padding`, if that can be remade."""
    (one,), (other,) = outgoing, incoming
    if (
        type(one) is type(other) is torch.Tensor
        and one.numel() > other.numel()
        and one.layout is other.layout is torch.strided
        and one.dtype is other.dtype
        and one.is_contiguous()
        and not (one.is_inference() or other.is_inference())  # recorded the slow way
    ):
        return (Padding(node, one.shape, one.dtype, one.device, one.nbytes),)
    return outgoing


def keep_padding(store: GradientStore, padding: Padding, middle: KeptGradient) -> KeptGradient:
    """Keep a padded gradient as the smaller one; the budget counts the padded size."""
    like = torch.empty((), dtype=padding.dtype, device=padding.device).expand(padding.shape)
    there, known = middle.tensor, middle.statistics
    is_free = like.numel() <= MOST_VALUES or (there is not None and not has_data(there))
    size = 0 if is_free else padding.nbytes
    if there is not None and (not size or size <= store.bytes_left):
        store.count(size)
        return Padded(middle, _making(padding), like)
    if there is not None and known is None and has_norm(there):
        if not there.numel():
            return store.without_values(like.new_zeros(()).expand(like.shape))
        known = statistics_of(there)
    if known is None and (middle.changed or middle.summary is not None):
        return KeptGradient(None, summary=_without_values(like, middle))
    statistics = None if known is None else padded(known)
    return KeptGradient(None, summary=store.only_statistics(like), statistics=statistics)


class Padded(KeptGradient):
    """A padded gradient, made and kept when its values are read."""

    __slots__ = ("_like", "_make", "_middle")

    def __init__(
        self, middle: KeptGradient, make: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor
    ) -> None:
        super().__init__(None)
        self._middle = middle
        self._make = make
        self._like = like

    @property
    def tensor(self) -> torch.Tensor | None:
        """Its values; None if the smaller gradient was changed before."""
        there = self._middle.tensor if self._flowed is None else None
        if there is not None:
            with torch.inference_mode(False), torch.no_grad(), unseen():
                made = self._make(there)
            self.version = version_of(made)
            self._flowed = made
        return super().tensor

    @property
    def changed(self) -> bool:
        """Whether it was changed in place, or the smaller gradient before it was made."""
        return self._middle.changed if self._flowed is None else super().changed

    def summarise(self, summarised: Summarise = summarise) -> TensorSummary:
        """Return the gradient as plain values."""
        if self.tensor is None and self._flowed is None:
            return _without_values(self._like, self._middle)
        return super().summarise(summarised)


def _without_values(like: torch.Tensor, middle: KeptGradient) -> TensorSummary:
    """Summarise a padded gradient whose smaller gradient is unknown."""
    summary = without_values(like)
    summary["note"] = CHANGED if middle.changed or not middle.summary else middle.summary["note"]
    return summary


def _making(padding: Padding) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return torch's backward function for the node; it holds numbers and not the node."""

    def number(name: str, otherwise: int) -> int:
        value = plain_value(padding.node, name)
        value = otherwise if value is None else int(value)
        return value - 2**64 if value >= 2**63 else value  # torch gives it unsigned

    backward, defaults = _PADDING[type(padding.node).__name__]
    sizes, numbers = list(padding.shape), [number(*each) for each in defaults.items()]
    return lambda grad: backward(grad, sizes, *numbers)


_AT_HAND = 2**20
"""Bytes of gradients to read together once the budget is spent: reading one by one is slower."""

Passed = Sequence[Any]  # a node's outgoing gradients, or the `Padding` that represents them

Note = Callable[[Passed, Gradients], None]
"""Records the outgoing and incoming gradients of the running node."""

NodeData = tuple[int, Passed, Gradients, list[int] | None]
"""A node, its outgoing and incoming gradients, and their versions, incoming ones first and None
skipped. None if all versions are 0."""


class Step(NamedTuple):
    """One node's backward."""

    node: int
    grad_outputs: list[KeptGradient | None]  # the incoming gradients, one per output of the node
    # The outgoing ones, one per entry of ``next_functions``; empty for a leaf.
    grad_inputs: list[KeptGradient | None]


class RecordedRun:
    """One backward pass through the graph."""

    def __init__(
        self,
        max_bytes: int,
        *,
        grads: LeafGrads | None = None,
        seeds: list[torch.Tensor] | None = None,
        once: bool = False,
        leaf_inputs: LeafInputs | None = None,
    ) -> None:
        self.number = 0  # the number of the pass, from 1
        self.max_bytes = max_bytes
        # "running", "done", or "stopped" if an exception ended it.
        self.state: Literal["running", "done", "stopped"] = "running"
        self.keeps_graph = True  # whether it retains the graph's buffers
        self.once = once  # whether it cannot: compiled code in it can run only once
        # The ``.grad`` that the pass changed, if gradwalk started it; None if it was only watched.
        self.grads = grads
        self.seeds = seeds  # the gradients it started from, one per output, if gradwalk started it
        # The exception that ended it, in words, if gradwalk started it.
        self.error: str | None = None
        self.failed: int | None = None  # the node that raised it, if any
        # The operations of custom backwards by node id, if they were recorded.
        self.operations: dict[int, Operations] = {}
        self._touched = frozenset[int]() if grads is None else grads.nodes
        self._store = GradientStore(max_bytes)
        self._data: deque[NodeData] = deque()  # one thread appends, another reads
        self._leaf_inputs = {} if leaf_inputs is None else leaf_inputs
        self._aliases = GradAliases(self._data)
        self._room = max_bytes // 2
        self._counted = 0  # entries of `_data` that the budget already counts
        self._steps: dict[int, Step] = {}
        self._numbers: dict[int, int] = {}
        self._reading = threading.RLock()

    @property
    def total(self) -> int:
        """The number of steps."""
        return len(self._steps) + len(self._data)

    @property
    def is_unseen(self) -> bool:
        """Whether it was completed, but no step of it was seen."""
        return self.state == "done" and not self.total

    @property
    def steps(self) -> dict[int, Step]:
        """The steps by node id, in the engine's order."""
        if self._data:
            self._read()
        return self._steps

    def arrived(self, node: int, output_nr: int = 0) -> torch.Tensor | None:
        """Return the gradient that arrived at a node's output, while its values are known."""
        step = self.steps.get(node)
        incoming = [] if step is None else step.grad_outputs
        kept = incoming[output_nr] if output_nr < len(incoming) else None
        return None if kept is None else kept.tensor

    @property
    def numbers(self) -> dict[int, int]:
        """The step number, from 1, of each node that ran."""
        steps = self.steps
        if len(self._numbers) != len(steps):
            self._numbers = {node: number for number, node in enumerate(steps, 1)}
        return self._numbers

    def step_recorder(self, ids: dict[Node | None, int]) -> Note:
        """Return the hook function that records a node's step in a microsecond."""
        append, touched, leaf_inputs = self._data.append, self._touched, self._leaf_inputs
        running, version = direct(current_node), direct(read_version)

        # One function with plain loops, because it runs once per node and pass.
        def note(grad_inputs: Passed, grad_outputs: Gradients) -> None:
            node = ids[running()]
            changes = size = 0
            try:
                for grad in grad_outputs:
                    if grad is not None:
                        changes |= version(grad)
                for grad in grad_inputs or grad_outputs:  # a leaf's may become a copy
                    if grad is not None:
                        changes |= version(grad)
                        size += grad.nbytes
            except Exception:  # sparse, inference mode, or a class that raises
                self.record_any(node, grad_inputs, grad_outputs)
                return
            if node in leaf_inputs:
                grad_inputs, grad_outputs = self._hand_to_leaf(node, grad_inputs, grad_outputs)
            versions = versions_of(grad_outputs, grad_inputs) if changes else None
            append((node, grad_inputs, grad_outputs, versions))
            if node in touched:
                self._note_grad(node, grad_outputs)
            # Incoming gradients were passed on by others or are their sum: at most as much again.
            self._room -= size
            if self._room < 0:
                self._make_room()

        return note

    def record_any(
        self,
        node: int,
        grad_inputs: Gradients,
        grad_outputs: Gradients,
        into_large_leaf: Sequence[bool] = (),
    ) -> None:
        """Record any step; ``into_large_leaf`` says it of each gradient, outgoing first."""
        count = len(grad_inputs) + len(grad_outputs)
        flags = [*into_large_leaf, *[False] * (count - len(into_large_leaf))]
        if self._leaf_inputs.get(node) or (node in self._leaf_inputs and not any(into_large_leaf)):
            grad_inputs, grad_outputs = self._hand_to_leaf(node, grad_inputs, grad_outputs)
        with self._reading:
            self._read()
            self._store.begin_step()
            kept = [
                _keep(self._store, grad, flag)
                for grad, flag in zip([*grad_inputs, *grad_outputs], flags, strict=True)
            ]
            passed, arrived = kept[: len(grad_inputs)], kept[len(grad_inputs) :]
            self._steps[node] = Step(node, arrived, passed)
        if node in self._touched:
            self._note_grad(node, grad_outputs)

    def _hand_to_leaf(
        self, node: int, grad_inputs: Passed, grad_outputs: Gradients
    ) -> tuple[Passed, Gradients]:
        """Let torch move an outgoing gradient into a leaf; copy it where it has."""
        with self._reading:
            if not self._leaf_inputs[node]:
                (incoming,) = grad_outputs
                copy = copy_if_stolen(current_node(), incoming)
                if incoming is None or (copy is None and not has_memory(incoming)):
                    return grad_inputs, grad_outputs
                if copy is None:  # torch may move the same tensor into another leaf
                    return grad_inputs, (incoming.detach(),)
                self._store.note_stolen(incoming, copy)
                return grad_inputs, (copy,)
            passed, arrived, held = self._aliases.alias(
                self._leaf_inputs[node], grad_inputs, grad_outputs
            )
            for grad, alias in held:
                self._store.use_alias(grad, alias)
        return passed, arrived

    def _note_grad(self, node: int, grad_outputs: Gradients) -> None:
        assert self.grads is not None
        self.grads.note(node, self.total, grad_outputs[0] if len(grad_outputs) == 1 else None)

    def _make_room(self) -> None:
        """Count new gradients against the budget; process them now if not all fit."""
        with self._reading, unseen():
            noted = list(self._data)
            new = islice(noted, self._counted, None)
            grads = chain.from_iterable((*incoming, *outgoing) for _, outgoing, incoming, _ in new)
            fits = self._store.has_room(grad for grad in grads if type(grad) is not Padding)
            self._counted, self._room = len(noted), self._store.bytes_left // 2
            if not fits or self._room < _AT_HAND:
                self._read()

    def _read(self) -> None:
        with self._reading, unseen():
            noted, keep = self._data, self._store.keep
            while noted:
                node, grad_inputs, grad_outputs, noted_versions = noted[0]
                self._store.begin_step()
                versions = repeat(0) if noted_versions is None else iter(noted_versions)
                incoming = [
                    None if grad is None else keep(grad, next(versions), False)
                    for grad in grad_outputs
                ]
                middle = incoming[0] if len(incoming) == len(grad_inputs) == 1 else None
                if middle is not None and isinstance(grad_inputs[0], Padding):
                    outgoing: list[KeptGradient | None] = [
                        keep_padding(self._store, grad_inputs[0], middle)
                    ]
                else:
                    outgoing = [
                        None if grad is None else keep(grad, next(versions), False)
                        for grad in grad_inputs
                    ]
                self._steps[node] = Step(node, incoming, outgoing)
                noted.popleft()
            self._store.forget_stolen()
            self._aliases.forget()
            self._counted = 0
            self._room = max(self._store.bytes_left // 2, _AT_HAND)


def _keep(
    store: GradientStore, grad: torch.Tensor | None, into_large_leaf: bool
) -> KeptGradient | None:
    if grad is None:
        return None
    try:
        large = into_large_leaf and grad.numel() * grad.element_size() > LARGEST_COPY
        if large or grad.requires_grad:  # keep no reference to the tensor or its own graph
            grad = grad.detach()
        if (into_large_leaf and not large) or grad.is_inference():  # it has no version counter
            grad = copied(grad)
        return store.keep(grad, version_of(grad), large)
    except RuntimeError:
        # A batched gradient, as in jacobian(vectorize=True), has no values here.
        return store.without_values(grad)
