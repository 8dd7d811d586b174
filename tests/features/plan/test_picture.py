"""The picture of a plan: its graph, curve, FLOPs and memory, in a cell, a page and a file."""

from __future__ import annotations

import pytest
import torch
from planned_steps import STEPS, Step
from torch import nn

import gradwalk
from gradwalk import GraphWidget, plan
from gradwalk.results import Plan


def planned(name: str) -> Plan:
    step: Step = STEPS[name]()
    return plan(step.model, step.batch, loss=step.loss, optimizer=step.optimizer)


@pytest.mark.parametrize(
    "name", ["decoder", "recomputed", "views", "mixed_precision", "own_function"]
)
def test_nodes_of_the_curve_are_those_of_the_graph(name):
    found = planned(name)
    widget = found.widget
    shown = widget.model["plan"]
    ops = widget.to_networkx().nodes(data="op")
    assert shown["live"][shown["peak"]] == found.peak == max(shown["live"])
    assert shown["nodes"][shown["peak"]] == found.at.node
    for node, words in zip(shown["nodes"], shown["words"], strict=True):
        assert node is None or words.startswith(ops[node]) or "AccumulateGrad" in words
    assert all(words.endswith("forward") for words in shown["words"][: shown["forward"]])
    passes = shown["forward"] + shown["backward"]
    assert all(words.endswith("backward") for words in shown["words"][shown["forward"] : passes])
    assert found.not_counted in shown["summary"]


def test_amounts_of_the_nodes_add_up():
    found = planned("decoder")
    widget = found.widget
    (work,) = widget._overlays
    assert sum(work["values"]) == found.flops
    memory = widget._source.memory()
    assert memory["total"] == sum(memory["bytes"]) == found.saved


def test_the_curve_of_a_long_step_is_thinned_out():
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(120)]
    found = plan(nn.Sequential(*layers), torch.ones(2, 4), loss=torch.sum)
    shown = found.widget.model["plan"]
    assert len(found.curve) > 400
    assert len(shown["live"]) < 300
    assert max(shown["live"]) == found.peak
    assert len(shown["held"]) == len(shown["live"])


def test_a_cell_a_page_and_a_file_show_it(tmp_path):
    found = planned("decoder")
    assert found._repr_mimebundle_() == found.widget._repr_mimebundle_()
    assert found.to_html(tmp_path / "plan.html").read_text().startswith("<!doctype html>")
    gradwalk.save(found.widget, tmp_path / "plan.gw")
    again = gradwalk.load(tmp_path / "plan.gw")
    assert again.model["plan"] == found.widget.model["plan"]


def test_checkpointed_blocks_are_drawn():
    found = planned("decoder")
    advice = found.advise(1)
    after = found.apply(advice)
    assert not found.widget.model["checkpoints"]
    assert len(after.widget.model["checkpoints"]) == len(advice.blocks)


def test_advised_blocks_are_marked_before():
    found = planned("decoder")
    assert found.widget.model["plan"]["advised"] == []
    advice = found.advise(1)
    assert found.widget.model["plan"]["advised"] == [b.replace(".", "/") for b in advice.blocks]
    assert advice.blocks


@pytest.mark.parametrize("name", ["decoder", "recomputed", "own_function"])
def test_the_steps_are_those_of_backward(name):
    widget = planned(name).widget
    ran = [step.node for step in widget.steps]
    assert sorted(ran) == sorted(widget._source.graph)
    assert widget.cursor == 0
    widget.step(3)
    assert widget.cursor == 3
    with pytest.raises(RuntimeError, match="picture of a plan"):
        widget.backward()


def test_a_step_does_not_send_the_graph_again():
    widget = planned("decoder").widget
    sent = widget._update
    widget.step(3)
    assert widget._update is sent


def test_pictures_have_the_curve_and_the_colours():
    picture = planned("decoder").widget.to_svg()
    assert "the peak: " in picture
    assert "memory held for backward" in picture


def test_other_graphs_have_no_plan():
    widget = GraphWidget(torch.ones(3, requires_grad=True).sum())
    assert widget.model["plan"] is None
