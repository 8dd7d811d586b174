"""Run the backward of some nodes of a graph again, outside the engine.

Each node is called with the gradients that the engine would pass, in the engine's order of calls
and sums, so the results are bit-identical to a backward pass. No hook runs, no ``.grad`` changes
and nothing is freed. The gradient of any edge can be replaced, and only reached nodes need to run.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Literal, TypeVar

import torch
from torch.autograd.graph import Node

from ...backward.recorded_pass import refuse_within_backward
from ...graph.adjacency import walk
from ...graph.capture import Capture, EdgeKey, OutputKey
from ...graph.labels import described
from ...torch_api.engine import within_a_pass
from ...torch_api.modes import random_numbers_kept, unseen
from ...torch_api.nodes import (
    custom_function,
    donates_buffers,
    is_accumulate_grad,
    keeps_tensors,
    outputs_metadata,
    sequence_nr,
)
from ...torch_api.reading import first_line, has_data, in_short, why_unreadable
from ...torch_api.saved_tensors import is_freed, read_saved
from .saved_copies import SavedCopies

Kind = Literal["cut", "scale", "replace"]


@dataclass(frozen=True)
class Edit:
    """One change of a gradient."""

    kind: Kind  # "cut", "scale" or "replace"
    # (consumer, arg_nr) of the changed edge; None to change the sum of all edges into ``place``.
    edge: EdgeKey | None
    place: OutputKey  # (node, output_nr) of the tensor of the gradient
    value: Any  # the factor, or the replacing tensor or function; None for a cut
    label: str  # its label: "out → h"

    def __call__(self, grad: torch.Tensor | None) -> torch.Tensor | None:
        """Return the changed gradient."""
        if self.kind == "cut":
            return None
        if self.kind == "scale":
            return None if grad is None else grad * self.value
        if isinstance(self.value, torch.Tensor):
            return self.value
        if grad is None:
            return None
        # The function may change it in place, and other nodes hold the same tensor.
        own = grad.clone()
        found = self._call(own)
        return own if found is None else fitting(found, grad, self.label)

    def _call(self, grad: torch.Tensor) -> Any:
        try:
            return self.value(grad)
        except Exception as error:
            called = getattr(self.value, "__name__", type(self.value).__name__)
            raise RuntimeError(
                f"replace was given {called} for the gradient at {self.label}, and it raised "
                f"{in_short(error)}. Nothing was changed. Give a function that takes "
                f"this gradient, of shape {tuple(grad.shape)} and {grad.dtype}, and returns one "
                "like it, or None to leave it."
            ) from error


def same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Return whether two gradients are equal, number by number; NaN equals NaN."""
    if one is None or other is None or one is other:
        return one is other
    if one.is_nested:
        return torch.equal(one, other)
    if one.layout is not torch.strided or other.layout is not torch.strided:
        return _same_sparse(one, other)
    # torch.equal() stops at the first difference; NaN needs a second pass.
    if torch.equal(one, other):
        return True
    if not bool(one.isnan().any()):
        return False
    return bool(torch.eq(one, other).logical_or_(one.isnan().logical_and_(other.isnan())).all())


