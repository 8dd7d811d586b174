"""The number of gradwalk's Python calls, for what a user does most.

Times on a busy machine say little, and calls are the same everywhere. A change that makes
something dearer fails here. So does one that makes it cheaper, until its number is lowered: then
nobody can spend what was saved.
"""

from __future__ import annotations

import json

import pytest
from fresh import fresh

# What is done -> calls, with warm caches and no record of `watch` alive but where it says so.
CALLS = {
    "small": {
        "making": 808,
        "sending": 1264,
        "observing": 196,
        "showing": 1585,
        "clicking": 2594,
        "recording": 401,
        "watching": 204,
        "making a watched one": 949,
    },
    "chain": {
        "making": 6341,
        "sending": 8351,
        "observing": 2250,
        "showing": 12625,
        "clicking": 3069,
        "recording": 4499,
        "watching": 2562,
        "making a watched one": 6984,
    },
    "transformer": {
        "making": 2134,
        "sending": 5658,
        "observing": 1246,
        "showing": 8251,
        "clicking": 3307,
        "recording": 2352,
        "watching": 1175,
        "making a watched one": 4160,
    },
}

MORE = 1.02
LESS = 0.90


@pytest.fixture(scope="module")
def counted() -> dict[str, dict[str, dict[str, int]]]:
    """The calls of each graph by function, in a process that did nothing else."""
    found: dict[str, dict[str, dict[str, int]]] = json.loads(
        fresh("from counted import main\nmain()")
    )
    return found


@pytest.mark.parametrize("graph", ["small", "chain", "transformer"])
def test_calls_are_as_the_table_says(graph, counted):
    calls = {what: sum(functions.values()) for what, functions in counted[graph].items()}
    dearer = {what: n for what, n in calls.items() if n > MORE * CALLS[graph].get(what, 0)}
    most = {
        what: sorted(counted[graph][what].items(), key=lambda each: -each[1])[:8] for what in dearer
    }
    expected = {what: CALLS[graph].get(what) for what in dearer}
    assert not dearer, (
        f"More Python calls for {graph!r} than the table CALLS of this file has: {dearer} instead "
        f"of {expected}. Most calls are of {most}. Make them fewer; or, if the work is worth it, "
        f"write the new numbers into the table and say in the commit why. The row is now: {calls}"
    )
    cheaper = {what: n for what, n in calls.items() if n < LESS * CALLS[graph][what]}
    assert not cheaper, (
        f"Fewer Python calls for the graph {graph!r} than the table CALLS of this file has: well "
        f"done. Lower the table, so that they stay few: {cheaper}. The row is now: {calls}"
    )
