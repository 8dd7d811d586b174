"""Record the calls of a program as numbers in memory: what a live page computes again.

Every tensor is a view of a storage, as in torch. So operations that only give a view need no call,
and those that write in place write where torch writes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from ...schema.json_values import json_number
from ...torch_api.decompositions import (
    decomposition_of,
    is_mutable,
    is_random,
    named_arguments,
)
from ...torch_api.fake_tensors import handling_mode, tensors_in
from ...torch_api.reading import storage_id
from ...tracing.source_line import SourceLine, here
from .calls import CALLS

MOST_CALLS = 5_000
"""More calls take longer than a drag may."""
MOST_NUMBERS = 50_000
"""Constants of more numbers make a page too large."""

_DTYPES = frozenset(
    {torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool}
)
_LEFT_OUT = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"})
_EMPTY = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")
_SHAPES = frozenset({"as_strided", "detach", "squeeze", "t", "transpose", "unsqueeze"})
"""Operations whose in-place form changes a tensor's shape alone."""
_WITHOUT_VALUES = frozenset(
    {*_EMPTY, "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
)


class NotLiveError(ValueError):
    """A program that a page cannot compute again."""


@dataclass
class Storage:
    """The memory of one or more tensors."""

    dtype: torch.dtype
    size: int  # how many numbers
    numbers: list[Any] | None  # at the start; None where a call writes them first


@dataclass(frozen=True)
class View:
    """A tensor in a storage."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class TapedCall:
    """A call: its name, its arguments as JSON and the tensors that it writes."""

    name: str
    arguments: dict[str, Any]
    outputs: list[int | None]


@dataclass(frozen=True)
class Guard:
    """Numbers on which the program's way depends."""

    view: int
    after: int  # so many calls
    numbers: list[Any]  # their values when it was recorded
    is_truth: bool  # whether only zero or not matters
    line: SourceLine | None


@dataclass
class Tape:
    """The recorded calls; within `recording` each operation of this thread is recorded."""

    line: Callable[[], SourceLine | None] = here
    """Returns the line of the program that runs."""
    storages: list[Storage] = field(default_factory=list)
    views: dict[View, int] = field(default_factory=dict)
    calls: list[TapedCall] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    given: list[tuple[torch.Tensor, int]] = field(default_factory=list)
    """Every tensor that an operation gave, and how many calls came before."""

    def __post_init__(self) -> None:
        self._places: dict[int, int] = {}  # storage -> its index
        self._moving: set[int] = set()  # storages whose numbers can change
        self._alive: list[torch.Tensor] = []
        self._mode: Any = None
        self._constants = 0
        self._inside: list[Any] = []  # the operations that are being decomposed

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record every operation."""
        self._mode = handling_mode(self._handle)
        with self._mode:
            yield

    def view(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor, which is a constant if it is new."""
        place = self._place(tensor)
        offset = int(tensor.storage_offset())
        found = View(place, tuple(tensor.shape), tuple(tensor.stride()), offset)
        return self.views.setdefault(found, len(self.views))

    def add_input(self, tensor: torch.Tensor) -> int:
        """Add a tensor whose numbers change."""
        number = self.view(tensor)
        self._moving.add(self._place(tensor))
        return number

    def is_moving(self, tensor: torch.Tensor) -> bool:
        """Whether the numbers of a tensor depend on the inputs."""
        key = storage_id(tensor)
        return key is not None and self._places.get(key, -1) in self._moving

    def _place(self, tensor: torch.Tensor, is_output: bool = False) -> int:
        key = storage_id(tensor)
        if key is None or tensor.dtype not in _DTYPES or tensor.device.type != "cpu":
            kind = "a sparse or nested tensor" if key is None else f"a tensor of {tensor.dtype}"
            on = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
            raise NotLiveError(
                f"A live page computes dense float32 and float64 on the CPU, and this program has "
                f"{kind}{on}{_at(self.line())}. Write the page without live=True."
            )
        known = self._places.get(key)
        if known is not None:
            if self.storages[known].dtype != tensor.dtype:
                raise NotLiveError(
                    f"A live page cannot read memory of {self.storages[known].dtype} as "
                    f"{tensor.dtype}{_at(self.line())}. Write the page without live=True."
                )
            return known
        self._alive.append(tensor)
        size = tensor.untyped_storage().nbytes() // tensor.itemsize
        numbers = None if is_output else self._numbers_of(tensor, size)
        self.storages.append(Storage(tensor.dtype, size, numbers))
        self._places[key] = len(self.storages) - 1
        return self._places[key]

    def _numbers_of(self, tensor: torch.Tensor, size: int) -> list[Any]:
        self._constants += size
        if self._constants > MOST_NUMBERS:
            raise NotLiveError(
                f"A live page holds up to {MOST_NUMBERS:,} numbers of constants and leaves, and "
                "this program has more. Give it smaller tensors, or write the page without "
                "live=True."
            )
        flat = torch.as_strided(tensor.detach(), (size,), (1,), 0)
        return [int(n) if isinstance(n, bool) else json_number(n) for n in flat.tolist()]

    # ---- Operations

    def _handle(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._run(operation, args, kwargs)
        self.given += [(each, len(self.calls)) for each in tensors_in([result])]
        return result

    def _run(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = operation.name().partition("::")[2].partition(".")[0]
        mutates = is_mutable(operation)
        base = name.removesuffix("_") if mutates else name
        given = tensors_in([args, kwargs])
        if name == "_local_scalar_dense":
            self._guard(given[0], is_truth=False)
        moves = any(map(self.is_moving, given))
        if not moves or name == "_local_scalar_dense":
            if mutates and storage_id(given[0]) in self._places:
                return self._write_constant(operation, args, kwargs)
            return operation(*args, **kwargs)
        if name == "nonzero":
            self._guard(given[0], is_truth=True)
            return operation(*args, **kwargs)
        if base in _WITHOUT_VALUES or is_random(operation):
            if mutates:
                return self._write_constant(operation, args, kwargs)
            result = operation(*args, **kwargs)
            return result.zero_() if base in _EMPTY else result
        return self._compute(operation, base, args, kwargs, mutates=mutates)

    def _compute(
        self,
        operation: Any,
        base: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        mutates: bool,
    ) -> Any:
        """Run an operation whose result depends on the inputs, and record it."""
        if mutates and base in _SHAPES:
            return operation(*args, **kwargs)
        if base in _REWRITTEN and operation.namespace == "aten":
            with self._mode:
                return _REWRITTEN[base](*args, **kwargs)
        if base in ("index", "index_put") and any(map(_is_mask, args[1])):
            with self._mode:
                return operation(args[0], _as_places(args[1]), *args[2:], **kwargs)
        if base in CALLS and operation.namespace == "aten":
            return self._record(operation, base, args, kwargs, mutates=mutates)
        return self._decomposed(operation, args, kwargs)

    def _decomposed(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not is_mutable(operation):  # a view of memory that is known
            try:
                result = operation(*args, **kwargs)
            except Exception:
                result = None
            found = tensors_in([result])
            if found and all(storage_id(each) in self._places for each in found):
                return result
        if operation not in self._inside:
            self._inside.append(operation)
            try:
                for smaller in (decomposition_of(operation), _in_aten(operation)):
                    with self._mode:
                        result = NotImplemented if smaller is None else smaller(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
            finally:
                self._inside.pop()
        raise NotLiveError(
            f"A live page cannot compute {operation.name().replace('::', '.')}{_at(self.line())}. "
            "Write the page without live=True, or replace this call."
        )

    def _write_constant(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation that writes numbers which do not depend on the inputs."""
        result = operation(*args, **kwargs)
        for written in tensors_in([result]):
            if storage_id(written) in self._places:
                copy = self.view(written.clone(memory_format=torch.contiguous_format))
                to = self.view(written)
                self._add("copy", {"self": {"t": to}, "src": {"t": copy}}, [to])
        return result

    def _record(
        self,
        operation: Any,
        base: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        mutates: bool,
    ) -> Any:
        arguments = named_arguments(operation, args, kwargs) or {}
        written = {
            name: self._json(each) for name, each in arguments.items() if name not in _LEFT_OUT
        }
        result = operation(*args, **kwargs)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        views: list[int | None] = []
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                views.append(None)
                continue
            self._moving.add(self._place(output, is_output=not mutates))
            views.append(self.view(output))
        self._add(base, written, views)
        return result

    def _add(self, name: str, arguments: dict[str, Any], outputs: list[int | None]) -> None:
        if len(self.calls) >= MOST_CALLS:
            raise NotLiveError(
                f"A live page computes up to {MOST_CALLS:,} calls, and this program has more. "
                "Unroll fewer steps, or write the page without live=True."
            )
        self.calls.append(TapedCall(name, arguments, outputs))

    def _json(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return {"t": self.view(value)}
        if isinstance(value, (list, tuple)):
            return [self._json(each) for each in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"n": str(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise NotLiveError(
            f"A live page cannot compute with a {type(value).__name__}{_at(self.line())}. Write "
            "the page without live=True."
        )

    def _guard(self, tensor: torch.Tensor, *, is_truth: bool) -> None:
        if self.is_moving(tensor):
            numbers = [json_number(float(each)) for each in tensor.detach().flatten().tolist()]
            view = self.view(tensor)
            self.guards.append(Guard(view, len(self.calls), numbers, is_truth, self.line()))


def _variance(
    inp: torch.Tensor, dims: Any, correction: Any = 1, *, output_dtype: Any = None
) -> torch.Tensor:
    return inp.var(dims, correction=correction).to(output_dtype or inp.dtype)


def _total(inp: torch.Tensor, dims: Any, *, output_dtype: Any = None) -> torch.Tensor:
    return inp.sum(dims, dtype=output_dtype)


def _converted(a: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return a.to(dtype)


_IN_ATEN: dict[str, Callable[..., Any]] = {
    "prims::convert_element_type": _converted,
    "prims::copy_to": torch.Tensor.copy_,
    "prims::sum": _total,
    "prims::var": _variance,
}
"""How torch's decompositions into other operations end."""


def _in_aten(operation: Any) -> Callable[..., Any] | None:
    """Return a function that computes an operation by those of ATen; None without one."""
    if operation.namespace != "aten":
        namespace, _, name = operation.name().partition("::")
        same = getattr(torch, name, None) if namespace == "prims" else None
        return _IN_ATEN.get(operation.name(), same)
    return cast("Callable[..., Any]", operation.decompose)


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _as_places(indices: Any) -> list[Any]:
    """Replace masks among the indices by the places where they are true."""
    found: list[Any] = []
    for each in indices:
        found += each.nonzero().unbind(1) if _is_mask(each) else [each]
    return found


def _is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def _selected(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return tensor.expand((tensor * mask).shape)[mask.expand((tensor * mask).shape)]


_REWRITTEN: dict[str, Callable[..., Any]] = {"equal": _is_equal, "masked_select": _selected}


def _at(line: SourceLine | None) -> str:
    return "" if line is None else f" at {line.file}:{line.line} (`{line.text}`)"
