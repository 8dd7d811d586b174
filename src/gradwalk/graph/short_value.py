"""A small tensor's values in a few characters."""

from __future__ import annotations

from typing import Any

_MOST = 28  # characters


def short_value(values: Any) -> str | None:
    """Values as they fit beside a node: "2", "[1, 2.5]".

    Args:
        values: A number, or nested lists of them as ``Tensor.tolist()`` gives.

    Returns:
        Floats with four digits; None for no values, and for those that take too much room.

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
