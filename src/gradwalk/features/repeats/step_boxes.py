"""Boxes for the steps of a loop, found as runs of equal segments: x, a b, a b, a b, y."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from operator import eq
from typing import NamedTuple

from ...graph.adjacency import predecessors, successors
from ...graph.names import common_ancestor
from ...tracing.annotate import Annotated

LEAST_COUNT = 4  # fewest segments of a run; fewer are clear one by one
LEAST_COVERED = 16  # fewest tokens in a run
_MOST_PERIODS = 16  # periods that are tried, the most frequent distances between equal parts first
_WIDTHS = (1, 2, 4, 8)  # lengths of the parts that are compared


class Run(NamedTuple):
    """A part of a sequence in which every token equals the one `period` later."""

    start: int  # the place of its first token
    stop: int  # the place after its last token; the last segment may be incomplete
    period: int  # the length of a segment


def find_runs(tokens: Sequence[Hashable]) -> list[Run]:
    """Find the longest runs of equal segments, which do not overlap, in order.

    Linear in the number of tokens. If a loop lies in a loop, the outer one is found. A run that
    overlaps a longer one keeps its rest, as the encoder's loop before a decoder's does.
    """
    numbers: dict[Hashable, int] = {}
    ids = [numbers.setdefault(token, len(numbers)) for token in tokens]
    found = [run for period in _periods(ids) for run in _runs_of(ids, period)]
    found.sort(key=lambda run: (run.start - run.stop, run.period))
    chosen: list[Run] = []
    taken = bytearray(len(ids))
    for run in found:
        start, stop = run.start, run.stop
        while start < stop and taken[start]:
            start += 1
        while start < stop and taken[stop - 1]:
            stop -= 1
        if _is_long(stop - start, run.period) and not any(taken[start:stop]):
            taken[start:stop] = b"\1" * (stop - start)
            chosen.append(Run(start, stop, run.period))
    return sorted(chosen)


def _is_long(covered: int, period: int) -> bool:
    return covered >= max(LEAST_COVERED, LEAST_COUNT * period)


def _periods(ids: Sequence[int]) -> list[int]:
    """The most frequent distances from a part of the sequence to the next equal one.

    Parts of 1, 2, 4 and 8 tokens, by their hashes: in a loop whose body repeats itself, such as the
    four calls of a Runge-Kutta step, no single token occurs once per step.
    """
    gaps: Counter[int] = Counter()
    parts = list(ids)
    for width in _WIDTHS:
        last: dict[int, int] = {}
        for place, part in enumerate(parts):
            if part in last:
                gaps[place - last[part]] += 1
            last[part] = place
        if len(last) == len(parts):
            break
        pairs = zip(parts, parts[width:], strict=False)
        parts = [(part * 1_000_003 ^ following) & 0xFFFF_FFFF for part, following in pairs]
    frequent = [gap for gap, count in gaps.items() if count >= LEAST_COUNT - 1]
    return sorted(frequent, key=lambda gap: (-gaps[gap] * gap, gap))[:_MOST_PERIODS]


def _runs_of(ids: list[int], period: int) -> Iterator[Run]:
    place = 0
    for is_equal, group in groupby(map(eq, ids, ids[period:])):
        length = len(list(group))
        covered = length + period
        if is_equal and _is_long(covered, period):
            yield Run(place, place + covered, period)
        place += length


LEAST_OPERATIONS = 16  # a loop in a smaller graph is clear as it is
MOST_LEVELS = 8  # of a U-Net


def boxes_of_steps(captured: Annotated, spaces: Mapping[int, str]) -> dict[int, str]:
    """Find a box for each step of each loop of the program.

    A loop is a repetition in the order in which the operations ran: the same operations in the
    same modules, in which each step uses a result of the step before. The same layers called
    several times are a loop, too; different layers of one class are not.

    Returns node id -> the namespace with a part for the step: "cell/step 3", "step 3/cell", or
    "loop 2 step 3" for the second loop there. The outputs stay outside. Empty for small graphs.
    ``spaces``: node id -> namespace, where it is inferred or a box; else it is the watched one.
    """
    order = captured.operations
    if len(order) <= LEAST_OPERATIONS:
        return {}
    watched = captured.drawn.nodes
    paths = [spaces.get(node) or watched[node].get("namespace") or "" for node in order]
    ops = [watched[node]["op"] for node in order]
    tokens = list(zip(paths, ops, strict=True))
    runs = find_runs(tokens)
    if not runs:
        return {}
    uses = uses_in(captured, order)
    outputs = {node for node, _ in captured.graph.graph["roots"]}
    boxes: dict[int, str] = {}
    step_of: dict[int, tuple[str, int]] = {}
    loops: Counter[str] = Counter()
    # A shorter step does not reach into the loop beside it.
    stops = [0, *(run.stop for run in runs)]
    starts = [*(run.start for run in runs[1:]), len(order)]
    found = [
        steps
        for run, low, high in zip(runs, stops, starts, strict=False)
        for steps in _wired(_with_shorter(_steps(run, tokens, uses), tokens, low, high), uses)
    ]
    for steps in _without_halves(found, uses):
        first, last = steps[0], steps[-1]
        around = common_ancestor(paths[first.start : last.stop], "/")
        loops[around] += 1
        name = "step" if loops[around] == 1 else f"loop {loops[around]} step"
        loop = f"{around}/{name}".lstrip("/")
        for number, step in enumerate(steps):
            for place in step:
                node, inner = order[place], paths[place][len(around) :].strip("/")
                if node not in outputs:
                    step_of[node] = loop, number
                    boxes[node] = f"{loop} {number}/{inner}".rstrip("/")
    return {**boxes, **_shared_leaves(captured, step_of), **_own_leaves(captured, step_of)}


def _without_halves(
    loops: Sequence[list[range]], uses: Sequence[Sequence[int]]
) -> list[list[range]]:
    """Leave out the halves of a U-Net: levels of the second use levels of the first in reverse."""
    step_at = {
        place: (loop, number)
        for loop, steps in enumerate(loops)
        if len(steps) <= MOST_LEVELS
        for number, step in enumerate(steps)
        for place in step
    }
    pairs: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for place, (loop, number) in step_at.items():
        for used in uses[place]:
            before, level = step_at.get(used, (loop, number))
            if before != loop:
                pairs[before, loop].add((level, number))
    halves = {
        loop
        for both, found in pairs.items()
        if len(found) > 1 and all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(sorted(found)))
        for loop in both
    }
    return [steps for loop, steps in enumerate(loops) if loop not in halves]


def _own_leaves(captured: Annotated, steps: Mapping[int, tuple[str, int]]) -> dict[int, str]:
    """The leaves that only one step uses, with its box; an initial state stays outside."""
    users, drawn = predecessors(captured.drawn), captured.drawn.nodes
    own: dict[tuple[str, int], list[int]] = defaultdict(list)
    for node, kind in drawn(data="kind"):
        if kind == "leaf":
            of = {steps.get(user) for user in users[node]}
            if len(of) == 1 and (step := of.pop()) is not None:
                own[step].append(node)
    boxes = {}
    for (loop, number), leaves in own.items():
        shapes = [drawn[leaf]["shape"] for leaf in own.get((loop, 1), ())]
        for leaf in leaves:
            if number > 0 or drawn[leaf]["shape"] in shapes:
                boxes[leaf] = f"{loop} {number}"
    return boxes


def _shared_leaves(captured: Annotated, steps: Mapping[int, tuple[str, int]]) -> dict[int, str]:
    """The leaves that one watched module uses in several steps, with the module's own box."""
    watched, shared = captured.drawn.nodes, {}
    for leaf, _ in captured.leaves():
        users = captured.predecessors[leaf]
        if not all(user in steps for user in users) or len({steps[user] for user in users}) < 2:
            continue
        around = {steps[user][0].rpartition("/")[0] for user in users}
        module, *others = {watched[user].get("namespace") or "" for user in users}
        if module and not others and module not in around:
            shared[leaf] = module
    return shared


