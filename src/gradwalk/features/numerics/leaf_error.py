"""Which node's backward adds how much to the error of a leaf's gradient."""

from __future__ import annotations

import math

import torch

from ..experiments.replay import Replay
from .first_order import change_of_output
from .own_error import Sweep
from .tensor_distance import difference


def added_to_leaf(sweep: Sweep, leaf: int) -> dict[int, float] | None:
    """The parts of the error of a leaf's gradient, by the node that adds them.

    The error travels to the leaf through nodes that are linear. So how much of it one node adds is
    the product of what it adds with the error of the leaf, carried the other way through the
    Jacobians of all nodes in between: each of them is asked once, whatever the number of parts.

    Args:
        sweep: Two graphs that are compared.
        leaf: A leaf of ``sweep.aligned.here``.

    Returns:
        Node -> its part of the whole, 1; None where the gradients are equal. Without nodes that are
        in one graph alone, and those that cannot be followed.

    Raises:
        ValueError: The gradient of the leaf is not known in full in both.
        RuntimeError: There are no nodes to run.
    """
    replay, error = sweep.replay, _error(sweep, leaf)
    if replay is None:
        raise RuntimeError(
            "Both runs were read from files, which have no nodes to follow an error through. "
            "Compare with a live run: compute one of the losses here and give it."
        )
    if error is None or not replay.is_leaf(leaf):
        raise ValueError(
            "The gradients of this leaf are not known in full in both runs, or it is no leaf, so "
            "its error has no parts. Give a leaf whose gradient is compared in full."
        )
    whole = float(torch.linalg.vector_norm(error)) ** 2
    if not whole or not math.isfinite(whole):
        return None
    parts = replay.beside(lambda: _parts(sweep, replay, leaf, error))
    return {node: part / whole for node, part in parts.items()}


def _error(sweep: Sweep, leaf: int) -> torch.Tensor | None:
    """The error of a leaf's gradient, where it is known in full."""
    arrived = sweep.aligned.here.arrived(leaf)
    other = sweep.aligned.there.arrived(sweep.aligned.pairs[leaf])
    return difference(other[0], arrived[0]) if arrived and other else None


def _parts(sweep: Sweep, replay: Replay, leaf: int, error: torch.Tensor) -> dict[int, float]:
    """The product of what each node adds with the error as it comes out there."""
    found: dict[int, float] = {}
    ways = {leaf: {0: error}}  # the error of the leaf, carried upwards: by node and output
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
                del ways[place[0]]  # nobody else asks for it
    return found


def _product(added: torch.Tensor, way: torch.Tensor) -> float:
    mine = added.sum_to_size(way.shape).to(way)
    return float(torch.vdot(mine.flatten(), way.flatten()).real)


def _carried(
    replay: Replay, node: int, changes: dict[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    """What the changes of a node's inputs make of its outputs; without those not to be known."""
    found: dict[int, torch.Tensor] = {}
    places = [replay.following[taker][nr] for taker, nr in replay.takers[node]]
    for nr in {place[1] for place in places if place is not None}:
        try:
            change = change_of_output(replay, node, changes, nr)
        except Exception:  # whatever a node, perhaps a function of the user's, raises
            continue
        if bool(change.isfinite().all()):
            found[nr] = change
    return found
