"""Findings about dimensions that were confused: of a softmax before a product, of a reshape."""

from __future__ import annotations

from collections.abc import Iterator

from ..result import make
from ..torch_api.saved_tensors import plain_value, signed
from .context import CheckContext
from .finding import Finding

_SOFTMAX = ("SoftmaxBackward0", "SafeSoftmaxBackward0")
_RESHAPES = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")
_PRODUCTS = ("BmmBackward0", "MmBackward0")
_BETWEEN = frozenset({*_RESHAPES, "ExpandBackward0"})
_KEEPS_PLACES = frozenset(
    {
        *("ExpandBackward0", "MulBackward0", "DivBackward0", "AddBackward0"),
        *("SubBackward0", "MaskedFillBackward0", "NativeDropoutBackward0", "ToCopyBackward0"),
        *("WhereBackward0", "ClampBackward0", "ClampBackward1", *_RESHAPES),
    }
)
_MOST_STEPS = 8


def axis_findings(context: CheckContext) -> Iterator[Finding]:
    """Find attentions whose softmax runs over the queries, and reshapes that swap sizes."""
    yield from _over_queries(context)
    yield from _swapping_reshapes(context)


def _over_queries(context: CheckContext) -> Iterator[Finding]:
    """A softmax of scores, taken by a product that sums over another dimension."""
    graph = context.captured.graph
    for node, _ in context.nodes_of(_SOFTMAX):
        shape = graph.nodes[node]["shape"] or ()
        dim = plain_value(context.captured.nodes[node], "dim")
        if dim is None or len(shape) < 3 or signed(dim) % len(shape) != len(shape) - 2:
            continue
        product = _product_of(context, node)
        if product is None or not _is_score(context, node):
            continue
        message = (
            f"{context.place(node)} runs over dimension {len(shape) - 2} of {tuple(shape)}, and "
            f"{context.place(product)} then sums over dimension {len(shape) - 1}. The weights of "
            "that sum do not add up to 1. For an attention over keys, take dim=-1."
        )
        yield make(Finding, "mixed-rows", "info", [node, product], message)


def _product_of(context: CheckContext, node: int) -> int | None:
    """The product that takes a result as its first factor, as ``weights @ values`` does."""
    graph = context.captured.graph
    for _ in range(_MOST_STEPS):
        users = list(graph.pred[node])
        if len(users) != 1:
            return None
        op = graph.nodes[users[0]]["op"]
        if op in _PRODUCTS:
            arguments = {edge["argument"] for edge in graph[users[0]][node].values()}
            return users[0] if arguments == {"self"} else None
        if op not in _BETWEEN and op not in ("NativeDropoutBackward0", "MulBackward0"):
            return None
        (node,) = users
    return None


def _is_score(context: CheckContext, node: int) -> bool:
    """Whether a tensor is made of a product of two results, place by place."""
    graph = context.captured.graph
    for _ in range(_MOST_STEPS):
        before = [each for each in graph.succ[node] if context.leaf(each) is None]
        if len(before) != 1:
            return False
        (node,) = before
        op = graph.nodes[node]["op"]
        if op == "BmmBackward0":
            return len([each for each in graph.succ[node] if context.leaf(each) is None]) == 2
        if op not in _KEEPS_PLACES:
            return False
    return False


def _swapping_reshapes(context: CheckContext) -> Iterator[Finding]:
    """A reshape to the sizes that a transpose would give, or to heads before positions."""
    graph, found = context.captured.graph, set()
    for node, _ in context.nodes_of(_RESHAPES):
        before = [tuple(graph.nodes[each]["shape"] or ()) for each in graph.succ[node]]
        after = tuple(graph.nodes[node]["shape"] or ())
        if len(before) != 1:
            continue
        what, place = _swapped(before[0], after), context.line(node) or node
        if what and place not in found:
            found.add(place)
            message = (
                f"{context.place(node)} reshapes {before[0]} to {after}, which keeps the order "
                f"of the numbers and so mixes dimensions. {what}"
            )
            yield make(Finding, "mixed-rows", "info", [node], message)


def _swapped(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """Return the call to write where a reshape mixes dimensions; empty for another reshape."""
    if len(before) == len(after) > 2 and before[0] == after[0]:
        if before[1:] == after[1:] or sorted(before[1:]) != sorted(after[1:]):
            return ""
        real = [each for each in before[1:] if each != 1]
        if len(set(real)) < 2 or real == [each for each in after[1:] if each != 1]:
            return ""
        return "To swap dimensions, use transpose() or permute()."
    if len(before) == 3 and len(after) == 4 and before[0] == after[0]:
        _, rows, width = before
        _, heads, again, size = after
        is_split = again == rows > 1 and heads * size == width and size > 1
        if is_split and heads > 1 and heads != rows and size != width:
            return f"To split {heads} heads, use view(..., {heads}, {size}).transpose(1, 2)."
    return ""
