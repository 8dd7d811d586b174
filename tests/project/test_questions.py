"""A large model asked questions through the widget: its modules, its memory, what is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, diagnose, watch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh())
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x)).pow(2).mean()


def modules_of(widget):
    return {
        node["op"]: (node["namespace"], node["inferred"])
        for node in widget.model["nodes"]
        if node["kind"] == "op"
    }


def ask(widget, kind):
    widget._handle_custom_msg({"kind": kind}, [])


@pytest.fixture
def loss():
    torch.manual_seed(0)
    return Net()(torch.randn(16, 4))


def test_modules_are_inferred_from_the_names_of_the_parameters():
    model = Net()
    widget = GraphWidget(model(torch.randn(2, 4)), names=model)
    found = modules_of(widget)
    assert found["TanhBackward0"] == ("body/3", True)
    assert found["ReluBackward0"] == ("body/1", True)
    widget.selected = next(n["id"] for n in widget.model["nodes"] if n["op"] == "TanhBackward0")
    assert widget.details["module"] == "body.3"


def test_watched_modules_are_not_inferred():
    model = Net()
    with watch():
        out = model(torch.randn(2, 4))
    widget = GraphWidget(out, names=model)
    assert modules_of(widget)["TanhBackward0"] == ("body/3", False)


def test_without_a_module_there_is_none():
    w = torch.ones(2, requires_grad=True)
    widget = GraphWidget((w * 2).sum(), names={"w": w})
    assert set(modules_of(widget).values()) == {(None, False)}


def test_memory_is_told_when_asked_and_follows_what_is_freed(loss):
    widget = GraphWidget(loss, names={})
    assert widget._memory is None
    ask(widget, "memory")
    held = widget._memory["total"]
    assert held > 0
    assert sum(widget._memory["bytes"]) == held
    loss.backward()
    assert widget._memory["total"] < held


def test_findings_are_told_when_asked_and_are_about_the_pass_that_is_shown():
    x = torch.zeros(3, requires_grad=True)
    loss = x.sqrt().sum()
    widget = GraphWidget(loss, names={"x": x})
    ask(widget, "diagnose")
    assert [finding.kind for finding in widget.findings] == ["no-backward"]
    widget.backward()
    assert widget.findings is None
    ask(widget, "diagnose")
    nan = widget.findings[0]
    assert nan.kind == "nan"
    assert widget.model["nodes"][nan.nodes[0]]["op"] == "SqrtBackward0"
    assert widget._fault is None


def test_diagnose_lists_what_it_found_in_the_widget(loss):
    widget = GraphWidget(loss, names={})
    widget.backward()
    found = diagnose(widget, names={})
    assert widget.findings is None  # it only tells
    assert widget.diagnose(names={}) == found
    assert [each.message for each in widget.findings] == [each.message for each in found]


def test_what_the_browser_asks_in_vain_is_a_sentence(loss):
    widget = GraphWidget(loss, names={})
    ask(widget, "nonsense")
    assert widget._fault is None
    widget.close()
    ask(widget, "memory")
    assert "closed" in widget._fault
