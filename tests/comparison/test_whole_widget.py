"""A comparison can do what the widget of one graph can: files, pictures, findings, other graphs."""

from __future__ import annotations

import json

import networkx as nx
import pytest
import torch
from torch import nn

import gradwalk
from gradwalk import compare, compare_numerics, load, save
from gradwalk.results import CompareWidget, RecordedStep


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))


@pytest.fixture
def widget():
    model, x = net(), torch.randn(5, 4)
    made = compare({"plain": model(x).square().mean(), "cut": model(x.detach()).abs().mean()})
    yield made
    made.close()


def test_pictures_are_side_by_side(widget):
    text = widget.to_svg()
    assert text.count("<svg ") == 3
    assert ">plain</text>" in text
    assert ">cut</text>" in text
    assert widget.to_png(scale=1)[1:4] == b"PNG"
    assert widget.to_pdf()[:4] == b"%PDF"
    dot = widget.to_dot()
    assert dot.count("subgraph cluster_") == 2
    assert "g1_0 ->" in dot
    assert "g2_0 ->" in dot


def test_a_page_has_a_frame_for_each_graph(widget, tmp_path):
    text = widget.to_html(tmp_path / "both.html", title="Two <b>").read_text(encoding="utf-8")
    assert text.count("<iframe ") == 2
    assert "<title>Two &lt;b&gt;</title>" in text


def test_the_united_graph_says_which_graphs_have_a_node(widget):
    graph = widget.to_networkx()
    assert len(graph) == len(widget.members)
    for place, own in enumerate(widget.members):
        labels = zip(("plain", "cut"), own, strict=True)
        assert graph.nodes[place]["labels"] == [label for label, node in labels if node is not None]
    again = nx.node_link_graph(json.loads(widget.to_json()), edges="edges")
    assert set(again) == set(graph) == set(widget.graph)


def test_steps_are_recorded_steps(widget):
    assert widget.steps == []
    widget.backward()
    assert all(isinstance(step, RecordedStep) for step in widget.steps)
    assert [step.step for step in widget.steps] == [*range(1, len(widget.steps) + 1)]
    assert [step.node for step in widget.steps] == [each["node"] for each in widget._steps]
    for step in widget.steps:
        assert step.ready < step.step
        assert step.op == widget.model["nodes"][step.node]["op"]
        for share in step.contributions:
            if share.consumer is not None:
                assert widget.steps[share.step - 1].node == share.consumer


@pytest.mark.parametrize("ran", [False, True])
def test_a_saved_comparison_opens(widget, tmp_path, ran):
    if ran:
        widget.backward()
    again = load(save(widget, tmp_path / "both.gw"))
    assert isinstance(again, CompareWidget)
    assert repr(again) == repr(widget)
    assert again.panes == widget.panes
    assert again.members == widget.members
    assert [each["steps"] for each in again.passes] == [each["steps"] for each in widget.passes]
    assert len(again.steps) == len(widget.steps)
    again.selected = 0
    assert again.details[0]["op"] == "MeanBackward0"


def test_damaged_files_of_comparisons_are_refused(widget, tmp_path):
    file = save(widget, tmp_path / "both.gw")
    data = file.read_bytes()
    for cut in (1, 9, 17, 40, len(data) // 2):
        (tmp_path / "cut.gw").write_bytes(data[cut:])
        with pytest.raises(ValueError, match=r"damaged|not a graph"):
            load(tmp_path / "cut.gw")
    (tmp_path / "odd.gw").write_bytes(data[:-17] + b"\xff" * 8 + data[-9:])
    with pytest.raises(ValueError, match="is damaged: its labels are cut off"):
        load(tmp_path / "odd.gw")


def test_a_numeric_comparison_is_saved_with_both_graphs(tmp_path):
    model, x = net(), torch.randn(5, 4)
    found = compare_numerics(model(x).mean(), model(x).mean())
    again = load(save(found, tmp_path / "numbers.gw"))
    assert isinstance(again, CompareWidget)
    assert [pane["label"] for pane in again.panes] == ["a", "b"]


def test_recordings_and_lists_are_saved(tmp_path):
    x = torch.tensor(3.0, requires_grad=True)
    recording = gradwalk.record(x**2)
    assert load(save(recording, tmp_path / "pass.gw")).cursor == 2
    assert len(load(save([x**2, x * 3], tmp_path / "two.gw")).graph.graph["roots"]) == 2


def test_findings_are_those_of_each_graph():
    x = torch.zeros(3, requires_grad=True)
    widget = compare({"root": x.sqrt().sum(), "square": x.square().sum()})
    widget.backward()
    found = widget.diagnose(names={"x": x})
    assert [each.kind for each in found["root"]] == ["nan"]
    assert "nan" not in [each.kind for each in found["square"]]


def test_other_graphs_take_the_place(widget):
    w = torch.tensor(2.0, requires_grad=True)
    widget.backward()
    widget.selected = 0
    first, second = w**2, w * 3
    widget.update({"a": first, "b": second})
    assert [pane["label"] for pane in widget.panes] == ["a", "b"]
    assert (widget.selected, widget.cursor, widget.steps) == (None, 0, [])
    widget.backward()
    assert w.grad == 4
    with pytest.raises(ValueError, match="at least two"):
        widget.update([first])
    assert [pane["label"] for pane in widget.panes] == ["a", "b"]


def test_a_pass_that_follows_an_update_is_seen(widget):
    w = torch.tensor(2.0, requires_grad=True)
    first, second = w**2, w * 3
    widget.update({"a": first, "b": second})
    second.backward()
    assert [bool(each["steps"]) for each in widget.passes] == [False, True]


def test_compiled_code_opens_in_its_pane():
    x = torch.ones(3, requires_grad=True)
    double = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
    widget = compare({"eager": x.sin() * 2, "compiled": double(x)})
    widget.backward(torch.ones(3))
    before = widget.members
    place = next(i for i, nodes in enumerate(widget.members) if nodes == [None, 0])
    widget.expand(place)
    assert sum(node["kind"] == "call" for node in widget.panes[1]["graph"]["nodes"]) == 3
    assert widget.compiled
    assert len(widget.steps) == widget.cursor > 0
    place = next(i for i, nodes in enumerate(widget.members) if nodes[1] == 0)
    widget.collapse(place)
    assert widget.members == before
    with pytest.raises(ValueError, match=r"nothing inside|cannot be opened|no inside|opened"):
        widget.expand(0)


def test_it_is_made_by_compare():
    with pytest.raises(TypeError, match="Call compare"):
        CompareWidget({})
