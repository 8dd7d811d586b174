"""Where gradient was lost: cuts, what stands behind a constant, and lines that read values."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from .module_path import ModuleCall, TensorRef
from .source_line import SourceLine

ALIAS = "alias"
"""What `Cut.how` says of a detached alias that was inferred: nobody saw how it was made."""

_NAMED = {
    "detach": "{}.detach()",
    "data": "{}.data",
    "copy": "a copy of {}",
    "item": "{}.item()",
    "numpy": "{}.numpy()",
    "no_grad": "{} under no_grad",
    "inference_mode": "{} under inference_mode",
    "derivative": "a derivative of {}",
    "integer cast": "{} by way of integers",
    "integer result": "{} by way of integers",
    ALIAS: "a detached alias of {}",
}
_NAMELESS = {"detach": "detach()", "data": ".data", "item": "item()", "numpy": "numpy()"}


def how_made(hows: Sequence[str], names: Sequence[str | None], *, direct: bool) -> str:
    """How an operand came to need no grad.

    Args:
        hows: `Cut.how` of each of its cuts.
        names: What the user calls the tensor that each began at.
        direct: Whether the operand is what its one cut left, not computed from that.

    Returns:
        A few words: "x.detach()", "from x under no_grad".

    Example::

        >>> how_made(["detach"], ["x"], direct=True)
        'x.detach()'
        >>> how_made(["item", "detach"], ["x", None], direct=False)
        'from x.item() and 1 more'
    """
    how, name = hows[0], names[0]
    made = _NAMELESS[how] if name is None and how in _NAMELESS else _NAMED[how]
    made = made.format(name or "a tensor")
    more = f" and {len(hows) - 1} more" if len(hows) > 1 else ""
    return made if direct and not more else f"from {made}{more}"


MOST_LEAVES = 2048
"""Leaves that are known behind one cut."""

_MOST_CUTS = 8  # of one tensor, told apart though they were made at one place
_MOST_AGAIN = 3
_MOST_PLACES = 32  # of the cuts of one tensor


Cause = tuple[str, "SourceLine | None"]
"""How gradient was lost, and the user's line."""


@dataclass(frozen=True)
class Cut:
    """A place where a tensor that needs grad went in and what came out carries none.

    Attributes:
        how: "detach", "data", "no_grad", "inference_mode", "item", "numpy", "integer cast",
            "integer result" (a comparison, an argmax), "copy" (``torch.tensor(t)``) or
            "derivative" (of ``torch.autograd.grad`` without ``create_graph``).
        where: The line that did it, the innermost outside of torch.
        region: For "no_grad", the line that switched grad mode off, when that was watched.
        own: The innermost line outside of installed libraries, where that is another one.
        module: The module that was running; None outside of any.
        shape: The shape of the tensor that went in.
        source: The tensor that went in, while it lives.
        made_by: The `gradwalk.tracing.records.Record` of the call that made it, while its graph
            lives; `find_source` reads it.
        output_nr: Which output of its node the tensor is.
        leaves: The leaves it was computed from, itself if it is one, also by way of earlier cuts,
            as far as that was watched. They outlive the graph between.
        direct: Those of them that the graph of the source reaches without another cut.
        again: The causes of later cuts that the values passed before they came into the graph, the
            first few: a gradient needs these removed, too.
        complete: Whether these are all that were watched: of long programs and of very many leaves
            only the nearest are known.
    """

    how: str
    where: SourceLine | None
    region: SourceLine | None
    shape: tuple[int, ...]
    source: TensorRef
    made_by: weakref.ref[Any] | None
    output_nr: int
    leaves: frozenset[TensorRef] = field(compare=False)
    direct: frozenset[TensorRef] = field(compare=False)
    again: tuple[Cause, ...] = field(default=(), compare=False)
    own: SourceLine | None = None
    module: ModuleCall | None = field(default=None, compare=False)
    complete: bool = field(default=True, compare=False)

    @property
    def cause(self) -> Cause:
        """What several cuts have in common that one line of the user's made."""
        return self.how, self.region or self.own or self.where

    def cut_by(self, cause: Cause) -> Cut:
        """The same cut, whose values went through a later one."""
        both_integer = cause[0].startswith("integer") and self.how.startswith("integer")
        is_known = cause in (self.cause, *self.again) or len(self.again) >= _MOST_AGAIN
        return self if both_integer or is_known else replace(self, again=(*self.again, cause))

    def with_leaves_of(self, other: Cut) -> Cut:
        """The same cut, which also stands for another one of its cause."""
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


