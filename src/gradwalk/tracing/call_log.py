"""The calls of a watched block, to run them again with other numbers.

A log keeps no tensor of the program alive: results are numbered, and what comes from outside of the
block is copied if it is small.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..torch_api.dtensors import PLAIN
from ..torch_api.reading import version_of, why_unreadable
from .module_path import TensorRef
from .source_line import SourceLine

MOST_CALLS = 600
"""A longer block begins another log: a page would compute too long."""
_MOST_COPIED = 4_096  # numbers of a tensor from outside
_MOST_DEEP = 4

_DIFFERENTIATES_ALL = frozenset({"backward"})
READS = frozenset(
    {"__bool__", "__float__", "__int__", "__index__", "allclose", "equal", "is_nonzero", "item"}
    | {"tolist", "numpy", "__array__"}
)
"""Functions that give the values of a tensor to Python."""
_PLAIN_KINDS = frozenset(
    {type(None), bool, int, float, complex, str, type(Ellipsis), torch.Size, torch.dtype}
    | {torch.device, torch.layout, torch.memory_format}
)


class Ref(NamedTuple):
    """Stands for a tensor in a logged call."""

    number: int


class Unknown(NamedTuple):
    """Stands for an argument that may hold tensors."""

    kind: str


class LoggedCall(NamedTuple):
    """A call, with a `Ref` in place of each tensor."""

    function: Any
    arguments: Any
    keywords: Any
    outputs: tuple[Ref, ...]
    changed: tuple[Ref, ...]
    reads: bool  # whether it gave values to Python
    grad_mode: bool
    line: SourceLine | None
    random: torch.Tensor | None  # the state of the random numbers before it, if it draws any


class Outside(NamedTuple):
    """A tensor from outside of the block."""

    tensor: TensorRef
    version: int
    copy: torch.Tensor | None  # its numbers at the first use, if they are few
    is_leaf: bool
    requires_grad: bool
    earlier: tuple[CallLog, int] | None  # the log that has it as a result, and its number there


class CallLog:
    """The calls of one block."""

    def __init__(self, reference: Callable[[torch.Tensor], TensorRef]) -> None:
        self.calls: list[LoggedCall] = []
        self.outside: dict[int, Outside] = {}
        self.lines: dict[int, SourceLine | None] = {}  # of calls that have a record, by place
        self.is_full = False
        self._reference = reference
        self._numbers = itertools.count()
        # id of a tensor -> its number, and a reference that says whether it is still that tensor.
        self._known: dict[int, tuple[int, Callable[[], Any]]] = {}

    def number_of(self, tensor: torch.Tensor) -> int | None:
        """Return the number of a tensor; None for a tensor that no call took or gave."""
        found = self._known.get(id(tensor))
        return found[0] if found is not None and found[1]() is tensor else None

    def note(  # noqa: PLR0917  by position, because it runs for every operation
        self,
        function: Any,
        name: str,
        arguments: tuple[Any, ...],
        keywords: Any,
        result: Any,
        changed: Sequence[Any],
        line: Callable[[], SourceLine | None],
        random: torch.Tensor | None,
        earlier: Callable[[torch.Tensor], CallLog | None],
    ) -> None:
        """Add a call that has returned."""
        if name in _DIFFERENTIATES_ALL:
            return
        given: list[torch.Tensor] = []
        written = self._written_all(arguments, given, earlier)
        words = keywords and {
            key: self._written(each, given, earlier, 0) for key, each in keywords.items()
        }
        if not given:
            return  # what it gave comes from outside
        for tensor in changed:
            if self._is_leaf(tensor):
                self._known.pop(id(tensor), None)  # the next call takes its new numbers
                return
        outputs: list[Ref] = []
        if type(result) is torch.Tensor and id(result) not in self._known:  # most results
            number = next(self._numbers)
            self._known[id(result)] = number, weakref.ref(result)
            outputs.append(Ref(number))
        else:
            self._name(result, outputs, 0)
        reads = name in READS
        if not outputs and not reads and not changed:
            return
        if len(self.calls) >= MOST_CALLS:
            self.calls, self.outside, self.is_full = [], {}, True
            return
        refs = tuple(Ref(self._known[id(each)][0]) for each in changed if id(each) in self._known)
        grad_mode = torch.is_grad_enabled()
        self.calls.append(
            LoggedCall(
                function,
                written,
                words,
                tuple(outputs),
                refs,
                reads,
                grad_mode,
                line() if reads else None,
                random,
            )
        )

    def _written_all(
        self,
        arguments: tuple[Any, ...],
        given: list[torch.Tensor],
        earlier: Callable[[torch.Tensor], CallLog | None],
    ) -> tuple[Any, ...]:
        # In one loop, because it runs for every operation.
        written: list[Any] = []
        for value in arguments:
            if type(value) in _PLAIN_KINDS:
                written.append(value)
                continue
            found = self._known.get(id(value))
            if found is not None and found[1]() is value:
                given.append(value)
                written.append(Ref(found[0]))
            else:
                written.append(self._written(value, given, earlier, 0))
        return tuple(written)

    def _is_leaf(self, tensor: Any) -> bool:
        found = self._known.get(id(tensor))
        outside = None if found is None else self.outside.get(found[0])
        return outside is not None and outside.is_leaf and outside.requires_grad

    def _written(
        self,
        value: Any,
        given: list[torch.Tensor],
        earlier: Callable[[torch.Tensor], CallLog | None],
        depth: int,
    ) -> Any:
        kind = type(value)
        if kind is tuple or kind is list:
            if depth > _MOST_DEEP or len(value) > MOST_CALLS:
                return value
            return kind([self._written(each, given, earlier, depth + 1) for each in value])
        if not isinstance(value, torch.Tensor):
            if kind is slice:
                parts = (value.start, value.stop, value.step)
                return slice(*(self._written(part, given, earlier, depth + 1) for part in parts))
            return value if kind in _PLAIN_KINDS or callable(value) else Unknown(kind.__name__)
        given.append(value)
        found = self._known.get(id(value))
        if found is not None and found[1]() is value:
            return Ref(found[0])
        reference = self._reference(value)
        number = next(self._numbers)
        self._known[id(value)] = number, reference
        small = type(value) in PLAIN and value.numel() <= _MOST_COPIED and value.is_cpu
        log = None if value.is_leaf else earlier(value)
        there = None if log is None or log is self else log.number_of(value)
        self.outside[number] = Outside(
            reference,
            version_of(value),
            value.detach().clone()
            if small and there is None and not why_unreadable(value)
            else None,
            value.is_leaf,
            value.requires_grad,
            None if log is None or there is None else (log, there),
        )
        return Ref(number)

    def _name(self, result: Any, outputs: list[Ref], depth: int) -> None:
        if isinstance(result, torch.Tensor):
            found = self._known.get(id(result))
            if found is None or found[1]() is not result:
                found = next(self._numbers), weakref.ref(result)
                self._known[id(result)] = found
            outputs.append(Ref(found[0]))
        elif isinstance(result, (tuple, list)) and depth <= _MOST_DEEP:
            for each in result:
                self._name(each, outputs, depth + 1)


def tensors_in_order(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a result in the order in which they are numbered."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for each in result:
            yield from tensors_in_order(each)
