"""Findings about single operations: normalisations that do not train, tensors changed since."""

from __future__ import annotations

from collections.abc import Iterator

from ..forward.records import find_record
from ..graph.english import list_some, plural
from ..graph.nodes import keeps_tensors, sequence_nr
from ..graph.reading import storage_id
from ..graph.saved import is_freed, read_saved
from ..reasons.freed import advice_on_freed, freed_part
from .evidence import Evidence, at_line
from .finding import Finding

_MOST_NODES = 100
_NORMS = ("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0")


def operation_findings(evidence: Evidence) -> Iterator[Finding]:
    """What is odd about operations, by what they saved.

    Args:
        evidence: What there is to judge by.
    """
    yield from _without_derivative(evidence)
    yield from _changed(evidence)
    yield from _freed(evidence)
    yield from _not_training(evidence)


def _without_derivative(evidence: Evidence) -> Iterator[Finding]:
    """Operations for which torch has no derivative: it notes that, and backward raises."""
    for node, op in evidence.captured.graph.nodes(data="op"):
        if op == "NotImplemented":
            seen = evidence.captured.annotations.get(node)
            called = f"{seen.forward}, " if seen is not None and seen.forward else ""
            yield Finding(
                "no grad",
                "warning",
                [node],
                f"{called}{evidence.words(node)}{evidence.at(node)} has no derivative in torch, "
                "so backward raises an error there: use another operation, or detach() its input.",
            )


def _changed(evidence: Evidence) -> Iterator[Finding]:
    """Saved tensors that were changed in place: backward will refuse them."""
    for node, each in enumerate(evidence.captured.nodes):
        if not keeps_tensors(type(each)):
            continue
        for saved in read_saved(each):
            if not saved.changed:
                continue
            record = find_record(each)
            where = " (run the forward pass under gradwalk.watch() to see which line did it)"
            if record is not None:
                memory = storage_id(saved.value)
                found = (
                    None if memory is None else record.thread.change_of(memory, sequence_nr(each))
                )
                where = " (by which line was not seen)"
                if found is not None:
                    where = f" by {found.by}{at_line(found.where)}"
            yield Finding(
                "changed",
                "error",
                [node],
                f"What {evidence.words(node)}{evidence.at(node)} saved as {saved.name} was changed "
                f"in place since{where}, so backward raises an error there. Use an operation that "
                "makes a new tensor, or clone() before the change.",
            )
            break


def _freed(evidence: Evidence) -> Iterator[Finding]:
    """Where the graph reaches into one that an earlier backward pass freed."""
    found = freed_part(evidence.captured)
    if found is not None:
        start, user = found
        yield Finding(
            "freed",
            "error",
            [start, user],
            f"{evidence.words(user)}{evidence.at(user)} leads to "
            f"{evidence.words(start)}{evidence.at(start)}, whose saved tensors an earlier backward "
            "pass freed, so backward() raises an error there. "
            f"{advice_on_freed(evidence.captured, start)}",
            {"nodes": sum(map(is_freed, evidence.captured.nodes))},
        )


def _not_training(evidence: Evidence) -> Iterator[Finding]:
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
