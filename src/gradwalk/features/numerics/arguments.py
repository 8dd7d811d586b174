"""Compare the arguments without gradient that the operations of two runs took.

Where they differ, a mask, a constant or an epsilon explains the error.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...torch_api.saved_tensors import read_saved
from ...torch_api.signatures import call_arguments
from ...torch_api.tensors import tolerances
from .aligned import Aligned
from .known_numbers import RunNumbers
from .tensor_distance import Number, tensor_distance

_DRAWN = {
    "NativeDropoutBackward0": "result1",
    "RreluWithNoiseBackward0": "noise",
    "RreluWithNoiseBackward1": "noise",
}
"""Operations that draw random numbers -> the saved attribute that holds them."""


def differing(both: Aligned, node: int) -> dict[str, tuple[Any, Any]]:
    """Return the arguments without gradient that differ between the two runs, by name.

    Args:
        both: Two graphs.
        node: A matched node of ``both.here``.

    Returns:
        Only arguments that both nodes saved for backward; none for runs read from files.
    """
    mine, theirs = _given(both.here, node), _given(both.there, both.pairs[node])
    return {
        name: (mine[name], theirs[name])
        for name in mine
        if name in theirs and not _is_same(mine[name], theirs[name])
    }


def may_differ(both: Aligned, node: int) -> bool:
    """Return whether a node has operands without gradient that are not known to be equal."""
    operands = both.here.subject.graph.nodes[node]["no_grad_inputs"]
    if not operands:
        return False
    known = _given(both.here, node).keys() & _given(both.there, both.pairs[node]).keys()
    return any(each["argument"] not in known for each in operands)


def describe_difference(op: str, differs: dict[str, tuple[Any, Any]]) -> str:
    """Return a sentence on the first differing argument; empty for none."""
    if not differs:
        return ""
    name, (one, other) = next(iter(differs.items()))
    if _DRAWN.get(op) == name:
        return "It draws random numbers, which differ between the two."
    if _is_mask(one) and _is_mask(other):
        return (
            f"Its argument {name} looks like a dropout mask: its random numbers differ between "
            "the two."
        )
    numbers = [_one_number(each) for each in (one, other)]
    if None not in numbers:
        return f"Its argument {name} is {numbers[0]} in a, and {numbers[1]} in b."
    return f"Its argument {name}, which needs no gradient, differs between the two."


def _given(known: RunNumbers, node: int) -> dict[str, Any]:
    """The arguments without gradient that a node saved."""
    live = known.subject.autograd
    if live is None:
        return {}
    op = known.subject.graph.nodes[node]["op"]
    names = call_arguments(op) | {_DRAWN.get(op, "")}
    return {
        saved.name: saved.value
        for saved in read_saved(live.nodes[node], names)
        if saved.name in names and saved.value is not None and not saved.changed
        if not (isinstance(saved.value, torch.Tensor) and saved.value.requires_grad)
    }


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor):
        return True  # a number and a tensor cannot be compared
    if not isinstance(one, torch.Tensor):
        return bool(one == other) or repr(one) == repr(other) == "nan"
    allowed = tolerances(one.dtype, other.dtype)
    apart = tensor_distance(Number(one), Number(other), allowed)
    return apart is None or not apart.leaves


def _is_mask(value: Any) -> bool:
    """Whether all numbers are 0 or one scale above 1, as in the mask of dropout."""
    if not isinstance(value, torch.Tensor) or value.numel() < 2 or value.is_complex():
        return False
    most = value.max()
    is_scaled = float(most) > 1 and math.isfinite(float(most))
    return is_scaled and bool(((value == 0) | (value == most)).all())


def _one_number(value: Any) -> str | None:
    if isinstance(value, torch.Tensor):
        return f"{value.item():.6g}" if value.numel() == 1 and not value.is_complex() else None
    return f"{value:.6g}" if isinstance(value, float) else str(value)
