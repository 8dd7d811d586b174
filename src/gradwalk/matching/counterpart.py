"""The calls of compiled code that correspond to the operations of the uncompiled program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counterpart:
    """The compiled code of one operation.

    Attributes:
        calls: The calls of its backward, in the order in which they run.
        main: The first call that uses the gradient; None without calls.
        again: Calls of its forward that run again.
        is_dropped: Whether the compiler removed it: its incoming gradient passes on unchanged. If
            it is False and ``calls`` is empty, no counterpart was found.
    """

    calls: tuple[int, ...] = ()
    main: int | None = None
    again: tuple[int, ...] = ()
    is_dropped: bool = False


@dataclass(frozen=True)
class Counterparts:
    """The counterparts of a graph's operations in a graph whose compiled code is open.

    Attributes:
        of: Operation of the first graph -> its counterpart, in forward order. Operations that both
            graphs have are left out.
        adding: Calls that add up the gradients of a tensor that is used several times, which the
            engine does in the first graph.
        others: Calls without an operation, including forward calls that run again.
    """

    of: dict[int, Counterpart]
    adding: list[int]
    others: list[int]
