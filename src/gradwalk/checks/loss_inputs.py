"""Findings about what a loss is given: logits, logarithms of probabilities, targets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from ..graph.pass_through import is_pass_through
from ..torch_api.reading import is_plain
from ..torch_api.saved_tensors import plain_value, read_saved
from .context import CheckContext
from .finding import Finding

_MOST_IN_ALL = 1.05  # of probabilities, with room for what bfloat16 rounds
_MOST_SUMMED = 2**22  # numbers
_CROSS_ENTROPIES = ("BinaryCrossEntropyBackward0", "BinaryCrossEntropyWithLogitsBackward0")
_DISTANCES = ("MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0")


def loss_input_findings(evidence: CheckContext) -> Iterator[Finding]:
    """What a loss is given that it does not expect.

    Args:
        evidence: What there is to judge by.
    """
    yield from _no_log_probabilities(evidence)
    yield from _bounded_logits(evidence)
    yield from _divergences(evidence)
    yield from _targets(evidence)
    yield from _softmax_of_examples(evidence)


def _no_log_probabilities(evidence: CheckContext) -> Iterator[Finding]:
    """`nll_loss` of what cannot be logarithms of probabilities, one for each class."""
    graph = evidence.captured.graph
    for node, op in graph.nodes(data="op"):
        if op not in ("NllLossBackward0", "NllLoss2DBackward0"):
            continue
        saved = {each.name: each.value for each in read_saved(evidence.captured.nodes[node])}
        given = saved.get("self")
        if not isinstance(given, torch.Tensor) or given.dim() < 2 or not is_plain(given):
            continue
        if given.shape[1] > _MOST_SUMMED or given.numel() > _MOST_SUMMED:
            continue
        sums = given.detach().double().exp().sum(1)
        if not sums.numel():
            continue
        words, least, most = f"{evidence.words(node)}{evidence.at(node)}", sums.min(), sums.max()
        numbers = {"least": float(least), "most": float(most)}
        before = next(iter(graph.succ[node]), None)
        if most > _MOST_IN_ALL:
            what, remedy = (
                "more than 1",
                (
                    "Put log_softmax(..., dim=1) before it, or use cross_entropy(), which does so "
                    "itself."
                ),
            )
        elif (
            least < 2 - _MOST_IN_ALL
            and before is not None
            and graph.nodes[before]["op"] == "LogSoftmaxBackward0"
            and plain_value(evidence.captured.nodes[before], "dim") == 0
        ):
            what = "because log_softmax() was taken along dimension 0, of the examples"
            remedy = "Take dim=1."
        else:
            continue
        yield Finding(
            "no log probabilities",
            "info",
            [node],
            f"{words} takes the logarithms of probabilities, one for each class, along dimension "
            f"1; of what it was given the exponentials add up to {_range(least, most)} there, "
            f"{what}. {remedy}",
            numbers,
        )


def _range(least: torch.Tensor, most: torch.Tensor) -> str:
    low, high = f"{float(least):.3g}", f"{float(most):.3g}"
    return low if low == high else f"{low} to {high}"


# What the numbers that an operation gives are between.
_RANGES = {
    "ReluBackward0": (0.0, math.inf),
    "SigmoidBackward0": (0.0, 1.0),
    "TanhBackward0": (-1.0, 1.0),
}


def _bounded_logits(evidence: CheckContext) -> Iterator[Finding]:
    """Logits that an activation has kept within bounds, or above 0."""
    graph = evidence.captured.graph
    for node, op in graph.nodes(data="op"):
        is_binary = op == "BinaryCrossEntropyWithLogitsBackward0"
        if op != "LogSoftmaxBackward0" and not is_binary:
            continue
        before = source_of(evidence, node)
        name = None if before is None else graph.nodes[before]["op"]
        if before is None or name not in _RANGES or (is_binary and name == "SigmoidBackward0"):
            continue
        low, high = _RANGES[name]
        called = name.removesuffix("Backward0").lower()
        between = "no number below 0" if high == math.inf else f"numbers from {low:g} to {high:g}"
        limit = _of_two(low, high) if is_binary else _of_classes(evidence, node, low, high)
        yield Finding(
            "bounded logits",
            "info",
            [before, node],
            f"{evidence.words(before)}{evidence.at(before)} goes into {evidence.words(node)}"
            f"{evidence.at(node)} as logits, and gives {between}{limit}. Logits are mostly what a "
            f"linear layer gives, as it is: leave out the {called} before it unless that is meant.",
        )


def _of_two(low: float, high: float) -> str:
    """What probabilities a sigmoid of such numbers can have."""
    if high == math.inf:
        return ": no probability can be below 0.5"
    least, most = 1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))
    return f": probabilities lie between {_floor(least)} and {_ceil(most)}"


def _of_classes(evidence: CheckContext, node: int, low: float, high: float) -> str:
    """How probable a class can be at most by a softmax of such numbers."""
    if high == math.inf:
        return ": where it gives 0, no gradient passes"
    shape, dim = evidence.captured.graph.nodes[node]["shape"], _dim(evidence, node)
    if shape is None or dim is None or not -len(shape) <= dim < len(shape):
        return ""
    most = 1 / (1 + (shape[dim] - 1) * math.exp(low - high))
    return f": of {shape[dim]} classes none can get a probability above {_ceil(most)}"


def _floor(number: float) -> str:
    return f"{math.floor(number * 1000) / 1000:g}"


def _ceil(number: float) -> str:
    return f"{math.ceil(number * 1000) / 1000:g}"


def _divergences(evidence: CheckContext) -> Iterator[Finding]:
    """`kl_div` of probabilities, or with a target that is not what it was told, where watched."""
    graph, annotations = evidence.captured.graph, evidence.captured.annotations
    for node, seen in annotations.items():
        if graph.nodes[node]["op"] != "MulBackward0" or not _is_divergence(seen.forward):
            continue
        target = _saved(evidence, node).get("self")  # with log_target its exponential
        given = _given_as(evidence, node, "other")
        is_log = given is not None and _is_subtraction(evidence, given)
        if is_log and given is not None:
            given = _given_as(evidence, given, "other")
        before = given
        if given is not None and is_pass_through(graph.nodes[given]["op"]):
            before = source_of(evidence, given)
        words = f"kl_div(){evidence.at(node)}"
        if before is not None and graph.nodes[before]["op"] in (
            "SoftmaxBackward0",
            "SigmoidBackward0",
        ):
            yield Finding(
                "no log probabilities",
                "warning",
                [node, before],
                f"{words} takes logarithms of probabilities as its input, and was given what "
                f"{evidence.words(before)}{evidence.at(before)} gives, the probabilities "
                "themselves: put log_softmax() in the place of softmax().",
            )
        if not isinstance(target, torch.Tensor) or not is_plain(target) or not target.numel():
            continue
        least, most = float(target.min()), float(target.max())
        if not is_log and least < 0:
            yield Finding(
                "target",
                "warning",
                [node],
                f"{words} takes probabilities as its target, and the least number of this one is "
                f"{least:.3g}: if they are logarithms, pass log_target=True.",
                {"least": least},
            )
        elif is_log and most > _MOST_IN_ALL:  # of exp(target)
            yield Finding(
                "target",
                "warning",
                [node],
                f"{words} with log_target=True takes logarithms of probabilities as its target, "
                f"which are not above 0, and the greatest number of this one is "
                f"{math.log(most):.3g}: if they are probabilities, leave out log_target=True.",
                {"greatest": math.log(most)},
            )


def _given_as(evidence: CheckContext, node: int, argument: str) -> int | None:
    """The node that gave an operation one of its arguments."""
    for child, edges in evidence.captured.successors[node].items():
        if any(edge["argument"] == argument for edge in edges.values()):
            return child
    return None


def _is_divergence(forward: str | None) -> bool:
    return forward is not None and forward.rpartition(".")[2] == "kl_div"


def _is_subtraction(evidence: CheckContext, node: int) -> bool:
    seen = evidence.captured.annotations.get(node)
    is_sub = evidence.captured.graph.nodes[node]["op"] == "SubBackward0"
    return is_sub and seen is not None and _is_divergence(seen.forward)


def _targets(evidence: CheckContext) -> Iterator[Finding]:
    """Targets that are no probabilities, and targets that get a gradient."""
    graph = evidence.captured.graph
    for node, op in graph.nodes(data="op"):
        if op in _CROSS_ENTROPIES:
            yield from _out_of_range(evidence, node)
        elif op in _DISTANCES:
            child = _given_as(evidence, node, "target")
            is_both = len(graph.out_edges(node)) > 1
            if child is not None and is_both and graph.nodes[child]["kind"] == "op":
                yield Finding(
                    "target",
                    "info",
                    [node, child],
                    f"{evidence.words(node)}{evidence.at(node)} also sends a gradient into its "
                    f"target, which {evidence.words(child)}{evidence.at(child)} gave, so that "
                    "moves as well. That is right for two views, or the two sides of an equation; "
                    "a target that is to stand still, such as the value of the next state or what "
                    "a teacher says, wants detach().",
                )


def _out_of_range(evidence: CheckContext, node: int) -> Iterator[Finding]:
    target = _saved(evidence, node).get("target")
    if not isinstance(target, torch.Tensor) or not is_plain(target) or not target.numel():
        return
    least, most = float(target.min()), float(target.max())
    if least < 0 or most > 1:
        is_whole = plain_value(evidence.captured.nodes[node], "reduction") == 0
        yield Finding(
            "target",
            "info" if is_whole else "warning",
            [node],
            f"{evidence.words(node)}{evidence.at(node)} takes probabilities from 0 to 1 as its "
            f"target, and was given numbers from {least:.3g} to {most:.3g}: give 0 and 1 for the "
            f"two classes{', unless the others are masked after' if is_whole else ''}.",
            {"least": least, "greatest": most},
        )


_READ_BY = frozenset(f"{name}Backward0" for name in ("Log", "MseLoss", "BinaryCrossEntropy"))
_PICKED = frozenset(f"{name}Backward0" for name in ("Index", "Gather", "Add", "Clamp", "ClampMin"))


def _softmax_of_examples(evidence: CheckContext) -> Iterator[Finding]:
    """A softmax along the first dimension that a loss reads as probabilities."""
    graph = evidence.captured.graph
    for node, op in graph.nodes(data="op"):
        shape = graph.nodes[node]["shape"]
        if op != "SoftmaxBackward0" or not shape or len(shape) < 2 or shape[0] < 2:
            continue
        if _dim(evidence, node) not in (0, -len(shape)):
            continue
        users = list(graph.pred[node])
        while len(users) == 1:
            name = graph.nodes[users[0]]["op"]
            if not (is_pass_through(name) or name in _PICKED):
                break
            users = list(graph.pred[users[0]])
        if len(users) == 1 and graph.nodes[users[0]]["op"] in _READ_BY:
            yield Finding(
                "softmax of examples",
                "info",
                [node, users[0]],
                f"{evidence.words(node)}{evidence.at(node)} is taken along dimension 0, of "
                f"{shape[0]}: its numbers add up to 1 over that dimension, and go into "
                f"{evidence.words(users[0])}. If dimension 0 is that of the examples, take dim=1.",
            )


def _dim(evidence: CheckContext, node: int) -> int | None:
    dim = plain_value(evidence.captured.nodes[node], "dim")
    if not isinstance(dim, int):
        return None
    return dim - 2**64 if dim >= 2**63 else dim


def _saved(evidence: CheckContext, node: int) -> dict[str, Any]:
    return {each.name: each.value for each in read_saved(evidence.captured.nodes[node])}


def source_of(evidence: CheckContext, node: int) -> int | None:
    """The one node behind another, beyond plumbing."""
    graph = evidence.captured.graph
    while len(graph.succ[node]) == 1:
        node = next(iter(graph.succ[node]))
        if not is_pass_through(graph.nodes[node]["op"]):
            return node
    return None
