"""Where a gradient becomes zero everywhere: operations whose derivative is zero at their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..graph.nodes import keeps_tensors, node_class, op_name
from ..graph.reading import PART, everywhere, why_unreadable
from ..graph.saved import read_saved

Saved = dict[str, Any]
Why = tuple[str, str] | tuple[str, str, str | None]
Rule = Callable[[str | None, Saved], Why | None]


@dataclass(frozen=True)
class Block:
    """An operation that turns every gradient into zeros on its way to one or all of its inputs.

    Attributes:
        node: The node's id.
        because: Why, as the end of a sentence: "its input is nowhere above 0".
        remedy: What to do about it.
        factor: The argument whose zeros do it, where it is one.
    """

    node: int
    because: str
    remedy: str
    factor: str | None = None


@dataclass(frozen=True)
class Blocks:
    """What stands between the outputs and one node.

    Attributes:
        found: The operations that block the ways to it, nearest to the outputs first; only when
            they block every way, else empty.
        unknown: Whether what an operation on the way saved was freed or cannot be read, so that it
            may block.
    """

    found: list[Block]
    unknown: bool


def blocks_before(captured: Capture, target: int) -> Blocks:
    """Why no gradient but zeros can arrive at a node.

    Args:
        captured: The graph.
        target: The node.

    Returns:
        What blocks the ways from the outputs to it, judged by what the operations saved.
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
            block = _blocked(captured.nodes[node], edge["argument"], saved)
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
    """What stands between the outputs and several nodes.

    Attributes:
        by_block: Operations that block, with those of the nodes that lie behind them and to which
            no way is open; each node at one of them.
        rest: The nodes to which a way is open, as far as can be told.
        unknown: As of `Blocks`, for the rest.
    """

    by_block: list[tuple[Block, list[int]]]
    rest: list[int]
    unknown: bool


def blocked_leaves(captured: Capture, targets: list[int]) -> BlockedLeaves:
    """Why no gradient but zeros can arrive at some nodes: `blocks_before` for many, in one walk.

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
            why = _blocked(captured.nodes[node], edge["argument"], saved)
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


def _saved(node: Node) -> tuple[Saved, bool]:
    """What a node saved and can be read, and whether that is all of it."""
    if not keeps_tensors(type(node)) or node_class(type(node)).is_function:
        return {}, True
    saved = list(read_saved(node))
    values = {each.name: each.value for each in saved if _is_there(each.value)}
    return values, len(values) == len(saved)


def _is_there(value: Any) -> bool:
    """Whether a saved value is at hand: not freed, not packed by a hook, its memory in place."""
    if isinstance(value, torch.Tensor):
        return why_unreadable(value) is None
    return value is not None


def _blocked(node: Node, argument: str | None, saved: Saved) -> Why | None:
    name = op_name(node)
    if name in _FLAT:
        return "its result is the same for inputs that differ a little", (
            "replace it by something with a slope, or let the gradient pass as if it were not there"
        )
    rule = _RULES.get(name)
    try:
        return rule(argument, saved) if rule is not None and saved else None
    except Exception:  # what it saved is packed, sparse, of a class that refuses to compare, ...
        return None


_FLAT = frozenset(
    f"{name}Backward0" for name in ("Sign", "Sgn", "Floor", "Ceil", "Round", "Trunc", "Heaviside")
)


def _dead_relu(_: str | None, saved: Saved) -> Why | None:
    if not everywhere(saved["result"], lambda result: result <= 0):
        return None
    return "a dead ReLU, whose input is nowhere above 0", (
        "check the initialisation and the learning rate, or use a leaky ReLU"
    )


def _threshold(_: str | None, saved: Saved) -> Why | None:
    limit = saved["threshold"]
    if not everywhere(saved["self"], lambda value: value <= limit):
        return None
    return f"its input is nowhere above its threshold, {saved['threshold']:g}", (
        "check the scale of its input"
    )


def _hardtanh(_: str | None, saved: Saved) -> Why | None:
    low, high = saved["min_val"], saved["max_val"]
    if not everywhere(saved["self"], lambda value: (value <= low) | (value >= high)):
        return None
    return _outside(low, high)


def _clamp(_: str | None, saved: Saved) -> Why | None:
    low = -math.inf if saved.get("min") is None else saved["min"]
    high = math.inf if saved.get("max") is None else saved["max"]
    value = saved["self"]
    limits = [limit for limit in (low, high) if isinstance(limit, torch.Tensor)]
    if limits:  # of their own for each number
        if any(each.numel() > PART for each in (value, *limits)):
            return None
        blocked = everywhere((value < low) | (value > high), lambda outside: outside)
    else:
        blocked = everywhere(value, lambda part: (part < low) | (part > high))
    return _outside(saved.get("min"), saved.get("max")) if blocked else None


def _outside(low: Any, high: Any) -> tuple[str, str]:
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("from", low), ("to", high))
        if isinstance(limit, (int, float))
    ]
    between = f" {' '.join(limits)}" if limits else ""
    return f"its input lies everywhere outside of its range{between}", (
        "check the scale of its input"
    )


def _saturated(low: float) -> Rule:
    def rule(_: str | None, saved: Saved) -> Why | None:
        if not everywhere(saved["result"], lambda result: (result == low) | (result == 1)):
            return None
        return f"it is saturated: its result is everywhere exactly {low:g} or 1", (
            "check the scale of its input"
        )

    return rule


def _masked(argument: str | None, saved: Saved) -> Why | None:
    if argument != "self" or not everywhere(saved["mask"], lambda mask: mask):
        return None
    return "its mask covers everything", "check the mask"


def _where(argument: str | None, saved: Saved) -> Why | None:
    if argument not in ("self", "other"):
        return None
    taken = argument == "self"
    if not everywhere(saved["condition"], lambda condition: condition != taken):
        return None
    return f"its condition selects nothing of {argument}", "check the condition"


def _product(one: str, other: str) -> Rule:
    """Of a product: the gradient of one factor is multiplied by the other."""

    def rule(argument: str | None, saved: Saved) -> Why | None:
        factor = {one: other, other: one}.get(argument or "")
        if factor is None or not everywhere(saved[factor], lambda value: value == 0):
            return None
        return (
            f"what it is multiplied by ({factor}) is zero everywhere",
            "check the mask or whatever made those zeros",
            factor,
        )

    return rule


def _scaled(argument: str | None, saved: Saved) -> Why | None:
    """Of a normalisation: its input's gradient is multiplied by its weight."""
    if argument != "input":
        return None
    if _is_of_single_numbers(saved):
        return "it normalises each number by itself, so what comes out is always its bias", (
            "normalise over more than one number"
        )
    if not everywhere(saved["weight"], lambda value: value == 0):
        return None
    return "its weight is zero everywhere", "start from another weight than 0", "weight"


