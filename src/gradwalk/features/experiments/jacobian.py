"""Jacobians of a function of real vectors: by autograd, and by finite differences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

Vectors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Precision:
    """A dtype, the two steps that finite differences take in it, and what rounding allows."""

    dtype: torch.dtype  # the dtype of all numbers
    steps: tuple[float, float]  # a small and a large step, in units of the number's size, or of 1
    relative: float  # the relative error that counts as rounding

    def rounding(self, value: torch.Tensor, step: float) -> float:
        """Return the error of a difference over a step where a function has some value."""
        size = max(largest(value), 1e-4)  # larger numbers may have cancelled within the function
        return 8 * torch.finfo(self.dtype).eps * size / step

    def differs(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return where two results of the same computation differ by more than rounding."""
        far = (one - other).abs() > 1000 * torch.finfo(self.dtype).eps * largest(other)
        return far | (one.isfinite() != other.isfinite())


def largest(value: torch.Tensor) -> float:
    """Return the largest finite absolute value; 0 where there is none."""
    finite = value.detach().abs()[value.isfinite()]
    return float(finite.max()) if len(finite) else 0.0


DOUBLE = Precision(torch.float64, (1e-6, 1e-4), 1e-5)
SINGLE = Precision(torch.float32, (1e-3, 1e-2), 1e-2)


@dataclass(frozen=True)
class Jacobian:
    """The derivatives of all outputs by one input: a row per number of the input."""

    gradient: torch.Tensor  # the derivatives by autograd
    difference: torch.Tensor  # the finite differences
    low: torch.Tensor  # the smallest slope that finite differences allow, per step
    # The largest one: at a kink, as that of relu at 0, it is the slope of one side.
    high: torch.Tensor
    finite: torch.Tensor  # which numbers of the outputs are finite
    known: torch.Tensor  # which numbers of the input have a derivative to compare with

    def is_off(self, gradient: torch.Tensor, allowed: torch.Tensor | float) -> torch.Tensor:
        """Return where a gradient is outside of what the differences of both steps allow."""
        inside = (gradient >= self.low - allowed) & (gradient <= self.high + allowed)
        return ~inside.any(0)

    def wrong(self, precision: Precision) -> torch.Tensor:
        """Return where the gradient is wrong."""
        size = torch.maximum(self.gradient.abs(), self.difference.abs())
        allowed = (precision.relative * size).nan_to_num(0, 0, 0)
        return self.is_off(self.gradient, allowed) & self.known[:, None] & self.finite


def jacobians(
    function: Callable[..., Vectors], inputs: Vectors, precision: Precision
) -> list[Jacobian]:
    """Return the Jacobians of a function, one per input, over all its outputs in a row."""
    given = [each.detach().clone().requires_grad_() for each in inputs]
    output = torch.cat(list(function(*given)))
    here = output.detach()
    ones = torch.eye(len(here), dtype=here.dtype, device=here.device)
    columns = [
        torch.autograd.grad(output, given, one, retain_graph=True, materialize_grads=True)
        for one in (ones if output.requires_grad else ())
    ]
    found = []
    for nr, vector in enumerate(given):
        gradient = vector.detach().new_zeros(len(vector), len(here))
        if columns:
            gradient = torch.stack([each[nr].detach() for each in columns], 1)

        def at(entry: int, number: torch.Tensor, nr: int = nr) -> torch.Tensor:
            moved = [each.detach().clone() for each in given]
            moved[nr][entry] = number
            return torch.cat(list(function(*[each.requires_grad_() for each in moved]))).detach()

        rows = [
            _slopes(functools.partial(at, entry), vector.detach()[entry], here, precision)
            for entry in range(len(vector))
        ]
        found.append(_jacobian(gradient, rows, here, precision))
    return found


def _slopes(
    function: Callable[[torch.Tensor], torch.Tensor],
    number: torch.Tensor,
    here: torch.Tensor,
    precision: Precision,
) -> torch.Tensor:
    """The slopes below, across and above a number, with each step."""
    found = []
    for step in precision.steps:
        h = step * max(1.0, abs(float(number)))
        low, high = number - h, number + h
        below, above = function(low), function(high)
        across = (above - below) / (high - low)
        sides = (here - below) / (number - low), across, (above - here) / (high - number)
        found.append(torch.stack(sides))
    return torch.stack(found)


def _jacobian(
    gradient: torch.Tensor, rows: list[torch.Tensor], here: torch.Tensor, precision: Precision
) -> Jacobian:
    """Lay the slopes of all numbers of an input beside its gradient."""
    finite = here.isfinite()
    if not rows:
        none = gradient.new_zeros(2, *gradient.shape)
        return Jacobian(gradient, none[0], none, none, finite, none[0].any(1))
    slopes = torch.stack(rows, dim=2)  # step, side, number of the input, number of the output
    small, large = slopes[:, 1]
    noise, other = (precision.rounding(here, step) for step in precision.steps)
    far = (small - large).abs().nan_to_num(0, 0, 0)
    slack = torch.stack([far + noise, far + other])
    # As at the cube root of 0: the smaller the step, the larger the slope.
    grows = (small.abs() > 2 * large.abs()) & (small.abs() > max(1.0, 100 * noise))
    unclear = grows.any(1) | (~gradient.isfinite().all(1) & ~finite.all())
    difference = torch.where(large.isfinite(), large, small)
    known = (slopes[0].isfinite().all(0) | ~finite).all(1) & finite.any() & ~unclear
    low, high = slopes.amin(1) - slack, slopes.amax(1) + slack
    return Jacobian(gradient, difference, low, high, finite, known)


@contextmanager
def in_double() -> Iterator[None]:
    """Make new tensors double within, and leave the random state as it was."""
    before, state = torch.get_default_dtype(), torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        torch.set_rng_state(state)
