"""Symbols of operations on places of a tensor, with the places as in Python: "[:, 1:3]"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd.graph import Node

from ..torch_api.saved_tensors import plain_value, signed

INTO = "put at "
"""Before the places of zeros that an operation writes to: the backward of reading them."""

_LONGEST = 16  # characters of a symbol
_TO_END = (1 << 63) - 1  # torch's end of a slice without one


def index_sign(op: str, grad_fn: Node | None) -> str | None:
    """Return the symbol of a node that reads or writes places of a tensor.

    None for other nodes, for places that are not known, and for those too long for a card.
    """
    written = _WRITTEN.get(op.removesuffix("_copy"))
    sign = None if written is None or grad_fn is None else written(grad_fn)
    return sign if sign is not None and len(sign) <= _LONGEST else None


def with_place(sign: str | None, place: str) -> str | None:
    """Return the symbol of an assignment, "[ ] = 2", with its place; without if that is long."""
    written = None if sign is None else sign.replace("[ ]", f"[{place}]", 1)
    return sign if written is None or len(written) > _LONGEST else written


def _select(node: Node) -> str | None:
    index = _whole(node, "index")
    return None if index is None else _at_dim(node, str(index))


def _slice(node: Node) -> str | None:
    start, end, step = (_whole(node, name) for name in ("start", "end", "step"))
    if start is None or end is None or step is None:
        return None
    first = "" if start == 0 else str(start)
    last = "" if end == _TO_END else str(end)
    return _at_dim(node, f"{first}:{last}" + (f":{step}" if step != 1 else ""))


def _at_dim(node: Node, place: str) -> str | None:
    """Return a place along the saved dimension, counted from whichever end is written shorter."""
    dim = _whole(node, "dim")
    sizes = plain_value(node, "self_sym_sizes")
    if dim is None:
        return None
    count = len(sizes) if isinstance(sizes, tuple) else None
    forms = []
    if dim >= 0 or count is not None:
        forms.append([":"] * (dim if dim >= 0 else dim + (count or 0)) + [place])
    if dim < 0 or count is not None:
        after = -dim - 1 if dim < 0 else (count or 0) - dim - 1
        forms.append(["...", place] + [":"] * after)
    return min((f"[{', '.join(form)}]" for form in forms), key=len)


def _index_put(node: Node) -> str:
    return "[index] +=" if plain_value(node, "accumulate") else "[index] ="


def _index_fill(node: Node) -> str | None:
    place = _at_dim(node, "index")
    return None if place is None else f"{place} ="


def _whole(node: Node, name: str) -> int | None:
    found: Any = signed(plain_value(node, name))
    return found if type(found) is int else None  # a traced size is a symbol


def _into(written: Callable[[Node], str | None]) -> Callable[[Node], str | None]:
    def into(node: Node) -> str | None:
        place = written(node)
        return None if place is None else INTO + place

    return into


_WRITTEN: dict[str, Callable[[Node], str | None]] = {
    "SelectBackward0": _select,
    "SliceBackward0": _slice,
    # The tensors of an index may be packed or freed, so they are not read.
    "IndexBackward0": lambda _: "[index]",
    "IndexPutBackward0": _index_put,
    "IndexPutImplBackward0": _index_put,
    # From torch 2.15 on also what assigns a number: x[index] = 4.0.
    "IndexFillBackward0": _index_fill,
    "IndexFillBackward1": _index_fill,
    "SelectBackwardBackward0": _into(_select),
    "SliceBackwardBackward0": _into(_slice),
}
