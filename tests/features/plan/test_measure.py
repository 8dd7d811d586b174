"""`GraphWidget.measure`: against the clock and torch.profiler, and that it changes nothing."""

from __future__ import annotations

import pytest
import torch
from planned_steps import STEPS, Decoder, next_tokens, tokens
from torch.profiler import ProfilerActivity, profile

import gradwalk
from gradwalk import GraphWidget, Measurement
from gradwalk.checks.memory import saved_memory


def example(blocks: int = 2, width: int = 32) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, batch = Decoder(blocks=blocks, width=width, inner=(4 * width,)), tokens(2, 64)
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


def ranks(values: list[float]) -> torch.Tensor:
    found = torch.tensor(values).double()
    return (found[:, None] > found).sum(1) + 0.5 * (found[:, None] == found).sum(1)


@pytest.mark.full
def test_times_add_up_and_have_the_order_of_the_profiler():
    torch.set_num_threads(1)
    model, loss = example(blocks=4, width=256)
    widget = GraphWidget(loss)
    found = widget.measure()
    assert sum(each.seconds for each in found.nodes) > 0.9 * found.wall
    best: dict[tuple[str, int], float] = {}
    for _ in range(5):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        for event in seen.events():
            if event.name.startswith("autograd::engine::evaluate_function: "):
                key = event.name.split(": ")[1], event.sequence_nr
                best[key] = min(best.get(key, 1e9), event.cpu_time_total)
    data = widget.to_networkx().nodes
    pairs = [
        (each.seconds, best[each.op, data[each.node]["sequence_nr"]])
        for each in found.nodes
        if (each.op, data[each.node]["sequence_nr"]) in best
    ]
    assert len(pairs) > 100
    ours, theirs = (ranks(list(each)) for each in zip(*pairs, strict=True))
    assert torch.corrcoef(torch.stack([ours, theirs]))[0, 1] > 0.9


def test_memory_of_a_plan_is_that_of_the_graph():
    model, loss = example()
    planned = gradwalk.plan(model, tokens(2, 64), loss=next_tokens)
    held = saved_memory(GraphWidget(loss)._source.captured).total
    assert abs(planned.saved - held) < 0.02 * planned.saved  # the tokens are held, too
