"""Several backward passes stepped through as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..matching.alignment import longest_rising


@dataclass(frozen=True)
class MergedStep:
    """One step of several passes at once.

    Attributes:
        node: What runs.
        passes: The passes that run it in this step.
    """

    node: int
    passes: tuple[int, ...]


def merge_steps(passes: Sequence[Sequence[int]]) -> list[MergedStep]:
    """Put passes into one order in which what they have in common runs in the same step.

    Every pass keeps its own order. What only some of them run comes as soon as it can, that of
    earlier passes first; nodes that two passes run in opposite orders take a step in each.

    Args:
        passes: For each pass the nodes that ran, in order, none twice; a node that several passes
            share has the same number in each.

    Returns:
        The steps.

    Example::

        >>> [(step.node, step.passes) for step in merge_steps([[7, 5, 3], [7, 4, 3]])]
        [(7, (0, 1)), (5, (0,)), (4, (1,)), (3, (0, 1))]
    """
    merged: list[MergedStep] = []
    for number, nodes in enumerate(passes):
        place = {step.node: i for i, step in enumerate(merged)}
        common = [(i, place[node]) for i, node in enumerate(nodes) if node in place]
        chain = [common[k] for k in longest_rising([there for _, there in common])]
        result: list[MergedStep] = []
        here = there = 0
        for next_here, next_there in [*chain, (len(nodes), len(merged))]:
            result += merged[there:next_there]
            result += [MergedStep(node, (number,)) for node in nodes[here:next_here]]
            if next_there < len(merged):
                met = merged[next_there]
                result.append(MergedStep(met.node, (*met.passes, number)))
            here, there = next_here + 1, next_there + 1
        merged = result
    return merged


def cursors(steps: Sequence[MergedStep], passes: int) -> list[list[int]]:
    """Where each pass stands after so many merged steps.

    Args:
        steps: What `merge_steps` gave.
        passes: How many passes there are.

    Returns:
        For 0, 1, ... all of the steps: after how many of its own steps each pass is.
    """
    now = [0] * passes
    found = [now]
    for step in steps:
        now = [done + (i in step.passes) for i, done in enumerate(now)]
        found.append(now)
    return found
