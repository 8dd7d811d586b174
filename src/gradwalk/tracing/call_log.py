"""The calls of a watched block, to run them again with other numbers.

Noting runs for every call, so it keeps what is at hand and computes nothing. A log keeps no tensor
of the program alive: weak references and snapshots are in the place of tensors, and a small tensor
from outside of the block is copied.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..torch_api.dtensors import PLAIN
from ..torch_api.reading import version_of, why_unreadable
from . import weak_id_dict
from .module_path import TensorRef
from .source_line import SourceLine

MOST_CALLS = 600
"""Of more calls since the last backward pass nothing is kept: a page would compute too long."""
_MOST_COPIED = 4_096  # numbers of a tensor from outside
_MOST_DEEP = 4

READS = frozenset(
    {"__bool__", "__float__", "__int__", "__index__", "allclose", "equal", "is_nonzero", "item"}
    | {"tolist", "numpy", "__array__"}
)
"""Functions that give the values of a tensor to Python."""
PLAIN_KINDS = frozenset(
    {type(None), bool, int, float, complex, str, type(Ellipsis), torch.Size, torch.dtype}
    | {torch.device, torch.layout, torch.memory_format}
)
"""Types of arguments that a log keeps as they are."""

Token = weakref.ref[Any]
"""Stands for a tensor that a logged call gave; a change in place gives the tensor another one."""


class Outside:
    """A tensor from outside of the block."""

    __slots__ = ("copy", "tensor", "token", "version")

    def __init__(
        self, tensor: TensorRef, version: int, copy: torch.Tensor | None, token: Token | None
    ) -> None:
        self.tensor, self.version = tensor, version
        self.copy = copy  # its numbers at the first use, if they are few
        self.token = token  # stands for it in an earlier log, if a call of that gave it


class Unknown(NamedTuple):
    """Stands for an argument that may hold tensors."""

    kind: str


class LoggedCall(NamedTuple):
    """A call, with a `Token`, a `LeafSnapshot` or an `Outside` in the place of each tensor."""

    function: Any
    given: Sequence[Any]  # the arguments, and after them the keywords' values
    names: tuple[str, ...]  # the keywords
    # Its results, else the operand that it changed; the last one is the base of that if
    # ``has_base``.
    outputs: tuple[Token, ...]
    has_base: bool
    reads: bool  # whether it gave values to Python
    grad_mode: bool
    line: SourceLine | None
    random: torch.Tensor | None  # the state of the random numbers before it, if it draws any


class CallLog:
    """The calls of one block since the last backward pass in it."""

    __slots__ = ("__weakref__", "_earlier", "_made", "_outside", "calls", "is_full", "number")

    _numbers = itertools.count()

    def __init__(self) -> None:
        self.calls: list[Any] = []  # the fields of `LoggedCall`, as tuples: they take half the time
        self.is_full = False
        self.number = next(self._numbers)  # later logs have a higher one
        self._made: dict[int, Token] = {}  # by the id of the tensor
        self._outside: dict[int, Outside] = {}  # by the id of the tensor
        self._earlier: dict[int, weakref.ref[CallLog]] = {}

    @property
    def earlier(self) -> Iterator[CallLog]:
        """The living logs with calls that gave operands of this one's."""
        return (log for each in self._earlier.values() if (log := each()) is not None)

    def follow(self, other: CallLog) -> None:
        """Note that a call took a tensor that a call of another log gave."""
        self._earlier.setdefault(other.number, weakref.ref(other))

    def note(self, call: Sequence[Any], made: int, token: Token) -> None:
        """Add a call that gave one tensor, with the ``id`` ``made``, whose token is given."""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
            self._made[made] = token
        else:
            self._stop()

    def note_outputs(self, call: LoggedCall, outputs: Iterable[torch.Tensor]) -> None:
        """Add a call that gave some tensors, or read values."""
        if len(self.calls) >= MOST_CALLS:
            self._stop()
            return
        tokens = []
        for each in outputs:
            found = weak_id_dict.entries.get(id(each))
            token = self._made[id(each)] = weakref.ref(each) if found is None else found[0]
            tokens.append(token)
        if tokens or call.reads:
            self.calls.append(call._replace(outputs=tuple(tokens)))

    def _stop(self) -> None:
        self.calls, self._made, self._outside, self._earlier = [], {}, {}, {}
        self.is_full = True

    def token_of(self, tensor: torch.Tensor) -> Token | None:
        """Return the token of a tensor that one of these calls gave; None for others."""
        token = self._made.get(id(tensor))
        if token is None or token() is not tensor:
            return None
        found = weak_id_dict.entries.get(id(tensor))
        return token if found is None or found[0] is token else None

    def outside(
        self,
        tensor: torch.Tensor,
        reference: Callable[[torch.Tensor], TensorRef],
        token: Token | None = None,
    ) -> Outside:
        """Return what stands for a tensor that no call of this log gave."""
        known = self._outside.get(id(tensor))
        if known is not None and known.tensor() is tensor:
            return known
        small = type(tensor) in PLAIN and tensor.is_cpu and tensor.numel() <= _MOST_COPIED
        copy = tensor.detach().clone() if small and not why_unreadable(tensor) else None
        found = Outside(reference(tensor), version_of(tensor), copy, token)
        self._outside[id(tensor)] = found
        return found

    def forget(self, tensor: torch.Tensor) -> None:
        """Refuse to give the numbers of a tensor that changes after its first use."""
        known = self._outside.get(id(tensor))
        if known is not None and known.version != version_of(tensor):
            known.copy, known.version = None, -1


def written(value: Any, instead: Callable[[torch.Tensor], Any], depth: int = 0) -> Any:
    """Return an argument with what stands for each tensor in it."""
    kind = type(value)
    if kind in PLAIN_KINDS:
        return value
    if isinstance(value, torch.Tensor):
        return instead(value)
    if kind is tuple or kind is list:
        if depth > _MOST_DEEP or len(value) > MOST_CALLS:
            return Unknown(kind.__name__)
        return kind([written(each, instead, depth + 1) for each in value])
    if kind is slice:
        parts = (value.start, value.stop, value.step)
        return slice(*(written(part, instead, depth + 1) for part in parts))
    return value if callable(value) else Unknown(kind.__name__)


def tensors_in_order(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a result in the order in which they are noted."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for each in result:
            yield from tensors_in_order(each)


def keywords_of(call: LoggedCall) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments and the keywords of a call."""
    first = len(call.given) - len(call.names)
    return call.given[:first], dict(zip(call.names, call.given[first:], strict=True))
