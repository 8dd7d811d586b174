"""The leaves that torch.distributed shards or replicates, and this rank's report on them."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch.nn.parallel import DistributedDataParallel

from ..backward.recorded_run import RecordedRun
from ..explain import describe_node as why
from ..explain.describe_node import about_bucket, about_sharded
from ..graph.names import Names
from ..lazily import nx
from ..panel.details import line_model
from ..schema.backward import RunModel
from ..schema.details import DetailsModel, RankGradModel, TensorSummary
from ..schema.ranks import RANK_VERSION, RankLeafModel, RankModel, statistics_of
from ..schema.values import JsonNumber
from ..torch_api.distributed import Bucket, Sharded, buckets_of, is_distributed, ranks_with_the_same
from ..torch_api.dtensors import own_part, simulated_parts
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import version_of, why_unreadable
from ..torch_api.summary import Summarise, summarise
from ..tracing.annotate import Annotated
from ..tracing.source_line import Branches, SourceLine

Parallel = Literal["DDP", "FSDP2"]  # what reduces the gradient of a leaf

_GATHERED = "all-gather"

BucketOf = Callable[[int], Bucket | None]


class DistributedLeaves:
    """The leaves that several processes share, or several names of one module.

    FSDP2 shards them; DistributedDataParallel replicates them.
    """

    def __init__(self, captured: Annotated, names: Names) -> None:
        self._captured = captured
        self._sharded: dict[int, Sharded] = {}
        self._replicated: dict[int, weakref.ref[DistributedDataParallel]] = {}
        # Node of a leaf with several names in a module -> these names.
        self.tied: dict[int, list[str]] = {}
        outermost = {id(each.outermost): each.outermost for each in captured.annotations.values()}
        for reference in outermost.values() if is_distributed() else ():
            module = None if reference is None else reference()
            if isinstance(module, DistributedDataParallel):
                names.add_replicated(module)
        is_shared = names.tied or names.sharded or names.replicated
        for node, leaf in captured.leaves() if is_shared else ():
            if tied := names.tied_to(leaf):
                self.tied[node] = tied
            sharded = names.sharded_as(leaf)
            if sharded is not None:
                self._sharded[node] = sharded
            elif id(leaf) in names.replicated:
                self._replicated[node] = names.replicated[id(leaf)]
        # Node of a leaf -> what reduces its gradient.
        self.parallel: dict[int, Parallel] = {
            **dict.fromkeys(self._replicated, "DDP"),
            **dict.fromkeys(self._sharded, "FSDP2"),
        }

    @property
    def signs(self) -> dict[int, str]:
        """Return the symbols of the leaves that FSDP2 gathers before use, by node."""
        return dict.fromkeys(self._sharded, _GATHERED)

    def buckets(self) -> BucketOf:
        """Return a function from a leaf's node to its bucket, which reads each log once."""
        logged = functools.cache(buckets_of)

        def bucket_of(node: int) -> Bucket | None:
            reference = self._replicated.get(node)
            module, leaf = None if reference is None else reference(), self._leaf(node)
            return None if module is None or leaf is None else logged(module).get(id(leaf))

        return bucket_of

    def copies(self, node: int) -> list[int] | None:
        """Return the ranks that hold the same part of a leaf and its gradient, if it is sharded."""
        sharded = self._sharded.get(node)
        held = self._leaf(node) if sharded is None else sharded.parameter()
        return None if held is None else ranks_with_the_same(held)

    def difference(self, node: int, run: RecordedRun | None) -> TensorSummary | None:
        """Return a leaf's incoming gradient minus its ``.grad`` in this process, if known."""
        leaf, incoming = self._leaf(node), None if run is None else run.arrived(node)
        if leaf is None or incoming is None:
            return None
        sharded = self._sharded.get(node)
        if sharded is not None:
            return _less(sharded.part_of(incoming), sharded.grad)
        return _less(_own(incoming), None if leaf.grad is None else _own(leaf.grad))

    def put(
        self,
        found: DetailsModel,
        node: int,
        run: RecordedRun | None,
        summarised: Summarise,
        bucket_of: BucketOf,
    ) -> None:
        """Add the reduction of a leaf's gradient to its details."""
        if node in self._sharded:
            _put_sharded(found, self._sharded[node], run, summarised)
        found["ranks"] = self._simulated(found, node, run, summarised)
        bucket = bucket_of(node)
        if bucket is not None:
            found["about"] = f"{found['about']} {about_bucket(bucket)}"

    def _simulated(
        self, found: DetailsModel, node: int, run: RecordedRun | None, summarised: Summarise
    ) -> list[RankGradModel]:
        """The gradients of a leaf on each rank, if this process simulates them all."""
        leaf = self._leaf(node)
        if leaf is None or not simulated_parts(leaf):
            return []
        incoming = run.arrived(node) if run is not None and found["grad_output"] else None
        local = {} if incoming is None else simulated_parts(incoming)
        reduced = {} if leaf.grad is None else simulated_parts(leaf.grad)
        return [
            {
                "rank": rank,
                "local": summarised(local[rank]) if rank in local else None,
                "reduced": summarised(reduced[rank]) if rank in reduced else None,
                "difference": _less(local.get(rank), reduced.get(rank)),
                "bucket": None,
                "ready": None,
                "odd": False,
            }
            for rank in simulated_parts(leaf)
        ]

    def _leaf(self, node: int) -> torch.Tensor | None:
        return leaf_tensor(self._captured.nodes[node]) if node < len(self._captured.nodes) else None