def uses_in(captured: Annotated, order: Sequence[int]) -> list[list[int]]:
    """Per operation, by its place in the order, the places of the operations that it uses."""
    place_of = {node: place for place, node in enumerate(order)}
    following = successors(captured.drawn)
    return [
        [place for used in following[node] if (place := place_of.get(used)) is not None]
        for node in order
    ]


def _steps(run: Run, tokens: Sequence[Hashable], uses: Sequence[Sequence[int]]) -> list[range]:
    """Cut a run into its steps where the fewest results pass from one to the next."""
    start, stop, period = run
    passed_at = passing(start, stop, uses)
    # A first step with fewer operations begins so many places before the run.
    before = _matched(reversed(range(start)), reversed(range(start, start + period)), tokens)[1]

    def cost(offset: int) -> tuple[int, int]:
        cuts = range(offset + period, stop - start - period + 1, period)
        passed = sum(passed_at[cut] for cut in cuts)
        # A loop starts or ends with a whole step.
        rest = min((offset + before) % period, (stop - start - offset) % period)
        return passed // max(len(cuts), 1), rest

    complete = (stop - start) // period
    offset = min((o for o in range(period) if (stop - start - o) // period == complete), key=cost)
    begins = range(start + offset, start + offset + complete * period, period)
    return [range(begin, begin + period) for begin in begins]


def passing(start: int, stop: int, uses: Sequence[Sequence[int]]) -> list[int]:
    """Per place of a run, the number of earlier results that it or a later place uses."""
    last_use = list(range(start, stop))
    for place in range(start, stop):
        for used in uses[place]:
            if used >= start:
                last_use[used - start] = place
    change = [0] * (stop - start + 1)
    for place, use in enumerate(last_use):
        change[place + 1] += 1
        change[use - start + 1] -= 1
    return list(accumulate(change))


def _with_shorter(
    steps: list[range], tokens: Sequence[Hashable], low: int, high: int
) -> list[range]:
    """Add a first and a last step with fewer operations: the first input may need no gradient."""
    first, last = steps[0], steps[-1]
    before, _ = _matched(reversed(range(low, first.start)), reversed(first), tokens)
    after, _ = _matched(range(last.stop, high), last, tokens)
    if 2 * before >= len(first):
        steps.insert(0, range(first.start - before, first.start))
    if 2 * after >= len(last):
        steps.append(range(last.stop, last.stop + after))
    return steps


def _matched(
    places: Iterable[int], step: Iterable[int], tokens: Sequence[Hashable]
) -> tuple[int, int]:
    """How many places in a row have tokens of a step, and how much of the step they cover."""
    count = covered = 0
    tries = enumerate(step, 1)
    for place in places:
        found = next((size for size, at in tries if tokens[at] == tokens[place]), None)
        if found is None:
            break
        count, covered = count + 1, found
    return count, covered


def _wired(steps: Sequence[range], uses: Sequence[Sequence[int]]) -> Iterator[list[range]]:
    """Split steps where one uses no result of the step before; short rests are left out."""
    chain = [steps[0]]
    for before, step in pairwise(steps):
        if not any(used in before for place in step for used in uses[place]):
            if len(chain) >= LEAST_COUNT:
                yield chain
            chain = []
        chain.append(step)
    if len(chain) >= LEAST_COUNT:
        yield chain
