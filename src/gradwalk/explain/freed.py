"""Explain why backward cannot run through a graph whose saved tensors are freed."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ..graph.labels import described
from ..torch_api.nodes import donates_buffers, keeps_tensors
from ..torch_api.saved_tensors import is_freed, read_saved
from ..torch_api.tensors import version_of
from ..tracing.annotate import Annotated
from ..tracing.annotations import Annotation
from .constants_and_cuts import at_line


def freed_part(captured: Annotated) -> tuple[int, int] | None:
    """Find where a graph reaches into one that an earlier backward pass freed.

    Args:
        captured: The graph.

    Returns:
        The freed operation, and one of this graph that still has its saved tensors and leads to
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


def advice_on_freed(captured: Annotated, start: int) -> str:
    """Say what to do about a freed part, in one or two sentences.

    Args:
        captured: The graph.
        start: The freed operation that the graph reaches.
    """
    seen = captured.annotations.get(start)
    if seen is not None and seen.source is not None and _runs_again(captured, seen):
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
    """Explain why backward cannot run (again).

    Args:
        captured: The graph.
        nodes: The ids of its freed operations.
    """
    found = freed_part(captured)
    if found is not None:
        where = described(captured.graph, found[0])
        return (
            f"Backward cannot run: this loss reaches {where}, whose saved tensors an earlier "
            f"backward pass freed. {advice_on_freed(captured, found[0])}"
        )
    first = described(captured.graph, min(nodes))
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    if any(donates_buffers(captured.nodes[node]) for node in nodes):
        again = "Compute the output again for each backward: compiled code can run only once."
    elif _were_changed(captured):
        again = "Compute the output again, because its parameters have changed since."
    else:
        again = (
            "Compute the output again. To run two passes before optimizer.step(), pass "
            "retain_graph=True to the first."
        )
    return (
        f"Backward cannot run again: {first}{more} freed the tensors saved for it when it ran. "
        f"{again}"
    )


def _runs_again(captured: Annotated, seen: Annotation) -> bool:
    """Whether the line and module of a freed operation also made one that is not freed."""
    return any(
        (each.source, each.module, each.outermost) == (seen.source, seen.module, seen.outermost)
        and _holds_tensors(captured, node)
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
