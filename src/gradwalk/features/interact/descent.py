"""A step of gradient descent on the numbers of controls: which of them move, and where to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch

from .controls import is_whole

LR = 0.05
"""The initial learning rate in the box."""


@dataclass(frozen=True)
class Step:
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
    """Refuse a learning rate that is not a number.

    Raises:
        TypeError: It is not a number.
    """
    if not isinstance(lr, Real):
        raise TypeError(
            f"step() was given lr={lr!r}, of type {type(lr).__name__}. Give a number, such as {LR}."
        )


def to_move(controls: Mapping[str, Any], ranged: Collection[str], names: Any) -> list[str]:
    """Which arguments a step moves; see `Interact.step`.

    Args:
        controls: The controls of the leaves, by name.
        ranged: Those that were given as something to be moved.
        names: The requested names, one or several; None if none were requested.

    Raises:
        TypeError: ``names`` is not iterable.
        ValueError: A name is none of a number that can move.
    """
    moving = [name for name, control in controls.items() if not is_whole(control)]
    if names is None:
        return [name for name in moving if name in ranged] or moving
    if not isinstance(names, Iterable):
        raise TypeError(
            f"step() was given names={names!r}, of type {type(names).__name__}. Give the names of "
            "the arguments that are to move, as in step(names=['w'])."
        )
    chosen = [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in moving:
            raise ValueError(
                f"step() was given {name!r}, which is no number that can move. Those that can: "
                f"{', '.join(moving) or 'none'}."
            )
    return chosen


def moved_by(lr: float, leaves: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Where a step takes those leaves that have a gradient.

    Raises:
        ValueError: It would end at NaN or infinity.

    Example::

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
                f"step(lr={lr:g}) would take {name} from {leaf.tolist()} to {now.tolist()}, which "
                "is no number that a control can hold. Nothing moved: take a smaller lr, or set "
                "the controls anew."
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
