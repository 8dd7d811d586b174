"""The steps of a forward's code, and the conditions around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ANYTHING = "?"
"""The name of a function that the text does not tell, and that may do anything."""

Test = tuple[Any, ...]
"""A condition on the module's attributes: ("true", "training"), ("==", "bias", None), ("not", ...),
("and", (...)), ("or", (...))."""


@dataclass(frozen=True)
class Branch:
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
        arms: The conditions around it, outermost first.
    """

    name: str | None
    refs: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    loops: tuple[int, ...] = ()
    arms: tuple[Branch, ...] = ()


def calls_method(step: Step) -> bool:
    """Whether a step may call a method of another module: "rows.looked_up", not "rows" alone."""
    if step.name is not None or len(step.refs) != 1 or step.given == step.refs:
        return False
    owner, _, method = step.refs[0].rpartition(".")
    return bool(owner) and method != "*"


def with_called(steps: Sequence[Step], called: Mapping[int, Sequence[Step]]) -> list[Step]:
    """Replace the calls of methods by the steps of these methods.

    Args:
        steps: The steps.
        called: Index of a step -> the steps of the method that it calls.

    Returns:
        All of them as steps of the one that calls: names below it, loops and conditions numbered
        anew.
    """
    found: list[Step] = []
    free = 1 + _highest(steps)
    for i, step in enumerate(steps):
        if i not in called:
            found.append(step)
            continue
        owner = step.refs[0].rpartition(".")[0]
        given = () if any(each.given for each in called[i]) else step.given
        for each in called[i]:
            arms = (replace(arm, number=arm.number + free) for arm in each.arms)
            found.append(
                replace(
                    each,
                    refs=tuple(f"{owner}.{ref}".rstrip(".") for ref in each.refs),
                    given=tuple(f"{owner}.{ref}".rstrip(".") for ref in each.given) or given,
                    loops=(*step.loops, *(number + free for number in each.loops)),
                    arms=(*step.arms, *arms),
                )
            )
        free += 1 + _highest(called[i])
    return found


def _highest(steps: Sequence[Step]) -> int:
    """The highest number of a loop or a condition."""
    numbers = (n for step in steps for n in (*step.loops, *(arm.number for arm in step.arms)))
    return max(numbers, default=0)
