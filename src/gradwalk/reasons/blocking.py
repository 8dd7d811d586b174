"""Where a gradient becomes zero everywhere: operations whose derivative is zero at their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..graph.nodes import keeps_tensors, node_class, op_name
from ..graph.saved import read_saved

Saved = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """An operation that turns every gradient into zeros on its way to one or all of its inputs.

    Attributes:
        node: The node's id.
        because: Why, as the end of a sentence: "its input is nowhere above 0".
        remedy: What to do about it.
    """

    node: int
    because: str
    remedy: str


@dataclass(frozen=True)
class Blocks:
    """What stands between the outputs and one node.

    Attributes:
        found: The operations that block the ways to it, nearest to the outputs first; only when
            they block every way, else empty.
        unknown: Whether an operation on the way has freed what it saved, so that it may block.
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


def _saved(node: Node) -> tuple[Saved, bool]:
    """What a node saved, and whether all of it is still there."""
    if not keeps_tensors(type(node)) or node_class(type(node)).is_function:
        return {}, True
    saved = list(read_saved(node))
    values = {each.name: each.value for each in saved if not each.freed}
    return values, not any(each.freed for each in saved)


def _blocked(node: Node, argument: str | None, saved: Saved) -> tuple[str, str] | None:
    name = op_name(node)
    if name in _FLAT:
        return "its result is the same for inputs that differ a little", (
            "replace it by something with a slope, or let the gradient pass as if it were not there"
        )
    rule = _RULES.get(name)
    try:
        return rule(argument, saved) if rule is not None and saved else None
    except (KeyError, RuntimeError, TypeError, NotImplementedError):
        return None  # what it saved is packed, on the meta device, sparse, ...


_FLAT = frozenset(
    f"{name}Backward0" for name in ("Sign", "Sgn", "Floor", "Ceil", "Round", "Trunc", "Heaviside")
)


def _dead_relu(_: str | None, saved: Saved) -> tuple[str, str] | None:
    if not _all(saved["result"] <= 0):
        return None
    return "a dead ReLU, whose input is nowhere above 0", (
        "check the initialisation and the learning rate, or use a leaky ReLU"
    )


def _threshold(_: str | None, saved: Saved) -> tuple[str, str] | None:
    if not _all(saved["self"] <= saved["threshold"]):
        return None
    return f"its input is nowhere above its threshold, {saved['threshold']:g}", (
        "check the scale of its input"
    )


def _hardtanh(_: str | None, saved: Saved) -> tuple[str, str] | None:
    value = saved["self"]
    if not _all((value <= saved["min_val"]) | (value >= saved["max_val"])):
        return None
    return _outside(saved["min_val"], saved["max_val"])


def _clamp(_: str | None, saved: Saved) -> tuple[str, str] | None:
    value, low, high = saved["self"], saved.get("min"), saved.get("max")
    outside = torch.zeros_like(value, dtype=torch.bool)
    if low is not None:
        outside |= value < low
    if high is not None:
        outside |= value > high
    return _outside(low, high) if _all(outside) else None


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


def _saturated(low: float) -> Callable[[str | None, Saved], tuple[str, str] | None]:
    def rule(_: str | None, saved: Saved) -> tuple[str, str] | None:
        result = saved["result"]
        if not _all((result == low) | (result == 1)):
            return None
        return f"it is saturated: its result is everywhere exactly {low:g} or 1", (
            "check the scale of its input"
        )

    return rule


def _masked(argument: str | None, saved: Saved) -> tuple[str, str] | None:
    if argument != "self" or not _all(saved["mask"]):
        return None
    return "its mask covers everything", "check the mask"


def _where(argument: str | None, saved: Saved) -> tuple[str, str] | None:
    condition = saved["condition"]
    if argument not in ("self", "other") or not _all(condition != (argument == "self")):
        return None
    return f"its condition selects nothing of {argument}", "check the condition"


def _product(one: str, other: str) -> Callable[[str | None, Saved], tuple[str, str] | None]:
    """Of a product: the gradient of one factor is multiplied by the other."""

    def rule(argument: str | None, saved: Saved) -> tuple[str, str] | None:
        factor = {one: other, other: one}.get(argument or "")
        if factor is None or not _all(saved[factor] == 0):
            return None
        return f"what it is multiplied by ({factor}) is zero everywhere", (
            "check the mask or whatever made those zeros"
        )

    return rule


def _power(_: str | None, saved: Saved) -> tuple[str, str] | None:
    if saved["exponent"] <= 1 or not _all(saved["self"] == 0):
        return None
    return f"the slope of a power of {saved['exponent']:g} is zero at 0", (
        "start from another value than 0"
    )


def _all(condition: torch.Tensor) -> bool:
    return condition.numel() > 0 and bool(condition.all())


_RULES: dict[str, Callable[[str | None, Saved], tuple[str, str] | None]] = {
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
}
