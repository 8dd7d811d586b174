"""Read the saved tensors and values of a node, without running a hook that unpacks them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, cast

import torch
from torch.autograd.graph import Node

from ..schema.details import SavedModel
from ..schema.json_values import json_number
from . import samples
from .capability import capability
from .nodes import (
    UNREAD,
    keeps_tensors,
    knows_saved,
    node_class,
    saved_attributes,
    saved_names,
    saved_tensors,
)
from .reading import first_line
from .signatures import tensor_arguments
from .summary import Summarise, summarise

_FREED = (
    "Freed by the last backward: torch drops what a node saved as soon as its backward has run, "
    "unless retain_graph=True."
)
_PACKED = (
    "Packed by a saved-tensor hook (activation checkpointing, save_on_cpu, ...). It is left "
    "packed, because unpacking may recompute part of the forward pass."
)
_CHANGED = (
    "Changed in place since it was saved, so backward through this node will raise an error; the "
    "values shown are the changed ones."
)

_UNREAD = (
    "It is not read: this torch does not say whether a saved-tensor hook has packed it, and "
    "unpacking may run code."
)

_REFUSED = "It is there, but torch does not give it out; it says: {}"


class Saved(NamedTuple):
    """A saved tensor or value of a node."""

    name: str  # torch's name for it: "self", "other", "result", "dim"; "tensors[1]" in a list
    value: Any  # the tensor, or a plain value; None when it was freed or is packed
    freed: bool = False  # whether torch has freed it
    note: str | None = None  # a sentence about a special case, or None
    changed: bool = False  # whether it was changed in place since, so that backward fails


def _unknown_hook(_: Any) -> Any:
    """Stands for a hook that may or may not be there."""


@capability("SavedTensor.unpack_hook", otherwise=lambda _: _unknown_hook, lost=UNREAD)
def unpack_hook(read: Any) -> Callable[[Any], Any]:
    """Return the hook that unpacks a packed saved tensor; None for a tensor that is not packed.

    A function that does nothing if it is unknown: then nothing is unpacked.
    """
    node = samples.product_node()
    for _, packed in saved_attributes(type(node)).values():
        if read(getattr(node, str(packed))) is not None:
            raise ValueError("torch reports a hook where none is.")
    return cast("Callable[[Any], Any]", read)


@capability(
    "SavedTensor.data",
    otherwise=lambda _: None,
    lost="Changed saved tensors, and the inputs of checkpointed parts, are not read",
)
def data_of(read: Any) -> Callable[[Any], Any]:
    """Return the data of a packed saved tensor as they are now, without unpacking; None if unknown.

    A tensor if no hook packed it, else what the hook returned.
    """
    node = samples.product_node()
    for _, packed in saved_attributes(type(node)).values():
        if not isinstance(read(getattr(node, str(packed))), torch.Tensor):
            raise TypeError("torch gives no tensor.")
    return cast("Callable[[Any], Any]", read)


def _unread(_: Any) -> Any:
    raise LookupError(_UNREAD)


@capability("Function._raw_saved_tensors", otherwise=_unread, lost=UNREAD)
def packed_by_function(read: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the packed saved tensors of a custom Function's node.

    It raises RuntimeError once they are freed, and LookupError if they are unknown.
    """
    output = samples.function_output()  # held: torch up to 2.12 frees the node with it
    if len(read(output.grad_fn)) != 1:
        raise ValueError("torch gives other saved tensors.")
    return cast("Callable[[Any], tuple[Any, ...]]", read)


def read_saved(node: Node, names: Container[str] | None = None) -> Iterator[Saved]:
    """Yield the saved tensors and values of a node, tensors first.

    Operands that were not needed are left out. ``names`` limits what is read of torch's own nodes.
    """
    if node_class(type(node)).is_function:
        yield from _of_function(node)
        return
    if not knows_saved():
        yield Saved("saved tensors", None, note=_UNREAD)
        return
    unpacked = at_hand(node, names)
    for name in saved_names(type(node)):
        if names is not None and name not in names:
            continue
        if name not in unpacked:
            yield from _of_attribute(node, name)
        elif (value := unpacked[name]) is not None:
            yield Saved(name, value)


def at_hand(node: Node, names: Container[str] | None = None) -> Mapping[str, torch.Tensor | None]:
    """Return the readable saved tensors of a torch node by name; None for an operand not needed."""
    return dict(_at_hand(node, names))


def _at_hand(
    node: Node, names: Container[str] | None = None
) -> Iterator[tuple[str, torch.Tensor | None]]:
    """Yield what `at_hand` returns; each tensor is read when it is asked for."""
    # One is freed, and so is the rest; or it was changed or refuses: to be looked at closely.
    with suppress(Exception):
        for name, packed, kept in _tensors(type(node)):
            if names is None or name in names:
                raw = getattr(node, packed)
                if type(raw) is not tuple and unpack_hook(raw) is None:
                    yield name, getattr(node, kept)


def changed_operands(node: Node) -> list[Saved]:
    """Return the saved operands that were changed in place since, so that backward fails."""
    cls = type(node)
    names = _operands(cls)
    if names is not None and at_hand(node, names).keys() >= names:
        return []
    return [saved for saved in read_saved(node, names) if saved.changed]


