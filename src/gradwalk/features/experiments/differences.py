"""Finite differences: what a gradient should be, without any derivative."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

STEP = 1e-6
"""How far to both sides, in units of the number's own size, or of 1 where it is smaller."""

_TOLERANCE = 1e-4

EXACT = 1e-6
"""What two ways to the same derivative may differ by in double precision, of its size."""

_ROUNDINGS = 8  # that one call may add up, of the size of what it gives


@dataclass(frozen=True)
class Difference:
    """A gradient, and the finite difference in its place.

    Attributes:
        gradient: What torch's backward gives.
        difference: (f(v + h) - f(v - h)) / 2h, in double precision.
        in_double: What backward gives in double precision, where it says nearly what it should.
        uncertainty: How far off ``difference`` may be, by its own step and rounding; at a kink, as
            that of relu at 0, it reaches the slopes of both sides.
    """

    gradient: float
    difference: float
    in_double: float
    uncertainty: float

    @property
    def is_finite(self) -> bool:
        """Whether there is a difference that is finite; of the square root at 0 there is none."""
        return math.isfinite(self.difference) and math.isfinite(self.uncertainty)

    @property
    def agrees(self) -> bool:
        """Whether backward gives the derivative; not where there is none to compare with.

        In double precision to six digits, however small it is, as far as the difference can tell;
        and in the function's own precision to four digits, of 1 where it is smaller.
        """
        if not (self.is_finite and math.isfinite(self.in_double) and math.isfinite(self.gradient)):
            return False
        size = max(abs(self.in_double), abs(self.difference))
        exact = abs(self.in_double - self.difference) <= EXACT * size + self.uncertainty
        size = max(1.0, abs(self.gradient), abs(self.difference))
        off = abs(self.gradient - self.difference)
        return exact and off <= _TOLERANCE * size + self.uncertainty


def differences(
    called: str,
    total: Callable[[Mapping[str, torch.Tensor]], torch.Tensor],
    leaves: Mapping[str, torch.Tensor],
) -> dict[str, Any]:
    """The gradient of every leaf beside its finite differences.

    Args:
        called: What the function is called.
        total: What the function gives with leaves of those names in double precision.
        leaves: The leaves, with what backward left in their ``.grad``.

    Returns:
        Name -> a `Difference`; of a tensor of several numbers a list of them.

    Raises:
        ValueError: It does not give the same each time.
        Exception: What ``total`` raises.
    """

    def doubled(numbers: Mapping[str, float]) -> dict[str, torch.Tensor]:
        return {name: _double(name, leaf, numbers) for name, leaf in leaves.items()}

    def at(numbers: Mapping[str, float]) -> float:
        return total(doubled(numbers)).item()

    flat: dict[str, float] = {}
    for name, leaf in leaves.items():
        values = leaf.detach().flatten().tolist()
        flat.update({f"{name}[{i}]": value for i, value in enumerate(values)})
    with in_double():
        own = doubled(flat)
        value = total(own)
        first = value.item()
        exact = _gradients(value, own)
        slopes = {place: slope(at, flat, place, first) for place in flat}
        last = at(flat)
    if first != last and not (math.isnan(first) and math.isnan(last)):
        raise ValueError(
            f"{called} cannot be checked: called twice with the same numbers it gave "
            f"{first:.6g} and {last:.6g}, so it depends on something that a call changes, "
            "such as a global tensor or random numbers that are not torch's."
        )
    found: dict[str, Any] = {}
    for name, leaf in leaves.items():
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        pairs = [
            Difference(number, slopes[f"{name}[{i}]"][0], in_double, slopes[f"{name}[{i}]"][1])
            for i, (number, in_double) in enumerate(
                zip(grad.flatten().tolist(), exact[name].flatten().tolist(), strict=True)
            )
        ]
        found[name] = pairs if leaf.dim() > 0 else pairs[0]
    return found


def _double(name: str, leaf: torch.Tensor, numbers: Mapping[str, float]) -> torch.Tensor:
    """A leaf of the same shape with other numbers."""
    own = [numbers[f"{name}[{i}]"] for i in range(leaf.numel())]
    return torch.tensor(own, dtype=torch.float64).reshape(leaf.shape).requires_grad_()


def _gradients(value: torch.Tensor, leaves: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradient of each leaf, zeros where none gets there."""
    if not value.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    pairs = zip(leaves.items(), found, strict=True)
    return {name: torch.zeros_like(leaf) if grad is None else grad for (name, leaf), grad in pairs}


def slope(
    total: Callable[[Mapping[str, float]], float],
    values: Mapping[str, float],
    name: str,
    here: float,
) -> tuple[float, float]:
    """The central difference of a function by one of its numbers, and how far off it may be.

    Args:
        total: The function.
        values: All its numbers.
        name: Which to change.
        here: What it gives there.

    Returns:
        The difference; and its uncertainty: by its step, told by one twice as long, by rounding,
        and by a kink.

    Example::

        >>> found, uncertainty = slope(lambda at: at["x"] ** 2, {"x": 3.0}, "x", 9.0)
        >>> round(found, 6), uncertainty < 1e-6
        (6.0, True)
        >>> slope(lambda at: max(at["x"], 0.0), {"x": 0.0}, "x", 0.0)
        (0.5, 0.5)
    """
    value = values[name]
    step = STEP * max(1.0, abs(value))

    def around(h: float) -> tuple[float, float]:
        """The slope from one side to the other, and by how much both sides' own slopes differ."""
        above, below = (total({**values, name: value + by}) for by in (h, -h))
        return (above - below) / ((value + h) - (value - h)), (above - 2 * here + below) / h

    (found, bend), (wider, wide_bend) = around(step), around(2 * step)
    kink = abs(2 * bend - wide_bend)  # what a curve bends doubles with the step
    noise = rounding(here, step)
    return found, abs(wider - found) + noise + (kink / 2 if kink > 4 * noise else 0.0)


def rounding(size: float, step: float) -> float:
    """How far off a difference over a step may be, where what is subtracted has some size."""
    return _ROUNDINGS * sys.float_info.epsilon * abs(size) / step


@contextmanager
def in_double() -> Iterator[None]:
    """Within it new tensors are double, and the random state is left as it is at the end."""
    before, state = torch.get_default_dtype(), torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        torch.set_rng_state(state)
