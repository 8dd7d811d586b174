"""Find operations that make a gradient zero everywhere: their derivative is zero there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..graph.nodes import keeps_tensors, node_class
from ..graph.reading import why_unreadable
from ..graph.saved import plain_value, read_saved
from ..modules.plumbing import is_plumbing
from .blocking_rules import Saved, blocked


@dataclass(frozen=True)
class Block:
    """An operation that turns every gradient into zeros on its way to one or all of its inputs.

    Attributes:
        node: The node's id.
        because: The reason, as a clause: "its input is nowhere above 0".
        remedy: What to do.
        factor: The argument whose zeros block, if any.
    """

    node: int
    because: str
    remedy: str
    factor: str | None = None


@dataclass(frozen=True)
class Blocks:
    """The operations that block gradients on the way to one node.

    Attributes:
        found: The operations that block the ways to it, nearest to the outputs first; only when
            they block every way, else empty.
        unknown: Whether saved tensors on the way are freed or cannot be read, so that an operation
            may block.
    """

    found: list[Block]
    unknown: bool


def blocks_before(captured: Capture, target: int) -> Blocks:
    """Find why only zeros can arrive at a node.

    Args:
        captured: The graph.
        target: The node.

    Returns:
        The operations that block the ways from the outputs to it, judged by their saved tensors.
    """
    graph = captured.graph
    import networkx as nx  # noqa: PLC0415  slow to import

    leading = nx.ancestors(graph, target)
    waiting = list(dict.fromkeys(root for root, _ in graph.graph["roots"]))
    seen = set(waiting)
    found: dict[int, Block] = {}
    reached, unknown = target in seen, False
    for node in waiting:  # grows while we walk
        if node == target or node not in leading:
            continue
        saved, complete = _saved(captured.nodes[node])
        unknown = unknown or not complete
        for _, following, edge in graph.out_edges(node, data=True):
            if following != target and following not in leading:
                continue
            block = blocked(captured.nodes[node], edge["argument"], saved)
            if block is not None:
                found.setdefault(node, Block(node, *block))
            elif following == target:
                reached = True
            elif following not in seen:
                seen.add(following)
                waiting.append(following)
    return Blocks([] if reached else list(found.values()), unknown)


@dataclass(frozen=True)
class BlockedLeaves:
    """The operations that block gradients on the way to several nodes.

    Attributes:
        by_block: Operations that block, each with the nodes behind it that no open way reaches.
            Each node is listed once.
        rest: The nodes that an open way reaches, as far as known.
        unknown: As for `Blocks`, for the rest.
    """

    by_block: list[tuple[Block, list[int]]]
    rest: list[int]
    unknown: bool


def blocked_leaves(captured: Capture, targets: list[int]) -> BlockedLeaves:
    """Find why only zeros can arrive at some nodes: `blocks_before` for many, in one walk.

    Args:
        captured: The graph.
        targets: The nodes.
    """
    graph = captured.graph
    waiting = list(dict.fromkeys(root for root, _ in graph.graph["roots"]))
    reached = set(waiting)
    stopped: list[tuple[Block, int]] = []
    unknown = False
    for node in waiting:  # grows while we walk
        saved, complete = _saved(captured.nodes[node])
        unknown = unknown or not complete
        for _, following, edge in graph.out_edges(node, data=True):
            why = blocked(captured.nodes[node], edge["argument"], saved)
            if why is not None:
                stopped.append((Block(node, *why), following))
            elif following not in reached:
                reached.add(following)
                waiting.append(following)
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


def is_margin(captured: Capture, node: int) -> bool:
    """Return whether a node clamps a margin in a loss, such as a hinge or triplet loss.

    If it blocks every gradient, every margin is kept, and nothing is wrong.

    Args:
        captured: The graph.
        node: The node.
    """
    graph, nodes = captured.graph, captured.nodes
    if graph.nodes[node]["op"] not in _FLOORS or plain_value(nodes[node], "max") is not None:
        return False
    waiting, seen = [node], {node}
    for each in waiting:  # grows while we walk, as long as its result is only added up
        for user in graph.pred[each]:
            if user in seen:
                continue
            op = graph.nodes[user]["op"]
            takes_leaf = any(graph.nodes[child]["kind"] == "leaf" for child in graph.succ[user])
            if takes_leaf or not (op in _ADDED_UP or is_plumbing(op)):
                return False
            seen.add(user)
            waiting.append(user)
    return True


def _saved(node: Node) -> tuple[Saved, bool]:
    """Return the saved tensors of a node that can be read, and whether these are all."""
    if not keeps_tensors(type(node)) or node_class(type(node)).is_function:
        return {}, True
    saved = list(read_saved(node))
    values = {each.name: each.value for each in saved if _is_there(each.value)}
    return values, len(values) == len(saved)


def _is_there(value: Any) -> bool:
    """Return whether a saved value can be read: not freed, not packed, its memory in place."""
    if isinstance(value, torch.Tensor):
        return why_unreadable(value) is None
    return value is not None