@functools.cache
def _operands(cls: type) -> frozenset[str] | None:
    """Return the saved tensors that may be forward arguments; None for a Python Function."""
    if node_class(cls).is_function:
        return None
    arguments = tensor_arguments(node_class(cls).op)
    return saved_tensors(cls) & arguments if arguments else saved_tensors(cls)


def is_freed(node: Node) -> bool:
    """Whether a second backward through ``node`` fails because its saved tensors are gone."""
    cls = type(node)
    if not keeps_tensors(cls):
        return False
    # torch frees all tensors of a node at once, so checking one is enough.
    if any(value is not None for _, value in _at_hand(node)):
        return False
    for saved in read_saved(node, saved_tensors(cls)):
        if saved.freed or isinstance(saved.value, torch.Tensor):
            return saved.freed
    return False


def saved_value(node: Node, name: str) -> Any:
    """Return the unpacked value of a C++ node under a name of `saved_names`."""
    return getattr(node, saved_attributes(type(node))[name][0])


def plain_value(node: Node | None, name: str, otherwise: Any = None) -> Any:
    """Return a saved value that is not a tensor: reading a tensor may run a hook."""
    attribute, packed = saved_attributes(type(node)).get(name, (None, None))
    # scaled_dot_product_attention has a tensor "value".
    return otherwise if attribute is None or packed else getattr(node, attribute, otherwise)


def packed_value(node: Node, name: str) -> Any:
    """Return a saved tensor or list of tensors as packed; None for a plain value."""
    packed = saved_attributes(type(node))[name][1]
    return None if packed is None else getattr(node, packed, None)


def saved_models(
    node: Node, most: int, summarised: Summarise = summarise
) -> tuple[list[SavedModel], int]:
    """Return the first results of `read_saved` as JSON values, and the number of all."""
    saved = read_saved(node)
    listed = [_model(each, summarised) for each in islice(saved, most)]
    return listed, len(listed) + sum(1 for _ in saved)


def _of_function(node: Any) -> Iterator[Saved]:
    try:
        packed = packed_by_function(node)
    except RuntimeError:  # torch raises here once the tensors are gone
        yield Saved("saved_tensors", None, freed=True, note=_FREED)
        return
    except LookupError:
        yield Saved("saved_tensors", None, note=_UNREAD)
        return
    yield from _of_list("saved_tensors", packed, lambda: node.saved_tensors)


@functools.cache
def _tensors(cls: type) -> tuple[tuple[str, str, str], ...]:
    """Return the name, packed and unpacked attribute of each saved tensor; "weight" comes first."""
    if node_class(cls).is_function:
        return ()
    found = sorted(saved_attributes(cls).items(), reverse=True)
    return tuple((name, packed, kept) for name, (kept, packed) in found if packed is not None)


def _of_attribute(node: Any, name: str) -> Iterator[Saved]:
    try:
        packed = packed_value(node, name)
    except RuntimeError:
        yield Saved(name, None, freed=True, note=_FREED)
        return
    if packed is None:
        try:
            value = saved_value(node, name)
        except Exception as error:  # such as symbolic sizes
            yield Saved(name, None, note=_REFUSED.format(first_line(error)))
            return
        if value is not None:
            yield Saved(name, value)
    elif isinstance(packed, tuple):
        yield from _of_list(name, packed, lambda: saved_value(node, name))
    else:
        yield from _unpacked(name, packed, lambda: saved_value(node, name))


def _of_list(name: str, packed: Any, unpack: Callable[[], Any]) -> Iterator[Saved]:
    once = functools.cache(unpack)  # torch unpacks all of a list at a time

    def one(i: int) -> Callable[[], Any]:
        return lambda: once()[i]

    for i, raw in enumerate(packed):
        yield from _unpacked(f"{name}[{i}]", raw, one(i))


def _unpacked(name: str, raw: Any, unpack: Callable[[], Any]) -> Iterator[Saved]:
    hook = unpack_hook(raw)
    if hook is not None:
        yield Saved(name, None, note=_UNREAD if hook is _unknown_hook else _PACKED)
        return
    try:
        value = unpack()
    except Exception as error:  # a hook may raise anything
        message = str(error)
        now = data_of(raw) if "modified by an inplace operation" in message else None
        if isinstance(now, torch.Tensor):
            yield Saved(name, now, note=_CHANGED, changed=True)
        elif "have already been freed" in message:
            yield Saved(name, None, freed=True, note=_FREED)
        else:
            yield Saved(name, None, note=_REFUSED.format(first_line(error)))
        return
    if value is not None:
        yield Saved(name, value)


def _model(saved: Saved, summarised: Summarise) -> SavedModel:
    tensor = isinstance(saved.value, torch.Tensor)
    return {
        "name": saved.name,
        "summary": summarised(saved.value) if tensor else None,
        "scalar": None if tensor else _plain(saved.value),
        "freed": saved.freed,
        "note": saved.note,
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        # torch stores an absent dimension or size as the largest 64-bit number.
        return json_number(value if value < 2**63 else value - 2**64)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)


def signed(value: Any) -> Any:
    """Return a number as the program gave it: torch keeps negative ones as unsigned."""
    return value - 2**64 if type(value) is int and value >= 2**63 else value
