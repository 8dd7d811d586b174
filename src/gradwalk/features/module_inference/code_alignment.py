"""Align operations with the lines of code that made them; both are in program order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...graph.module_paths import common_ancestor
from .code_steps import ANYTHING, cost, makes_many

_STRANGE = 3.0  # that a function made a node of a class that it does not make
_SKIPPED = 0.1  # that a function which could have made a node did not run
AGAIN = 0.4
"""That a function made one more."""

_BACK = 0.15  # that a loop began again
_ENOUGH = 1e-6

Places = tuple[int, ...]


class Call(NamedTuple):
    """A call of a function in the code.

    Attributes:
        name: The name of the function.
        owner: The path of the module whose forward has the call.
        loop: The identity of the loop around it; None for none.
        cost: An additional cost of assigning a node to the call.
        ran: Whether it made a certain node, so that it need not make another.
    """

    name: str
    owner: str
    loop: tuple[str, int] | None = None
    cost: float = 0.0
    ran: bool = False


class Aligner:
    """Aligns operations with code; what repeats is aligned once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[Call, ...]], list[Places]] = {}

    def owners(self, ops: Sequence[str], deeds: Sequence[Call]) -> list[str]:
        """Return the innermost module around all those that may have run each operation."""
        kinds = set(ops)
        able = [d for d in deeds if any(cost(d.name, op) is not None for op in kinds)]
        if not able:
            around = common_ancestor(deed.owner for deed in deeds) if deeds else ""
            return [around] * len(ops)
        # Repeated modules differ by their paths only.
        paths: dict[str, int] = {}
        loops: dict[tuple[str, int], int] = {}
        alike = tuple(
            Call(
                deed.name,
                str(paths.setdefault(deed.owner, len(paths))),
                None if deed.loop is None else ("", loops.setdefault(deed.loop, len(loops))),
                deed.cost,
                deed.ran,
            )
            for deed in able
        )
        key = tuple(ops), alike
        if key not in self._known:
            self._known[key] = _align(*key)
        names = list(paths)
        return [common_ancestor(names[i] for i in places) for places in self._known[key]]


def _align(ops: tuple[str, ...], deeds: tuple[Call, ...]) -> list[Places]:
    """The owners that are as likely as any, of each operation.

    The least sum of doubts over all ways to go through the code, forwards and backwards; linear in
    the number of operations times that of deeds.
    """
    own = [[_STRANGE if (d := _doubt(deed, op)) is None else d for deed in deeds] for op in ops]
    skipped = [0.0]
    for deed in deeds:
        free = deed.ran or deed.name.startswith(ANYTHING)
        skipped.append(skipped[-1] + (0.0 if free else _SKIPPED))
    again = [0.0 if makes_many(deed.name) else AGAIN for deed in deeds]
    loops: dict[object, list[int]] = defaultdict(list)
    for i, deed in enumerate(deeds):
        if deed.loop is not None:
            loops[deed.loop].append(i)
    places = range(len(deeds))
    before = [[skipped[i] + own[0][i] for i in places]]
    for doubts in own[1:]:
        so_far = _step(before[-1], places, skipped, again, loops.values())
        before.append([so_far[i] + doubts[i] for i in places])
    after = [[skipped[-1] - skipped[i + 1] for i in places]]
    for doubts in reversed(own[1:]):
        rest = [after[-1][i] + doubts[i] for i in places]
        turned = _step(
            rest[::-1],
            places,
            [skipped[-1] - each for each in reversed(skipped)],
            again[::-1],
            [[len(deeds) - 1 - i for i in each] for each in loops.values()],
        )
        after.append(turned[::-1])
    least = min(a + b for a, b in zip(before[-1], after[0], strict=True)) + _ENOUGH
    return [
        tuple(sorted({int(deeds[i].owner) for i in places if there[i] + then[i] <= least}))
        for there, then in zip(before, reversed(after), strict=True)
    ]


def _doubt(deed: Call, op: str) -> float | None:
    found = cost(deed.name, op)
    return None if found is None else found + deed.cost


def _step(
    costs: list[float],
    places: range,
    skipped: list[float],
    again: list[float],
    loops: Collection[list[int]],
) -> list[float]:
    """The least doubt of standing at each place one operation later."""
    found = []
    best = float("inf")
    for i in places:
        found.append(min(best + skipped[i], costs[i] + again[i]))
        best = min(best, costs[i] - skipped[i + 1])
    for members in loops:
        around = min(costs[i] for i in members) + _BACK
        for i in members:
            found[i] = min(found[i], around)
    return found
