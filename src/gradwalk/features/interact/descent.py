"""A step of gradient descent on the numbers of controls: which of them move, and where to."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch

from ...result import make, returned_by
from ...torch_api.modes import random_numbers_kept
from ..experiments.jacobian import DOUBLE, SINGLE, Jacobian, Precision, in_double, jacobians
from .controls import is_whole

_TOLERANCE = 1e-4


@returned_by("interact(...).differences()")
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

    ``draws``: whether the function draws random numbers. It runs in its own precision then: in
    double precision torch draws others. Any other function runs in double precision.
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
    columns = given[:, 0], found.difference[:, 0], found.known, found.known & ~wrong
    rows = zip(*(column.tolist() for column in columns), strict=True)
    pairs = [make(Difference, *numbers) for numbers in rows]
    return pairs if leaf.dim() > 0 else pairs[0]


LR = 0.05  # the initial learning rate in the box


@returned_by("interact(...).descend()")
@dataclass(frozen=True)
class Descent:
    """A step against the gradient.

    Attributes:
        before: The loss before it.
        after: The loss after it.
        moved: What each of the numbers was, and is.
    """

    before: float
    after: float
    moved: dict[str, tuple[Any, Any]]


def check_rate(lr: Any) -> None:
    """Refuse a learning rate that is not a number."""
    if not isinstance(lr, Real):
        raise TypeError(
            f"descend() was given lr={lr!r}, of type {type(lr).__name__}. Give a number, such as "
            f"{LR}."
        )


def to_move(controls: Mapping[str, Any], ranged: Collection[str], names: Any) -> list[str]:
    """Which arguments a step moves; see `Interact.descend`."""
    moving = [name for name, control in controls.items() if not is_whole(control)]
    if names is None:
        return [name for name in moving if name in ranged] or moving
    if not isinstance(names, Iterable):
        raise TypeError(
            f"descend() was given names={names!r}, of type {type(names).__name__}. Give the names "
            "of the arguments that are to move, as in descend(names=['w'])."
        )
    chosen = [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in moving:
            raise ValueError(
                f"descend() was given {name!r}, which is not a number that can move. Give one of: "
                f"{', '.join(moving) or 'none'}."
            )
    return chosen


def moved_by(lr: float, leaves: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Where a step takes those leaves that have a gradient.

    Example:
        >>> w = torch.tensor(3.0, requires_grad=True)
        >>> (w * w).backward()
        >>> moved_by(0.1, {"w": w})
        {'w': 2.4}
    """
    moved: dict[str, Any] = {}
    for name, leaf in leaves.items():
        if leaf.grad is None:
            continue
        now = leaf.detach() - lr * leaf.grad
        if not now.isfinite().all():
            raise ValueError(
                f"descend(lr={lr:g}) would take {name} from {leaf.tolist()} to {now.tolist()}, "
                "which no control can hold. Nothing moved: take a smaller lr, or set the controls "
                "anew."
            )
        moved[name] = _decimals(now)
    return moved


def _decimals(tensor: torch.Tensor) -> Any:
    """The numbers of a tensor with as few digits as tell them apart in its dtype: 0.1 of 0.1."""
    if tensor.dim():
        return [_decimals(each) for each in tensor]
    number = tensor.item()
    for digits in range(6, 18):
        short = float(f"{number:.{digits}g}")
        if tensor.new_tensor(short) == tensor:
            return short
    return number
