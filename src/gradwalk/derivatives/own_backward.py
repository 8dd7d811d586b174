"""Run the backward of one node again, alone: what torch itself gives for an incoming gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.autograd.graph import Node

from ..torch_api.dtensors import PLAIN
from ..torch_api.modes import unseen
from ..torch_api.nodes import node_class, outputs_metadata
from ..torch_api.reading import everywhere, why_unreadable
from ..torch_api.saved_tensors import read_saved
from ..torch_api.signatures import signature


def may_be_called(node: Node) -> bool:
    """Return whether a node's backward can run again: torch's own, with all saved tensors.

    It runs no code of a user's: no custom Function, no hook, no tensor subclass. Hooks of the node
    run in the engine alone.
    """
    kind = node_class(type(node))
    if kind.is_function or kind.op is None or signature(kind.op) is None:
        return False
    return all(
        not saved.freed and not saved.note and _is_there(saved.value) for saved in read_saved(node)
    )


def _is_there(value: object) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    return type(value) in PLAIN and why_unreadable(value) is None


def passed_by(
    node: Node, grads: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor | None, ...] | None:
    """Return the gradients that a node passes on for incoming ones; None if it cannot run."""
    if not may_be_called(node):
        return None
    try:
        with torch.no_grad(), unseen():
            passed = node(*grads)  # type: ignore[operator]
    except Exception:  # any backend may refuse any layout
        return None
    return passed if isinstance(passed, tuple) else (passed,)


def passed_for_one(node: Node, arrived: int) -> tuple[torch.Tensor | None, ...] | None:
    """Return what a node passes on for ones at one of its outputs, and zeros at the others."""
    ones = _ones(node)
    if ones is None:
        return None
    grads = [each if nr == arrived else torch.zeros_like(each) for nr, each in enumerate(ones)]
    return passed_by(node, grads)


def passes_only_zeros(node: Node, nr: int, *, most: int | None = None) -> bool | None:
    """Return whether a node passes only zeros to one input; None if it cannot run.

    ``most``: the most numbers of its outputs; the incoming gradient then has no pattern. Without a
    limit it is ones, which take no memory and tell as much of what works number by number.
    """
    grads = _ones(node)
    if grads is None:
        return None
    if most is not None:
        if sum(each.numel() for each in grads) > most:
            return None
        grads = [varied_like(each) for each in grads]
    passed = passed_by(node, grads)
    if passed is None:
        return None
    outgoing = passed[nr]
    return outgoing is None or everywhere(outgoing, lambda part: part == 0)


def _ones(node: Node) -> list[torch.Tensor] | None:
    """Return ones for every output of a node, each with the memory of a single one."""
    try:
        with torch.no_grad(), unseen():
            return [
                torch.ones((), dtype=each.dtype, device=each.device).expand(tuple(each.shape))
                for each in outputs_metadata(node)
            ]
    except Exception:  # an output without one shape, on a device that is not there
        return None


def varied_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return numbers between 0.5 and 1.5 without a pattern, in the shape of a dense tensor.

    A linear map that makes zeros of them makes zeros of everything, but for chance. They are always
    the same, and no random generator of the program moves.
    """
    generator = torch.Generator().manual_seed(0)
    parts = 2 if tensor.is_complex() else 1
    with torch.no_grad(), unseen():
        drawn = torch.rand(
            (parts, *tensor.shape), generator=generator, dtype=torch.float64, device="cpu"
        )
        numbers = torch.complex(*(drawn + 0.5)) if parts == 2 else drawn[0] + 0.5
        return numbers.to(tensor.device, tensor.dtype)
