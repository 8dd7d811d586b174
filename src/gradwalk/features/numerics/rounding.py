"""Estimate how far rounding alone moves the values and gradients of a run.

Every number is moved by its own size, with a random sign, and these moves are followed through the
graph to first order. A move times the rounding error of a dtype is the error to expect in it. Where
numbers cancel, as below a softmax whose outputs are summed, it is far larger than the numbers.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping

import torch

from ...torch_api.nodes import keeps_tensors
from ...torch_api.reading import wider
from ..experiments.replay import Gradient, Replay
from .first_order import changes_of_outputs, passed_on, with_signs
from .known_numbers import RunNumbers
from .tensor_distance import MOST_NUMBERS

_Moves = dict[int, torch.Tensor]
"""The moves of a node's outputs, or of the gradients of its inputs, by number."""

_OF_A_MOVE = 1e-5  # moves are rounded too, where they cancel in turn


class Rounding:
    """The moves of the values and gradients of one run, computed when they are first read."""

    def __init__(self, known: RunNumbers, ids: Mapping[int, int] | None = None) -> None:
        """Run nothing yet; ``ids``: node -> its id in the run, None where they are the same."""
        live = known.subject.autograd
        self._known, self._ids = known, ids
        self._replay = None if live is None else Replay(live)

    def of_value(self, node: int) -> float:
        """Return the typical move of the numbers of a value; 0 if unknown."""
        return self._values[0].get(node if self._ids is None else self._ids[node], 0.0)

    def of_gradient(self, node: int) -> float:
        """Return the typical move of the numbers of an incoming gradient; 0 if unknown."""
        return self._gradients.get(node if self._ids is None else self._ids[node], 0.0)

    @functools.cached_property
    def _values(self) -> tuple[dict[int, float], dict[int, float]]:
        replay = self._replay
        return ({}, {}) if replay is None else replay.beside(lambda: self._forward(replay))

    @functools.cached_property
    def _gradients(self) -> dict[int, float]:
        replay, (_, relative) = self._replay, self._values
        return {} if replay is None else replay.beside(lambda: self._backward(replay, relative))

    def _forward(self, replay: Replay) -> tuple[dict[int, float], dict[int, float]]:
        """The moves of values, and each move relative to its value, or else to an input's value."""
        found: dict[int, float] = {}
        relative: dict[int, float] = {}
        moves: dict[int, _Moves] = {}
        uses = Counter(place[0] for places in replay.following for place in places if place)
        for node in reversed(replay.order):
            inputs = {nr: place for nr, place in enumerate(replay.following[node]) if place}
            own: _Moves = {}
            before: _Moves = {}
            for nr, (child, output) in inputs.items():
                value = self._value(child) if output == 0 else None
                like = replay.like(child)[output]
                if value is not None and like is not None and tuple(value.shape) == like[0]:
                    own[nr] = _signed(value, child)
                if output in moves[child]:
                    before[nr] = moves[child][output]
            moves[node] = _added(
                node, *(changes_of_outputs(replay, node, each) for each in (own, before))
            )
            found[node] = max(map(_size, moves[node].values()), default=0.0)
            value = self._value(node)
            size = 0.0 if value is None else _size(value)
            least = max((relative[child] for child, _ in inputs.values()), default=1.0)
            relative[node] = max(1.0, found[node] / size) if size else least
            for child, _ in inputs.values():
                uses[child] -= 1
                if not uses[child]:
                    del moves[child]
        return found, relative

    def _value(self, node: int) -> torch.Tensor | None:
        value = self._known.value(node)
        tensor = None if value is None else value.tensor
        return None if tensor is None or tensor.numel() > MOST_NUMBERS else tensor

    def _backward(self, replay: Replay, relative: Mapping[int, float]) -> dict[int, float]:
        """The moves of incoming gradients; values that a node saved move its outgoing ones, too."""
        found: dict[int, float] = {}
        moves: dict[int, _Moves] = {}
        for node in replay.order:
            before = moves.pop(node, {})
            above = max((found[taker] for taker, _ in replay.takers[node]), default=0.0)
            found[node] = max(_OF_A_MOVE * above, *map(_size, before.values()), 0.0)
            arrived = self._known.arrived(node)
            if arrived is None or replay.is_leaf(node):
                continue
            if any(grad is not None and grad.numel() > MOST_NUMBERS for grad in arrived):
                continue
            places = replay.following[node]
            saved = places if keeps_tensors(type(replay.captured.nodes[node])) else []
            times = max((relative[place[0]] for place in saved if place), default=1.0)
            own = [None if grad is None else _signed(grad, node) * times for grad in arrived]
            try:
                passed = [
                    passed_on(replay, node, given)
                    for given in (own, [before.get(nr) for nr in range(len(own))])
                ]
            except Exception:  # a custom Function may raise anything
                continue
            parts = (dict(enumerate(each)) for each in passed)
            for nr, grad in _added(node, *parts).items():
                if (place := places[nr]) is not None:
                    held = moves.setdefault(place[0], {})
                    held[place[1]] = held[place[1]] + grad if place[1] in held else grad
        return found


def _added(node: int, own: Mapping[int, Gradient], before: Mapping[int, Gradient]) -> _Moves:
    """The moves that begin at a node, and those from before it.

    Rounding errors within the node need not cancel as its results do, so its own moves are added
    with other signs, too.
    """
    found = {nr: move for nr, move in before.items() if move is not None}
    for nr, move in own.items():
        if move is not None:
            both = move + with_signs(move, -1 - node)
            found[nr] = found[nr] + both if nr in found else both
    return found


def _signed(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    own = _dense(tensor.detach()).to(wider(tensor.dtype)).nan_to_num(0, 0, 0)
    return with_signs(own, seed)


def _size(move: torch.Tensor) -> float:
    """The root mean square of the numbers other than 0."""
    sizes = _dense(move).abs().double()
    return float(torch.linalg.vector_norm(sizes)) / math.sqrt(max(1, int(sizes.count_nonzero())))


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()
