"""Findings about a loss: how it is put together, and what it is given."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..explain.constants_and_cuts import words_of
from ..graph.adjacency import successors
from ..graph.labels import is_pass_through
from ..result import make
from ..schema.findings import FindingKind, Severity
from ..torch_api.reading import is_plain
from ..torch_api.saved_tensors import plain_value
from .context import CheckContext
from .finding import Finding

_BETWEEN = frozenset({"SubBackward0", "AddBackward0", "MulBackward0", "DivBackward0"})
_APPLIES: dict[str, tuple[FindingKind, str, str]] = {
    "LogSoftmaxBackward0": ("softmax-twice", "softmax", "cross_entropy() and log_softmax()"),
    "BinaryCrossEntropyWithLogitsBackward0": (
        "sigmoid-twice",
        "sigmoid",
        "binary_cross_entropy_with_logits()",
    ),
}
"""Operation -> the finding, the function that it applies itself, and its name in a program."""
_LOSSES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy")


def loss_findings(context: CheckContext) -> Iterator[Finding]:
    """Find mistakes in how a loss is put together."""
    yield from _leaf_roots(context)
    yield from _spread(context)
    yield from _twice(context)


def _leaf_roots(context: CheckContext) -> Iterator[Finding]:
    """Outputs that are leaves: backward from them reaches nothing else."""
    graph = context.captured.graph
    roots = [node for node, _ in graph.graph["roots"] if graph.nodes[node]["kind"] == "leaf"]
    if not roots or len(roots) < len(graph.graph["roots"]):
        return
    cuts = [cut for cut in context.loss.cuts if cut.module is None or cut.where is not None]
    name = graph.nodes[roots[0]]["name"] or "The output"
    why = "Compute it from the parameters, without torch.tensor() and requires_grad_()."
    if cuts:
        cause = words_of((cuts[0].how, cuts[0].own or cuts[0].where))
        why = f"Gradient was cut on the way to it by {cause}."
    message = (
        f"{name} is a leaf: no recorded operation made it, so backward only fills its own .grad. "
        f"{why}"
    )
    yield make(Finding, "leaf", "warning", roots, message)


def _spread(context: CheckContext) -> Iterator[Finding]:
    """(N, 1) and (N,) that became (N, N), which a loss then averages."""
    graph = context.captured.graph
    for node, op in context.nodes_of({*_BETWEEN, "ExpandBackward0"}):
        shape = graph.nodes[node]["shape"]
        if shape is None or len(shape) != 2 or shape[0] < 2 or shape[0] != shape[1]:
            continue
        n = shape[0]
        if op in _BETWEEN:
            given = {tuple(s) for s in _operand_shapes(context, node) if s is not None}
            is_spread = given == {(n, 1), (n,)} and _ends_in_mean(context, node)
        else:  # the losses of torch.nn.functional expand both
            before = [graph.nodes[child]["shape"] for child in graph.succ[node]]
            used = {graph.nodes[user]["op"].removesuffix("Backward0") for user in graph.pred[node]}
            is_spread = before in ([(n, 1)], [(n,)]) and bool(used & set(_LOSSES))
        if is_spread:
            message = (
                f"{context.place(node)} broadcasts ({n}, 1) and ({n},) to ({n}, {n}), so every "
                "number meets every other. If number i belongs to number i, use squeeze(1) on the "
                "first."
            )
            yield make(Finding, "broadcast", "info", [node], message, {"n": n})


def _operand_shapes(context: CheckContext, node: int) -> list[tuple[int, ...] | None]:
    captured = context.captured
    shapes = []
    for child, edges in captured.successors[node].items():
        outputs = captured.graph.nodes[child]["outputs"]
        for edge in edges.values():
            nr = edge["output_nr"]
            shapes.append(outputs[nr]["shape"] if nr < len(outputs) else None)
    for extra, edges in successors(captured.drawn).get(node, {}).items():
        if any(edge.get("kind") == "constant" for edge in edges.values()):
            shapes.append(captured.drawn.nodes[extra]["shape"])
    return [None if shape is None else tuple(shape) for shape in shapes]


def _ends_in_mean(context: CheckContext, node: int) -> bool:
    """Whether all that is made of a node is put through a function and averaged or summed."""
    graph = context.captured.graph
    for _ in range(3):
        users = list(graph.pred[node])
        if len(users) != 1:
            return False
        (node,) = users
        if graph.nodes[node]["op"] in ("MeanBackward0", "SumBackward0"):
            return True
    return False


def _twice(context: CheckContext) -> Iterator[Finding]:
    """A function that the loss applies again: softmax or sigmoid."""
    graph = context.captured.graph
    for node, op in context.nodes_of(_APPLIES):
        kind, wanted, call = _APPLIES[op]
        before = source_of(context, node)
        if before is not None and graph.nodes[before]["op"] == f"{wanted.title()}Backward0":
            message = (
                f"{context.place(before)} goes into {context.place(node)}: {call} takes logits "
                f"and computes the {wanted} itself, so it is applied twice and gradients are "
                f"small. Leave out the {wanted} before it."
            )
            yield make(Finding, kind, "warning", [before, node], message)


_MOST_IN_ALL = 1.05  # of probabilities, with room for what bfloat16 rounds
_MOST_SUMMED = 2**22  # numbers
_CROSS_ENTROPIES = ("BinaryCrossEntropyBackward0", "BinaryCrossEntropyWithLogitsBackward0")
_DISTANCES = ("MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0")


def loss_input_findings(context: CheckContext) -> Iterator[Finding]:
    """Find inputs and targets that a loss does not expect."""
    yield from _no_log_probabilities(context)
    yield from _targets(context)


def _no_log_probabilities(context: CheckContext) -> Iterator[Finding]:
    """Find an `nll_loss` whose input cannot be log probabilities."""
    for node, _ in context.nodes_of(("NllLossBackward0", "NllLoss2DBackward0")):
        given = context.saved(node).get("self")
        if not isinstance(given, torch.Tensor) or given.dim() < 2 or not is_plain(given):
            continue
        if given.shape[1] > _MOST_SUMMED or given.numel() > _MOST_SUMMED:
            continue
        sums = given.detach().double().exp().sum(1)
        if not sums.numel():
            continue
        least, most = float(sums.min()), float(sums.max())
        if most > _MOST_IN_ALL:
            what = "more than 1"
            remedy = (
                "Put log_softmax(..., dim=1) before it, or use cross_entropy(), which does so "
                "itself."
            )
        else:
            continue
        ends = (f"{least:.3g}", f"{most:.3g}")
        message = (
            f"{context.place(node)} expects log probabilities along dimension 1. The exponentials "
            f"of its input add up to {' to '.join(dict.fromkeys(ends))}, {what}. {remedy}"
        )
        numbers = {"least": least, "most": most}
        yield make(Finding, "no-log-probabilities", "info", [node], message, numbers)


def _targets(context: CheckContext) -> Iterator[Finding]:
    """Find targets that are not probabilities, and targets that get a gradient."""
    graph = context.captured.graph
    for node, _ in context.nodes_of(_CROSS_ENTROPIES):
        yield from _out_of_range(context, node)
    for node, _ in context.nodes_of(_DISTANCES):
        edges = list(graph.out_edges(node, data=True))
        child = next((to for _, to, edge in edges if edge["argument"] == "target"), None)
        if child is not None and len(edges) > 1 and graph.nodes[child]["kind"] == "op":
            message = (
                f"The loss in {context.place(node)} also sends a gradient into its target, which "
                f"comes from {context.place(child)}. If the target should stay fixed, as the "
                "value of the next state or the output of a teacher, detach() it."
            )
            yield make(Finding, "target", "info", [node, child], message)


def _out_of_range(context: CheckContext, node: int) -> Iterator[Finding]:
    target = context.saved(node).get("target")
    if not isinstance(target, torch.Tensor) or not is_plain(target) or not target.numel():
        return
    least, most = float(target.min()), float(target.max())
    if least < 0 or most > 1:
        is_whole = plain_value(context.captured.nodes[node], "reduction") == 0
        message = (
            f"{context.place(node)} expects targets from 0 to 1. It was given numbers from "
            f"{least:.3g} to {most:.3g}: use 0 and 1 for the "
            f"two classes{', unless a mask drops the others' if is_whole else ''}."
        )
        severity: Severity = "info" if is_whole else "warning"
        yield make(Finding, "target", severity, [node], message, {"least": least, "greatest": most})


def source_of(context: CheckContext, node: int) -> int | None:
    """The one node behind another, beyond plumbing."""
    graph = context.captured.graph
    while len(graph.succ[node]) == 1:
        node = next(iter(graph.succ[node]))
        if not is_pass_through(graph.nodes[node]["op"]):
            return node
    return None
