"""Find the checkpointed parts of a program in its graph, without running anything.

``torch.utils.checkpoint`` keeps the inputs of a part of the forward pass, and recomputes that part
when backward needs its saved tensors. With ``use_reentrant=False``, a hook that closes over the
*frame* of the part packs each saved tensor; the frame is read here without unpacking. With
``use_reentrant=True``, the whole part is one node, which holds its function.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import FunctionType
from typing import Any, cast

import torch
import torch.utils.checkpoint
from torch.autograd.graph import Node

from .capability import capability
from .dtensors import PLAIN
from .nodes import keeps_tensors, node_class, saved_attributes
from .saved_tensors import data_of, packed_by_function, unpack_hook

Frame = weakref.ref[Any]
"""A frame, while it lives. Each frame has one such reference, whose ``id`` identifies it."""

_PARTS = "Checkpointed parts are not recognised"


@capability("torch.utils.checkpoint._CheckpointFrame", otherwise=lambda _: False, lost=_PARTS)
def _is_frame(kind: type) -> Callable[[Any], bool]:
    if isinstance(None, kind):
        raise ValueError("torch calls anything a frame.")
    return lambda value: isinstance(value, kind)


@capability(
    "torch._C._autograd._top_saved_tensors_default_hooks", otherwise=lambda _: None, lost=_PARTS
)
def saving_hooks(top: Any) -> Callable[[bool], tuple[Any, Any] | None]:
    """Return the innermost hooks for saved tensors, which pack and unpack, or None."""
    unpack: Any = functools.partial(id)
    with torch.autograd.graph.saved_tensors_hooks(id, unpack):
        if top(True)[1] is not unpack:
            raise ValueError("torch reports other hooks.")
    return cast("Callable[[bool], tuple[Any, Any] | None]", top)


@dataclass(frozen=True)
class CheckpointedPart:
    """A checkpointed part of a program."""

    function: Any | None  # the recomputed function; None if unknown
    frame: Frame | None  # its frame; None for a reentrant part, which is one node
    nodes: set[int]  # indices of the nodes known to be created in it, and not in a part within it
    around: int | None = None  # the index of the enclosing part; None without one


def may_have_parts(classes: Iterable[type]) -> bool:
    """Return whether nodes of some classes can show a checkpointed part."""
    return any(keeps_tensors(cls) or _may_be_reentrant(cls) for cls in classes)


def parts_in(nodes: Sequence[Node], noted: Mapping[int, Frame | None]) -> list[CheckpointedPart]:
    """Return the checkpointed parts that created some nodes, in no order; nothing is unpacked."""
    frames: dict[int, Frame] = {}
    made: dict[int, set[int]] = {}
    reentrant: list[CheckpointedPart] = []
    # Most nodes save no tensors: leaves, additions.
    classes = set(map(type, nodes))
    may_be_reentrant = set(filter(_may_be_reentrant, classes))
    informative = may_be_reentrant.union(filter(keeps_tensors, classes))
    for i, node in enumerate(nodes):
        cls: type = type(node)
        if cls not in informative and i not in noted:
            continue
        function = reentrant_function(node) if cls in may_be_reentrant else None
        if function is not None:
            reentrant.append(CheckpointedPart(function, None, {i}))
        found = frame_of(node)
        frame = noted.get(i) if found is None else weakref.ref(found)
        if frame is not None:
            frames[id(frame)] = frame
            made.setdefault(id(frame), set()).add(i)
    for frame in list(frames.values()):
        outer = _frame_around(frame)
        while outer is not None and id(outer) not in frames:
            frames[id(outer)], made[id(outer)] = outer, set()
            outer = _frame_around(outer)
    places = {key: place for place, key in enumerate(frames)}
    parts: list[CheckpointedPart] = []
    for key, frame in frames.items():
        outer, alive = _frame_around(frame), frame()
        function = None if alive is None else _variable(alive, "fn")
        around = None if outer is None else places.get(id(outer))
        parts.append(CheckpointedPart(function, frame, made[key], around))
    return parts + reentrant


def frame_here() -> Frame | None:
    """Return the frame of the innermost checkpointed part whose forward pass this thread runs."""
    top = saving_hooks(True)
    frame = _frame_in(top[1]) if top is not None else None
    return None if frame is None else weakref.ref(frame)


def frame_of(node: Any) -> Any | None:
    """Return the frame of the innermost checkpointed part that created a node, if known.

    One hook packs all saved tensors of a node, so the first packed one decides. An unpacked one
    decides, too, unless it is a Python number, which torch never packs.
    """
    cls: type = type(node)
    for _, read, kept in _packed(cls):  # fast, because it runs for every node
        try:
            packed = read(node)
            for one in packed if type(packed) is tuple else (packed,):
                hook = unpack_hook(one)
                if hook is not None:
                    return _frame_in(hook)
            there = None if kept is None else getattr(node, kept)
        except (RuntimeError, LookupError):  # freed, changed in place since, or unknown
            continue
        if there is not None and type(there) in PLAIN and there.dim():
            return None
    return None


def packed_tensors(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the packed saved tensors of a node by torch's names, entries of lists one by one."""
    cls: type = type(node)
    for name, read, _ in _packed(cls):
        try:
            packed = read(node)
        except (RuntimeError, LookupError):
            continue
        if type(packed) is tuple:
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(packed))
        else:
            yield name, packed


