"""Where gradient was lost: cuts, the origin of a constant, and lines that read values."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from .module_path import ModuleCall, TensorRef
from .source_line import SourceLine

ALIAS = "alias"  # `Cut.how` of an inferred detached alias: nothing recorded how it was made
INTEGERS, BOOLEANS = "integers", "booleans"
"""How an operand lost its gradient that is itself of such numbers."""

_NAMED = {
    "detach": "{}.detach()",
    "data": "{}.data",
    "copy": "a copy of {}",
    "item": "{}.item()",
    "numpy": "{}.numpy()",
    "no_grad": "{} under no_grad",
    "inference_mode": "{} under inference_mode",
    "derivative": "a derivative of {}",
    "no derivative": "{} by an operation without a derivative",
    "integer cast": "whole numbers of {}",
    "integer result": "whole numbers of {}",
    INTEGERS: "whole numbers from {}",
    BOOLEANS: "true/false from {}",
    ALIAS: "detached {}",
}
_NAMELESS = {
    "detach": "detach()",
    "data": ".data",
    "item": "item()",
    "numpy": "numpy()",
    ALIAS: "detached tensor",
}


def how_made(hows: Sequence[str], names: Sequence[str | None], *, direct: bool) -> str:
    """Describe how an operand came to need no grad.

    Example:
        >>> how_made(["detach"], ["x"], direct=True)
        'x.detach()'
        >>> how_made(["item", "detach"], ["x", None], direct=False)
        'from x.item() and 1 more'
        >>> how_made(["booleans"], ["x"], direct=False)
        'true/false from x'
    """
    how, name = hows[0], names[0]
    made = _NAMELESS[how] if name is None and how in _NAMELESS else _NAMED[how]
    made = made.format(name or "a tensor")
    more = f" and {len(hows) - 1} more" if len(hows) > 1 else ""
    is_whole = (direct and not more) or how in (INTEGERS, BOOLEANS)
    return f"{made}{more}" if is_whole else f"from {made}{more}"


MOST_LEAVES = 2048  # leaves that one cut records

_MOST_CUTS = 8  # of one tensor that are kept apart within one place
_MOST_AGAIN = 3
_MOST_PLACES = 32  # of the cuts of one tensor


Cause = tuple[str, "SourceLine | None"]  # how gradient was lost, and the user's line


class Made(NamedTuple):
    """The call that made a tensor, remembered after the tensor is gone."""

    function: str  # its bare name: "max"
    leaf: TensorRef | None  # its operand, if that is a leaf and it has no other
    dtype: str | None  # of the tensor; None if the call gave several
    # The numbers of the tensor if it has few: as ``tolist()`` gives them on the CPU, a copy on
    # another device; None for others.
    value: Any


@dataclass(frozen=True)
class Cut:
    """A call that took a tensor that needs grad and gave a result that needs none."""

    # "detach", "data", "no_grad", "inference_mode", "item", "numpy", "integer cast", "integer
    # result" (a comparison, an argmax), "no derivative" (``torch.histc``), "copy"
    # (``torch.tensor(t)``) or "derivative" (``torch.autograd.grad`` without ``create_graph``).
    how: str
    where: SourceLine | None  # the line of the call, the innermost outside torch
    # For "no_grad", the line that switched grad mode off, if that was watched.
    region: SourceLine | None
    shape: tuple[int, ...]  # the shape of the input
    source: TensorRef  # the input, while it lives
    # The `gradwalk.tracing.records.Record` of the call that made the input, while its graph lives;
    # `find_source` reads it.
    made_by: weakref.ref[Any] | None
    made: Made | None = field(compare=False)  # the call that made the input, if it was watched
    output_nr: int  # which output of its node the input is
    # The recorded leaves that the input was computed from, also through earlier cuts. They outlive
    # the graph between.
    leaves: frozenset[TensorRef] = field(compare=False)
    # The leaves that the graph of the input reaches without another cut.
    direct: frozenset[TensorRef] = field(compare=False)
    # The causes of the first few later cuts. A gradient needs these removed, too.
    again: tuple[Cause, ...] = field(default=(), compare=False)
    own: SourceLine | None = None  # the innermost line outside installed libraries, if it differs
    # The module that was running; None outside of any.
    module: ModuleCall | None = field(default=None, compare=False)
    # Whether all watched leaves are in ``leaves``. Long programs and very many leaves are recorded
    # only in part.
    complete: bool = field(default=True, compare=False)

    @property
    def cause(self) -> Cause:
        """How gradient was lost, and where: equal for cuts that one line of the user's made."""
        return self.how, self.region or self.own or self.where

    @property
    def is_integer(self) -> bool:
        """Whether values became integers."""
        return self.how.startswith("integer")

    def with_later_cause(self, cause: Cause) -> Cut:
        """Return this cut with a later cause added."""
        both_integer = cause[0].startswith("integer") and self.is_integer
        is_known = cause in (self.cause, *self.again) or len(self.again) >= _MOST_AGAIN
        return self if both_integer or is_known else replace(self, again=(*self.again, cause))

    def merged_with(self, other: Cut) -> Cut:
        """Return this cut merged with another one of the same cause."""
        again = self.again if other.again else ()
        is_known = other.leaves <= self.leaves and other.direct <= self.direct
        if is_known and again == self.again and (other.complete or not self.complete):
            return self
        leaves = self.leaves | other.leaves
        complete = self.complete and other.complete
        if len(leaves) > MOST_LEAVES:
            leaves, complete = self.leaves, False
        direct = (self.direct | other.direct) & leaves
        return replace(self, leaves=leaves, direct=direct, again=again, complete=complete)


