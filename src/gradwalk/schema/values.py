"""Numbers and words that the wire format is made of."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args


@dataclass(frozen=True)
class Whole:
    """Says of an ``int`` that it is not negative.

    Attributes:
        place_in: The list of the graph that it is a place in, "nodes"; None for no place.
    """

    place_in: str | None = None


@dataclass(frozen=True)
class Written:
    """Says of a text that it is a number, if it is there instead of one.

    Attributes:
        number: What Python reads it with.
    """

    number: type


@dataclass(frozen=True)
class Nested:
    """Says of a value that it is of one of some types, or lists of them, lists in lists included.

    Attributes:
        kinds: The types.
    """

    kinds: frozenset[type]


@dataclass(frozen=True)
class SomeOf:
    """Says of a dict that it has some of the fields of a TypedDict.

    Attributes:
        whole: The TypedDict.
    """

    whole: type


Direction = Literal["down", "right", "up", "left"]
"""Which way gradients flow in the drawing."""

DIRECTIONS = get_args(Direction)

DirectionChoice = Literal["auto", "down", "right", "up", "left"]
"""The same, or whichever shows most of the graph at once."""

DIRECTION_CHOICES = get_args(DirectionChoice)

Count = Annotated[int, Whole()]
"""A whole number from 0."""

NodeId = Annotated[int, Whole("nodes")]
"""A node: its place in ``nodes``."""

AutogradNodeId = Annotated[int, Whole("autograd nodes")]
"""One of the autograd nodes, which come first."""

EdgePlace = Annotated[int, Whole("edges")]
"""An edge: its place in ``edges``."""

GradientEdgePlace = Annotated[int, Whole("edges with gradients")]
"""One of the edges along which gradients can flow, which come first."""

CheckpointPlace = Annotated[int, Whole("checkpoints")]
"""A checkpointed region: its place in ``checkpoints``."""

JsonNumber = Annotated[int | float | str, Written(complex)]
"""A number as JSON can carry it: integers beyond 2**53, NaN and infinities come as strings."""

RealNumber = Annotated[int | float | str, Written(float)]
"""The same, never a complex one."""

Values = Annotated[Any, Nested(frozenset({bool, int, float, str}))]
"""Values of a tensor: nested lists, one level per dimension, a bare value for a 0-dim tensor."""

Plain = Annotated[Any, Nested(frozenset({bool, int, float, str, NoneType}))]
"""A number, flag, text, nothing, or lists of them."""

Kind = Literal["leaf", "op", "call", "constant", "cut", "outside"]
"""What a node stands for; only the first two are autograd nodes."""

EdgeKind = Literal["gradient", "constant", "cut"]

NodeState = Literal["waiting", "ready", "running", "done", "not reached"]
