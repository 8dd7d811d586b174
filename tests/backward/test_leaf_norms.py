"""What the tiles of a model say after backward: the norms of what arrived at its parameters."""

from __future__ import annotations

import math

import pytest
import torch
from programs import PROGRAMS, backward, outputs_of
from torch import Tensor, nn
from torch.nn import functional as F

from gradwalk import GraphWidget


def arrived_norms(widget: GraphWidget) -> dict[int, float | None]:
    """Per leaf that a gradient arrived at, its norm, as the browser finds it in the run."""
    run, edges = widget.run, widget.model["edges"]
    assert run is not None
    into: dict[int, list[int]] = {}
    for i, edge in enumerate(edges):
        if edge["kind"] == "gradient":
            into.setdefault(edge["target"], []).append(i)
    flowed = dict(zip(run["edges"], run["norms"], strict=True))
    found = {
        node: flowed[places[0]]
        for node, places in into.items()
        if len(places) == 1 and places[0] in flowed
    }
    found |= {one["node"]: one["norm"] for one in run["arrived"]}
    return {i: norm for i, norm in found.items() if widget.model["nodes"][i]["kind"] == "leaf"}


def assert_as_torch(loss: Tensor, leaves: dict[str, Tensor], max_bytes: int) -> GraphWidget:
    """Each of the named leaves that is drawn says torch's own norm."""
    true = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, retain_graph=True)
    widget = GraphWidget(loss, names=leaves, max_bytes=max_bytes)
    loss.backward()
    norms = arrived_norms(widget)
    by_name = {node["name"]: node["id"] for node in widget.model["nodes"]}
    for name, grad in zip(leaves, true, strict=True):
        if grad is None:
            assert by_name.get(name) not in norms
            continue
        assert norms[by_name[name]] == pytest.approx(float(grad.norm()), rel=1e-4, nan_ok=True)
    return widget


class Unreduced(torch.autograd.Function):
    """Adds, and leaves it to the engine to sum up what its operands were broadcast from."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


@pytest.mark.parametrize("max_bytes", [0, 2**28])
@pytest.mark.parametrize("uses", [1, 2])
def test_what_the_engine_sums_up_on_the_way_is_told_as_it_arrived(max_bytes, uses):
    bias = nn.Parameter(torch.randn(3000))
    loss = torch.zeros(())
    for _ in range(uses):
        loss = loss + Unreduced.apply(torch.randn(50, 3000), bias).pow(2).sum()
    assert_as_torch(loss, {"bias": bias}, max_bytes)


@pytest.mark.parametrize("max_bytes", [0, 2**28])
@pytest.mark.parametrize("before", [0, 2])
def test_the_parameters_of_a_model(max_bytes, before):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    x = torch.randn(2, 3, 16, 16)
    for _ in range(before):  # what .grad held before is no part of it
        model(x).sum().backward()
    loss = F.cross_entropy(model(x), torch.tensor([1, 2]))
    grads = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    widget = assert_as_torch(loss, dict(model.named_parameters()), max_bytes)
    total = math.hypot(*(norm or 0 for norm in arrived_norms(widget).values()))
    assert total == pytest.approx(float(torch.cat([g.flatten() for g in grads]).norm()), rel=1e-4)


# A reentrant checkpoint adds to .grad in a pass of its own: there .grad itself is read.
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"recomputed"}))
def test_of_every_program_each_leaf_says_what_its_grad_holds(name):
    outputs = outputs_of(name)
    widget = GraphWidget(*outputs, max_bytes=0)
    backward(outputs)
    assert widget.run is not None
    norms = arrived_norms(widget)
    for one in widget.run["grads"]:
        node = widget.model["nodes"][one["node"]]
        if node["kind"] != "leaf" or one["before"] is not None or one["node"] not in norms:
            continue
        assert str(norms[one["node"]]) == str(one["norm"]) or norms[one["node"]] == pytest.approx(
            one["norm"], rel=1e-4
        )
    widget.close()
