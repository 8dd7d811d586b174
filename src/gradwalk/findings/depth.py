"""How large the gradient is at each layer, and how it changes from the output to the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..backward.kept import norms
from ..backward.run import Run
from ..modules.plumbing import is_plumbing

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Decline:
    """How the gradient changed between two layers, one behind the other.

    Attributes:
        near: The node of the layer nearest to the output.
        far: The node of a layer that its gradient goes on to.
        near_norm: The 2-norm of the gradient that arrives at the first.
        far_norm: The same at the second.
    """

    near: int
    far: int
    near_norm: float
    far_norm: float

    @property
    def ratio(self) -> float:
        """What is left of the gradient: below 1 where it shrinks."""
        return self.far_norm / self.near_norm


def arriving_norms(run: Run) -> dict[int, float]:
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
            if not is_plumbing(data["op"]):
                layers.add(user)
            elif len(graph.succ[user]) == 1:
                given.append(user)
    return layers


def declines(graph: nx.MultiDiGraph, run: Run, order: Iterable[int]) -> list[Decline]:
    """For each layer, the change from the layers nearest to the output, at its mildest.

    A layer may be reached from several of these: of a gradient that shrinks the smallest start
    counts, of one that grows the largest. Gradients that are zero, NaN or infinite are left out:
    they say nothing of a ratio.

    Args:
        graph: The captured graph.
        run: A backward pass.
        order: The nodes that ran, consumers first.

    Returns:
        Up to two changes per layer.
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