def merge_cuts(cuts: Iterable[Cut]) -> tuple[tuple[Cut, ...], bool]:
    """Merge the cuts on the way to one tensor, and say whether none was dropped.

    The first few stay apart. Later ones of one cause are merged, with the leaves of all: a whole
    encoder under ``no_grad`` has one cut per parameter, but one line causes them.
    """
    found: dict[Cut, Cut] = {}
    of_cause: dict[tuple[str, SourceLine | None], Cut] = {}
    complete = True
    for cut in cuts:
        if cut in found:
            key = cut
        elif cut.cause not in of_cause and len(of_cause) >= _MOST_PLACES:
            complete = False
            continue
        elif cut.cause not in of_cause or len(found) < _MOST_CUTS:
            found[cut] = cut
            of_cause.setdefault(cut.cause, cut)
            continue
        else:
            key = of_cause[cut.cause]
        found[key] = found[key].merged_with(cut)
    return tuple(found.values()), complete


@dataclass(frozen=True)
class Reading:
    """A line that read the values of tensors that need grad out of torch."""

    # "item", "numpy", "function" for a leaf used inside an ``autograd.Function``, or "checkpoint"
    # for a tensor used inside a reentrant checkpoint.
    how: str
    where: SourceLine | None
    cuts: tuple[Cut, ...]  # the cuts that it made, and those on the way to it


@dataclass(frozen=True)
class Change:
    """An in-place change of a storage."""

    number: int  # the number of the next autograd node at that time
    where: SourceLine | None
    by: str


@dataclass(frozen=True)
class UnrecordedSource:
    """A tensor that needs no grad, shares its memory, and was not made under `watch`."""

    tensor: TensorRef
    where: SourceLine | None = field(compare=False)


@dataclass(frozen=True)
class Origin:
    """Where a tensor that needs no grad came from."""

    where: SourceLine | None  # the user's line that made it
    # Where gradient was lost on the way to it; empty if no gradient could have come.
    cuts: tuple[Cut, ...]
    direct: bool = False  # whether it is the result of its one cut, not computed from it
    # Whether ``cuts`` and ``unrecorded`` are complete; their number is limited.
    complete: bool = True
    # Its other sources. Each may be a detached alias of a tensor that needs grad.
    unrecorded: tuple[UnrecordedSource, ...] = ()
    is_random: bool = False  # whether random numbers went into it, such as the mask of a dropout


class Constant(NamedTuple):
    """An operand that needs no grad."""

    # Its position in the call: 0 for the first argument ("self" of a method), a keyword, or "0[2]"
    # for the third item of a list.
    position: int | str
    shape: tuple[int, ...]  # its shape; ``()`` for a Python number
    dtype: str  # as torch prints it, "torch.float32"; "float" for a Python number
    # The numbers, nested as ``tolist()`` gives them, of small tensors on the CPU at the time of the
    # call; None for others.
    values: Any
    tensor: TensorRef | None  # the tensor while it lives; None for a Python number
    origin: Origin | None  # where it came from; None if that was not watched
    argument: str | None = None  # the name of the function's parameter, if torch names it
    arg_nr: int | None = None  # its number among the node's forward inputs, if that is certain

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Where gradient was lost on the way to it."""
        return self.origin.cuts if self.origin else ()


def alias_of(tensor: torch.Tensor, where: SourceLine | None = None) -> Cut:
    """Return the cut between a tensor that needs grad and an inferred detached alias of it."""
    leaves = frozenset([TensorRef(tensor)] if tensor.is_leaf else [])
    return Cut(
        how=ALIAS,
        where=where,
        region=None,
        shape=tuple(tensor.shape),
        source=TensorRef(tensor),
        made_by=None,
        made=None,
        output_nr=0,
        leaves=leaves,
        direct=leaves,
        complete=tensor.is_leaf,
    )
