"""Types of fields, with what `gradwalk.schema.validate` checks about them."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args


@dataclass(frozen=True)
class Whole:
    """Marks an ``int`` that is not negative."""

    # The list of the graph that it is an index of, such as "nodes"; None for a count.
    place_in: str | None = None


@dataclass(frozen=True)
class Written:
    """Marks a text that is a number, such as "nan"."""

    number: type  # the type that parses it


@dataclass(frozen=True)
class Nested:
    """Marks a value of some types, or nested lists of them."""

    kinds: frozenset[type]  # the types


@dataclass(frozen=True)
class SomeOf:
    """Marks a dict with some of the fields of a TypedDict."""

    whole: type  # the TypedDict


Direction = Literal["down", "right", "up", "left"]
"""The direction of gradients in the drawing."""

DIRECTIONS = get_args(Direction)

DirectionChoice = Literal["auto", "down", "right", "up", "left"]
"""A direction, or "auto": the one that shows most of the graph at once."""

DIRECTION_CHOICES = get_args(DirectionChoice)

Count = Annotated[int, Whole()]
"""An integer from 0."""

NodeId = Annotated[int, Whole("nodes")]
"""A node: its index in ``nodes``."""

AutogradNodeId = Annotated[int, Whole("autograd nodes")]
"""An autograd node; these come first in ``nodes``."""

EdgePlace = Annotated[int, Whole("edges")]
"""An edge: its index in ``edges``."""

GradientEdgePlace = Annotated[int, Whole("edges with gradients")]
"""An edge that can carry gradients; these come first in ``edges``."""

CheckpointPlace = Annotated[int, Whole("checkpoints")]
"""A checkpointed region: its index in ``checkpoints``."""

JsonNumber = Annotated[int | float | str, Written(complex)]
"""A number in JSON: integers beyond 2**53, NaN and infinities are strings."""

RealNumber = Annotated[int | float | str, Written(float)]
"""A `JsonNumber` that is not complex."""

Values = Annotated[Any, Nested(frozenset({bool, int, float, str}))]
"""The values of a tensor: nested lists, one level per dimension; a bare value for a 0-dim one."""

Plain = Annotated[Any, Nested(frozenset({bool, int, float, str, NoneType}))]
"""A number, flag, text, None, or nested lists of them."""

Kind = Literal["leaf", "op", "call", "constant", "cut", "outside"]
"""The kind of a node; only leaves and operations are autograd nodes."""

EdgeKind = Literal["gradient", "constant", "cut"]

NodeState = Literal["waiting", "ready", "running", "done", "not reached"]
