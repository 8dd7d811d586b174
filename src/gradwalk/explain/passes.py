"""Sentences about passes that stopped, or that cannot run: why, and what to do."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ..backward.failures import failed_node
from ..backward.recorded_run import RecordedRun
from ..graph.labels import described
from ..torch_api.nodes import donates_buffers, keeps_tensors
from ..torch_api.reading import version_of
from ..torch_api.saved_tensors import is_freed, read_saved
from ..tracing.annotate import Annotated
from ..tracing.annotations import Annotation
from .constants_and_cuts import at_line


def freed_part(captured: Annotated) -> tuple[int, int] | None:
    """Find where a graph reaches into one that an earlier backward pass freed.

    Returns the freed operation, and one of this graph that still has its saved tensors and leads to
    it. None after a backward pass of the graph itself.
    """
    nodes, before = captured.nodes, captured.predecessors
    came_from = {i: i for i, node in enumerate(nodes) if is_freed(node)}
    waiting = list(came_from)
    for node in waiting:  # grows while we walk, past operations without saved tensors
        for user in before[node]:
            if user in came_from:
                continue
            if _holds_tensors(captured, user):
                return came_from[node], user
            came_from[user] = came_from[node]
            waiting.append(user)
    return None


def advice_on_freed(captured: Annotated, start: int, ran: Collection[int] = ()) -> str:
    """Say what to do about a freed part, in one or two sentences."""
    seen = captured.annotations.get(start)
    if seen is not None and seen.source is not None and _runs_again(captured, seen, ran):
        return (
            f"The line{at_line(seen.source, text=True)} made it and a part of this graph, so it is "
            "state from an earlier iteration (inferred). Keep .detach() of it."
        )
    return (
        "If it is state from an earlier iteration, keep .detach() of it. If two losses share this "
        "part, add them and call backward() once. If torch.autograd.grad() ran through it, pass "
        "create_graph=True there."
    )


def why_freed(captured: Annotated, nodes: Collection[int]) -> str:
    """Explain why backward cannot run (again)."""
    found = freed_part(captured)
    if found is not None:
        where = described(captured.graph, found[0])
        return (
            f"Backward cannot run: this loss reaches {where}, whose saved tensors an earlier "
            f"backward pass freed. {advice_on_freed(captured, found[0])}"
        )
    first = described(captured.graph, min(nodes))
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return (
        f"Backward cannot run again: {first}{more} freed the tensors saved for it when it ran. "
        f"{_how_to_run_again(captured, nodes)}"
    )


def _how_to_run_again(captured: Annotated, nodes: Collection[int]) -> str:
    if any(donates_buffers(captured.nodes[node]) for node in nodes):
        return "Compute the output again for each backward: compiled code can run only once."
    if _were_changed(captured):
        return "Compute the output again, because its parameters have changed since."
    return (
        "Compute the output again. To run two passes before optimizer.step(), pass "
        "retain_graph=True to the first."
    )


def _runs_again(captured: Annotated, seen: Annotation, ran: Collection[int]) -> bool:
    """Whether the line and module of a freed operation also made one that was not freed then."""
    return any(
        (each.source, each.module, each.outermost) == (seen.source, seen.module, seen.outermost)
        and (node in ran or _holds_tensors(captured, node))
        for node, each in captured.annotations.items()
    )


def _holds_tensors(captured: Annotated, node: int) -> bool:
    """Whether an operation has saved tensors and still has them."""
    if not keeps_tensors(type(captured.nodes[node])):
        return False
    saved = list(read_saved(captured.nodes[node]))
    return any(isinstance(each.value, torch.Tensor) for each in saved) and not any(
        each.freed for each in saved
    )


def _were_changed(captured: Annotated) -> bool:
    """Whether a leaf was changed in place since `watch` saw the graph use it."""
    return any(
        (leaf := taken.tensor()) is not None and version_of(leaf) != taken.version
        for annotation in captured.annotations.values()
        for taken in annotation.leaves
    )


_UNKNOWN = "Correct what raised it, and compute the output again."
_REMEDIES = {
    "modified by an inplace operation": "Change that tensor after backward, or change a clone().",
    "not implemented": "Use another operation, or detach() its input.",
    "incorrect number of gradients": "Return one gradient, or None, for each argument of forward.",
    "returned an invalid gradient": "Return gradients of the shape of the inputs.",
    "torch.utils.checkpoint": (
        "The recomputation must do what the forward pass did: keep train() or eval(), autocast "
        "and the inputs as they were until backward has ended."
    ),
    "out of memory": "Use a smaller batch, checkpointing or a lower precision.",
}
"""A part of torch's message -> what to do."""


def stopped_node(captured: Annotated, run: RecordedRun) -> int | None:
    """Return the node where a pass stopped; None where it did not, or outside of the graph."""
    if run.state == "stopped" and run.failed is None and run.grads is None:
        return failed_node(captured.graph, captured.nodes, run)
    return run.failed


def remedy_for(captured: Annotated, run: RecordedRun) -> str:
    """Say what to do after a pass that stopped, and why it stopped where the graph shows it."""
    error = run.error or ""
    first = next((remedy for part, remedy in _REMEDIES.items() if part in error), _UNKNOWN)
    node = stopped_node(captured, run)
    if node is not None and is_freed(captured.nodes[node]):
        if any(keeps_tensors(type(captured.nodes[each])) for each in run.steps):
            advice = advice_on_freed(captured, node, run.steps)
        else:
            advice = _how_to_run_again(captured, [node])
        first = f"An earlier backward pass freed its saved tensors. {advice}"
    elif node is not None and any(each.changed for each in read_saved(captured.nodes[node])):
        first = (
            "A tensor that it saved was changed in place. diagnose() names the change and the "
            "remedy."
        )
    partly = " Call zero_grad() first, because this pass may have filled some .grad already."
    return first + ("" if run.grads is not None else partly)
