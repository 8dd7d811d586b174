"""The operands of a captured graph that need no grad, as `watch` saw them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph.capture import Capture
from ..graph.nodes import leaf_tensor, sequence_nr
from ..graph.saved import read_saved
from ..wire import NoGradInput
from .annotations import Annotation, annotation_in, threads_behind
from .cuts import Constant
from .records import Record, any_alive, find_record


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
    written: dict[Record, int] = {}
    found: dict[int, Annotation] = {}
    for i, node in enumerate(captured.nodes):
        record = find_record(node, threads) if leaf_tensor(node) is None else None
        if record is not None:
            found[i] = annotation_in(record, node)
            if record.constants:
                calls.setdefault(id(record), []).append(i)
            if record.inplace and record.end - record.start > 1:
                last = written.get(record, i)
                written[record] = max(i, last, key=lambda j: sequence_nr(captured.nodes[j]))
    for ids in calls.values():
        _place(captured, ids, found)
    for record, i in written.items():  # pow_() makes one more node, and drops it
        found[i] = replace(found[i], value=record.value)
    return found


def operands_seen(annotations: dict[int, Annotation]) -> Iterator[Operand]:
    """The operands that need no grad, of the nodes that were watched."""
    for node, annotation in annotations.items():
        for constant in annotation.constants:
            yield Operand(node, constant, inferred=False)


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
