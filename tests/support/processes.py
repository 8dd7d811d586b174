"""Several processes that train together, for tests: gloo on the CPU, in a tree of their own."""

from __future__ import annotations

import pytest
from fresh import START, fresh

RANKS = (
    START
    + """
import tempfile
from datetime import timedelta

import torch._dynamo  # each process that wraps a module would import it by itself
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
        timeout=timedelta(minutes=10),
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
    for node in [None, *range(len(widget.model["nodes"]))]:
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

COMPARED = """
def own(tensor):
    return getattr(tensor, "_local_tensor", tensor)


def trained(make, rank, backward, passes=2):
    # Two steps of an optimizer; the weights and gradients that each leaves, and the module.
    net = make()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    seen = []
    for number in range(passes):
        optimizer.zero_grad()
        backward(net, rank, number)
        seen += [own(p.grad).clone() for p in net.parameters() if p.grad is not None]
        optimizer.step()
        seen += [own(p).detach().clone() for p in net.parameters()]
    return net, seen


def plainly(net, rank, number):
    net(batch(rank + 10 * number)).square().mean().backward()


def looked_at(net, rank, number, by_widget=False):
    with watch():
        loss = net(batch(rank + 10 * number)).square().mean()
    widget = GraphWidget(loss)
    look(widget)
    widget.backward() if by_widget else loss.backward()
    found = {d["name"]: d for d in look(widget) if d["kind"] == "leaf"}
    names = {"net." + name for name, _ in net.named_parameters()}
    assert found.keys() == names, (found.keys(), names)
    assert [f for f in widget.diagnose() if f.severity != "info"] == [], widget.diagnose()
    for name, parameter in net.named_parameters():
        gradwalk.explain_grad(parameter, loss)
        grad, shown = own(parameter.grad), found["net." + name]["grad"]
        assert shown["shape"] == [*grad.shape]
        assert not grad.numel() or torch.equal(torch.tensor(shown["values"]), grad), name
    return found


def is_same(make, rank):
    _, expected = trained(make, rank, plainly)
    for by_widget in (False, True):
        _, seen = trained(make, rank, lambda *of: looked_at(*of, by_widget))
        assert len(seen) == len(expected) and all(map(torch.equal, seen, expected))


def mean_of_locals(found, names, world):
    # What arrived at each leaf, averaged over the ranks.
    means = {}
    for name in names:
        means[name] = torch.tensor(found["net." + name]["grad_output"][0]["values"])
        dist.all_reduce(means[name])
        means[name] /= world
    return means
"""

WORLDS = pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.full)])
"""Two processes in every run of the tests; four where all of them run."""


def together(code: str) -> str:
    """What some code prints that calls ``on_ranks(work)``; fails when a process does."""
    return fresh(code, RANKS)