def _put_sharded(
    found: DetailsModel, sharded: Sharded, run: RecordedRun | None, summarised: Summarise
) -> None:
    """Add the reduced gradient of a parameter that FSDP2 shards to its gathered leaf's details."""
    found["about"] = f"{about_sharded(sharded)} {found['about']}"
    grad = sharded.grad
    if grad is not None:
        sentence = why.reduced_part(sharded)
        found["grad"] = {**summarised(grad), "note": sentence}
        found["grad_note"]["grad"], found["explained"] = None, sentence
    elif found["grad"] is None:
        found["grad_note"]["grad"] = found["explained"] = why.not_reduced(sharded, run)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    part = own_part(tensor)
    return tensor if part is None else part


def _grad_now(leaf: torch.Tensor | None) -> TensorSummary | None:
    """Summarise a plain ``.grad``: the program may have reduced it after the recorded pass."""
    if leaf is None or type(leaf.grad) is not torch.Tensor:
        return None
    return summarise(leaf.grad.detach())


def _less(incoming: torch.Tensor | None, reduced: torch.Tensor | None) -> TensorSummary | None:
    """The difference of two plain tensors of one shape; None if they cannot be read."""
    if incoming is None or reduced is None or incoming.shape != reduced.shape:
        return None
    for each in (incoming, reduced):
        if each.layout is not torch.strided or why_unreadable(each) is not None:
            return None
    try:
        return summarise(incoming.detach().to(reduced.device, reduced.dtype) - reduced.detach())
    except Exception:  # a user's tensor class may raise anything
        return None


def rank_model(
    captured: Annotated,
    details: Callable[[int], DetailsModel],
    shared: DistributedLeaves,
    run: RunModel | None,
    kept: RecordedRun | None,
) -> RankModel:
    """Report this rank's leaves and gradients, without communication; no ``run`` before a pass."""
    graph = captured.graph
    leaves: list[RankLeafModel] = []
    branches, bucket_of = Branches(), shared.buckets()
    tensors = dict(captured.leaves())
    parameters = {i for i, leaf in tensors.items() if isinstance(leaf, torch.nn.Parameter)}
    for node, data in graph.nodes(data=True):
        if data["kind"] != "leaf":
            continue
        found = details(node)
        line = _used_at(captured, node)
        incoming, bucket = found["grad_output"], bucket_of(node)
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
                "changes": _changes(tensors.get(node)),
                "value": statistics_of(found["value"]),
                "local": statistics_of(incoming[0]) if incoming else None,
                "reduced": statistics_of(_grad_now(tensors.get(node)) or found["grad"]),
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
        "norms": arrived_norms(graph, run, leaves),
    }


def _changes(leaf: torch.Tensor | None) -> int | None:
    """How often a leaf was changed in place, if torch knows it."""
    try:
        return None if leaf is None else version_of(leaf)
    except RuntimeError:  # a tensor of inference mode
        return None


def arrived_norms(
    graph: nx.MultiDiGraph, run: RunModel | None, leaves: Sequence[RankLeafModel]
) -> list[JsonNumber | None]:
    """Return the (largest) norm of each autograd node's incoming gradients, None without one."""

    def height(norm: JsonNumber | None) -> float:
        return -1.0 if norm is None else math.inf if isinstance(norm, str) else norm

    norms: list[JsonNumber | None] = [None] * len(graph)
    if run is None:
        return norms
    targets = [target for _, target in graph.edges()]
    incoming = [
        (targets[edge], norm) for edge, norm in zip(run["edges"], run["norms"], strict=True)
    ]
    incoming += [(seed["node"], seed["norm"]) for seed in run["seeds"]]
    for node, norm in incoming:
        norms[node] = max(norms[node], norm, key=height)
    for arrived in run["arrived"]:
        norms[arrived["node"]] = arrived["norm"]
    for leaf in leaves:
        norms[leaf["node"]] = None if leaf["local"] is None else leaf["local"]["norm"]
    return norms


def _used_at(captured: Annotated, leaf: int) -> SourceLine | None:
    """The line of the operation furthest from the outputs that takes a leaf."""
    for user in sorted(captured.predecessors[leaf], reverse=True):
        seen = captured.annotations.get(user)
        if seen is not None and seen.source is not None:
            return seen.source
    return None


def run_name(environment: Mapping[str, str]) -> str | None:
    """Identify a run by torchrun's id and address, the same on every rank; None if unknown."""
    run_id = environment.get("TORCHELASTIC_RUN_ID", "")
    where = ":".join(filter(None, (environment.get("MASTER_ADDR"), environment.get("MASTER_PORT"))))
    return " at ".join(filter(None, ("" if run_id == "none" else run_id, where))) or None


def structure_of(graph: nx.MultiDiGraph) -> str:
    """Return a short hash of a graph without shapes: the last batch of a rank may be smaller."""
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
