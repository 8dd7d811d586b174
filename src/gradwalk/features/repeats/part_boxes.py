"""Boxes for the parts of a large graph without modules, cut where few results pass."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

from ...graph.labels import is_pass_through
from ...graph.names import common_ancestor
from ...torch_api.nodes import compiled_nodes
from ...tracing.annotate import Annotated
from .step_boxes import passing, uses_in

SHARED = "shared leaves"
SMALL = 60  # the most nodes of a graph that is clear as it is
MOST_LOOSE = 8  # the most operations beside boxes that are clear without parts
MOST_INSIDE = 24  # the most operations of a box that are clear without parts
MOST_PARTS = 24  # the most boxes side by side
LEAST_SIZE = 6  # the fewest operations of a part, on average
MOST_SHARED = 4  # the most leaves of several parts that stay outside
MOST_AFTER = 12  # the most operations of a loss that stay outside
LARGEST = 0.7  # the largest share of a whole that one part has
_STEP = re.compile(r"(loop \d+ )?step \d+")


def boxes_of_parts(captured: Annotated, spaces: Mapping[int, str]) -> dict[int, str]:
    """Find boxes for the parts of a graph of which no module is known.

    A part is a range of the order in which the operations ran, so that boxes form no cycle. It ends
    where few results pass to later operations. The steps of a loop have parts of their own.

    Returns node id -> "part 3/part 3.1" or "step 2/part 1". Losses, which use no leaf, stay
    outside. Empty for small graphs. ``spaces``: node id -> its module or box, where it has one.
    """
    order, drawn = captured.operations, captured.drawn.nodes
    if len(drawn) <= SMALL:
        return {}
    paths = [spaces.get(node) or drawn[node].get("namespace") or "" for node in order]
    if any(path and not _STEP.fullmatch(path) for path in paths):
        return {}
    uses = uses_in(captured, order)
    if any(used >= place for place, own in enumerate(uses) for used in own):
        return {}  # threads number their operations separately
    following = captured.successors
    takes_leaf = [any(drawn[each]["kind"] == "leaf" for each in following[node]) for node in order]
    after = _after_leaves(uses, takes_leaf)
    is_work = [
        place not in after and not is_pass_through(drawn[node]["op"])
        for place, node in enumerate(order)
    ]
    cutter = Cutter(_costs(uses, takes_leaf), list(accumulate(is_work, initial=0)))
    ranges: dict[str, list[range]] = defaultdict(list)
    apart = set(compiled_nodes(captured.nodes))
    kinds = [(path, node in apart) for path, node in zip(paths, order, strict=True)]
    for (path, is_apart), group in groupby(range(len(order)), kinds.__getitem__):
        places = list(group)
        if not is_apart:  # it may be opened, beside the boxes
            ranges[path].append(range(places[0], places[-1] + 1))
    boxes = {
        order[place]: f"{path}/{part}".lstrip("/")
        for path, pieces in ranges.items()
        for part, places in cutter.parts(pieces, MOST_INSIDE if path else MOST_LOOSE)
        for place in places
        if place not in after
    }
    return {**boxes, **_leaf_boxes(captured, {**spaces, **boxes})}


def _leaf_boxes(captured: Annotated, spaces: Mapping[int, str]) -> dict[int, str]:
    """The leaves that one part uses, with its box, and those of several parts, in a box together.

    A leaf outside of a loop, such as its initial state, does not move into a step.
    """
    boxes: dict[int, str] = {}
    shared: list[int] = []
    for leaf, _ in captured.leaves():
        users = [spaces.get(user, "") for user in captured.predecessors[leaf]]
        around = common_ancestor(users, "/")
        if around.startswith("part ") or (around and around.startswith(spaces.get(leaf, "\0"))):
            boxes[leaf] = around
        elif not around and sum(user.startswith("part ") for user in users) > 1:
            shared.append(leaf)
    if len(shared) > MOST_SHARED:
        boxes |= dict.fromkeys(shared, SHARED)
    return boxes


def _after_leaves(uses: Sequence[Sequence[int]], takes_leaf: Sequence[bool]) -> set[int]:
    """The places of operations after which no leaf is used; none if they are many."""
    before: set[int] = set()
    after: set[int] = set()
    for place in reversed(range(len(uses))):
        if takes_leaf[place] or place in before:
            before.update(uses[place])
            before.add(place)
        else:
            after.add(place)
    return after if len(after) <= MOST_AFTER else set()


def _costs(uses: Sequence[Sequence[int]], takes_leaf: Sequence[bool]) -> list[int]:
    """Per place, the cost of a cut before it.

    Results that pass are worst. Among equal places an activation stays with what it follows.
    """
    users = Counter(used for own in uses for used in own)
    follows = [
        own == [place - 1] and users[place - 1] == 1 and not takes_leaf[place]
        for place, own in enumerate(uses)
    ]
    passed = passing(0, len(uses), uses)
    return [2 * count + follow for count, follow in zip(passed, follows, strict=False)]


@dataclass(frozen=True)
class Cutter:
    """Cuts ranges of places into parts."""

    costs: list[int]  # per place, the cost of a cut before it
    work: list[int]  # per place, the number of operations before it that do more than pass a tensor

    def parts(
        self, pieces: Sequence[range], most: int, around: str = ""
    ) -> Iterator[tuple[str, range]]:
        """Yield the innermost parts of some ranges by path, "part 3/part 3.1", in order."""
        if sum(map(self._size, pieces)) <= most:
            return
        number = 0
        for part in self._cut(pieces):
            if self._size(part) < 2:
                continue
            number += 1
            name = f"part {around}{number}"
            yield name, part
            for inner, places in self.parts([part], MOST_INSIDE, f"{around}{number}."):
                yield f"{name}/{inner}", places

    def _size(self, places: range) -> int:
        return self.work[places.stop] - self.work[places.start]

    def _cut(self, pieces: Sequence[range]) -> list[range]:
        """Cut ranges at the cheapest places that leave no part with most of the operations."""
        most = LARGEST * sum(map(self._size, pieces))
        costs = sorted({cost for piece in pieces for cost in self.costs[piece.start : piece.stop]})

        def atoms(cost: int) -> list[range]:
            return [
                range(start, stop)
                for start, last in ((piece.start, piece.stop) for piece in pieces)
                for start, stop in pairwise(
                    [start, *(p for p in range(start + 1, last) if self.costs[p] <= cost), last]
                )
            ]

        at = bisect_left(costs, True, key=lambda cost: max(map(self._size, atoms(cost))) <= most)
        parts = self._joined(atoms(costs[min(at, len(costs) - 1)]), LEAST_SIZE)
        parts = _joined(parts, lambda last, part: min(map(self._size, (last, part))) <= 1)
        size = LEAST_SIZE
        while len(parts) > MOST_PARTS and size <= most:
            size += 1 + size // 4
            parts = self._joined(parts, size)
        return parts

    def _joined(self, parts: Sequence[range], most: int) -> list[range]:
        """Join neighbours that have at most so many operations together."""
        return _joined(parts, lambda last, part: self._size(range(last.start, part.stop)) <= most)


def _joined(parts: Sequence[range], is_one: Callable[[range, range], bool]) -> list[range]:
    """Join a part with the one before it, as joined so far, where they are to be one."""
    joined = [parts[0]]
    for part in parts[1:]:
        last = joined[-1]
        if last.stop == part.start and is_one(last, part):
            joined[-1] = range(last.start, part.stop)
        else:
            joined.append(part)
    return joined
