"""Split the error of a leaf's gradient by the nodes whose backward adds it."""

from __future__ import annotations

import math

import torch

from ..experiments.replay import Replay
from .first_order import change_of_output
from .own_error import Sweep
from .tensor_distance import difference


def added_to_leaf(sweep: Sweep, leaf: int) -> dict[int, float] | None:
    """Return the part of a leaf's gradient error that each node adds.

    Backward is linear. A node's part is the inner product of the error that it adds and the leaf's
    error, propagated up through the Jacobians of the nodes in between. Each node runs once.

    Args:
        sweep: The comparison of two graphs.
        leaf: A leaf of ``sweep.aligned.here``.

    Returns:
        Node -> its part of 1; None if the gradients are equal. Nodes that are unmatched or cannot
        be followed are left out.

    Raises:
        ValueError: The gradient of the leaf is not known in full in both.
        RuntimeError: Neither run is live.
    """
    replay, error = sweep.replay, _error(sweep, leaf)
    if replay is None:
        raise RuntimeError(
            "Both runs were read from files, which have no nodes to follow an error through. "
            "Compare with a live run: compute one of the losses here and give it."
        )
    if error is None or not replay.is_leaf(leaf):
        raise ValueError(
            "The gradient of this node is not known in full in both runs, or the node is not a "
            "leaf. Give a leaf whose gradient is compared in full."
        )
    whole = float(torch.linalg.vector_norm(error)) ** 2
    if not whole or not math.isfinite(whole):
        return None
    parts = replay.beside(lambda: _parts(sweep, replay, leaf, error))
    return {node: part / whole for node, part in parts.items()}


def _error(sweep: Sweep, leaf: int) -> torch.Tensor | None:
    """The error of a leaf's gradient; None if it is not known in full."""
    arrived = sweep.aligned.here.arrived(leaf)
    other = sweep.aligned.there.arrived(sweep.aligned.pairs[leaf])
    return difference(other[0], arrived[0]) if arrived and other else None


def _parts(sweep: Sweep, replay: Replay, leaf: int, error: torch.Tensor) -> dict[int, float]:
    """The inner product of the error that each node adds with the leaf's error there."""
    found: dict[int, float] = {}
    ways = {leaf: {0: error}}  # the propagated error of the leaf: node -> output -> change
    above = replay.above([leaf])
    waiting = {node: len(replay.takers[node]) for node in above}
    for node in reversed(replay.order):
        places = replay.following[node] if node in above else []
        below = {nr: place for nr, place in enumerate(places) if place and place[0] in ways}
        changes = {
            nr: ways[place[0]][place[1]]
            for nr, place in below.items()
            if place[1] in ways[place[0]]
        }
        if changes:
            added = (sweep.added(node) if node in sweep.aligned.pairs else None) or {}
            products = [_product(added[nr], changes[nr]) for nr in changes if nr in added]
            found[node] = sum(products)
            ways[node] = _carried(replay, node, changes)
        for place in below.values():
            waiting[place[0]] -= 1
            if not waiting[place[0]]:
                del ways[place[0]]  # no other node needs it
    return found


def _product(added: torch.Tensor, way: torch.Tensor) -> float:
    mine = added.sum_to_size(way.shape).to(way)
    return float(torch.vdot(mine.flatten(), way.flatten()).real)


def _carried(
    replay: Replay, node: int, changes: dict[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    """The changes of a node's outputs for changes of its inputs, without unknown ones."""
    found: dict[int, torch.Tensor] = {}
    places = [replay.following[taker][nr] for taker, nr in replay.takers[node]]
    for nr in {place[1] for place in places if place is not None}:
        try:
            change = change_of_output(replay, node, changes, nr)
        except Exception:  # a custom Function may raise anything
            continue
        if bool(change.isfinite().all()):
            found[nr] = change
    return found
