"""Why a tensor carries no gradient, as far as `watch` saw it being made."""

from __future__ import annotations

from typing import Any

import torch

from . import weak_facts
from .cuts import Cut, Origin


def cuts_of(tensor: Any) -> tuple[Cut, ...]:
    """Where gradient was lost on the way to a tensor that needs no grad.

    Args:
        tensor: A tensor, or a NumPy array that was made from one.

    Returns:
        The cuts in the order in which they feed it; empty when there are none or none was watched.

    Example::

        >>> from gradwalk.forward.watch import watch
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> with watch():
        ...     y = w.detach() * 2
        >>> [cut.how for cut in cuts_of(y)]
        ['detach']
    """
    found = weak_facts.fact(tensor)
    return found.cuts if isinstance(found, Origin) else ()


def was_watched(tensor: torch.Tensor) -> bool:
    """Whether `gradwalk.watch` saw a tensor being made."""
    return weak_facts.fact(tensor) is not None


def provenance(tensor: torch.Tensor) -> str | None:
    """How a tensor came to need no grad, in a few words.

    Args:
        tensor: A tensor that needs no grad.

    Returns:
        "detached from a tensor of shape (3,) at model.py:12", "made under no_grad at model.py:12",
        "integer", "created by the program at model.py:12", or a like phrase for the other kinds of
        cuts; None when its making was not watched, or when it needs grad.
    """
    if tensor.requires_grad:
        return None
    found = weak_facts.fact(tensor)
    if not isinstance(found, Origin):
        return None
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return "integer"
    if not found.cuts:
        return f"created by the program{_at(found)}"
    return _phrase(found.cuts[0])


def _phrase(cut: Cut) -> str:
    source = f"a tensor of shape {cut.shape}"
    phrases = {
        "detach": f"detached from {source}",
        "data": f"detached from {source} by .data",
        "copy": f"copied from {source}",
        "item": f"read as a number from {source}",
        "numpy": f"read as a NumPy array from {source}",
    }
    if cut.how in ("no_grad", "inference_mode"):
        return f"made under {cut.how}{_at(cut)}"
    return f"{phrases.get(cut.how, f'made from integers, which were made from {source}')}{_at(cut)}"


def _at(what: Cut | Origin) -> str:
    return f" at {what.where}" if what.where else ""
