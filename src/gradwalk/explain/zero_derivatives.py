"""Find the operations that block every gradient on the way to a node."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd.graph import Node

from ..backward.failures import FirstZero
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import walk
from ..graph.capture import Capture
from ..graph.labels import is_pass_through
from ..lazily import nx
from ..torch_api.nodes import keeps_tensors, knows_saved, leaf_tensor, node_class, op_name
from ..torch_api.reading import why_unreadable
from ..torch_api.saved_tensors import plain_value, read_saved, signed
from .zero_rules import (
    PRODUCTS,
    Input,
    Saved,
    Why,
    may_be_measured,
    numbered,
    slope_words,
    why_blocked,
    why_measured,
)

_MOST_MEASURED = 1000  # operations whose backward is run in one search


@dataclass(frozen=True)
class Block:
    """An operation that turns every gradient into zeros on its way to one or all of its inputs."""

    node: int  # the node's id
    why: Why  # the reason and the remedy


@dataclass(frozen=True)
class Blocks:
    """The operations that block gradients on the way to one node."""

    # The operations that block the ways to it, nearest to the outputs first; only when they block
    # every way, else empty. At most `_MOST_KEPT`.
    found: list[Block]
    # Whether saved tensors on the way are freed or cannot be read, so that an operation may block.
    unknown: bool
    is_more: bool = False  # whether further operations block, which ``found`` leaves out


@dataclass(frozen=True)
class BlockedLeaves:
    """The operations that block gradients on the way to several nodes."""

    # Operations that block, each with the nodes behind it that no open way reaches. Each node is
    # listed once.
    by_block: list[tuple[Block, list[int]]]
    rest: list[int]  # the nodes that an open way reaches, as far as known
    unknown: bool  # as for `Blocks`, for the rest


_MOST_KEPT = 64  # blocks that are kept for one node


class Blocking:
    """Where operations block gradients, by their saved tensors of now: one walk for all nodes."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        graph, following = captured.graph, captured.successors
        waiting = list(dict.fromkeys(root for root, _ in graph.graph["roots"]))
        self._reached = reached = set(waiting)
        stopped: list[tuple[Block, int]] = []
        self._unread: list[int] = []  # nodes reached whose saved tensors cannot all be read
        budget = iter(range(_MOST_MEASURED))
        for node in waiting:  # grows while we walk
            inputs = following[node]
            saved, complete = _saved(captured.nodes[node]) if inputs else ({}, True)
            leaves = {} if complete else _leaves_of_product(captured, node)
            given = {**leaves, **saved}
            for target, edges in inputs.items():
                for edge in edges.values():
                    asked = Input(captured.nodes[node], edge["argument"], edge["arg_nr"], given)
                    why = why_blocked(asked)
                    if why is None and complete and may_be_measured(asked):
                        complete = next(budget, None) is not None
                        why = why_measured(asked) if complete else None
                    if why is not None:
                        if why.factor in leaves and why.factor not in saved:
                            # Its value in backward is not known.
                            why = replace(why, because=f"{why.because} now")
                        stopped.append((Block(node, why), target))
                    elif target not in reached:
                        reached.add(target)
                        waiting.append(target)
            if not complete:
                self._unread.append(node)
        # What blocks the last open nodes before nodes that no open way reaches.
        self._stopped = [(block, target) for block, target in stopped if target not in reached]

    def before(self, target: int) -> Blocks:
        """Find why only zeros can arrive at a node."""
        unknown = target in self._behind_unread
        if target in self._reached:
            return Blocks([], unknown)
        numbers = self._numbers.get(target, ())
        found: dict[int, Block] = {}
        for number in numbers[:_MOST_KEPT]:
            block, _ = self._stopped[number]
            found.setdefault(block.node, block)
        return Blocks(list(found.values()), unknown, len(numbers) > _MOST_KEPT)

    @functools.cached_property
    def _behind_unread(self) -> set[int]:
        """The nodes behind one that is reached and cannot be read."""
        following = self._captured.successors
        starts = (each for node in self._unread for each in following[node])
        return set(walk(starts, following.__getitem__))

    @functools.cached_property
    def _numbers(self) -> dict[int, Sequence[int]]:
        """By node that is not reached: the first places in ``_stopped`` of what blocks it."""
        following, reached = self._captured.successors, self._reached
        own: dict[int, list[int]] = {}
        for number, (_, target) in enumerate(self._stopped):
            own.setdefault(target, []).append(number)
        closed = list(walk(own, lambda i: [each for each in following[i] if each not in reached]))
        missing = dict.fromkeys(closed, 0)  # how many nodes before each are not finished
        for node in closed:
            for target in following[node]:
                if target in missing:
                    missing[target] += 1
        came: dict[int, list[Sequence[int]]] = {node: [own[node]] for node in own}
        found: dict[int, Sequence[int]] = {}
        ready = [node for node in closed if not missing[node]]
        for node in ready:  # grows while we walk
            # Most nodes have the same blocks as the one before: they share them.
            different = {id(each): each for each in came.pop(node)}
            first, *others = different.values()
            if others:
                first = sorted(set(first).union(*others))
            found[node] = first = first[: _MOST_KEPT + 1] if len(first) > _MOST_KEPT + 1 else first
            for target in following[node]:
                if target in missing:
                    came.setdefault(target, []).append(first)
                    missing[target] -= 1
                    if not missing[target]:
                        ready.append(target)
        return found

    def leaves(self, targets: list[int]) -> BlockedLeaves:
        """Find why only zeros can arrive at some nodes, each listed with one block."""
        following, reached = self._captured.successors, self._reached
        behind: dict[int, list[int]] = {}
        blocks: dict[int, Block] = {}
        sought, seen = set(targets) - reached, set(reached)
        for block, start in self._stopped:
            if start in seen:
                continue
            seen.add(start)
            beyond = [start]
            for node in beyond:  # grows while we walk
                if node in sought:
                    blocks.setdefault(block.node, block)
                    behind.setdefault(block.node, []).append(node)
                new = [each for each in following[node] if each not in seen]
                seen.update(new)
                beyond += new
        found = [(blocks[node], leaves) for node, leaves in behind.items()]
        rest = [node for node in targets if node in reached]
        return BlockedLeaves(found, rest, bool(self._unread))


