"""Pair items without crossings: in two sequences, and in two graphs without cycles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import torch

from ..lazily import nx

Producers = Mapping[int, Sequence[int]]


CONTINUED = 1  # extra score of a pair that uses the previous pair at the same argument


def align(
    scores: Iterable[torch.Tensor], following_left: Sequence[int], following_right: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the best way to pair the items of two sequences, in order.

    This is the table of a longest common subsequence, row by row, with scored pairs. A pair right
    after one that it uses at the same argument in both sequences scores `CONTINUED` more.

    ``following_left``: for each left item, the argument at which it uses the item before it, or -1.
    """
    never = integers([-(2**30)])
    following = integers(following_right)
    # The best score of the first items of both sequences, and the best with the last two paired.
    best = integers([0] * (len(following_right) + 1))
    paired = torch.cat([integers([0]), never.expand(len(following_right))])
    moves = []
    for row, argument in zip(scores, following_left, strict=True):
        before, going_on = best[:-1], paired[:-1]
        if argument >= 0:
            going_on = going_on + CONTINUED * (following == argument)
        total = torch.where(row > 0, row + torch.maximum(before, going_on), never)
        skipped, paired = best, torch.cat([never, total])
        best = torch.cummax(torch.maximum(best, paired), 0).values
        is_pair, is_skipped = (best == paired)[1:], (best == skipped)[1:]
        moves.append(is_pair * 4 + is_skipped * 2 + (going_on > before).byte())
    chosen = []
    i, j, must = len(moves) - 1, len(following_right) - 1, False
    while i >= 0 and j >= 0:
        move = int(moves[i][j])
        if must or move & 4:
            chosen.append((i, j))
            i, j, must = i - 1, j - 1, bool(move & 1)
        elif move & 2:
            i -= 1
        else:
            j -= 1
    return chosen


def integers(values: Sequence[int]) -> torch.Tensor:
    """Return 32-bit integers on the CPU, whatever the default device is."""
    return torch.tensor(values, dtype=torch.int32, device="cpu")


def longest_rising(values: Sequence[int]) -> list[int]:
    """Return the ascending indices of a longest strictly rising subsequence."""
    lowest: list[int] = []  # the smallest last value of a rising run of each length
    places: list[int] = []  # its index
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(lowest, value)
        before.append(places[length - 1] if length else -1)
        if length == len(lowest):
            lowest.append(value)
            places.append(place)
        else:
            lowest[length], places[length] = value, place
    found: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]


def uncrossed(left: Producers, right: Producers, pairs: Mapping[int, int]) -> dict[int, int]:
    """Drop pairs until two graphs, given by producers and merged at the pairs, have no cycle."""
    left_of = {other: node for node, other in pairs.items()}
    both = nx.DiGraph()  # a pair has the left node's number, a single right node has ~number
    both.add_edges_from((node, target) for node, targets in left.items() for target in targets)
    both.add_edges_from(
        (left_of.get(node, ~node), left_of.get(target, ~target))
        for node, targets in right.items()
        for target in targets
    )
    kept = dict(pairs)
    place_left = {node: place for place, node in enumerate(left)}
    place_right = {node: place for place, node in enumerate(right)}
    for tangle in nx.strongly_connected_components(both):
        tangled = sorted((node for node in tangle if node in kept), key=place_left.__getitem__)
        if len(tangle) > 1:
            # Pairs that are in the same order in both graphs cannot be part of a cycle.
            rising = longest_rising([place_right[kept[node]] for node in tangled])
            for place in set(range(len(tangled))) - set(rising):
                del kept[tangled[place]]
    return kept