def combined(cuts: Iterable[Cut]) -> tuple[tuple[Cut, ...], bool]:
    """The cuts on the way to one tensor, few however many there were, and whether they are all.

    The first are told apart. Of further ones those of one cause are one, with the leaves of all:
    a whole encoder under ``no_grad`` has one cut per parameter, and one line is to blame.
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
        found[key] = found[key].with_leaves_of(cut)
    return tuple(found.values()), complete


@dataclass(frozen=True)
class Reading:
    """A line that read values of tensors that need grad out of torch.

    Attributes:
        how: "item", "numpy", "function" for a leaf used inside an ``autograd.Function``, or
            "checkpoint" for a tensor used inside a reentrant checkpoint.
        where: The user's line.
        cuts: Where gradient was lost by it, or on the way to it.
    """

    how: str
    where: SourceLine | None
    cuts: tuple[Cut, ...]


@dataclass(frozen=True)
class Change:
    """A memory that was changed in place.

    Attributes:
        number: The number of the next autograd node at that time.
        where: The user's line.
        by: The function.
    """

    number: int
    where: SourceLine | None
    by: str


@dataclass(frozen=True)
class Unseen:
    """A tensor that needs no grad, was not seen made, and shares its memory with another one.

    Attributes:
        tensor: The tensor, while it lives.
        where: The user's line that took it.
    """

    tensor: TensorRef
    where: SourceLine | None = field(compare=False)


@dataclass(frozen=True)
class Origin:
    """Where a tensor that needs no grad came from.

    Attributes:
        where: The user's line that made it.
        cuts: Where gradient was lost on the way to it; empty when none ever could have come.
        direct: Whether it is itself what its cut left, not computed from that.
        complete: Whether no cut, and nothing unseen, was left out because there are too many.
        unseen: What it was computed from that was not seen made, and may be a tensor that needs
            grad without its graph, as ``detach()`` of it is.
        is_random: Whether random numbers went into it, as into the mask of a dropout.
    """

    where: SourceLine | None
    cuts: tuple[Cut, ...]
    direct: bool = False
    complete: bool = True
    unseen: tuple[Unseen, ...] = ()
    is_random: bool = False


class Constant(NamedTuple):
    """An operand that needs no grad.

    Attributes:
        position: Where it stood in the call: 0 for the first argument ("self" of a method),
            a keyword, or "0[2]" for the third item of a list.
        shape: Its shape; ``()`` for a Python number.
        dtype: As torch prints it, "torch.float32"; "float" for a Python number.
        values: The numbers themselves, nested as ``tolist()`` gives them, of small tensors on the
            CPU at the time of the call; None for others.
        tensor: The tensor while it lives; None for a Python number.
        origin: Where it came from; None when that was not watched.
        argument: The name of the function's parameter, where torch names it.
        input_nr: Which of the node's forward inputs it is, where that is certain.
    """

    position: int | str
    shape: tuple[int, ...]
    dtype: str
    values: Any
    tensor: TensorRef | None
    origin: Origin | None
    argument: str | None = None
    input_nr: int | None = None

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Where gradient was lost on the way to it."""
        return self.origin.cuts if self.origin else ()


def alias_of(leaf: torch.Tensor, where: SourceLine | None = None) -> Cut:
    """The cut between a leaf and a detached alias of it, which nobody saw made.

    Args:
        leaf: The leaf.
        where: The line that took the alias, if that is known.
    """
    return Cut(
        how=ALIAS,
        where=where,
        region=None,
        shape=tuple(leaf.shape),
        source=TensorRef(leaf),
        made_by=None,
        output_nr=0,
        leaves=frozenset({TensorRef(leaf)}),
        direct=frozenset({TensorRef(leaf)}),
    )
