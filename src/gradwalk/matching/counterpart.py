"""The calls of compiled code that stand for the operations of the same program, not compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counterpart:
    """What stands for an operation in compiled code.

    Attributes:
        calls: The calls of its backward, in the order in which they run.
        main: The first of them that works on the gradient; None for no calls.
        again: Calls of its forward that run again.
        is_dropped: Whether nothing is left of it: the gradient goes straight on from what took its
            output to what gave its input. Where there are no calls and it is False, no counterpart
            was found.
    """

    calls: tuple[int, ...] = ()
    main: int | None = None
    again: tuple[int, ...] = ()
    is_dropped: bool = False


@dataclass(frozen=True)
class Counterparts:
    """What became of the operations of a graph in one with compiled code that is open.

    Attributes:
        of: Operation of the one -> what stands for it in the other, in the order of the forward
            pass. Without those that both graphs have.
        adding: Calls that add up the gradients of a tensor that is used several times, which in the
            other graph the engine does between nodes.
        others: Calls that were found to stand for nothing; those of the forward pass that run again
            are among them.
    """

    of: dict[int, Counterpart]
    adding: list[int]
    others: list[int]
