"""Entries of a Jacobian, real numbers all of them: a complex number is two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Part = Literal["real", "imaginary"]
_PARTS: tuple[Part, Part] = "real", "imaginary"


@dataclass(frozen=True)
class WrongDerivative:
    """An entry of a Jacobian that backward gets wrong, and the finite difference in its place.

    Attributes:
        gradient: What backward says.
        difference: The finite difference, in double precision.
        output: Which output of the Function, from 0.
        output_index: Which number of it.
        input: Which argument, from 0.
        argument: What ``forward`` calls it.
        index: Which number of it.
        output_part: Of a complex output, which part of that number; None of a real one.
        part: The same of the argument.
    """

    gradient: float
    difference: float
    output: int
    output_index: tuple[int, ...]
    input: int
    argument: str
    index: tuple[int, ...]
    output_part: Part | None = None
    part: Part | None = None

    def __str__(self) -> str:
        of = _of_part(self.output_part, _place("output", self.output, self.output_index))
        by = _of_part(self.part, _at(self.argument, self.index))
        return (
            f"the derivative of {of} by {by} is {self.difference:.6g}, and backward says "
            f"{self.gradient:.6g}"
        )


def reals(tensor: torch.Tensor) -> torch.Tensor:
    """All numbers of a tensor in a row; a complex one as its two parts."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj()).flatten()
    return tensor.flatten()


def count_of(tensor: torch.Tensor) -> int:
    """How many `reals` a tensor has."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def place_of(place: int, tensor: torch.Tensor) -> tuple[tuple[int, ...], Part | None]:
    """Which number of a tensor one of its `reals` is of, and which part of that."""
    part = None
    if tensor.is_complex():
        place, which = divmod(place, 2)
        part = _PARTS[which]
    index: list[int] = []
    for size in reversed(tensor.shape):
        place, at = divmod(place, size)
        index.append(at)
    return tuple(reversed(index)), part


def _place(word: str, nr: int, index: tuple[int, ...]) -> str:
    return _at(word if nr == 0 else f"{word} {nr}", index)


def _at(word: str, index: tuple[int, ...]) -> str:
    return f"{word}[{', '.join(map(str, index))}]" if index else word


def _of_part(part: Part | None, number: str) -> str:
    return number if part is None else f"the {part} part of {number}"
