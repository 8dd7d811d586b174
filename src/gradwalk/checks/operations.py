"""Findings about single operations: normalisations that do not train, tensors changed since."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..english import list_some, plural
from ..explain.freed import advice_on_freed, freed_part
from ..torch_api.nodes import keeps_tensors, leaf_tensor, sequence_nr
from ..torch_api.reading import everywhere, storage_id
from ..torch_api.saved_tensors import is_freed, read_saved
from ..torch_api.tensors import base_of
from ..tracing.records import find_record
from .context import CheckContext, at_line
from .finding import Finding

_MOST_NODES = 100
_NORMS = ("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0")


def operation_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Find operations without a derivative, changed or freed saved tensors, batch norm in eval.

    Args:
        evidence: The evidence.
    """
    yield from _without_derivative(evidence)
    yield from _changed(evidence)
    yield from _freed(evidence)
    yield from _not_training(evidence)


def _without_derivative(evidence: CheckContext) -> Iterator[Finding]:
    """Operations for which torch has no derivative: it notes that, and backward raises."""
    for node, op in evidence.captured.graph.nodes(data="op"):
        if op == "NotImplemented":
            seen = evidence.captured.annotations.get(node)
            called = f"{seen.forward}, " if seen is not None and seen.forward else ""
            yield Finding(
                "no grad",
                "warning",
                [node],
                f"{called}{evidence.place(node)} has no derivative in torch, "
                "so backward raises an error there: use another operation, or detach() its input.",
            )


def _changed(evidence: CheckContext) -> Iterator[Finding]:
    """Saved tensors that were changed in place: backward will refuse them."""
    ran = () if evidence.run is None else evidence.run.steps
    for node, each in enumerate(evidence.captured.nodes):
        if node in ran or not keeps_tensors(type(each)):
            continue
        for saved in read_saved(each):
            if not saved.changed or _may_have_run(evidence, saved.value):
                continue
            record = find_record(each)
            where = " (run the forward pass under gradwalk.watch() to see which line did it)"
            if record is not None:
                memory = storage_id(saved.value)
                number = sequence_nr(each)
                found = None if memory is None else record.thread.first_change(memory, number)
                where = " (by which line was not seen)"
                if found is not None:
                    where = f" by {found.by}{at_line(found.where)}"
            yield Finding(
                "changed",
                "error",
                [node],
                f"{evidence.place(node)} saved {saved.name} for backward, and it was changed "
                f"in place{where}. Backward will raise an error there. Change it after backward, "
                "or change a clone().",
            )
            break


def _may_have_run(evidence: CheckContext, saved: torch.Tensor | None) -> bool:
    """Whether a step of the optimizer may have changed a saved tensor after backward.

    That is not known of a pass that retained the graph while nobody looked: then the tensor is a
    parameter, every leaf has a gradient, and nothing of the graph is freed.
    """
    if evidence.run is not None or saved is None:
        return False
    base = base_of(saved)
    source = saved if base is None else base
    if not source.is_leaf or any(map(is_freed, evidence.captured.nodes)):
        return False
    leaves = [leaf_tensor(each) for each in evidence.captured.nodes]
    return all(_has_gradient(leaf) for leaf in leaves if leaf is not None)


def _has_gradient(leaf: torch.Tensor) -> bool:
    grad = leaf.grad
    return grad is not None and everywhere(grad, lambda part: part == 0) is not True


def _freed(evidence: CheckContext) -> Iterator[Finding]:
    """Where the graph reaches into one that an earlier backward pass freed."""
    found = freed_part(evidence.captured)
    if found is not None:
        start, user = found
        yield Finding(
            "freed",
            "error",
            [start, user],
            f"{evidence.place(user)} leads to "
            f"{evidence.place(start)} whose saved tensors an earlier backward "
            "pass freed, so backward() raises an error there. "
            f"{advice_on_freed(evidence.captured, start)}",
            {"nodes": sum(map(is_freed, evidence.captured.nodes))},
        )


def _not_training(evidence: CheckContext) -> Iterator[Finding]:
    """Batch norms that use what they have learned of other batches, and learn no more of it."""
    graph = evidence.captured.graph
    still = []
    for node, op in graph.nodes(data="op"):
        if op in _NORMS:
            saved = {each.name: each.value for each in read_saved(evidence.captured.nodes[node])}
            if saved.get("training") is False:
                still.append(node)
    if still:
        yield Finding(
            "eval",
            "info",
            still[:_MOST_NODES],
            f"{plural(len(still), 'batch norm')} ran in eval mode: "
            f"{list_some([evidence.words(node) for node in still[:1]])}{evidence.at(still[0])}"
            f"{' and others. They use their' if still[1:] else '. It uses its'} running statistics "
            f"and {'do' if still[1:] else 'does'} not update them; if this is training, call "
            "model.train() before the forward pass.",
            {"batch norms": len(still)},
        )
