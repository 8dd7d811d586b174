"""`GraphWidget.measure`: each node's bytes and time, and that it changes nothing."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from planned_steps import STEPS, Decoder, next_tokens, tokens

import gradwalk
from gradwalk import GraphWidget
from gradwalk.checks.memory import saved_memory
from gradwalk.features.plan.measure import _timed
from gradwalk.results import Measurement


def example() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, batch = Decoder(blocks=2, width=32, inner=(128,)), tokens(2, 64)
    with gradwalk.watch():
        loss = next_tokens(model(batch), batch)
    return model, loss


def test_bytes_are_those_that_the_graph_holds():
    _, loss = example()
    widget = GraphWidget(loss)
    found = widget.measure()
    assert isinstance(found, Measurement)
    assert found.bytes == widget._source.memory()["total"]
    assert sum(each.bytes for each in found.nodes) == found.bytes
    assert found.nodes == tuple(sorted(found.nodes, key=lambda each: -each.seconds))
    assert {"layers.0.up", "layers.1.attention"} <= {each.module for each in found.nodes}
    assert "held" in str(found)


def test_the_picture_shows_the_times():
    _, loss = example()
    widget = GraphWidget(loss)
    found = widget.measure()
    (overlay,) = widget._overlays
    assert overlay["label"] == "time in backward, measured"
    assert overlay["is_shown"]
    seconds = {each.node: each.seconds for each in found.nodes}
    assert dict(zip(overlay["nodes"], overlay["values"], strict=True)) == seconds


def test_measuring_changes_no_gradient_and_leaves_no_hook():
    model, loss = example()
    state = torch.get_rng_state()
    first = GraphWidget(loss)
    first.measure()
    assert first.steps == []
    assert all(each.grad is None for each in model.parameters())
    assert torch.equal(state, torch.get_rng_state())
    loss.backward()
    grads = [each.grad for each in model.parameters()]
    other, loss = example()
    loss.backward()
    assert all(torch.equal(a, b.grad) for a, b in zip(grads, other.parameters(), strict=True))


@pytest.mark.parametrize("name", ["recomputed", "own_function", "recurrent_cells", "views"])
def test_every_kind_of_node_is_measured(name):
    step = STEPS[name]()
    output = step.model(step.batch)
    loss = step.loss(output, step.batch) if name == "recomputed" else step.loss(output)
    found = GraphWidget(loss).measure()
    ops = gradwalk.capture(loss).nodes(data="op")
    ran = {node for node, op in ops if op != "AccumulateGrad"}
    assert {each.node for each in found.nodes} == ran


def test_graphs_without_values_are_refused(tmp_path):
    _, loss = example()
    gradwalk.save(loss, tmp_path / "x.gw")
    with pytest.raises(ValueError, match="not one of a file"):
        gradwalk.load(tmp_path / "x.gw").measure()
    w = torch.ones(3, device="meta", requires_grad=True)
    with pytest.raises(ValueError, match="needs tensors with values"):
        GraphWidget((w * 2).sum()).measure()


def test_a_freed_graph_says_so():
    _, loss = example()
    widget = GraphWidget(loss)
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        widget.measure()


class Work(torch.autograd.Function):
    """The identity, whose backward takes some ticks of a clock of the test's own."""

    @staticmethod
    def forward(ctx, x, clock, ticks):
        ctx.clock, ctx.ticks = clock, ticks
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.clock.now += ctx.ticks
        return grad, None, None


class Clock:
    now = 0

    def __call__(self):
        return self.now


def test_each_node_gets_its_own_time_and_they_add_up():
    clock, leaf = Clock(), torch.ones(3, requires_grad=True)
    left = Work.apply(Work.apply(leaf, clock, 5_000), clock, 30_000)
    loss = Work.apply((left + Work.apply(leaf, clock, 200_000)).sum(), clock, 1_000_000)
    captured = gradwalk.capture(loss)
    graph = GraphWidget(loss)._source.autograd
    times, wall = _timed(graph.nodes, partial(torch.autograd.grad, loss, leaf), clock)
    ops = captured.nodes(data="op")
    found = sorted(times[node] for node, op in ops if op == "WorkBackward")
    assert found == pytest.approx([5e-6, 3e-5, 2e-4, 1e-3])
    assert sum(times.values()) == pytest.approx(wall)


def test_memory_of_a_plan_is_that_of_the_graph():
    model, loss = example()
    planned = gradwalk.plan(model, tokens(2, 64), loss=next_tokens)
    held = saved_memory(GraphWidget(loss)._source.captured).total
    assert abs(planned.saved - held) < 0.02 * planned.saved  # the tokens are held, too
