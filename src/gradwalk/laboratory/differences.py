"""Finite differences: what a gradient should be, without any derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

STEP = 1e-6
"""How far to both sides, in units of the number's own size, or of 1 where it is smaller."""

_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """A gradient, and the finite difference in its place.

    Attributes:
        gradient: What torch's backward gives.
        difference: (f(v + h) - f(v - h)) / 2h, in double precision.
    """

    gradient: float
    difference: float

    @property
    def agrees(self) -> bool:
        """Whether both say the same, to four digits."""
        size = max(1.0, abs(self.gradient), abs(self.difference))
        return abs(self.gradient - self.difference) <= _TOLERANCE * size


def differences(
    called: str,
    total: Callable[[Mapping[str, torch.Tensor]], float],
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

    def at(numbers: Mapping[str, float]) -> float:
        return total({name: _double(name, leaf, numbers) for name, leaf in leaves.items()})

    flat: dict[str, float] = {}
    for name, leaf in leaves.items():
        values = leaf.detach().flatten().tolist()
        flat.update({f"{name}[{i}]": value for i, value in enumerate(values)})
    with in_double():
        first = at(flat)
        slopes = {place: central_difference(at, flat, place) for place in flat}
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
            Difference(number, slopes[f"{name}[{i}]"])
            for i, number in enumerate(grad.flatten().tolist())
        ]
        found[name] = pairs if leaf.dim() > 0 else pairs[0]
    return found


def _double(name: str, leaf: torch.Tensor, numbers: Mapping[str, float]) -> torch.Tensor:
    """A leaf of the same shape with other numbers."""
    own = [numbers[f"{name}[{i}]"] for i in range(leaf.numel())]
    return torch.tensor(own, dtype=torch.float64).reshape(leaf.shape).requires_grad_()


def central_difference(
    total: Callable[[Mapping[str, float]], float], values: Mapping[str, float], name: str
) -> float:
    """The central difference of a function by one of its numbers.

    Args:
        total: The function.
        values: All its numbers.
        name: Which to change.

    Example::

        >>> round(central_difference(lambda at: at["x"] ** 2, {"x": 3.0}, "x"), 6)
        6.0
    """
    value = values[name]
    h = STEP * max(1.0, abs(value))
    above, below = ({**values, name: value + step} for step in (h, -h))
    return (total(above) - total(below)) / ((value + h) - (value - h))


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
