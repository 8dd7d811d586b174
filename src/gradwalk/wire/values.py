"""Numbers and words that the wire format is made of."""

from __future__ import annotations

from typing import Any, Literal, get_args

Direction = Literal["down", "right", "up", "left"]
"""Which way gradients flow in the drawing."""

DIRECTIONS = get_args(Direction)

DirectionChoice = Literal["auto", "down", "right", "up", "left"]
"""The same, or whichever shows most of the graph at once."""

DIRECTION_CHOICES = get_args(DirectionChoice)

JsonNumber = int | float | str
"""A number as JSON can carry it: integers beyond 2**53, NaN and infinities come as strings."""

Values = Any
"""Values of a tensor: nested lists, one level per dimension, a bare value for a 0-dim tensor."""

Kind = Literal["leaf", "op", "constant", "cut", "outside"]
"""What a node stands for; only the first two are autograd nodes."""

EdgeKind = Literal["gradient", "constant", "cut"]

NodeState = Literal["waiting", "ready", "running", "done", "not reached"]
