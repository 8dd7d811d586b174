"""Walk back from the node where NaN was met to the tensor that brought it or first was Inf."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..english import plural
from ..explain.constants_and_cuts import at_line
from ..torch_api.nodes import keeps_tensors
from ..torch_api.reading import everywhere, finite, is_plain, why_unreadable
from ..tracing.cuts import Constant
from .context import CheckContext

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_MOST_NODES = 64
_MOST_MULTIPLIED = 2**28  # multiplications of one product that is computed again
_SOFTMAX = ("SoftmaxBackward0", "LogSoftmaxBackward0")
_PRODUCTS = {"MmBackward0": ("self", "mat2"), "BmmBackward0": ("self", "mat2")}


def word_of(value: Any) -> str | None:
    """Return NaN, Inf or -Inf, whichever a tensor has; None for none, and if it is unreadable."""
    if isinstance(value, list):
        try:
            value = torch.tensor(value, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError):
            return None
    if isinstance(value, float):
        value = torch.tensor(value, dtype=torch.float64)
    if not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS:
        return None
    if why_unreadable(value) is not None or everywhere(value, finite) is not False:
        return None
    if everywhere(value, lambda part: ~part.isnan()) is False:
        return "NaN"
    return "-Inf" if everywhere(value, lambda part: part != math.inf) else "Inf"


def cause_behind(context: CheckContext, start: int, how: Callable[[int], str | None]) -> str:
    """Return a sentence about the tensor behind a node that has Inf or NaN; empty for none known.

    ``how``: says how an operation made it, if its saved tensors show that. The walk ends at
    results that are known to be finite: nothing comes through them.
    """
    found: tuple[int, str] | None = None
    waiting, seen = [start], {start}
    for node in waiting:  # grows while we walk
        for order, words in _of_node(context, node, None if node == start else how):
            if found is None or order < found[0]:
                found = order, words
        for child in context.captured.graph.succ[node]:
            is_known = child not in seen and len(seen) < _MOST_NODES
            if is_known and _is_finite(context, child) is not True:
                seen.add(child)
                waiting.append(child)
    if found is None:
        return ""
    op = context.captured.graph.nodes[start]["op"]
    why = " A softmax of a row of -Inf, or of Inf, is NaN." if op in _SOFTMAX else ""
    return f" The cause is before it: {found[1]}.{why}"


def _of_node(
    context: CheckContext, node: int, how: Callable[[int], str | None] | None
) -> Iterator[tuple[int, str]]:
    """Yield NaN and Inf that a node took as a constant or made; each with its place in time."""
    captured = context.captured
    data = captured.graph.nodes[node]
    leaf = context.leaf(node)
    if leaf is not None:
        word = word_of(leaf)
        if word:
            name = context.name(node)
            yield -2, f"{name} has {word} in it before this forward pass, as after a bad step"
        return
    seen = captured.annotations.get(node)
    for each in seen.constants if seen is not None else ():
        tensor = each.tensor() if each.tensor is not None else None
        word = word_of(tensor if tensor is not None else each.values)
        if word and each.tensor is not None:
            yield -1, _constant(context, each, tensor, word)
    if how is None:  # the start, of which others say how
        return
    rows = _masked_rows(context, node)
    if rows:
        yield (
            data["sequence_nr"],
            f"{context.place(node)} masks every entry of {plural(rows, 'row')}",
        )
        return
    word = word_of(_value(context, node)) or _overflow(context, node)
    if word:
        dtype = getattr(torch, str(data["dtype"]).removeprefix("torch."), None)
        largest = f"{torch.finfo(dtype).max:g}" if dtype in _FLOATS else ""
        is_half = dtype is torch.float16 and word != "NaN"
        ends = f": float16 ends at {largest}" if is_half else ""
        by = how(node)
        made = f" {_has(word)}{ends}" if by is None else f", {by}, {_has(word)}"
        yield data["sequence_nr"], f"{_called(context, node)}{made}"


def _masked_rows(context: CheckContext, node: int) -> int:
    """Count the rows of a masked tensor, along its last dimension, that have no entry left."""
    if context.captured.graph.nodes[node]["op"] != "MaskedFillBackward0":
        return 0
    mask = context.saved(node).get("mask")
    if not isinstance(mask, torch.Tensor) or not is_plain(mask) or not mask.dim():
        return 0
    return int(mask.all(-1).sum())


def _has(word: str) -> str:
    return f"has {word} in it"


def _called(context: CheckContext, node: int) -> str:
    outputs = context.captured.graph.nodes[node]["outputs"]
    name = outputs[0]["name"] if outputs else None
    return f"{name}{context.at(node)}" if name else context.place(node)


def _constant(
    context: CheckContext, constant: Constant, tensor: torch.Tensor | None, word: str
) -> str:
    name = None if tensor is None else context.called.name_of(tensor)
    what = name or f"a constant of shape {constant.shape}"
    where = constant.origin.where if constant.origin is not None else None
    made = f", made{at_line(where, text=True)}" if where is not None else ""
    return f"{what} has {word} in it{made}"


def _keeps(context: CheckContext, node: int) -> bool:
    kind: type = type(context.captured.nodes[node])
    return keeps_tensors(kind)


def _value(context: CheckContext, node: int) -> Any:
    """The result of an operation, as far as a variable, watch() or a saved tensor has it."""
    captured = context.captured
    reference = captured.tensors.get((node, 0))
    alive = reference() if reference is not None else None
    if alive is not None:
        return alive
    seen = captured.annotations.get(node)
    if seen is not None and seen.value is not None:
        return seen.value
    if _keeps(context, node):
        own = context.saved(node).get("result")
        if isinstance(own, torch.Tensor):
            return own
    for user in captured.graph.pred[node]:
        if not _keeps(context, user):
            continue
        arguments = {edge["argument"] for edge in captured.graph[user][node].values()}
        saved = context.saved(user)
        for argument in arguments:
            if isinstance(saved.get(argument), torch.Tensor):
                return saved[argument]
    return None


def _is_finite(context: CheckContext, node: int) -> bool | None:
    value = context.leaf(node)
    if value is None:
        value = _value(context, node)
    if isinstance(value, (list, float)):
        return word_of(value) is None
    if not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS:
        return None
    return everywhere(value, finite) if why_unreadable(value) is None else None


def _overflow(context: CheckContext, node: int) -> str | None:
    """Whether a product in half precision, or a multiple of one, is too large for its type."""
    graph, factor = context.captured.graph, 1.0
    with contextlib.suppress(Exception):  # freed, packed, of a class that refuses
        for _ in range(4):
            data = graph.nodes[node]
            if data["dtype"] != "torch.float16":
                return None
            if data["op"] in _PRODUCTS:
                one, other = (context.saved(node)[name] for name in _PRODUCTS[data["op"]])
                if not (is_plain(one) and is_plain(other)):
                    return None
                if one.numel() * other.shape[-1] > _MOST_MULTIPLIED:
                    return None
                most = float((one.float() @ other.float()).abs().max()) * factor
                is_beyond = math.isfinite(most) and most > torch.finfo(torch.float16).max
                return "Inf" if is_beyond else None
            seen = context.captured.annotations.get(node)
            numbers = [
                each.values
                for each in (seen.constants if seen is not None else ())
                if isinstance(each.values, (int, float))
            ]
            if data["op"] == "MulBackward0" and numbers:
                factor *= abs(numbers[0])
            elif data["op"] == "DivBackward0" and numbers:
                factor /= abs(numbers[0])
            elif data["op"] not in ("ViewBackward0", "UnsafeViewBackward0", "ExpandBackward0"):
                return None
            (node,) = graph.succ[node]
    return None
