"""How large the gradient is at each layer, and how it changes from the output to the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ..backward.kept_gradients import norms
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import walk
from ..graph.capture import Capture
from ..graph.labels import is_pass_through
from ..lazily import nx
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import everywhere


@dataclass(frozen=True)
class Decline:
    """How the gradient changed between two layers, one behind the other."""

    near: int  # the node of the layer nearest to the output
    far: int  # the node of a layer that its gradient goes on to
    near_norm: float  # the 2-norm of the gradient that arrives at the first
    far_norm: float  # the same at the second

    @property
    def ratio(self) -> float:
        """The share of the gradient that is left: below 1 where it shrinks."""
        return self.far_norm / self.near_norm


def arriving_norms(run: RecordedRun) -> dict[int, float]:
    """The 2-norm of the gradient that arrived at each node, over all of the node's outputs."""
    places = [(step.node, kept) for step in run.steps.values() for kept in step.grad_outputs]
    found: dict[int, float] = {}
    for (node, _), norm in zip(places, norms([kept for _, kept in places]), strict=True):
        if norm is not None:
            found[node] = math.hypot(found.get(node, 0.0), norm)
    return found


def layers_of(graph: nx.MultiDiGraph) -> set[int]:
    """The operations that take a leaf, as it is or through plumbing: transposed, cast, expanded."""
    given = [node for node, kind in graph.nodes(data="kind") if kind == "leaf"]
    layers: set[int] = set()
    for leaf in given:  # grows while we walk
        for user in graph.pred[leaf]:
            data = graph.nodes[user]
            if data["kind"] != "op":
                continue
            if not is_pass_through(data["op"]):
                if not _is_of_leaves(graph, user):
                    layers.add(user)
            elif len(graph.succ[user]) == 1:
                given.append(user)
    return layers


def _is_of_leaves(graph: nx.MultiDiGraph, node: int) -> bool:
    """Whether an operation computes on several leaves alone, as to join biases to one."""
    following = graph.succ[node]
    return (
        len(following) > 1
        and not graph.nodes[node]["no_grad_inputs"]
        and all(graph.nodes[each]["kind"] == "leaf" for each in following)
    )


def declines(graph: nx.MultiDiGraph, run: RecordedRun, order: Iterable[int]) -> list[Decline]:
    """For each layer, the change from the layers nearest to the output, at its mildest.

    A layer may be reached from several of these: of a gradient that shrinks the smallest start
    counts, of one that grows the largest. Gradients that are zero, NaN or infinite are left out:
    they say nothing of a ratio.
    """
    arriving = arriving_norms(run)
    layers = layers_of(graph)
    starts: dict[int, tuple[int, int]] = {}  # node -> the layers with least and most behind it
    found: list[Decline] = []
    for node in order:
        above = [starts[source] for source in graph.pred[node] if source in starts]
        norm = arriving.get(node, math.nan)
        counts = node in layers and 0 < norm < math.inf
        if not above:
            if counts:
                starts[node] = node, node
            continue
        least = min((low for low, _ in above), key=arriving.__getitem__)
        most = max((high for _, high in above), key=arriving.__getitem__)
        starts[node] = least, most
        if counts:
            found += [Decline(top, node, arriving[top], norm) for top in {least, most}]
    return found


def worst_declines(
    graph: nx.MultiDiGraph, run: RecordedRun, vanishing: float, exploding: float
) -> list[Decline]:
    """Where the gradient vanishes or explodes: at most one change of each kind per start.

    A layer whose gradient is small does not count as long as layers further on get a sound one by
    another way: a branch beside a residual connection (attention's queries at the start, a layer
    scale) may be small by design, and what vanishes does not come back.
    """
    changes = declines(graph, run, run.steps)
    least: dict[int, float] = {}  # over the starts from which a layer is reached
    most: dict[int, float] = {}
    for change in changes:
        least[change.far] = min(least.get(change.far, change.ratio), change.ratio)
        most[change.far] = max(most.get(change.far, change.ratio), change.ratio)
    sound = {layer for layer, ratio in most.items() if ratio >= vanishing}
    is_branch = _branches(graph, run, sound, set(most))
    worst: dict[tuple[int, bool], Decline] = {}
    for change in changes:
        far, ratio = change.far, change.ratio
        if ratio == least[far] and ratio > exploding:
            grows = True
        elif ratio == most[far] and ratio < vanishing and far not in is_branch:
            grows = False
        else:
            continue
        known = worst.get((change.near, grows))
        if known is None or (ratio > known.ratio if grows else ratio < known.ratio):
            worst[change.near, grows] = change
    return list(worst.values())


_SHORT = 3  # layers of a branch that ends in the data


def _branches(
    graph: nx.MultiDiGraph, run: RecordedRun, sound: set[int], layers: set[int]
) -> set[int]:
    """The small layers behind which, or beside which on the same data, others are sound."""
    behind: dict[int, bool] = {}  # node -> whether a sound layer is behind it
    last: dict[int, bool] = {}  # node -> whether no layer is
    for node in reversed(list(run.steps)):
        following = [each for each in graph.succ[node] if each in behind]
        behind[node] = any(behind[each] or each in sound for each in following)
        last[node] = not any(each in layers or not last[each] for each in following)
    found = {node for node in layers - sound if behind[node]}
    if any(last[node] for node in sound):
        length: dict[int, int] = {}  # of the small layers in a row, from the output on
        for node in run.steps:
            above = max((length.get(each, 0) for each in graph.pred[node]), default=0)
            if node in layers:
                length[node] = 0 if node in sound else above + 1
            else:
                length[node] = above
            if node in layers - sound and last[node] and length[node] < _SHORT:
                found.add(node)
    return found


_GATE = 1e-2  # a parameter whose numbers are all smaller makes a product small


def small_gates(captured: Capture) -> set[int]:
    """The multiplications by a parameter that is small all over, as a layer scale is."""
    graph = captured.graph
    found: set[int] = set()
    for node, op in graph.nodes(data="op"):
        if op != "MulBackward0" or len(graph.succ[node]) < 2:
            continue
        for child in graph.succ[node]:
            leaf = child
            while is_pass_through(graph.nodes[leaf]["op"]) and len(graph.succ[leaf]) == 1:
                leaf = next(iter(graph.succ[leaf]))
            tensor = leaf_tensor(captured.nodes[leaf])
            if isinstance(tensor, torch.nn.Parameter) and everywhere(
                tensor, lambda part: part.abs() <= _GATE
            ):
                found.add(node)
    return found


def nearest_of(graph: nx.MultiDiGraph, node: int, among: set[int]) -> int | None:
    """The nearest of some nodes on a way from the output to a node; None for none."""
    before = walk([node], graph.pred.__getitem__)
    return next((each for each in before if each in among), None)
