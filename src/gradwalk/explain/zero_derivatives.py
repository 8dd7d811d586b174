"""Find the operations that block every gradient on the way to a node."""

from __future__ import annotations

from collections.abc import Collection
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
from ..torch_api.nodes import keeps_tensors, leaf_tensor, node_class, op_name
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
    # every way, else empty.
    found: list[Block]
    # Whether saved tensors on the way are freed or cannot be read, so that an operation may block.
    unknown: bool


def blocks_before(captured: Capture, target: int) -> Blocks:
    """Find why only zeros can arrive at a node."""
    reached, stopped, unknown = _walk(captured, nx.ancestors(captured.graph, target) | {target})
    found: dict[int, Block] = {}
    for block, _ in stopped if target not in reached else ():
        found.setdefault(block.node, block)
    return Blocks(list(found.values()), unknown)


def _walk(
    captured: Capture, within: Collection[int]
) -> tuple[set[int], list[tuple[Block, int]], bool]:
    """Return the nodes reached from the outputs, what blocks, and whether something is unread."""
    graph = captured.graph
    waiting = list(dict.fromkeys(root for root, _ in graph.graph["roots"] if root in within))
    reached = set(waiting)
    stopped: list[tuple[Block, int]] = []
    unknown = False
    budget = iter(range(_MOST_MEASURED))
    for node in waiting:  # grows while we walk
        inputs = [edge[1:] for edge in graph.out_edges(node, data=True) if edge[1] in within]
        saved, complete = _saved(captured.nodes[node]) if inputs else ({}, True)
        leaves = {} if complete else _leaves_of_product(captured, node)
        unknown = unknown or not complete
        for following, edge in inputs:
            given = {**leaves, **saved}
            asked = Input(captured.nodes[node], edge["argument"], edge["arg_nr"], given)
            why = why_blocked(asked)
            if why is None and complete and may_be_measured(asked):
                is_left = next(budget, None) is not None
                unknown = unknown or not is_left
                why = why_measured(asked) if is_left else None
            if why is not None:
                if why.factor in leaves and why.factor not in saved:
                    # Its value in backward is not known.
                    why = replace(why, because=f"{why.because} now")
                stopped.append((Block(node, why), following))
            elif following not in reached:
                reached.add(following)
                waiting.append(following)
    return reached, stopped, unknown


@dataclass(frozen=True)
class BlockedLeaves:
    """The operations that block gradients on the way to several nodes."""

    # Operations that block, each with the nodes behind it that no open way reaches. Each node is
    # listed once.
    by_block: list[tuple[Block, list[int]]]
    rest: list[int]  # the nodes that an open way reaches, as far as known
    unknown: bool  # as for `Blocks`, for the rest


def blocked_leaves(captured: Capture, targets: list[int]) -> BlockedLeaves:
    """Find why only zeros can arrive at some nodes: `blocks_before` for many, in one walk."""
    graph = captured.graph
    reached, stopped, unknown = _walk(captured, graph)
    behind: dict[int, list[int]] = {}
    blocks: dict[int, Block] = {}
    sought, seen = set(targets) - reached, set(reached)
    for block, start in stopped:
        if start in seen:
            continue
        seen.add(start)
        beyond = [start]
        for node in beyond:  # grows while we walk
            if node in sought:
                blocks.setdefault(block.node, block)
                behind.setdefault(block.node, []).append(node)
            new = [each for each in graph.succ[node] if each not in seen]
            seen.update(new)
            beyond += new
    found = [(blocks[node], leaves) for node, leaves in behind.items()]
    return BlockedLeaves(found, [node for node in targets if node in reached], unknown)


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


def is_margin(captured: Capture, node: int) -> bool:
    """Return whether a node clamps a margin in a loss: every margin is then kept if it blocks."""
    graph, nodes = captured.graph, captured.nodes
    if graph.nodes[node]["op"] not in _FLOORS or plain_value(nodes[node], "max") is not None:
        return False
    for user in walk(graph.pred[node], graph.pred.__getitem__):  # all that its result goes into
        op = graph.nodes[user]["op"]
        takes_leaf = any(graph.nodes[child]["kind"] == "leaf" for child in graph.succ[user])
        if takes_leaf or not (op in _ADDED_UP or is_pass_through(op)):
            return False
    return True


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
