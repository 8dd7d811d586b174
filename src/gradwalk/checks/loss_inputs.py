"""Findings about what a loss is given: logits, logarithms of probabilities, targets."""

from __future__ import annotations

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
    """Find inputs and targets that a loss does not expect.

    Args:
        evidence: The evidence.
    """
    yield from _no_log_probabilities(evidence)
    yield from _targets(evidence)


def _no_log_probabilities(evidence: CheckContext) -> Iterator[Finding]:
    """Find an `nll_loss` whose input cannot be log probabilities."""
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
        words, least, most = f"{evidence.place(node)}", sums.min(), sums.max()
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
            f"{words} expects log probabilities along dimension 1. The exponentials of its input "
            f"add up to {_range(least, most)}, {what}. {remedy}",
            numbers,
        )


def _range(least: torch.Tensor, most: torch.Tensor) -> str:
    low, high = f"{float(least):.3g}", f"{float(most):.3g}"
    return low if low == high else f"{low} to {high}"


def _targets(evidence: CheckContext) -> Iterator[Finding]:
    """Find targets that are not probabilities, and targets that get a gradient."""
    graph = evidence.captured.graph
    for node, op in graph.nodes(data="op"):
        if op in _CROSS_ENTROPIES:
            yield from _out_of_range(evidence, node)
        elif op in _DISTANCES:
            following = evidence.captured.successors[node]
            takes = {e["argument"]: to for to, each in following.items() for e in each.values()}
            child = takes.get("target")
            is_both = len(graph.out_edges(node)) > 1
            if child is not None and is_both and graph.nodes[child]["kind"] == "op":
                yield Finding(
                    "target",
                    "info",
                    [node, child],
                    f"The loss in {evidence.place(node)} also sends a gradient into its target, "
                    f"which comes from {evidence.place(child)}. If the target should stay fixed, "
                    "as the value of the next state or the output of a teacher, detach() it.",
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
            f"{evidence.place(node)} expects targets from 0 to 1. It was given numbers from "
            f"{least:.3g} to {most:.3g}: use 0 and 1 for the "
            f"two classes{', unless a mask drops the others' if is_whole else ''}.",
            {"least": least, "greatest": most},
        )


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
