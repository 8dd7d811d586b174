"""The operands of a captured graph that need no grad: as `watch` saw them, or inferred."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..graph.names import Names
from ..graph.nodes import leaf_tensor, node_class
from ..graph.reading import storage_id, why_unreadable
from ..graph.saved import Saved, read_saved
from ..graph.signatures import signature
from ..wire import NoGradInput
from .annotations import Annotation, annotation_in, threads_behind
from .cut_words import ALIAS
from .cuts import Constant, Cut, Origin
from .module_path import TensorRef
from .records import MOST_COPIED, any_alive, find_record


@dataclass(frozen=True)
class Operand:
    """An operand of one node that needs no grad.

    Attributes:
        node: The node's id.
        constant: What is known of the operand.
        inferred: Whether that was inferred from what the node saved, rather than watched.
    """

    node: int
    constant: Constant
    inferred: bool


def watched(captured: Capture) -> dict[int, Annotation]:
    """What `watch` saw of the nodes of a graph.

    Args:
        captured: The graph.

    Returns:
        By node id. A call that made several nodes left all of them the same annotation; its
        constants stand at the one that takes them, and not at the others.
    """
    if not any_alive():
        return {}
    tensors = [tensor for known in captured.tensors.values() if (tensor := known()) is not None]
    threads = threads_behind(tensors)
    calls: dict[int, list[int]] = {}
    found: dict[int, Annotation] = {}
    for i, node in enumerate(captured.nodes):
        record = find_record(node, threads) if leaf_tensor(node) is None else None
        if record is not None:
            found[i] = annotation_in(record, node)
            if record.constants:
                calls.setdefault(id(record), []).append(i)
    for ids in calls.values():
        _place(captured, ids, found)
    return found


def operands_seen(annotations: dict[int, Annotation]) -> Iterator[Operand]:
    """The operands that need no grad, of the nodes that were watched."""
    for node, annotation in annotations.items():
        for constant in annotation.constants:
            yield Operand(node, constant, inferred=False)


def operands_inferred(
    captured: Capture, names: Names, annotations: dict[int, Annotation]
) -> Iterator[Operand]:
    """The same of the other nodes, as far as they saved their operands.

    Args:
        captured: The graph.
        names: What the user calls the tensors. Any of them that needs grad may turn out to be what
            an operand is an alias of.
        annotations: The nodes that were watched; what was seen is not inferred again.

    Yields:
        The saved tensors that stand for an argument of the forward call and need no grad. One that
        shares its memory with a leaf has a cut of the kind `ALIAS`.
    """
    leaves = _leaves_by_storage(captured, names)
    for i, node in enumerate(captured.nodes):
        if leaf_tensor(node) is not None:
            continue
        seen = annotations[i].constants if i in annotations else ()
        for saved in _saved_operands(node):
            constant = _at_input(captured, i, _inferred(saved, leaves))
            if not any(_is_same(constant, other) for other in seen):
                yield Operand(i, constant, inferred=True)


def storage_of(tensor: torch.Tensor) -> int | None:
    """What tells whether two tensors share their memory; None where a tensor has none."""
    with contextlib.suppress(Exception):  # a tensor subclass may refuse any question
        return storage_id(tensor) if tensor.untyped_storage().nbytes() else None
    return None


def _place(captured: Capture, ids: list[int], found: dict[int, Annotation]) -> None:
    """Leave each constant of one call at that of its nodes that takes it."""
    at: dict[int, list[Constant]] = {i: [] for i in ids}
    # The nodes of a call are numbered in the order in which they were made: the last first.
    latest = sorted(ids, key=lambda i: captured.graph.nodes[i]["sequence_nr"], reverse=True)
    free = {i: list(captured.graph.nodes[i]["no_grad_inputs"]) for i in ids}
    for constant in found[ids[0]].constants:
        node, input_nr = _where(captured, latest, constant, free)
        if len(ids) == 1 and constant.input_nr is not None:
            input_nr = constant.input_nr
        free[node] = [place for place in free[node] if place["input_nr"] != input_nr]
        at[node].append(replace(constant, input_nr=input_nr))
    for i in ids:
        found[i] = replace(found[i], constants=tuple(at[i]))


def _where(
    captured: Capture, latest: list[int], constant: Constant, free: dict[int, list[NoGradInput]]
) -> tuple[int, int | None]:
    """Which of some nodes takes a constant, and as which input if that is certain."""
    for i in latest:
        for place in free[i]:
            if place["argument"] is not None and place["argument"] == constant.argument:
                return i, place["input_nr"]
    tensor = constant.tensor() if constant.tensor else None
    if tensor is not None:
        for i in latest:
            for saved in read_saved(captured.nodes[i]):
                if saved.value is tensor:
                    nr = next((p["input_nr"] for p in free[i] if p["argument"] == saved.name), None)
                    return i, nr
    open_places = [(i, place["input_nr"]) for i in latest for place in free[i]]
    return open_places[0] if len(open_places) == 1 else (latest[0], None)


def _at_input(captured: Capture, node: int, constant: Constant) -> Constant:
    for place in captured.graph.nodes[node]["no_grad_inputs"]:
        if place["argument"] == constant.argument:
            return replace(constant, input_nr=place["input_nr"])
    return constant


def _is_same(inferred: Constant, seen: Constant) -> bool:
    """Whether what a node saved is an operand that was seen going in."""
    tensor = seen.tensor() if seen.tensor is not None else None
    if tensor is not None and inferred.tensor is not None and inferred.tensor() is tensor:
        return True
    if inferred.input_nr is not None and seen.input_nr is not None:
        return inferred.input_nr == seen.input_nr
    return inferred.argument == seen.argument


def _saved_operands(node: Node) -> Iterator[Saved]:
    """What a node saved of the tensors that went into its call and need no grad."""
    arguments = tensor_arguments(node_class(type(node)).op)
    if not arguments:
        return
    for saved in read_saved(node, arguments):
        name = saved.name.partition("[")[0]
        if (
            name in arguments
            and isinstance(saved.value, torch.Tensor)
            and not saved.value.requires_grad
        ):
            yield saved


@functools.cache
def tensor_arguments(op: str | None) -> frozenset[str]:
    """The names of the tensors that a forward call takes."""
    found = signature(op) if op is not None else None
    if found is None:
        return frozenset()
    arguments = found.forward.partition(" -> ")[0]
    return frozenset(re.findall(r"\bTensor(?:\([^)]*\))?[?\[\]]* (\w+)", arguments))


def _inferred(saved: Saved, leaves: dict[int, torch.Tensor]) -> Constant:
    tensor: torch.Tensor = saved.value
    storage = storage_of(tensor)
    leaf = leaves.get(storage) if storage is not None else None
    cuts: tuple[Cut, ...] = ()
    if leaf is not None:
        cuts = (alias_of(leaf),)
    values = None
    with contextlib.suppress(Exception):  # some layouts and subclasses cannot be listed
        # What was changed in place since is not what the operation took.
        small = tensor.device.type == "cpu" and tensor.numel() <= MOST_COPIED and not saved.changed
        if small and why_unreadable(tensor) is None:
            values = tensor.tolist()
    return Constant(
        position=saved.name,
        shape=() if tensor.is_nested else tuple(tensor.shape),
        dtype=str(tensor.dtype),
        values=values,
        tensor=TensorRef(tensor),
        origin=Origin(None, cuts, direct=leaf is not None and leaf.numel() == tensor.numel()),
        argument=saved.name,
    )


def alias_of(leaf: torch.Tensor) -> Cut:
    """The cut between a leaf and a detached alias of it, which nobody saw."""
    return Cut(
        how=ALIAS,
        where=None,
        region=None,
        shape=tuple(leaf.shape),
        source=TensorRef(leaf),
        made_by=None,
        output_nr=0,
        leaves=frozenset({TensorRef(leaf)}),
    )


def _leaves_by_storage(captured: Capture, names: Names) -> dict[int, torch.Tensor]:
    """The leaves that need grad, those of the graph before others of the user, by their memory."""
    leaves = [leaf for node in captured.nodes if (leaf := leaf_tensor(node)) is not None]
    others = [ref() for _, ref in names.known.values()]
    found: dict[int, torch.Tensor] = {}
    for tensor in (*leaves, *others):
        if tensor is not None and tensor.requires_grad:
            storage = storage_of(tensor)
            if storage is not None:
                found.setdefault(storage, tensor)
    return found
