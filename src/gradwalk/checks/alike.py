"""Findings about gradients that are alike, or next to nothing, by algebra."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ..graph.adjacency import distances
from ..result import make
from ..torch_api.reading import everywhere, is_plain
from .context import CheckContext
from .finding import Finding

_MOST_COMPARED = 2**22  # numbers
_CLOSE = 1e-5
_TINY = 1e-6
_USES = frozenset({"TBackward0", "TransposeBackward0", "MmBackward0", "ConvolutionBackward0"})

_SOFTMAX = ("SoftmaxBackward0", "SafeSoftmaxBackward0")
_ATTENTIONS = (
    *("ScaledDotProductFlashAttentionForCpuBackward0", "ScaledDotProductFlashAttentionBackward0"),
    *("ScaledDotProductEfficientAttentionBackward0", "ScaledDotProductCudnnAttentionBackward0"),
)


def alike_findings(context: CheckContext) -> Iterator[Finding]:
    """Find units that stay alike, results that are constant, and leaves far below others."""
    found = [*_equal_rows(context), *_constant_ratio(context), *_one_key(context)]
    yield from found or _far_below(context)


def _equal_rows(context: CheckContext) -> Iterator[Finding]:
    """Weights of layers whose units have the same numbers and the same gradient."""
    graph = context.captured.graph
    for node, (kept, norm) in context.arrived.items():
        leaf = context.leaf(node)
        grad = None if kept is None else kept.tensor
        if leaf is None or grad is None or not norm or leaf.shape != grad.shape:
            continue
        if leaf.dim() < 2 or leaf.shape[0] < 2 or leaf.numel() > _MOST_COMPARED:
            continue
        users = {graph.nodes[user]["op"] for user in graph.pred[node]}
        if users.isdisjoint(_USES) or not (_are_alike(leaf) and _are_alike(grad)):
            continue
        user = next(iter(graph.pred[node]))
        message = (
            f"All {leaf.shape[0]} units of {context.name(node)} have the same numbers and the same "
            f"gradient in {context.place(user)}, so they stay one unit. Initialise them at random, "
            "as torch's layers do; a normalisation does not help."
        )
        yield make(Finding, "alike", "warning", [node], message, {"units": leaf.shape[0]})


def _are_alike(tensor: torch.Tensor) -> bool:
    if not is_plain(tensor) or tensor.is_complex():
        return False
    rows = tensor.detach().flatten(1).float()
    most = float(rows.abs().max())
    if not math.isfinite(most):
        return False
    return float((rows - rows[:1]).abs().max()) <= _CLOSE * most


def _constant_ratio(context: CheckContext) -> Iterator[Finding]:
    """A quotient of equal numbers, as of one weight that is divided by the sum of all."""
    graph = context.captured.graph
    for node, _ in context.nodes_of(("DivBackward0",)):
        given = {edge["argument"] for _, _, edge in graph.out_edges(node, data=True)}
        saved = context.saved(node)
        one, other = saved.get("self"), saved.get("other")
        if not {"self", "other"} <= given or one is None or other is None:
            continue
        if one.shape != other.shape or not (is_plain(one) and is_plain(other)):
            continue
        if not one.numel() or everywhere(one - other, lambda part: part == 0) is not True:
            continue
        message = (
            f"{context.place(node)} divides {one.numel()} numbers by themselves, so its result "
            "is 1 and no gradient passes it. A sum over one entry, as of the best one of a router, "
            "is that entry: leave out the division."
        )
        yield make(Finding, "alike", "warning", [node], message, {"numbers": one.numel()})


def _one_key(context: CheckContext) -> Iterator[Finding]:
    """Attentions over one key, whose weight is always 1."""
    keys = dict(_keys_of_attentions(context))
    if not keys or any(count > 1 for count in keys.values()):
        return  # the first step of several has one key
    if any(norm == 0 for _, norm in context.arrived.values()):
        return  # the finding about zeros says why
    (node, *more) = keys
    message = (
        f"The attention in {context.place(node)} is over one key"
        f"{f', as in {len(more)} others' if more else ''}, so its weight is always 1 and no "
        "gradient reaches queries and keys. Give it a sequence of several tokens, or leave the "
        "attention out."
    )
    yield make(Finding, "alike", "info", [node, *more], message, {"attentions": len(keys)})


def _keys_of_attentions(context: CheckContext) -> Iterator[tuple[int, int]]:
    """Yield each attention, and the number of its keys."""
    for node, op in context.nodes_of((*_SOFTMAX, *_ATTENTIONS)):
        shape: tuple[int, ...] = context.captured.graph.nodes[node]["shape"] or ()
        if op in _ATTENTIONS:
            key = context.saved(node).get("key")
            if isinstance(key, torch.Tensor) and key.dim() > 1:
                yield node, key.shape[-2]
        elif len(shape) > 2:
            yield node, shape[-1]


def _far_below(context: CheckContext) -> Iterator[Finding]:
    """A weight with a gradient a million times below all others, on a way no longer."""
    norms = {
        node: norm
        for node, (_, norm) in context.arrived.items()
        if norm and math.isfinite(norm) and (leaf := context.leaf(node)) is not None
        if leaf.dim() > 1
    }
    if len(norms) < 3:
        return
    least, second, *_ = sorted(norms, key=norms.__getitem__)
    if norms[least] >= _TINY * norms[second]:
        return
    graph = context.captured.graph
    far = distances(graph.succ, [node for node, _ in context.captured.roots])
    if far[least] > max(far[node] for node in norms if node != least):
        return
    user = next(iter(graph.pred[least]))
    message = (
        f"The gradient of {context.name(least)} has a norm of {norms[least]:.2g}, and the next one "
        f"{norms[second]:.2g}, although its way from the loss is no longer. Look at the factors "
        f"around {context.place(user)}."
    )
    numbers = {"norm": norms[least], "next": norms[second]}
    yield make(Finding, "alike", "info", [least], message, numbers)
