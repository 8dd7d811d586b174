"""Findings about how a loss is put together: shapes, reductions, and terms that are added."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..graph.adjacency import successors
from ..schema import FindingKind
from ..torch_api.reading import one_number
from ..torch_api.saved_tensors import read_saved
from .context import CheckContext, at_line
from .finding import Finding
from .loss_inputs import source_of

_BETWEEN = frozenset({"SubBackward0", "AddBackward0", "MulBackward0", "DivBackward0"})
_LOSSES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy")
_AVERAGES = ("MeanBackward0", *(f"{name}Backward0" for name in (*_LOSSES, "NllLoss", "KlDiv")))


def loss_findings(evidence: CheckContext) -> Iterator[Finding]:
    """What is odd about how a loss was computed.

    Args:
        evidence: What there is to judge by.
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
        else "Compute it from what is to be learned, without torch.tensor() or requires_grad_() "
        "on the way."
    )
    yield Finding(
        "leaf",
        "warning",
        roots,
        f"{name} is a leaf: no recorded operation made it, so backward fills its own .grad and "
        f"reaches nothing else. {why}",
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
        f"{evidence.words(node)}{evidence.at(node)} made ({n}, {n}) numbers out of ({n}, 1) and "
        f"({n},): every one with every other. If number i belongs to number i, give both one "
        "shape, as with squeeze(1).",
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
    """A function that the loss applies again: softmax, sigmoid, the mean."""
    graph, nodes = evidence.captured.graph, evidence.captured.nodes
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
                    f"{evidence.words(before)}{evidence.at(before)} goes into "
                    f"{evidence.words(node)}{evidence.at(node)}: {call} takes logits and "
                    f"computes the {first} itself, so it is applied twice and gradients are "
                    f"small. Leave out the {first} before it.",
                )
        elif op == "DivBackward0":
            before = source_of(evidence, node)
            if before is None or graph.nodes[before]["op"] not in _AVERAGES:
                continue
            saved = {each.name: each.value for each in read_saved(nodes[node])}
            number = one_number(saved.get("other"))
            counts = _averaged(evidence, before)
            if number is not None and float(number) > 1 and float(number) in counts:
                yield Finding(
                    "averaged twice",
                    "info",
                    [node, before],
                    f"{evidence.words(node)}{evidence.at(node)} divides by {float(number):g} what "
                    f"{evidence.words(before)}{evidence.at(before)} had averaged over as many "
                    "already: gradients are so many times smaller. Divide a sum, or leave out the "
                    "division; of accumulated passes divide by their number.",
                    {"divisor": float(number)},
                )


def _averaged(evidence: CheckContext, node: int) -> set[float]:
    """Over how many numbers, or examples, a node took the mean; empty where it took none."""
    saved = {each.name: each.value for each in read_saved(evidence.captured.nodes[node])}
    if "self_sym_sizes" in saved:
        sizes = tuple(saved["self_sym_sizes"])
    elif saved.get("reduction") == 1 and hasattr(saved.get("self"), "shape"):
        sizes = tuple(saved["self"].shape)
    else:
        return set()
    return {float(math.prod(sizes)), *map(float, sizes[:1])} if sizes else set()
