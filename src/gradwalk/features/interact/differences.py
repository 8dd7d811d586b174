"""The gradients of a function's arguments beside finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ...torch_api.modes import random_numbers_kept
from ..experiments.jacobian import DOUBLE, SINGLE, Jacobian, Precision, in_double, jacobians

_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """A gradient and the finite difference for the same number.

    Attributes:
        gradient: The number in ``.grad``.
        difference: (f(v + h) - f(v - h)) / 2h.
        is_finite: Whether there is a finite difference to compare with: not at sqrt(0).
        agrees: Whether they are the same, up to rounding. At a kink, as that of relu at 0, a
            gradient between the slopes of both sides agrees.
    """

    gradient: float
    difference: float
    is_finite: bool
    agrees: bool


def differences(
    called: str,
    total: Callable[[Mapping[str, torch.Tensor]], torch.Tensor],
    leaves: Mapping[str, torch.Tensor],
    *,
    draws: bool,
) -> dict[str, Any]:
    """Return the gradient of every leaf beside its finite differences.

    Args:
        called: The name of the function.
        total: Returns the function's result for leaves of those names.
        leaves: The leaves, with their ``.grad``.
        draws: Whether the function draws random numbers. It runs in its own precision then: in
            double precision torch draws others. Any other function runs in double precision.

    Returns:
        Name -> a `Difference`; of a tensor of several numbers a list of them.

    Raises:
        ValueError: The function does not give the same each time.
        Exception: What ``total`` raises.
    """
    own = {leaf.dtype for leaf in leaves.values()}
    precision = SINGLE if draws and own != {torch.float64} else DOUBLE

    def function(*vectors: torch.Tensor) -> list[torch.Tensor]:
        given = zip(leaves.items(), vectors, strict=True)
        value = total({name: vector.reshape(leaf.shape) for (name, leaf), vector in given})
        return [value.reshape(1)]

    with random_numbers_kept(()) if draws else in_double():
        vectors = [
            leaf.detach().to(leaf.dtype if draws else torch.float64).reshape(-1).requires_grad_()
            for leaf in leaves.values()
        ]
        first, again = (function(*vectors)[0].item() for _ in range(2))
        if first != again and not (math.isnan(first) and math.isnan(again)):
            raise ValueError(
                f"{called} cannot be checked: called twice with the same numbers it gave "
                f"{first:.6g} and {again:.6g}. It depends on something that a call changes, such "
                "as a global tensor or random numbers that are not torch's."
            )
        found = jacobians(function, vectors, precision)
    pairs = zip(leaves.items(), found, strict=True)
    return {name: _differences(leaf, one, precision) for (name, leaf), one in pairs}


def _differences(leaf: torch.Tensor, found: Jacobian, precision: Precision) -> Any:
    grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.detach()
    given = grad.to_dense().reshape(-1, 1).to(found.difference.dtype)
    size = torch.maximum(given.abs(), found.difference.abs()).nan_to_num(0, 0, 0).clamp(min=1)
    allowed = max(_TOLERANCE, precision.relative) * size
    wrong = (found.wrong(precision) | found.is_off(given, allowed))[:, 0]
    pairs = [
        Difference(*numbers)
        for numbers in zip(
            given[:, 0].tolist(),
            found.difference[:, 0].tolist(),
            found.told.tolist(),
            (found.told & ~wrong).tolist(),
            strict=True,
        )
    ]
    return pairs if leaf.dim() > 0 else pairs[0]
