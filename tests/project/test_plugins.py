"""Features plug into the core by hooks; the core works without any of them."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, capture, compare, load, plugins, save
from gradwalk.checks import run_checks
from gradwalk.comparison import difference
from gradwalk.panel import details
from gradwalk.sources import live_drawing, open_nodes
from gradwalk.widget import graph_widget

HOOKS = {
    "held": [run_checks.MORE_CHECKS],
    "compiled": [open_nodes.OPENERS, details.SAVED_NAMES, difference.COUNTERPARTS],
    "module_inference": [live_drawing.INFER_MODULES, live_drawing.BOXES],
    "checkpoints": [live_drawing.FIND_REGIONS],
}


@pytest.mark.parametrize("feature", HOOKS)
def test_the_core_works_without_a_feature(feature, monkeypatch, compiles_anew, tmp_path):
    plugins.load_features()
    for hook in HOOKS[feature]:
        monkeypatch.setattr(hook, "_added", [])
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    double = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
    x = torch.ones(2, 3)
    loss = checkpoint(lambda y: model(double(y)).sum(), x, use_reentrant=False)
    widget = GraphWidget(loss, names={"model": model})
    widget.backward()
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        assert widget.details["op"] == node["op"]
    save(widget, tmp_path / "graph.gw")
    assert load(tmp_path / "graph.gw").model == widget.model
    assert capture(loss, opened=True).number_of_nodes() >= capture(loss).number_of_nodes()
    assert compare({"a": loss, "b": model(x).sum()}).panes
    assert model[0].weight.grad is not None


def test_a_missing_quiz_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(graph_widget.CONTROLLERS, "_added", [])
    widget = GraphWidget(torch.ones(2, requires_grad=True).sum())
    with pytest.raises(RuntimeError, match="the folder features/quiz is missing"):
        widget.quiz()


def test_each_feature_with_a_plugin_is_loaded():
    for hooks in HOOKS.values():
        for hook in hooks:
            assert hook.first() is not None
