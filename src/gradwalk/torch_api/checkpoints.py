"""Checkpointed parts of a program, as they stand in its graph; nothing is run to find them.

``torch.utils.checkpoint`` keeps the inputs of a part of the forward pass, and runs that part again
once backward needs what its operations would have saved. With ``use_reentrant=False`` each saved
tensor is packed by a hook that closes over the *frame* of its part, which is read here without
unpacking. With ``use_reentrant=True`` the whole part is one node, which holds its function.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
import torch.utils.checkpoint
from torch.autograd.graph import Node

from .nodes import keeps_tensors, node_class, saved_names
from .reading import PLAIN

Frame = weakref.ref[Any]
"""A frame, while torch knows of it; each has one such reference, so its ``id`` tells it apart."""

_Frame: type = torch.utils.checkpoint._CheckpointFrame
_top_hooks = torch._C._autograd._top_saved_tensors_default_hooks


@dataclass(frozen=True)
class Part:
    """A checkpointed part of a program.

    Attributes:
        function: What runs again; None where torch does not tell.
        frame: Its frame; None of a reentrant part, which is one node.
        nodes: The places of nodes that are known to be made in it, and in no part within it.
        around: The place of the part right around it; None for none.
    """

    function: Any | None
    frame: Frame | None
    nodes: set[int]
    around: int | None = None


def parts_in(nodes: Sequence[Node], noted: Mapping[int, Frame | None]) -> list[Part]:
    """The checkpointed parts of the program that made some nodes; nothing is run or unpacked.

    Args:
        nodes: The nodes.
        noted: Of the places of those that were watched, what `frame_here` gave at that time.

    Returns:
        The parts in no order, with those around them, which may have made none of the nodes.
    """
    frames: dict[int, Frame] = {}
    made: dict[int, set[int]] = {}
    reentrant: list[Part] = []
    # Most nodes are of classes that tell nothing: leaves, additions.
    classes = set(map(type, nodes))
    may_be_reentrant = set(filter(_may_be_reentrant, classes))
    told = may_be_reentrant.union(filter(keeps_tensors, classes))
    for i, node in enumerate(nodes):
        cls: type = type(node)
        if cls not in told and i not in noted:
            continue
        function = reentrant_function(node) if cls in may_be_reentrant else None
        if function is not None:
            reentrant.append(Part(function, None, {i}))
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
    parts: list[Part] = []
    for key, frame in frames.items():
        outer, alive = _frame_around(frame), frame()
        function = None if alive is None else _variable(alive, "fn")
        around = None if outer is None else places.get(id(outer))
        parts.append(Part(function, frame, made[key], around))
    return parts + reentrant


def frame_here() -> Frame | None:
    """The frame of the innermost checkpointed part that this thread is in the forward pass of."""
    top = _top_hooks(True)
    frame = _frame_in(top[1]) if top is not None else None
    return None if frame is None else weakref.ref(frame)


def frame_of(node: Any) -> Any | None:
    """The frame of the innermost checkpointed part that made a node, if what it saved tells.

    All that a node saved was packed by the same hook, so the first that was tells. And so does one
    that was not, unless it is a number that Python gave, which torch never packs.
    """
    cls: type = type(node)
    for _, name in _packed_names(cls):  # as little as can be: it runs for every node
        try:
            packed = getattr(node, name)
            for one in packed if type(packed) is tuple else (packed,):
                hook = one.unpack_hook
                if hook is not None:
                    return _frame_in(hook)
            there = getattr(node, name.removeprefix("_raw"), None)
        except RuntimeError:  # freed, or changed in place since
            continue
        if there is not None and type(there) in PLAIN and there.dim():
            return None
    return None


def packed_tensors(node: Any) -> Iterator[tuple[str, Any]]:
    """What a node saved, by torch's names and packed; a list of tensors one by one.

    Of an ``autograd.Function`` the names are those of no argument.
    """
    cls: type = type(node)
    for name, attribute in _packed_names(cls):
        try:
            packed = getattr(node, attribute)
        except RuntimeError:
            continue
        if type(packed) is tuple:
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(packed))
        else:
            yield name, packed


@functools.cache
def _packed_names(cls: type) -> tuple[tuple[str, str], ...]:
    """What nodes of a class may have packed: torch's name for it, and the attribute."""
    if node_class(cls).is_function:
        return (("saved_tensors", "_raw_saved_tensors"),)
    names = ((name, f"_raw_saved_{name}") for name in saved_names(cls))
    return tuple(each for each in names if hasattr(cls, each[1]))


def _frame_in(hook: Any) -> Any | None:
    """The frame that a hook closes over."""
    for cell in getattr(hook, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not assigned yet
            if isinstance(cell.cell_contents, _Frame):
                return cell.cell_contents
    return None


def _frame_around(frame: Frame) -> Frame | None:
    """The frame of the part that a part lies in; it packs the inputs of those within."""
    for packed in _inputs(frame()):
        hook = getattr(packed, "unpack_hook", None)
        if hook is not None:
            found = _frame_in(hook)
            return None if found is None else weakref.ref(found)
    return None


def inputs_of(frame: Any) -> list[torch.Tensor]:
    """The tensors that a part keeps to run again; not those that the part around it keeps."""
    found = []
    for packed in _inputs(frame):
        kept = packed.data if getattr(packed, "unpack_hook", None) is None else None
        if isinstance(kept, torch.Tensor):
            found.append(kept)
    return found


def _inputs(frame: Any) -> list[Any]:
    if (saver := getattr(frame, "input_saver", None)) is not None:  # torch up to 2.11
        return [] if saver.grad_fn is None else list(saver.grad_fn._raw_saved_tensors)
    kept = getattr(frame, "saved_args", ())
    return [each for each in kept if isinstance(each, torch._C._autograd.SavedTensor)]


def has_policy(frame: Any) -> bool:
    """Whether the program chooses what is kept nevertheless, as selective checkpointing does."""
    context = _variable(frame, "recompute_context")
    return context is not None and type(context).__name__ != "nullcontext"


def _variable(frame: Any, name: str) -> Any | None:
    """A variable of what computes a part again."""
    function = getattr(frame, "recompute_fn", None)
    if not isinstance(function, FunctionType):
        return None
    for each, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if each == name:
            with contextlib.suppress(ValueError):  # not assigned yet
                return cell.cell_contents
    return None


class Sizes:
    """Shape and dtype of what the hooks of a part packed, as torch noted them for its own check."""

    def __init__(self, frame: Any) -> None:
        noted = getattr(frame, "x_metadatas", ())
        self._noted: dict[int, Any] = {
            id(holder): about
            for reference, about in zip(getattr(frame, "weak_holders", ()), noted, strict=False)
            if (holder := reference()) is not None and isinstance(about, dict)
        }

    def of(self, packed: Any) -> tuple[tuple[int, ...], torch.dtype] | None:
        """Those of one of them; None where it was not noted."""
        about = self._noted.get(id(packed.data))
        return None if about is None else (tuple(about["shape"]), about["dtype"])


def reentrant_function(node: Any) -> Any | None:
    """What runs again when a node is a part checkpointed with ``use_reentrant=True``."""
    cls: type = type(node)
    found = getattr(node, "run_function", None) if _may_be_reentrant(cls) else None
    return found if callable(found) else None


@functools.cache
def _may_be_reentrant(cls: type) -> bool:
    # The class bears the name of its Function: CheckpointFunctionBackward.
    return node_class(cls).is_function and "Checkpoint" in cls.__name__
