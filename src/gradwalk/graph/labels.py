"""Short texts for nodes, values and sizes, and operations that only pass a tensor through."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..lazily import nx


_MOST = 28  # characters


def described(graph: nx.MultiDiGraph, node: int) -> str:
    """Describe a node by its operation, name and number."""
    data = graph.nodes[node]
    name = f" of {data['name']}" if data["name"] else ""
    return f"{data['op']}{name} (node {node})"


def label(data: dict[str, Any]) -> str:
    """Return a node's text: its name if it has one, else its op or role, or a constant's value."""
    if data["kind"] == "constant":
        return str(data["name"] or data.get("role") or data.get("value") or data["op"])
    if data["kind"] == "outside":
        return str(data["name"] or _nameless(data))
    if data["op"] == "AccumulateGrad":
        return str(data["name"] or "leaf")
    return str(data["name"] or data["op"])


def _nameless(data: dict[str, Any]) -> str:
    """Return a word for a tensor outside the graph by how it was made."""
    if data["is_leaf"]:
        return "leaf"
    made = data.get("made_by")
    if made is None:
        return "unnamed tensor"
    return str(made) if made.endswith(")") else f"result of {made}"


def short_value(values: Any) -> str | None:
    """Format values of ``tolist()``, floats to four digits: "2", "[1, 2.5]"; None if too long.

    Example:
        >>> short_value([1.0, 0.33333])
        '[1, 0.3333]'
    """
    if values is None:
        return None
    text = _text(values)
    return text if len(text) <= _MOST else None


def _text(values: Any) -> str:
    if isinstance(values, list):
        return f"[{', '.join(_text(value) for value in values)}]"
    return f"{values:.4g}" if isinstance(values, float) else str(values)


def in_bytes(size: int) -> str:
    """Format a number of bytes: "1.5 MiB"."""
    power = min(int(math.log2(max(size, 1))) // 10, 4)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{size} {unit}" if power == 0 else f"{size / 2 ** (10 * power):.3g} {unit}"


_BACKWARD = re.compile(r"Backwards?(Autograd\w+?)?\d*(_copy)?$")


def without_backward(op: str) -> str:
    """Return a class name without its ending: "Mul" of "MulBackward0", "View" of a copied view."""
    return _BACKWARD.sub("", op)


VIEWS = frozenset(
    {
        "AliasBackward0",
        "AsStridedBackward0",
        "DiagonalBackward0",
        "PermuteBackward0",
        "ReshapeAliasBackward0",
        "SelectBackward0",
        "SliceBackward0",
        "SplitBackward0",
        "SplitWithSizesBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "SqueezeBackward2",
        "SqueezeBackward3",
        "SqueezeBackward4",
        "SqueezeBackward5",
        "TBackward0",
        "TransposeBackward0",
        "TransposeBackward1",
        "UnbindBackward0",
        "UnfoldBackward0",
        "UnsafeSplitBackward0",
        "UnsafeSplitWithSizesBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "UnsqueezeBackward1",
        "ViewBackward0",
        "ViewAsComplexBackward0",
        "ViewAsRealBackward0",
    }
)
"""The same numbers, or some of them, under another shape: the gradient gets the old shape back."""

EXPANDS = frozenset({"ExpandBackward0", "RepeatBackward0"})
"""The same numbers several times: the gradient is summed over the copies."""

COPIES = frozenset({"CloneBackward0", "CopyBackwards", "LiftBackward0"})
"""The same numbers in other memory: the gradient does not change."""

CASTS = frozenset({"ToCopyBackward0"})
"""The same numbers in another dtype or on another device: the gradient is cast back."""

PLUMBING = VIEWS | EXPANDS | COPIES | CASTS


def is_pass_through(op: str) -> bool:
    """Return whether a node only passes a tensor through: a view, expand, copy or cast."""
    return op.removesuffix("_copy") in PLUMBING
