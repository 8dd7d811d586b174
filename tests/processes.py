"""Several processes that train together, for tests: gloo on the CPU, in a tree of their own."""

from __future__ import annotations

from fresh import START, fresh

RANKS = (
    START
    + """
import tempfile
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
GraphWidget  # imported before the processes part


def begin(rank, work, world, store):
    # In a forked process torch makes its threads anew, and two that do so at once can stop it.
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=120),
    )
    work(rank)
    dist.barrier()
    dist.destroy_process_group()


def on_ranks(work, world=2):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(
            begin, args=(work, world, folder + "/store"), nprocs=world, start_method="fork"
        )


def look(widget):
    found = []
    for node in [None, *range(len(widget.graph["nodes"]))]:
        widget.selected = node
        found.append(widget.details)
        assert node is None or found[-1]["failed"] == [], found[-1]["failed"]
    widget.selected = None
    widget.state, widget.steps, widget.run, widget.transport, str(widget)
    return found[1:]


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def batch(rank):
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(rank))
"""
)


def together(code: str) -> str:
    """What some code prints that calls ``on_ranks(work)``; fails when a process does."""
    return fresh(code, RANKS)
