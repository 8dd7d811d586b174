"""The input of a derivative table row: one input of one autograd node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class TensorType:
    """The shape and dtype of a tensor, which may be freed."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Case:
    """One input of one node, for which a derivative is written."""

    saved: Mapping[str, Any]  # the saved values that can be read, by torch's names
    # Names of saved tensors that were freed, are packed, or have changed since.
    unreadable: frozenset[str]
    outputs: tuple[TensorType, ...]  # the outputs of the forward operation
    # Its differentiable inputs; None for each one that needs no gradient.
    inputs: tuple[TensorType | None, ...]
    arg_nr: int  # which of the inputs the derivative is for

    @property
    def input(self) -> TensorType:
        """The input that the derivative is for."""
        found = self.inputs[self.arg_nr]
        assert found is not None
        return found

    @property
    def output(self) -> TensorType:
        """The first output."""
        return self.outputs[0]

    @property
    def is_complex(self) -> bool:
        """Whether complex numbers occur."""
        return self.input.dtype.is_complex or any(each.dtype.is_complex for each in self.outputs)

    def has(self, name: str) -> bool:
        """Return whether the node keeps ``name``, readable or not."""
        return self.saved.get(name) is not None or name in self.unreadable

    def dims(self) -> tuple[int, ...]:
        """Return the reduced dimensions, counted from the front; none stands for all of them."""
        dim = self.saved.get("dim")
        rank = len(self.input.shape)
        if dim is None or dim == () or rank == 0:
            return tuple(range(rank))
        given = dim if isinstance(dim, (tuple, list)) else (dim,)
        return tuple(sorted(d % rank for d in given))

    def reduced_count(self) -> int:
        """Return how many numbers were reduced to one."""
        return math.prod(self.input.shape[d] for d in self.dims())

    def kept(self, code: str) -> str:
        """``code`` with the dimensions that the reduction dropped put back, one long each."""
        if self.saved.get("keepdim") or len(self.dims()) == len(self.input.shape):
            return code
        return code + "".join(f".unsqueeze({d})" for d in self.dims())

    def dim_argument(self) -> str:
        """Return the arguments that repeat the node's reduction with its dimensions kept."""
        dims = self.dims()
        if len(dims) == len(self.input.shape):
            return ""
        return f"{one_or_many(dims)}, keepdim=True"

    def reduced(self, code: str) -> str:
        """``code``, summed over the dimensions along which this input was broadcast."""
        shape, of_output = self.input.shape, self.output.shape
        sizes = zip(reversed(shape), reversed(of_output), strict=False)
        broadcast = len(shape) <= len(of_output) and all(n in {1, of} for n, of in sizes)
        return call(code, sum_to(shape)) if broadcast and shape != of_output else code


def call(code: str, method: str) -> str:
    """Return a method called on the value of an expression, in brackets where Python needs them."""
    lines = code.split("\n")
    last = lines[-1]
    lines[-1] = f"{last if _is_one_term(last) else f'({last})'}.{method}"
    return "\n".join(lines)


def sum_to(shape: tuple[int, ...]) -> str:
    """The call that sums a gradient over the dimensions along which ``shape`` was broadcast."""
    return f"sum_to_size({joined_numbers(shape)})" if shape else "sum()"


def joined_numbers(numbers: Iterable[int]) -> str:
    """Write numbers as arguments of a call."""
    return ", ".join(map(str, numbers))


def one_or_many(dims: tuple[int, ...]) -> str:
    """Dimensions as torch's reductions take them: one number, or a tuple."""
    return str(dims[0] if len(dims) == 1 else dims)


def _is_one_term(code: str) -> bool:
    """Return whether no operator stands outside of brackets."""
    depth = 0
    for character in code:
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character in " -~":
            return False
    return True


Row = str | Callable[[Case], str | None]
"""A derivative: its code, or how to write it for one case; None if it has no short form."""

Table = dict[str, dict[str, Row]]  # backward class -> forward argument -> derivative


def alike(*ops: str, **rows: Row) -> Table:
    """Return the same rows for several backward classes."""
    return dict.fromkeys(ops, rows)
