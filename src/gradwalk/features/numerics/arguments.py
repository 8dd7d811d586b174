"""What operations of two runs were given beside what needs a gradient.

Where that is not the same in both, an error is that of a mask, a constant or an epsilon.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...torch_api.saved_tensors import read_saved
from ...torch_api.signatures import call_arguments
from ...torch_api.tensors import tolerances
from .aligned import Aligned
from .known_numbers import Known
from .tensor_distance import Number, tensor_distance

_DRAWN = {
    "NativeDropoutBackward0": "result1",
    "RreluWithNoiseBackward0": "noise",
    "RreluWithNoiseBackward1": "noise",
}
"""Operations that draw random numbers, and as what they keep them."""


def differing(both: Aligned, node: int) -> dict[str, tuple[Any, Any]]:
    """What a node was given that needs no gradient and is not the same in both, by its argument.

    Args:
        both: Two graphs.
        node: A node of ``both.here`` that has a partner.

    Returns:
        What is known of both, as far as the nodes keep it for backward; nothing of files.
    """
    mine, theirs = _given(both.here, node), _given(both.there, both.pairs[node])
    return {
        name: (mine[name], theirs[name])
        for name in mine
        if name in theirs and not _is_same(mine[name], theirs[name])
    }


def may_differ(both: Aligned, node: int) -> bool:
    """Whether a node has operands that need no gradient and are not known to be the same."""
    operands = both.here.subject.graph.nodes[node]["no_grad_inputs"]
    if not operands:
        return False
    known = _given(both.here, node).keys() & _given(both.there, both.pairs[node]).keys()
    return any(each["argument"] not in known for each in operands)


def words_of(op: str, differs: dict[str, tuple[Any, Any]]) -> str:
    """A sentence on what an operation was given otherwise; empty for nothing."""
    if not differs:
        return ""
    name, (one, other) = next(iter(differs.items()))
    if _DRAWN.get(op) == name:
        return "It draws random numbers, which differ between the two."
    if _is_mask(one) and _is_mask(other):
        return (
            f"What it takes as {name} is a mask with other zeros in b, as dropout draws it: random "
            "numbers that differ between the two."
        )
    numbers = [_one_number(each) for each in (one, other)]
    if None not in numbers:
        return f"What it takes as {name} is {numbers[0]} in a, and {numbers[1]} in b."
    return f"What it takes as {name}, which needs no gradient, is not the same in both."


def _given(known: Known, node: int) -> dict[str, Any]:
    """Arguments that need no gradient, as far as a node keeps them."""
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
        return True  # a number here and a tensor there: of these nothing is said
    if not isinstance(one, torch.Tensor):
        return bool(one == other) or repr(one) == repr(other) == "nan"
    allowed = tolerances(one.dtype, other.dtype)
    apart = tensor_distance(Number(one), Number(other), allowed)
    return apart is None or not apart.leaves


def _is_mask(value: Any) -> bool:
    """Whether numbers are zeros and one other number of more than 1, as dropout multiplies by."""
    if not isinstance(value, torch.Tensor) or value.numel() < 2 or value.is_complex():
        return False
    most = value.max()
    is_scaled = float(most) > 1 and math.isfinite(float(most))
    return is_scaled and bool(((value == 0) | (value == most)).all())


def _one_number(value: Any) -> str | None:
    if isinstance(value, torch.Tensor):
        return f"{value.item():.6g}" if value.numel() == 1 and not value.is_complex() else None
    return f"{value:.6g}" if isinstance(value, float) else str(value)
