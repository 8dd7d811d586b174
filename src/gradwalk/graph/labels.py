"""Short texts for nodes, values and sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx


_MOST = 28  # characters


def described(graph: nx.MultiDiGraph, node: int) -> str:
    """Describe a node by its operation, name and number."""
    data = graph.nodes[node]
    name = f" of {data['name']}" if data["name"] else ""
    return f"{data['op']}{name} (node {node})"


def label(data: dict[str, Any]) -> str:
    """Return a node's text: its name if it has one, else its op, or a constant's value."""
    if data["kind"] == "constant":
        return str(data["name"] or data.get("value") or data["op"])
    if data["kind"] == "outside":
        return str(data["name"] or "unnamed tensor")
    return str(data["name"] or data["op"])


def short_value(values: Any) -> str | None:
    """Format values to fit beside a node: "2", "[1, 2.5]".

    Args:
        values: A number, or nested lists from ``Tensor.tolist()``.

    Returns:
        The text, with floats to four digits; None for no values, and for a text that is too long.

    Example::

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