def _is_of_single_numbers(saved: Saved) -> bool:
    if "normalized_shape" in saved:
        return math.prod(saved["normalized_shape"]) == 1
    if "group" in saved:
        return bool(saved["C"] * saved["HxW"] == saved["group"])
    return False


def _of_one_class(_: str | None, saved: Saved) -> Why | None:
    """Of a softmax: over one number it gives 1, whatever the number is."""
    result, dim = saved["result"], saved["dim"]
    # torch keeps a negative number as the whole number of 64 bits that has its bits.
    dim = dim - 2**64 if dim >= 2**63 else dim
    if not result.dim() or result.shape[dim] != 1:
        return None
    return "it is taken over a dimension of one number, so its result never changes", (
        "take another dimension, or for a single output a sigmoid"
    )


def _padding(_: str | None, saved: Saved) -> Why | None:
    """Of an embedding: the row for padding gets no gradient."""
    padding = saved["padding_idx"]
    padding = padding - 2**64 if padding >= 2**63 else padding
    if padding < 0 or not everywhere(saved["indices"], lambda index: index == padding):
        return None
    return f"every index is {padding}, its padding_idx, whose row gets no gradient", (
        "check the indices"
    )


def _power(_: str | None, saved: Saved) -> Why | None:
    if saved["exponent"] <= 1 or not everywhere(saved["self"], lambda value: value == 0):
        return None
    return f"the slope of a power of {saved['exponent']:g} is zero at 0", (
        "start from another value than 0"
    )


_RULES: dict[str, Rule] = {
    "ReluBackward0": _dead_relu,
    "ThresholdBackward0": _threshold,
    "HardtanhBackward0": _hardtanh,
    "ClampBackward1": _clamp,
    "ClampMinBackward0": _clamp,
    "ClampMaxBackward0": _clamp,
    "SigmoidBackward0": _saturated(0.0),
    "TanhBackward0": _saturated(-1.0),
    "MaskedFillBackward0": _masked,
    "WhereBackward0": _where,
    "MulBackward0": _product("self", "other"),
    "MmBackward0": _product("self", "mat2"),
    "BmmBackward0": _product("self", "mat2"),
    "AddmmBackward0": _product("mat1", "mat2"),
    "MvBackward0": _product("self", "vec"),
    "DotBackward0": _product("self", "tensor"),
    "ConvolutionBackward0": _product("input", "weight"),
    "PowBackward0": _power,
    "NativeBatchNormBackward0": _scaled,
    "CudnnBatchNormBackward0": _scaled,
    "NativeLayerNormBackward0": _scaled,
    "NativeGroupNormBackward0": _scaled,
    "SoftmaxBackward0": _of_one_class,
    "LogSoftmaxBackward0": _of_one_class,
    "EmbeddingBackward0": _padding,
}