def _same_sparse(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two gradients are equal, if one is sparse as of ``Embedding(sparse=True)``."""
    if one.layout is not other.layout:
        return same(one.to_dense(), other.to_dense())
    one, other = (each.to_sparse().coalesce() for each in (one, other))
    places = torch.equal(one.indices(), other.indices())
    return places and one.shape == other.shape and same(one.values(), other.values())


def less(after: torch.Tensor | None, before: torch.Tensor | None) -> torch.Tensor | None:
    """Return after minus before, where None means no gradient."""
    if after is None or before is None:
        return after if before is None else -before
    if after.layout is not before.layout and before.layout is torch.strided:
        after = after.to_dense()  # torch subtracts only a sparse tensor from a sparse one
    return after - before


def fitting(found: Any, like: Any, label: str) -> torch.Tensor:
    """Check a replacement against the gradient that it replaces, and return it."""
    if not isinstance(found, torch.Tensor):
        raise TypeError(
            f"replace gave {found!r}, of type {type(found).__name__}, for the gradient at {label}. "
            "Give a tensor, or a function of the gradient that returns one."
        )
    if tuple(found.shape) != tuple(like.shape):
        raise ValueError(
            f"replace gave a tensor of shape {tuple(found.shape)} for the gradient at {label}, "
            f"which has shape {tuple(like.shape)}. Give one number for each of its numbers."
        )
    if found.dtype != like.dtype or found.device != like.device:
        raise TypeError(
            f"replace gave a tensor of {found.dtype} on {found.device} for the gradient at {label},"
            f" which is of {like.dtype} on {like.device}. Convert it with .to(grad)."
        )
    return found


@dataclass
class Edits:
    """Changes to make in one pass, in order."""

    listed: Sequence[Edit] = ()  # the changes
    cut_edges: set[EdgeKey] = field(init=False)  # the edges through which nothing flows
    cut_places: set[OutputKey] = field(init=False)  # the tensors to which nothing flows
    # The gradient that flowed through each edge changed by itself.
    flowed: dict[OutputKey, torch.Tensor | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        cuts = [each for each in self.listed if each.kind == "cut"]
        self.cut_edges = {each.edge for each in cuts if each.edge is not None}
        self.cut_places = {each.place for each in cuts if each.edge is None}
        self._on_edge: dict[EdgeKey, list[Edit]] = {}
        self._at_place: dict[OutputKey, list[Edit]] = {}
        for each in self.listed:
            if each.edge is not None:
                self._on_edge.setdefault(each.edge, []).append(each)
            else:
                self._at_place.setdefault(each.place, []).append(each)

    def on_edge(self, edge: EdgeKey, grad: torch.Tensor | None) -> torch.Tensor | None:
        """Return the changed gradient of an edge."""
        if edge not in self._on_edge:
            return grad
        # The user's function is called once, so its result is kept.
        self.flowed[edge] = _changed(self._on_edge[edge], grad)
        return self.flowed[edge]

    def at_place(self, place: OutputKey, grad: torch.Tensor | None) -> torch.Tensor | None:
        """Return the changed gradient of a tensor."""
        return _changed(self._at_place.get(place, ()), grad)


def _changed(
    edits: Sequence[Callable[[torch.Tensor | None], torch.Tensor | None]],
    grad: torch.Tensor | None,
) -> torch.Tensor | None:
    for edit in edits:
        grad = edit(grad)
    return grad


def refuse(captured: Capture, nodes: Iterable[int], copied: Container[int] = ()) -> None:
    """Raise if running a node again would change state or end the process.

    ``copied``: the nodes of whose saved tensors there are copies.
    """
    for i in nodes:
        why = _why_not(captured.nodes[i], i in copied)
        if why is not None:
            raise RuntimeError(f"{described(captured.graph, i)} {why}")


def _why_not(node: Node, is_copied: bool) -> str | None:
    """The reason why a node must not run, without its subject; None if it may."""
    custom = custom_function(node)
    if custom is None and not keeps_tensors(type(node)):
        return None
    if is_copied and is_freed(node):
        return None
    return (_why_no_function(node, custom) if custom is not None else None) or _unsaved(node)


def _why_no_function(node: Node, custom: type[torch.autograd.Function]) -> str | None:
    if donates_buffers(node):
        return (
            "is compiled code that overwrites what it saved (donated buffers), so it can run only "
            "once. Compile it again, and ask before its first backward, or pass retain_graph=True "
            "to that backward."
        )
    if custom.__module__ == "torch.utils.checkpoint":
        return (
            "is a checkpoint with use_reentrant=True: its backward runs a backward of its own, "
            "which would change .grad. Use checkpoint(..., use_reentrant=False)."
        )
    if custom.__module__.startswith("torch.distributed"):
        return (
            f"belongs to {custom.__module__}: its backward communicates with other processes, "
            "which would wait forever. Run the program in one process."
        )
    return None


def _unsaved(node: Node) -> str | None:
    """The reason why a saved tensor of a node is missing; None if all are there."""
    for saved in read_saved(node):
        if saved.freed:
            return (
                "cannot run again: the tensors saved for it were freed when it ran. Compute the "
                "output again, or pass retain_graph=True to every backward() before."
            )
        if isinstance(saved.value, torch.Tensor):
            unreadable = why_unreadable(saved.value)
            if unreadable is not None:
                what_to_do = "" if has_data(saved.value) else " Run the program on real tensors."
                return f"cannot run again: it needs {saved.name}. {unreadable}{what_to_do}"
    return None


Gradient = torch.Tensor | None
Seeds = Sequence[tuple[OutputKey, torch.Tensor]]

_T = TypeVar("_T")

_AGAIN = "Running nodes again"


@dataclass
class Flow:
    """The gradients of nodes that ran again."""

    # The incoming gradients of leaves and of kept nodes, one per output. Nodes that no gradient
    # reached are left out.
    arrived: dict[int, list[Gradient]] = field(default_factory=dict)
    # The outgoing gradients of kept nodes, one per next function.
    passed: dict[int, list[Gradient]] = field(default_factory=dict)
    ran: int = 0  # the number of nodes that ran


class Replay:
    """Run nodes of a captured graph again.

    Attributes:
        captured: The graph.
        following: Node -> per input, the place that its gradient goes to, or None.
        order: The nodes in the order of the engine.
        takers: Node -> the (consumer, arg_nr) that pass gradients to it, in order.
    """

    def __init__(self, captured: Capture, copies: SavedCopies | None = None) -> None:
        self.captured = captured
        self._copies = copies
        ids = {node: i for i, node in enumerate(captured.nodes)}
        self.following: list[list[OutputKey | None]] = [
            [None if child is None else (ids[child], nr) for child, nr in node.next_functions]
            for node in captured.nodes
        ]
        self._likes: dict[int, list[Any]] = {}
        self.order = self._in_order()
        self.takers: list[list[EdgeKey]] = [[] for _ in ids]
        for i in self.order:
            for arg_nr, place in enumerate(self.following[i]):
                if place is not None:
                    self.takers[place[0]].append((i, arg_nr))

    def _in_order(self) -> list[int]:
        """The engine's order: among ready nodes, the last one made runs first."""
        nodes = self.captured.nodes
        waiting = [0] * len(nodes)
        for place in itertools.chain.from_iterable(self.following):
            if place is not None:
                waiting[place[0]] += 1
        ready = [(-sequence_nr(node), i) for i, node in enumerate(nodes) if not waiting[i]]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, i = heapq.heappop(ready)
            order.append(i)
            for place in self.following[i]:
                if place is not None:
                    waiting[place[0]] -= 1
                    if not waiting[place[0]]:
                        heapq.heappush(ready, (-sequence_nr(nodes[place[0]]), place[0]))
        return order

    @functools.cached_property
    def far(self) -> torch.Tensor:
        """Return a zero that requires grad, further from the leaves than every node.

        `torch.autograd.grad` searches only nodes at least as far from the leaves as its input.
        Saved tensors are part of the graph, so a plain leaf would make it search all of it.
        """
        far = torch.zeros((), device="cpu", requires_grad=True)
        for _ in self.captured.nodes:
            far = far.clone()
        return far

    def below(self, nodes: Iterable[int]) -> set[int]:
        """Return nodes, and all nodes that their gradients reach."""
        return set(walk(nodes, lambda i: (p[0] for p in self.following[i] if p is not None)))

    def above(self, nodes: Iterable[int]) -> set[int]:
        """Return nodes, and all nodes whose gradients reach them."""
        return set(walk(nodes, lambda i: (consumer for consumer, _ in self.takers[i])))

    def into(self, place: OutputKey) -> list[EdgeKey]:
        """Return the edges whose gradients a place sums, in the order in which they arrive."""
        return [edge for edge in self.takers[place[0]] if self.following[edge[0]][edge[1]] == place]

    def is_leaf(self, node: int) -> bool:
        """Return whether a node accumulates into a leaf."""
        return is_accumulate_grad(self.captured.nodes[node])

    def named(self, node: int) -> str:
        """Return a description of a node."""
        return described(self.captured.graph, node)

    def run(
        self,
        seeds: Seeds,
        edits: Edits | None = None,
        *,
        only: Collection[int] | None = None,
        known: Mapping[int, Sequence[Gradient]] | None = None,
        keep: Callable[[int], bool] = lambda _: False,
    ) -> Flow:
        """Run nodes as one pass; ``only``: those to run, closed below or above, None for all."""
        wanted = range(len(self.captured.nodes)) if only is None else only
        refuse_within_backward(_AGAIN)
        with unseen():
            refuse(self.captured, wanted, self._copies or ())
        with unseen(), random_numbers_kept(_devices(self.captured)):
            return within_a_pass(
                lambda: self._run(seeds, edits or Edits(), wanted, known or {}, keep)
            )

    def _run(
        self,
        seeds: Seeds,
        edits: Edits,
        wanted: Collection[int],
        known: Mapping[int, Sequence[Gradient]],
        keep: Callable[[int], bool],
    ) -> Flow:
        flow = Flow()
        buffers = _Buffers(wanted, edits)
        for place, seed in seeds:
            buffers.add(place, seed)
        for i in self.order:
            passed = known.get(i)
            # A node that no gradient reaches does not run, as in a program without the cut part.
            if i in buffers:
                arrived = buffers.take(i, len(self.like(i)))
                if keep(i) or self.is_leaf(i):
                    flow.arrived[i] = arrived
                if self.is_leaf(i):
                    continue
                passed = self.call(i, arrived)
                flow.ran += 1
                if keep(i):
                    flow.passed[i] = list(passed)
            elif i in wanted:
                continue
            for arg_nr, to in enumerate(self.following[i] if passed is not None else ()):
                if to is not None and passed is not None and (i, arg_nr) not in edits.cut_edges:
                    buffers.add(to, edits.on_edge((i, arg_nr), passed[arg_nr]))
        return flow

    def call(self, i: int, arrived: list[Gradient]) -> list[Gradient]:
        """Run one node, within `run`; return its outgoing gradients."""
        node: Any = self.captured.nodes[i]
        custom = custom_function(node)
        copies = self._copies
        try:
            if copies is not None and i in copies and is_freed(node):
                given = copies.call(i, arrived)
            elif custom is None:
                found = node(*arrived)
                given = list(found) if isinstance(found, tuple) else [found]
            else:
                given = _call_function(node, custom, arrived, self.following[i])
            return self.outgoing(i, given)
        except Exception as error:
            reason = first_line(error)
            mine = "compute the output again, and ask before backward() has run."
            if custom is not None:
                mine = (
                    f"the backward of your autograd.Function {custom.__name__} may be one that can "
                    "run only once: compute the output again, and ask before its backward has run."
                )
            raise RuntimeError(
                f"{self.named(i)} cannot run again; it raised "
                f"{type(error).__name__}: {reason.rstrip('.')}. Nothing was changed; {mine}"
            ) from error

    def outgoing(self, i: int, given: Sequence[Gradient]) -> list[Gradient]:
        """The outgoing gradients of a node, as its next functions receive them."""
        return [
            grad if grad is None or place is None else self._fitted(grad, place)
            for grad, place in zip(given, self.following[i], strict=True)
        ]

    def _fitted(self, grad: torch.Tensor, place: OutputKey) -> torch.Tensor:
        """A gradient in the shape and dtype of its input, as the engine makes it."""
        like = self.like(place[0])[place[1]]
        if like is None or grad.is_nested:
            return grad
        shape, dtype, device = like
        if tuple(grad.shape) != shape:
            grad = grad.sum_to_size(shape)
        if grad.dtype != dtype:
            real = grad.is_complex() and not dtype.is_complex
            grad = (torch.real(grad) if real else grad).to(dtype)
        if grad.dim() == 0 and grad.device != device:
            grad = grad.to(device)
        return grad

    def like(self, i: int) -> list[tuple[tuple[int, ...], torch.dtype, torch.device] | None]:
        """Return shape, dtype and device of a node's outputs; None for a nested tensor."""
        if i not in self._likes:
            self._likes[i] = [
                None if each.is_nested_tensor else (tuple(each.shape), each.dtype, each.device)
                for each in outputs_metadata(self.captured.nodes[i])
            ]
        return self._likes[i]


class _Buffers:
    """The gradients that wait for nodes to run."""

    def __init__(self, wanted: Collection[int], edits: Edits) -> None:
        self._wanted = wanted
        self._edits = edits
        self._held: dict[int, dict[int, Gradient]] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._held

    def add(self, place: OutputKey, grad: Gradient) -> None:
        """Add a gradient to a place; None marks its node as reached."""
        node, nr = place
        if node in self._wanted and place not in self._edits.cut_places:
            held = self._held.setdefault(node, {})
            held[nr] = _sum(held.get(nr), grad)

    def take(self, node: int, count: int) -> list[Gradient]:
        """Remove and return the gradients of a node, one per output."""
        came = self._held.pop(node)
        return [self._edits.at_place((node, nr), came.get(nr)) for nr in range(count)]


def _sum(held: Gradient, grad: Gradient) -> Gradient:
    """Add two gradients as the engine does."""
    if held is None or grad is None:
        return grad if held is None else held
    if held.layout is not torch.strided:
        return grad + held  # dense + sparse works, sparse + dense does not
    return held + grad


def _call_function(
    node: Any,
    custom: type[torch.autograd.Function],
    arrived: list[Gradient],
    following: Sequence[OutputKey | None],
) -> list[Gradient]:
    """Run the backward of a custom Function as the engine does."""
    if _wants_zeros(custom):
        arrived = [
            torch.zeros(like.shape, dtype=like.dtype, device=like.device) if grad is None else grad
            for grad, like in zip(arrived, outputs_metadata(node), strict=True)
        ]
    found = node.apply(*arrived)
    given = list(found) if isinstance(found, (tuple, list)) else [found]
    needed = list(node.needs_input_grad)
    if any(grad is not None for grad in given[len(needed) :]):
        raise RuntimeError(f"it returned {len(given)} gradients for {len(needed)} arguments")
    # needs_input_grad has every argument, the next functions only those that are tensors.
    grads = iter([grad for grad, need in zip(given, needed, strict=False) if need])
    return [None if place is None else next(grads, None) for place in following]


def _wants_zeros(custom: type[torch.autograd.Function]) -> bool:
    """Whether the Function gets zeros for missing gradients, read from its code."""
    functions = [getattr(custom, name, None) for name in ("forward", "setup_context")]
    waiting = [each.__code__ for each in functions if isinstance(each, FunctionType)]
    for code in waiting:
        if "set_materialize_grads" in code.co_names:
            return False
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return True


def _devices(captured: Capture) -> set[torch.device]:
    listed = (outputs for _, outputs in captured.graph.nodes(data="outputs"))
    devices = {output["device"] for outputs in listed for output in outputs}
    return {torch.device(each) for each in devices if each is not None}
