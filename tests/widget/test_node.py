"""`select` and `node`: the nodes of a widget by the names that are shown."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradwalk
from gradwalk import GraphWidget, watch


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 1))


@pytest.fixture
def widget(net):
    with watch():
        h = net(torch.randn(3, 4))
        loss = h.pow(2).mean()
    return GraphWidget(loss, names={"net": net, "h": h, "loss": loss})


@pytest.mark.parametrize(
    ("name", "op", "called"),
    [
        ("net.0.weight", "AccumulateGrad", "net.0.weight"),
        ("0.weight", "AccumulateGrad", "net.0.weight"),
        ("h", "AddmmBackward0", "h"),
        ("Relu", "ReluBackward0", None),
        ("MeanBackward0", "MeanBackward0", "loss"),
        ("PowBackward0 in net.3 (node 1)", "PowBackward0", None),
        ("node 1", "PowBackward0", None),
        (1, "PowBackward0", None),
    ],
)
def test_a_node_has_the_names_that_are_shown(widget, name, op, called):
    found = widget.node(name)
    assert (found.op, found.name) == (op, called)
    widget.select(name)
    assert widget.selected == found.id


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("net.0.wieght", ValueError, "The nearest names are 'net.0.weight'"),
        ("AddmmBackward0", ValueError, "2 nodes have the name"),
        (99, ValueError, "has nodes 0 to"),
        (1.5, TypeError, "Give its id"),
    ],
)
def test_an_unknown_name_offers_near_ones(widget, name, error, said):
    for ask in (widget.node, widget.select):
        with pytest.raises(error, match=said):
            ask(name)


def test_a_node_has_its_tensors_at_the_cursor(net, widget):
    def weight():
        return widget.node("net.0.weight")

    assert weight().grad is None
    assert "no backward pass has added to net.0.weight.grad" in weight().why
    assert torch.equal(weight().value, net[0].weight)
    widget.run_to("net.0.weight")
    run = widget.steps[widget.cursor - 1]
    assert torch.equal(weight().grad, net[0].weight.grad)
    (grad,) = weight().grad_outputs
    assert torch.equal(grad, run.grad_outputs[0])
    assert torch.equal(weight().contributions[-1].total, grad)
    assert not weight().value.requires_grad
    relu = widget.node("Relu")
    assert torch.equal(relu.grad_inputs[0], relu.grad_outputs[0] * (relu.value > 0))
    assert (relu.module, relu.line.split(":")[0].split("/")[-1], relu.saved) == (
        "net.1",
        "test_node.py",
        ("result",),
    )
    assert relu.grad is None
    assert "retain_grad" in relu.why
    widget.reset()
    assert weight().grad is None
    assert weight().contributions == ()


def test_a_file_has_the_small_tensors(widget, tmp_path):
    widget.backward()
    gradwalk.save(widget, tmp_path / "run.gw")
    opened, live = gradwalk.load(tmp_path / "run.gw"), widget.node("net.2.bias")
    found = opened.node("net.2.bias")
    for name in ("value", "grad"):
        assert torch.equal(getattr(found, name), getattr(live, name))
    assert torch.equal(found.contributions[0].grad, live.contributions[0].grad)
    assert opened.node("net.0.weight").value is None  # 80 numbers: statistics only
    opened.select("net.2")
    assert opened._box["path"] == "2"


def test_a_box_is_selected_by_the_name_of_its_module(widget):
    widget.select("Relu")
    widget.select("net.0")
    assert (widget.selected, widget._box) == (None, {"path": "0", "number": 1})
    widget.select("net.0")
    assert widget._box["number"] == 2
    widget.select("h")
    assert widget._box is None
    with pytest.raises(ValueError, match="'net"):
        widget.select("net.7")


def test_a_quiz_is_not_given_away(net):
    widget = GraphWidget(net(torch.ones(1, 4)).sum(), names={"net": net})
    widget.quiz("grad", nodes=["net.2.bias"])
    found = widget.node("net.2.bias")
    assert (found.grad, found.value, found.contributions) == (None, None, ())


def test_a_finding_has_the_place_that_its_message_names():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        net[0].weight.fill_(1e6)
    with watch():
        loss = net(torch.ones(2, 4)).sum()
        loss.backward()
    (found,) = (each for each in gradwalk.diagnose(loss) if each.kind == "zero")
    assert (found.module, found.line in found.message) == ("net.1", True)