_ADDED_UP = frozenset(
    f"{name}Backward{number}"
    for name in ("Mean", "Sum", "Add", "Mul", "Div", "Neg", "Pow", "Stack", "Cat")
    for number in (0, 1)
)
_FLOORS = ("ReluBackward0", "ClampMinBackward0", "ThresholdBackward0", "ClampBackward1")


def zero_slopes(captured: Capture, run: RecordedRun, birth: FirstZero) -> str | None:
    """Say that a slope was zero where a recorded gradient became zero; None if that is unknown."""
    if birth.how != "passed" or birth.towards is None:
        return None
    step, name = run.steps[birth.node], captured.graph.nodes[birth.node]["op"]
    edges = captured.successors[birth.node][birth.towards].values()
    found = (
        slope_words(name, step.grad_outputs[0], step.grad_inputs[edge["arg_nr"]]) for edge in edges
    )
    return next(filter(None, found), None)


_PICKS = numbered(Embedding="0", Index="0", IndexSelect="0", Gather="0")


def factors_of(captured: Capture, block: Block) -> list[int]:
    """Return the nodes, beyond plumbing, that gave the zeros that block."""
    graph = captured.graph
    return [
        _behind(graph, child, _PICKS)
        for _, child, edge in graph.out_edges(block.node, data=True)
        if block.why.factor is not None and edge["argument"] == block.why.factor
    ]


def _behind(graph: nx.MultiDiGraph, node: int, also: Collection[str] = ()) -> int:
    """Return the first node behind plumbing, or behind other operations that are passed over."""
    while len(graph.succ[node]) == 1 and (
        is_pass_through(op := graph.nodes[node]["op"]) or op in also
    ):
        node = next(iter(graph.succ[node]))
    return node


def _leaves_of_product(captured: Capture, node: int) -> Saved:
    """Return the leaves among a product's factors: they are there when saved tensors are freed."""
    if op_name(captured.nodes[node]) not in PRODUCTS:
        return {}
    found = {}
    for _, child, edge in captured.graph.out_edges(node, data=True):
        leaf = leaf_tensor(captured.nodes[_behind(captured.graph, child)])
        if leaf is not None and why_unreadable(leaf) is None:
            found[edge["argument"]] = leaf
    return found


def margins(captured: Capture) -> set[int]:
    """Return the nodes that clamp margins in a loss: every margin is kept if one blocks.

    Their results are only added up: nothing that follows scales with a parameter or bends.
    """
    if not knows_saved():
        return set()
    data, following = captured.attributes, captured.successors
    others = (
        node
        for node, each in data.items()
        if not (each["op"] in _ADDED_UP or is_pass_through(each["op"]))
        or any(data[child]["kind"] == "leaf" for child in following[node])
    )
    below_others = set(
        walk((each for node in others for each in following[node]), following.__getitem__)
    )
    return {
        node
        for node, each in data.items()
        if each["op"] in _FLOORS
        and node not in below_others
        and plain_value(captured.nodes[node], "max") is None
    }


def _saved(node: Node) -> tuple[Saved, bool]:
    """Return the saved tensors of a node that can be read, and whether these are all."""
    if not keeps_tensors(type(node)) or node_class(type(node)).is_function:
        return {}, True
    saved = list(read_saved(node))
    values = {each.name: signed(each.value) for each in saved if _is_there(each.value)}
    return values, len(values) == len(saved)


def _is_there(value: Any) -> bool:
    """Return whether a saved value can be read: not freed, not packed, its memory in place."""
    if isinstance(value, torch.Tensor):
        return why_unreadable(value) is None
    return value is not None
