"""Finite differences: what a gradient should be, without any derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

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
