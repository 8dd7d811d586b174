"""The rank of this process in torch.distributed, and its report on its leaves."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ..backward.recorded_run import RecordedRun
from ..panel.extra_details import line_model
from ..schema.backward import RunModel
from ..schema.details import DetailsModel, TensorSummary
from ..schema.ranks import RANK_VERSION, RankLeafModel, RankModel, statistics_of
from ..schema.values import JsonNumber
from ..tracing.annotate import Annotated
from ..tracing.branches import Branches
from ..tracing.source_line import SourceLine
from .distributed_leaves import DistributedLeaves

if TYPE_CHECKING:
    import networkx as nx


def is_one_of_several() -> bool:
    """Return whether ``torch.distributed`` is initialised with other processes."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def rank_model(
    captured: Annotated,
    details: Callable[[int], DetailsModel],
    shared: DistributedLeaves,
    run: RunModel | None,
    kept: RecordedRun | None,
) -> RankModel:
    """Report this rank's leaves and gradients, without communication.

    Args:
        captured: The graph.
        details: Gives a node's details at the end of the pass.
        shared: The sharded and replicated leaves.
        run: The gradients of the pass; None before the first.
        kept: The pass with the tensors that were kept.
    """
    graph = captured.graph
    leaves: list[RankLeafModel] = []
    branches, bucket_of = Branches(), shared.buckets()
    parameters = {i for i, leaf in captured.leaves() if isinstance(leaf, torch.nn.Parameter)}
    for node, data in graph.nodes(data=True):
        if data["kind"] != "leaf":
            continue
        found = details(node)
        line = _used_at(captured, node)
        came, bucket = found["grad_output"], bucket_of(node)
        leaves.append(
            {
                "node": node,
                "name": data["name"],
                "is_parameter": node in parameters,
                "parallel": shared.parallel.get(node),
                "bucket": None if bucket is None else bucket.number,
                "ready": None if bucket is None else bucket.ready,
                "line": line_model(line),
                "branch": None if line is None else line_model(branches.of(line)),
                "copies": shared.copies(node),
                "value": statistics_of(found["value"]),
                "local": statistics_of(came[0]) if came else None,
                "reduced": statistics_of(found["grad"]),
                "difference": statistics_of(shared.difference(node, kept)),
            }
        )
    return {
        "format": "gradwalk rank",
        "version": RANK_VERSION,
        "rank": torch.distributed.get_rank(),
        "world_size": torch.distributed.get_world_size(),
        "stage": None,
        "run": run_name(os.environ),
        "torch_version": str(torch.__version__),
        "structure": structure_of(graph),
        "recorded": run is not None,
        "leaves": leaves,
        "outputs": [
            {
                "node": node,
                "output_nr": nr,
                "grad": statistics_of(_arrived(details(node), nr)),
            }
            for node, nr in dict.fromkeys(graph.graph["roots"])
        ],
        "norms": arrived_norms(graph, run, leaves),
    }


def _arrived(found: DetailsModel, output_nr: int) -> TensorSummary | None:
    """The incoming gradient of one output of a node."""
    came = found["grad_output"] or []
    return came[output_nr] if output_nr < len(came) else None


def arrived_norms(
    graph: nx.MultiDiGraph, run: RunModel | None, leaves: Sequence[RankLeafModel]
) -> list[JsonNumber | None]:
    """Return the norm of each autograd node's incoming gradient, None without one.

    Args:
        graph: The autograd graph.
        run: The gradients of the pass; None before the first.
        leaves: The report on the leaves, which has their norms.

    Returns:
        One norm per node: the largest over its outputs; a norm that is not finite counts as the
        largest.
    """
    norms: list[JsonNumber | None] = [None] * len(graph)
    if run is None:
        return norms
    targets = [target for _, target in graph.edges()]
    came = [(targets[edge], norm) for edge, norm in zip(run["edges"], run["norms"], strict=True)]
    came += [(seed["node"], seed["norm"]) for seed in run["seeds"]]
    for node, norm in came:
        norms[node] = max(norms[node], norm, key=_height)
    for arrived in run["arrived"]:
        norms[arrived["node"]] = arrived["norm"]
    for leaf in leaves:
        norms[leaf["node"]] = None if leaf["local"] is None else leaf["local"]["norm"]
    return norms


def _height(norm: JsonNumber | None) -> float:
    return -1.0 if norm is None else math.inf if isinstance(norm, str) else norm


def _used_at(captured: Annotated, leaf: int) -> SourceLine | None:
    """The line of the operation furthest from the outputs that takes a leaf."""
    for user in sorted(captured.predecessors[leaf], reverse=True):
        seen = captured.annotations.get(user)
        if seen is not None and seen.source is not None:
            return seen.source
    return None


def run_name(environment: Mapping[str, str]) -> str | None:
    """Identify a run by the launcher's environment, without communication.

    It joins the run id of ``torchrun`` and the address where the ranks meet, if they are set.

    Args:
        environment: The variables of the process.

    Returns:
        A text, the same on every rank; None if nothing is known.

    Example::

        >>> run_name({"MASTER_ADDR": "node7", "MASTER_PORT": "29500"})
        'node7:29500'
    """
    said = environment.get("TORCHELASTIC_RUN_ID", "")
    where = ":".join(filter(None, (environment.get("MASTER_ADDR"), environment.get("MASTER_PORT"))))
    return " at ".join(filter(None, ("" if said == "none" else said, where))) or None


def structure_of(graph: nx.MultiDiGraph) -> str:
    """Return a short hash of a graph's operations, edges and leaf names.

    Shapes are left out: the last batch of a rank may be smaller.
    """
    nodes = [
        [data["op"], data["name"] if data["kind"] == "leaf" else None]
        for _, data in graph.nodes(data=True)
    ]
    edges = sorted(
        (source, target, key, edge["output_nr"])
        for source, target, key, edge in graph.edges(keys=True, data=True)
    )
    text = json.dumps([nodes, edges, graph.graph["roots"]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
