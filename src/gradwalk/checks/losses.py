"""Findings about how a loss is put together: shapes, reductions, and terms that are added."""

from __future__ import annotations

from collections.abc import Iterator

from ..graph.adjacency import successors
from ..schema.findings import FindingKind
from .context import CheckContext, at_line
from .finding import Finding
from .loss_inputs import source_of

_BETWEEN = frozenset({"SubBackward0", "AddBackward0", "MulBackward0", "DivBackward0"})
_LOSSES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy")


def loss_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Find mistakes in how a loss is put together.

    Args:
        evidence: The evidence.
    """
    yield from _leaf_roots(evidence)
    yield from _spread(evidence)
    yield from _twice(evidence)


def _leaf_roots(evidence: CheckContext) -> Iterator[Finding]:
    """Outputs that are leaves: backward from them reaches nothing else."""
    graph = evidence.captured.graph
    roots = [node for node, _ in graph.graph["roots"] if graph.nodes[node]["kind"] == "leaf"]
    if not roots or len(roots) < len(graph.graph["roots"]):
        return
    cuts = [cut for cut in evidence.loss.cuts if cut.module is None or cut.where is not None]
    name = graph.nodes[roots[0]]["name"] or "The output"
    why = (
        f"Gradient was cut on the way to it{at_line(cuts[0].own or cuts[0].where)} ({cuts[0].how})."
        if cuts
        else "Compute it from the parameters, without torch.tensor() or requires_grad_() on the "
        "result."
    )
    yield Finding(
        "leaf",
        "warning",
        roots,
        f"{name} is a leaf: no recorded operation made it, so backward only fills its own .grad. "
        f"{why}",
    )


def _spread(evidence: CheckContext) -> Iterator[Finding]:
    """(N, 1) and (N,) that became (N, N), which a loss then averages."""
    graph = evidence.captured.graph
    for node, data in graph.nodes(data=True):
        shape = data["shape"]
        if data["op"] not in _BETWEEN or shape is None or len(shape) != 2 or shape[0] < 2:
            continue
        if shape[0] != shape[1]:
            continue
        given = {tuple(s) for s in _operand_shapes(evidence, node) if s is not None}
        if given == {(shape[0], 1), (shape[0],)} and _ends_in_mean(evidence, node):
            yield _spread_finding(evidence, node, shape[0])
    for node, data in graph.nodes(data=True):  # the losses of torch.nn.functional expand both
        shape = data["shape"]
        if data["op"] != "ExpandBackward0" or shape is None or len(shape) != 2:
            continue
        before = [graph.nodes[child]["shape"] for child in graph.succ[node]]
        used = {graph.nodes[user]["op"].removesuffix("Backward0") for user in graph.pred[node]}
        n = shape[0]
        if n > 1 and shape[1] == n and before in ([(n, 1)], [(n,)]) and used & set(_LOSSES):
            yield _spread_finding(evidence, node, n)


def _spread_finding(evidence: CheckContext, node: int, n: int) -> Finding:
    return Finding(
        "broadcast",
        "info",
        [node],
        f"{evidence.place(node)} broadcasts ({n}, 1) and ({n},) to ({n}, {n}), so every number "
        "meets every other. If number i belongs to number i, use squeeze(1) on the first.",
        {"n": n},
    )


def _operand_shapes(evidence: CheckContext, node: int) -> list[tuple[int, ...] | None]:
    captured = evidence.captured
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


def _ends_in_mean(evidence: CheckContext, node: int) -> bool:
    """Whether all that is made of a node is put through a function and averaged or summed."""
    graph = evidence.captured.graph
    for _ in range(3):
        users = list(graph.pred[node])
        if len(users) != 1:
            return False
        (node,) = users
        if graph.nodes[node]["op"] in ("MeanBackward0", "SumBackward0"):
            return True
    return False


def _twice(evidence: CheckContext) -> Iterator[Finding]:
    """A function that the loss applies again: softmax or sigmoid."""
    graph = evidence.captured.graph
    again: dict[str, tuple[FindingKind, str, str]] = {
        "LogSoftmaxBackward0": (
            "softmax twice",
            "SoftmaxBackward0",
            "cross_entropy() and log_softmax()",
        ),
        "BinaryCrossEntropyWithLogitsBackward0": (
            "sigmoid twice",
            "SigmoidBackward0",
            "binary_cross_entropy_with_logits()",
        ),
    }
    for node, op in graph.nodes(data="op"):
        if op in again:
            kind, wanted, call = again[op]
            before = source_of(evidence, node)
            if before is not None and graph.nodes[before]["op"] == wanted:
                first = wanted.removesuffix("Backward0").lower()
                yield Finding(
                    kind,
                    "warning",
                    [before, node],
                    f"{evidence.place(before)} goes into "
                    f"{evidence.place(node)}: {call} takes logits and "
                    f"computes the {first} itself, so it is applied twice and gradients are "
                    f"small. Leave out the {first} before it.",
                )