@functools.cache
def _packed(cls: type) -> tuple[tuple[str, Callable[[Any], Any], str | None], ...]:
    """Return name, reader and unpacking attribute of each saved tensor that nodes of a class keep.

    A Python Function has no such attribute.
    """
    if node_class(cls).is_function:
        return (("saved_tensors", packed_by_function, None),)
    found = saved_attributes(cls).items()
    return tuple((name, attrgetter(each), kept) for name, (kept, each) in found if each is not None)


def _frame_in(hook: Any) -> Any | None:
    for cell in getattr(hook, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not assigned yet
            if _is_frame(cell.cell_contents):
                return cell.cell_contents
    return None


def _frame_around(frame: Frame) -> Frame | None:
    """Return the frame of the enclosing part, which packs the inputs of its inner parts."""
    for packed in _inputs(frame()):
        hook = unpack_hook(packed)
        if hook is not None:
            found = _frame_in(hook)
            return None if found is None else weakref.ref(found)
    return None


def inputs_of(frame: Any) -> list[torch.Tensor]:
    """Return the tensors that a part itself keeps for recomputation."""
    plain = (data_of(each) for each in _inputs(frame) if unpack_hook(each) is None)
    return [each for each in plain if isinstance(each, torch.Tensor)]


def _inputs(frame: Any) -> list[Any]:
    if (saver := getattr(frame, "input_saver", None)) is not None:  # torch up to 2.11
        with contextlib.suppress(LookupError):  # unknown
            return [] if saver.grad_fn is None else list(packed_by_function(saver.grad_fn))
        return []
    kept = getattr(frame, "saved_args", ())
    return [each for each in kept if hasattr(each, "register_hooks")]  # a SavedTensor


class NotedTensor(dict[str, Any]):
    """Torch's note of a saved tensor, with some of its numbers; it compares as torch's own."""

    numbers: torch.Tensor | None
    tensor: weakref.ref[torch.Tensor]
    place: int  # among the saved tensors of its part
    pairs: list[tuple[NotedTensor, NotedTensor]]

    def __ne__(self, other: object) -> bool:
        if isinstance(other, NotedTensor):  # torch compares both runs
            self.pairs.append((self, other))
        return bool(dict.__ne__(self, other))

    __eq__ = dict.__eq__
    __hash__ = None


class BothRuns:
    """Some numbers of the tensors that a part saved in its forward pass, and when it ran again."""

    def __init__(self, frame: Any, sample: Callable[[torch.Tensor], torch.Tensor | None]) -> None:
        self._extract, self._sample = frame.metadata_fn, sample
        self.keeps_random_state = keeps_random_state(frame)
        self.count = 0  # of saved tensors so far
        self.pairs: list[tuple[NotedTensor, NotedTensor]] = []
        self.ends: list[tuple[int, Any]] = []  # number of tensors at the end of a line

    def __call__(self, tensor: torch.Tensor) -> Any:
        """Describe a saved tensor to torch, which compares the descriptions of both runs."""
        about = self._extract(tensor)
        if type(about) is not dict:
            return about
        noted = NotedTensor(about)
        noted.numbers, noted.tensor = self._sample(tensor), weakref.ref(tensor)
        noted.place, noted.pairs = self.count, self.pairs
        self.count += 1
        return noted

    def line_of(self, noted: NotedTensor) -> Any | None:
        """Return the line that saved a tensor."""
        return next((line for end, line in self.ends if noted.place < end), None)


def both_runs(
    frame: Frame, sample: Callable[[torch.Tensor], torch.Tensor | None]
) -> BothRuns | None:
    """Return what a part notes of both of its runs, from now on; None where torch notes nothing.

    ``sample``: copies a few numbers of a tensor.
    """
    alive = frame()
    extract = getattr(alive, "metadata_fn", None)
    if isinstance(extract, BothRuns) or not callable(extract):
        return extract if isinstance(extract, BothRuns) else None
    found = BothRuns(alive, sample)
    alive.metadata_fn = found  # type: ignore[union-attr]
    return found


def has_policy(frame: Any) -> bool:
    """Whether selective checkpointing chooses tensors to keep."""
    context = _variable(frame, "recompute_context")
    return context is not None and type(context).__name__ != "nullcontext"


def keeps_random_state(part: Any) -> bool | None:
    """Whether a part, by its frame or its reentrant node, draws the same numbers again."""
    found = getattr(part, "preserve_rng_state", None)
    found = _variable(part, "preserve_rng_state") if found is None else found
    return found if isinstance(found, bool) else None


def _variable(frame: Any, name: str) -> Any | None:
    function = getattr(frame, "recompute_fn", None)
    if not isinstance(function, FunctionType):
        return None
    for each, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if each == name:
            with contextlib.suppress(ValueError):  # not assigned yet
                return cell.cell_contents
    return None


def packed_sizes(frame: Any) -> dict[int, tuple[tuple[int, ...], torch.dtype]]:
    """Return shape and dtype that torch noted of a part's packed tensors, by ``id`` of ``data``."""
    noted = zip(getattr(frame, "weak_holders", ()), getattr(frame, "x_metadatas", ()), strict=False)
    return {
        id(holder): (tuple(about["shape"]), about["dtype"])
        for reference, about in noted
        if (holder := reference()) is not None and isinstance(about, dict)
    }


def reentrant_function(node: Any) -> Any | None:
    """Return the recomputed function of a node from ``use_reentrant=True``; None for others."""
    cls: type = type(node)
    found = getattr(node, "run_function", None) if _may_be_reentrant(cls) else None
    return found if callable(found) else None


@functools.cache
def _may_be_reentrant(cls: type) -> bool:
    # The class is named after its Function: CheckpointFunctionBackward.
    return node_class(cls).is_function and "Checkpoint" in cls.__name__
