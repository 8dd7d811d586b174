"""The numbers and arrays that a program read out of tensors, and may still use."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from . import weak_facts
from .cuts import Origin
from .operands import numbers_in

_MOST_NUMBERS = 64


class ReadOut:
    """What was read out of tensors while one thread is watched, and where that came from."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[Any, Origin]] = {}  # by id; held, so it stays theirs
        self._arrays: dict[int, weakref.ref[Any]] = {}  # by the address of their memory

    def note(self, source: torch.Tensor, result: Any, origin: Origin) -> None:
        """Note Python numbers or an array that hold a tensor's values.

        Args:
            source: The tensor.
            result: What was read out of it. Of numbers the last ones are known.
            origin: Where those come from.
        """
        if isinstance(result, (float, complex, list)):
            numbers = numbers_in(result, _MOST_NUMBERS)
            self._numbers |= {id(n): (n, origin) for n in numbers}
            for oldest in list(self._numbers)[:-_MOST_NUMBERS]:
                del self._numbers[oldest]
        elif not isinstance(result, int):
            weak_facts.note(result, origin)
            self._arrays[source.data_ptr()] = weakref.ref(result)

    def origin(self, value: Any) -> Origin | None:
        """Where a number or an array comes from that was read out, or a tensor that shares it.

        Args:
            value: Any value that goes into a call.

        Returns:
            None for one that was not read out, as far as is known.
        """
        if isinstance(value, torch.Tensor):
            array = self._arrays.get(value.data_ptr()) if self._arrays else None
            value = array() if array else None
        elif isinstance(value, (float, complex)):
            found = self._numbers.get(id(value))
            return found[1] if found else None
        noted = weak_facts.fact(value) if value is not None else None
        return noted if isinstance(noted, Origin) else None
