"""What the code of a module's forward is read as: its steps, and the conditions around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ANYTHING = "?"
"""The name of a function that the text does not tell, and that may do anything."""

Test = tuple[Any, ...]
"""A condition on the module's attributes: ("true", "training"), ("==", "bias", None), ("not", ...),
("and", (...)), ("or", (...))."""


@dataclass(frozen=True)
class Arm:
    """One side of a condition.

    Attributes:
        number: Which condition.
        side: Whether it is the side on which the condition holds.
        leaves: Whether the function or the loop ends there.
        test: The condition, where it depends on the module's attributes alone.
    """

    number: int
    side: bool
    leaves: bool
    test: Test | None


@dataclass(frozen=True)
class Step:
    """One thing that a forward does.

    Attributes:
        name: The function: "relu", "+", "getitem"; ANYTHING; None for something below the module
            itself, ``refs``, that is called or handed on.
        refs: Dotted names below the module; "*" stands for any name, "" for the module.
        given: Dotted names below the module of what goes in: "weight", "qkv.weight".
        loops: The numbers of the loops around it, outermost first.
        arms: The conditions that it stands under, outermost first.
    """

    name: str | None
    refs: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    loops: tuple[int, ...] = ()
    arms: tuple[Arm, ...] = ()
