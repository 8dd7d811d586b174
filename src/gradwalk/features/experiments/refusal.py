"""Refuse nodes that must not run again, and say why."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.autograd.graph import Node

from ...graph.capture import Capture
from ...graph.labels import described
from ...torch_api.nodes import custom_function, donates_buffers, keeps_tensors
from ...torch_api.reading import has_data, why_unreadable
from ...torch_api.saved_tensors import read_saved


def refuse(captured: Capture, nodes: Iterable[int]) -> None:
    """Raise if running a node again would change state or end the process.

    Args:
        captured: The graph.
        nodes: The nodes to run.

    Raises:
        RuntimeError: A node must not run. The message says why and what to do.
    """
    for i in nodes:
        why = _why_not(captured.nodes[i])
        if why is not None:
            raise RuntimeError(f"{described(captured.graph, i)} {why}")


def _why_not(node: Node) -> str | None:
    """The reason why a node must not run, without its subject; None if it may."""
    custom = custom_function(node)
    if custom is None and not keeps_tensors(type(node)):
        return None
    return (_why_no_function(node, custom) if custom is not None else None) or _unsaved(node)


def _why_no_function(node: Node, custom: type[torch.autograd.Function]) -> str | None:
    if donates_buffers(node):
        return (
            "is compiled code that overwrites what it saved (donated buffers), so it can run only "
            "once. Compile it again, and ask before its first backward, or pass retain_graph=True "
            "to that backward."
        )
    if custom.__module__ == "torch.utils.checkpoint":
        return (
            "is a checkpoint with use_reentrant=True: its backward runs a backward of its own, "
            "which would change .grad. Use checkpoint(..., use_reentrant=False)."
        )
    if custom.__module__.startswith("torch.distributed"):
        return (
            f"belongs to {custom.__module__}: its backward communicates with other processes, "
            "which would wait forever. Run the program in one process."
        )
    return None


def _unsaved(node: Node) -> str | None:
    """The reason why a saved tensor of a node is missing; None if all are there."""
    for saved in read_saved(node):
        if saved.freed:
            return (
                "cannot run again: the tensors saved for it were freed when it ran. Compute the "
                "output again, or pass retain_graph=True to every backward() before."
            )
        if isinstance(saved.value, torch.Tensor):
            unreadable = why_unreadable(saved.value)
            if unreadable is not None:
                what_to_do = "" if has_data(saved.value) else " Run the program on real tensors."
                return f"cannot run again: it needs {saved.name}. {unreadable}{what_to_do}"
    return None
