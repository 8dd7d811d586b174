"""Aligning sequences and uncrossing pairs, next to trying everything."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwalk.matching.alignment import CONTINUED, align, longest_rising, uncrossed

pytestmark = pytest.mark.one_python


def worth(chosen, scores, left, right):
    """What a choice of pairs scores, counted from the definition."""
    together = [
        (i, j)
        for (a, b), (i, j) in itertools.pairwise([(-1, -1), *chosen])
        if (i, j) == (a + 1, b + 1) and left[i] == right[j] >= 0
    ]
    return sum(scores[i][j] for i, j in chosen) + CONTINUED * len(together)


def all_choices(scores):
    """Every way to pair in order, pairs of score 0 excepted."""
    rows, columns = range(len(scores)), range(len(scores[0]))
    for size in range(min(len(rows), len(columns)) + 1):
        for some in itertools.combinations(rows, size):
            for others in itertools.combinations(columns, size):
                chosen = list(zip(some, others, strict=True))
                if all(scores[i][j] for i, j in chosen):
                    yield chosen


items = st.lists(st.integers(-1, 1), min_size=1, max_size=5)


@given(items, items, st.data())
@settings(deadline=None, max_examples=200)
def test_no_alignment_is_better(left, right, data):
    row = st.lists(st.sampled_from([0, 1, 3, 8]), min_size=len(right), max_size=len(right))
    scores = data.draw(st.lists(row, min_size=len(left), max_size=len(left)))
    found = align((torch.tensor(row) for row in scores), left, right)[::-1]
    assert found in list(all_choices(scores))
    best = max(worth(chosen, scores, left, right) for chosen in all_choices(scores))
    assert worth(found, scores, left, right) == best


@given(st.lists(st.integers(0, 9), max_size=9))
def test_no_rising_run_is_longer(values):
    found = longest_rising(values)

    def is_rising(places):
        return all(values[a] < values[b] for a, b in itertools.pairwise(places))

    assert is_rising(found)
    longest = max(
        size
        for size in range(len(values) + 1)
        if any(map(is_rising, itertools.combinations(range(len(values)), size)))
    )
    assert len(found) == longest


@st.composite
def producers(draw):
    size = draw(st.integers(1, 7))
    return {n: draw(st.lists(st.integers(0, n - 1), max_size=3)) if n else [] for n in range(size)}


@given(producers(), producers(), st.data())
def test_uncrossed_graphs_have_no_cycle(left, right, data):
    order = data.draw(st.permutations(range(7)))
    pairs = {a: b for a, b in zip(range(7), order, strict=True) if a in left and b in right}

    def united(pairs):
        back = {b: a for a, b in pairs.items()}
        graph = nx.DiGraph((a, b) for a, targets in left.items() for b in targets)
        graph.add_edges_from(
            (back.get(a, ("right", a)), back.get(b, ("right", b)))
            for a, targets in right.items()
            for b in targets
        )
        return graph

    kept = uncrossed(left, right, pairs)
    assert kept.items() <= pairs.items()
    assert nx.is_directed_acyclic_graph(united(kept))
    if nx.is_directed_acyclic_graph(united(pairs)):
        assert kept == pairs
