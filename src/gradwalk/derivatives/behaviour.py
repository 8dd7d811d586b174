"""The installed torch's choice where a function has no derivative: at bounds and ties.

Releases differ there, and only torch's C++ says how. So torch is asked: its own gradient at such
points selects the code that gives the same. Where none does, gradwalk has no code.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch

from .code import compiled

Point = tuple[float, ...]
"""One number for each input of a call."""

_INCOMING = 0.75  # differs from 0, 1 and from half of it


@dataclass(frozen=True, eq=False)
class Choice:
    """A derivative that can be written in several ways, of which one is the installed torch's."""

    call: Callable[..., torch.Tensor]  # the forward operation
    inputs: tuple[str, ...]  # the names of its inputs in the codes
    points: tuple[Point, ...]  # where torch is asked: bounds and ties, and between them
    codes: Mapping[str, tuple[str, ...]]  # an input -> the codes to choose from

    def code(self, argument: str) -> str | None:
        """Return the code for one input that gives torch's gradients; None if none of them does."""
        try:
            return _chosen(self, argument)
        except RuntimeError:  # this process may start no thread
            return None


@functools.cache
def _chosen(choice: Choice, argument: str) -> str | None:
    """Ask torch in a thread of its own, because a program's settings belong to its thread.

    These are grad mode, autocast, dispatch modes, hooks of saved tensors and of new nodes.
    """
    found: list[str] = []

    def ask() -> None:
        with suppress(Exception):  # a torch without this call
            found.extend(_matching(choice, argument))

    thread = threading.Thread(target=ask, name="gradwalk.behaviour")
    thread.start()
    thread.join()
    return next(iter(found), None)


def _matching(choice: Choice, argument: str) -> Iterator[str]:
    """Yield each code that gives torch's gradients at all points."""
    place = choice.inputs.index(argument)
    true = [_gradient(choice.call, point)[place] for point in choice.points]
    for code in choice.codes[argument]:
        if [_value(code, choice.inputs, point) for point in choice.points] == true:
            yield code


def _value(code: str, inputs: tuple[str, ...], point: Point) -> float:
    numbers = dict(zip(inputs, map(_number, point), strict=True))
    value, _ = compiled(code).run({"torch": torch, "grad": _number(_INCOMING), **numbers})
    return float(value)


def _gradient(call: Callable[..., torch.Tensor], point: Point) -> Point:
    inputs = [_number(each).requires_grad_() for each in point]
    grads = torch.autograd.grad(call(*inputs), inputs, _number(_INCOMING), allow_unused=True)
    return tuple(0.0 if grad is None else float(grad) for grad in grads)


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, device="cpu")
