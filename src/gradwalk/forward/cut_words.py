"""Words for the ways in which a tensor loses its gradient."""

from __future__ import annotations

from collections.abc import Sequence

ALIAS = "alias"
"""What `Cut.how` says of a detached alias that was inferred: nobody saw how it was made."""

_NAMED = {
    "detach": "{}.detach()",
    "data": "{}.data",
    "copy": "a copy of {}",
    "item": "{}.item()",
    "numpy": "{}.numpy()",
    "no_grad": "{} under no_grad",
    "inference_mode": "{} under inference_mode",
    "derivative": "a derivative of {}",
    "integer cast": "{} by way of integers",
    "integer result": "{} by way of integers",
    ALIAS: "a detached alias of {}",
}
_NAMELESS = {"detach": "detach()", "data": ".data", "item": "item()", "numpy": "numpy()"}


def how_made(hows: Sequence[str], names: Sequence[str | None], *, direct: bool) -> str:
    """How an operand came to need no grad.

    Args:
        hows: `Cut.how` of each of its cuts.
        names: What the user calls the tensor that each began at.
        direct: Whether the operand is what its one cut left, not computed from that.

    Returns:
        A few words: "x.detach()", "from x under no_grad".

    Example::

        >>> how_made(["detach"], ["x"], direct=True)
        'x.detach()'
        >>> how_made(["item", "detach"], ["x", None], direct=False)
        'from x.item() and 1 more'
    """
    how, name = hows[0], names[0]
    made = _NAMELESS[how] if name is None and how in _NAMELESS else _NAMED[how]
    made = made.format(name or "a tensor")
    more = f" and {len(hows) - 1} more" if len(hows) > 1 else ""
    return made if direct and not more else f"from {made}{more}"
