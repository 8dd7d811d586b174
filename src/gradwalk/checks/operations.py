"""Findings about single operations: normalisations that do not train, tensors changed since."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

import torch
from torch.autograd.graph import Node

from ..english import list_some, plural
from ..explain.constants_and_cuts import at_line
from ..explain.passes import advice_on_freed, freed_part, remedy_for, stopped_node
from ..graph.adjacency import walk
from ..result import make
from ..torch_api.nodes import keeps_tensors, leaf_tensor, sequence_nr
from ..torch_api.reading import base_of, everywhere, storage_id
from ..torch_api.saved_tensors import is_freed, read_saved
from ..tracing.records import find_record
from .context import CheckContext
from .finding import Finding

_NORMS = ("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0")


def operation_findings(context: CheckContext) -> Iterator[Finding]:
    """Find operations without a derivative, changed or freed saved tensors, batch norm in eval."""
    refused = [*_without_derivative(context), *_changed(context), *_freed(context)]
    yield from refused
    yield from [] if refused else _stopped(context)
    yield from _not_training(context)


def _without_derivative(context: CheckContext) -> Iterator[Finding]:
    """Operations for which torch has no derivative: it notes that, and backward raises."""
    for node, _ in context.nodes_of(("NotImplemented",)):
        seen = context.captured.annotations.get(node)
        called = f"{seen.forward}, " if seen is not None and seen.forward else ""
        message = (
            f"{called}{context.place(node)} has no derivative in torch, so backward raises an "
            "error there: use another operation, or detach() its input."
        )
        yield make(Finding, "no-grad", "warning", [node], message)


def _changed(context: CheckContext) -> Iterator[Finding]:
    """Saved tensors that were changed in place: backward will refuse them."""
    ran = () if context.run is None else context.run.steps
    nodes = enumerate(context.captured.nodes)
    saved = {node: read_saved(each) for node, each in nodes if node not in ran and _keeps(each)}
    first = {node: next((s for s in each if s.changed), None) for node, each in saved.items()}
    changed = {node: each for node, each in first.items() if each is not None}
    groups: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for node, each in changed.items():
        groups[storage_id(each.value), each.name].append(node)
    links_of = _links(context, changed)
    for (memory, _), (node, *others) in groups.items():
        each, change = changed[node], None
        record = find_record(context.captured.nodes[node])
        where = " (run the forward pass under gradwalk.watch() to see which line did it)"
        if record is not None:
            since = sequence_nr(context.captured.nodes[node])
            change = record.thread.first_change(memory, since) if memory is not None else None
            where = " (by which line was not seen)"
        if change is not None:
            where = f" by {change.by}{at_line(change.where, text=True)}"
        number = None if change is None else change.number
        links = [] if memory is None else links_of(node, memory, number)
        if not links and _may_have_run(context, each.value):
            continue
        more = f" and at {plural(len(others), 'more node')}" if others else ""
        remedy = "Change it after backward, or change a clone()."
        if links:
            of = list_some([context.place(link) for link in links], 3)
            remedy = f"The graph goes on into an earlier iteration at {of}: detach() that."
        message = (
            f"{context.place(node)} saved {each.name} for backward, and it was changed "
            f"in place{where}. Backward will raise an error there{more}. {remedy}"
        )
        numbers: dict[str, float] = {"nodes": 1 + len(others)}
        yield make(Finding, "changed", "error", [node, *links, *others], message, numbers)


def _links(
    context: CheckContext, changed: Collection[int]
) -> Callable[[int, int, int | None], list[int]]:
    """Return what finds the operations by which a graph reaches memory saved after a change."""
    captured, data = context.captured, context.captured.attributes

    @functools.cache
    def holders() -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = defaultdict(list)
        for node in captured.operations:
            for saved in read_saved(captured.nodes[node]) if _keeps(captured.nodes[node]) else ():
                if isinstance(saved.value, torch.Tensor) and not saved.changed:
                    found[storage_id(saved.value)].append(data[node]["sequence_nr"])
        return found

    @functools.cache
    def behind() -> set[int]:
        return set(walk(changed, captured.predecessors.__getitem__))

    @functools.cache
    def crossed(since: int) -> list[int]:
        found = [
            child
            for node in captured.operations
            if data[node]["sequence_nr"] >= since
            for child in captured.successors[node]
            if child in behind() and data[child]["sequence_nr"] < since
        ]
        return list(dict.fromkeys(found))

    def links(node: int, memory: int, since: int | None) -> list[int]:
        known = holders()[memory]  # ascending
        at = bisect_right(known, data[node]["sequence_nr"])
        return crossed(known[at] if since is None else since) if at < len(known) else []

    return links


def _keeps(node: Node) -> bool:
    return keeps_tensors(type(node))


def _may_have_run(context: CheckContext, saved: torch.Tensor | None) -> bool:
    """Whether a step of the optimizer may have changed a saved tensor after backward.

    That is not known of a pass that retained the graph while nobody looked: then the tensor is a
    parameter, every leaf has a gradient, and nothing of the graph is freed.
    """
    if context.run is not None or saved is None:
        return False
    base = base_of(saved)
    source = saved if base is None else base
    if not source.is_leaf or any(map(is_freed, context.captured.nodes)):
        return False
    leaves = [leaf_tensor(each) for each in context.captured.nodes]
    return all(_has_gradient(leaf) for leaf in leaves if leaf is not None)


def _has_gradient(leaf: torch.Tensor) -> bool:
    grad = leaf.grad
    return grad is not None and everywhere(grad, lambda part: part == 0) is not True


def _freed(context: CheckContext) -> Iterator[Finding]:
    """Where the graph reaches into one that an earlier backward pass freed."""
    found = freed_part(context.captured)
    if found is not None:
        start, user = found
        message = (
            f"{context.place(user)} leads to "
            f"{context.place(start)} whose saved tensors an earlier backward "
            "pass freed, so backward() raises an error there. "
            f"{advice_on_freed(context.captured, start)}"
        )
        numbers: dict[str, float] = {"nodes": sum(map(is_freed, context.captured.nodes))}
        yield make(Finding, "freed", "error", [start, user], message, numbers)


def _stopped(context: CheckContext) -> Iterator[Finding]:
    """The pass raised an error, for another reason than a changed or freed tensor."""
    run = context.run
    if run is None or run.state != "stopped":
        return
    node = stopped_node(context.captured, run)
    where = f"after {plural(run.total, 'step')}" if node is None else f"at {context.place(node)}"
    why = f"with {run.error.rstrip('.')}" if run.error else "with the error that it raised"
    message = f"Backward stopped {where} {why}. {remedy_for(context.captured, run)}"
    numbers: dict[str, float] = {"steps": run.total}
    nodes = [] if node is None else [node]
    yield make(Finding, "backward-failed", "error", nodes, message, numbers)


def _not_training(context: CheckContext) -> Iterator[Finding]:
    """Batch norms that use what they have learned of other batches, and learn no more of it."""
    norms = (node for node, _ in context.nodes_of(_NORMS))
    still = [node for node in norms if context.saved(node).get("training") is False]
    if still:
        message = (
            f"{plural(len(still), 'batch norm')} ran in eval mode: "
            f"{list_some([context.words(node) for node in still[:1]])}{context.at(still[0])}"
            f"{' and others. They use their' if still[1:] else '. It uses its'} running statistics "
            f"and {'do' if still[1:] else 'does'} not update them; if this is training, call "
            "model.train() before the forward pass."
        )
        yield make(Finding, "eval", "info", still, message, {"batch norms": len(still)})
