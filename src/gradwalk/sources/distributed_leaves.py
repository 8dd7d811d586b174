"""The leaves of a graph that torch.distributed shards or replicates."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Literal

import torch
from torch.nn.parallel import DistributedDataParallel

from ..backward.recorded_run import RecordedRun
from ..explain.rank_nodes import about_bucket
from ..graph.names import Names
from ..panel.extra_details import put_sharded
from ..schema.details import DetailsModel, RankGradModel, TensorSummary
from ..torch_api.distributed import Bucket, Sharded, buckets_of, ranks_with_the_same
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import own_part, simulated_parts, why_unreadable
from ..torch_api.summary import Summarise, summarise
from ..tracing.annotate import Annotated

Parallel = Literal["DDP", "FSDP2"]
"""What reduces the gradient of a leaf."""

_GATHERED = "all-gather"

BucketOf = Callable[[int], Bucket | None]


class DistributedLeaves:
    """The leaves that several processes share, or several names of one module.

    FSDP2 shards them; DistributedDataParallel replicates them.

    Attributes:
        parallel: Node of a leaf -> what reduces its gradient.
        tied: Node of a leaf with several names in a module -> these names.
    """

    def __init__(self, captured: Annotated, names: Names) -> None:
        self._captured = captured
        self._sharded: dict[int, Sharded] = {}
        self._replicated: dict[int, weakref.ref[DistributedDataParallel]] = {}
        self.tied: dict[int, list[str]] = {}
        is_shared = names.tied or names.sharded or names.replicated
        for node, leaf in captured.leaves() if is_shared else ():
            if tied := names.tied_to(leaf):
                self.tied[node] = tied
            sharded = names.sharded_as(leaf)
            if sharded is not None:
                self._sharded[node] = sharded
            elif id(leaf) in names.replicated:
                self._replicated[node] = names.replicated[id(leaf)]
        self.parallel: dict[int, Parallel] = {
            **dict.fromkeys(self._replicated, "DDP"),
            **dict.fromkeys(self._sharded, "FSDP2"),
        }

    @property
    def signs(self) -> dict[int, str]:
        """Return the symbols of the leaves that FSDP2 gathers before use, by node."""
        return dict.fromkeys(self._sharded, _GATHERED)

    def buckets(self) -> BucketOf:
        """Return a function from a leaf's node to its bucket; it reads each log once, lazily."""
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
        """Return the incoming gradient of a leaf minus its ``.grad``, in this process.

        Args:
            node: The leaf.
            run: The shown pass.

        Returns:
            None if one of them is missing, or if their shapes differ.
        """
        leaf, came = self._leaf(node), None if run is None else run.arrived(node)
        if leaf is None or came is None:
            return None
        sharded = self._sharded.get(node)
        if sharded is not None:
            return _less(sharded.part_of(came), sharded.grad)
        return _less(_own(came), None if leaf.grad is None else _own(leaf.grad))

    def put(
        self,
        found: DetailsModel,
        node: int,
        run: RecordedRun | None,
        summarised: Summarise,
        bucket_of: BucketOf,
    ) -> None:
        """Add the reduction of a leaf's gradient to its details.

        Args:
            found: The details of the node.
            node: The node.
            run: The shown pass.
            summarised: Summarises tensors.
            bucket_of: The result of `buckets`.
        """
        if node in self._sharded:
            put_sharded(found, self._sharded[node], run, summarised)
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
        came = run.arrived(node) if run is not None and found["grad_output"] else None
        local = {} if came is None else simulated_parts(came)
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


def _own(tensor: torch.Tensor) -> torch.Tensor:
    part = own_part(tensor)
    return tensor if part is None else part


def _less(came: torch.Tensor | None, reduced: torch.Tensor | None) -> TensorSummary | None:
    """The difference of two plain tensors of one shape; None if they cannot be read."""
    if came is None or reduced is None or came.shape != reduced.shape:
        return None
    for each in (came, reduced):
        if each.layout is not torch.strided or why_unreadable(each) is not None:
            return None
    try:
        return summarise(came.detach().to(reduced.device, reduced.dtype) - reduced.detach())
    except Exception:  # a user's tensor class may raise anything
        return None
