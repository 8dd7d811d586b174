"""`GraphWidget.overlay`: numbers of the user's own, by node, tensor and module."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import gradwalk
from gradwalk import GraphWidget


def example(watched: bool = False) -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()))
    if not watched:
        return model, model(torch.ones(2, 4)).sum()
    with gradwalk.watch():
        return model, model(torch.ones(2, 4)).sum()


def shown(widget: GraphWidget) -> dict[int, float]:
    (overlay,) = widget._overlays
    return dict(zip(overlay["nodes"], overlay["values"], strict=True))


def test_numbers_by_id_tensor_and_output():
    model, loss = example()
    widget = GraphWidget(loss, names=model)
    widget.overlay({0: 1, "1.0.weight": torch.tensor(0.5), "0.bias": 2.0}, label="Fisher")
    names = widget.to_networkx().nodes(data="name")
    found = shown(widget)
    assert found.pop(0) == 1
    assert {names[node]: value for node, value in found.items()} == {"1.0.weight": 0.5, "0.bias": 2}
    (overlay,) = widget._overlays
    assert (overlay["label"], overlay["unit"], overlay["is_shown"]) == ("Fisher", "", True)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("name", ["1", "1.0", "model.1", "model.1.0"])
def test_a_module_gives_its_number_to_its_box_and_its_nodes(watched, name):
    model, loss = example(watched)
    widget = GraphWidget(loss)
    widget.overlay({name: 0.7}, label="Fisher", unit="nats")
    (overlay,) = widget._overlays
    path = name.removeprefix("model.").replace(".", "/")
    assert [each.removeprefix("model/") for each in overlay["modules"]] == [path]
    assert overlay["module_values"] == [0.7]
    spaces = {node["id"]: node["namespace"] or "" for node in widget.model["nodes"]}
    within = {i for i, space in spaces.items() if f"{path}/" in f"{space.removeprefix('model/')}/"}
    assert set(overlay["nodes"]) == within != set()
    assert model is not None


def test_the_innermost_module_and_the_node_itself_come_first():
    model, loss = example()
    widget = GraphWidget(loss, names=model)
    widget.overlay({"1": 1, "1.0": 2, "1.0.weight": 3}, label="depth")
    assert {1, 2, 3} == set(shown(widget).values())


def test_numbers_by_name_stay_after_an_update_and_ids_do_not():
    model, loss = example()
    widget = GraphWidget(loss, names=model)
    widget.overlay({"0": 1, 0: 5}, label="Fisher")
    widget.update((model(torch.ones(3, 4)) ** 2).mean(), names=model)
    assert set(shown(widget).values()) == {1}


def test_a_label_in_use_is_replaced_and_an_empty_dict_removes_it():
    model, loss = example()
    widget = GraphWidget(loss, names=model)
    widget.overlay({0: 1}, label="a")
    widget.overlay({0: 2}, label="b")
    widget.overlay({0: 3}, label="a")
    assert [each["label"] for each in widget._overlays] == ["b", "a"]
    assert [each["is_shown"] for each in widget._overlays] == [False, True]
    widget.overlay({}, label="a")
    widget.overlay({}, label="b")
    assert widget._overlays is None


def test_numbers_that_are_not_finite_travel(tmp_path):
    model, loss = example()
    widget = GraphWidget(loss, names=model)
    widget.overlay({0: math.nan, 1: -math.inf}, label="Fisher")
    assert shown(widget) == {0: "nan", 1: "-inf"}


def test_files_pages_and_pictures_have_them(tmp_path):
    model, loss = example()
    widget = GraphWidget(loss, names=model)
    plain = widget.to_svg()
    widget.overlay({"0.weight": 0.25, "1.0.weight": 0.75}, label="Fisher", unit="nats")
    gradwalk.save(widget, tmp_path / "x.gw")
    again = gradwalk.load(tmp_path / "x.gw")
    assert again._overlays == widget._overlays
    for picture in (widget.to_svg(), again.to_svg(theme="dark")):
        assert "Fisher (nats)" in picture
    assert "Fisher" not in plain
    assert "Fisher" not in widget.to_html()  # packed
    again.overlay({"0.bias": 1}, label="other")
    assert [each["label"] for each in again._overlays] == ["Fisher", "other"]


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ({"1.0.weigth": 1}, ValueError, "The nearest names are '1.0.weight'"),
        ({"model.1": 1}, ValueError, "no such tensor or module"),
        ({999: 1}, ValueError, "this graph has nodes 0 to"),
        ({-1: 1}, ValueError, "was given node -1"),
        ({0.5: 1}, TypeError, "Give the id of a node"),
        ({0: "much"}, TypeError, "a str for 0. Give one real number"),
        ({0: torch.ones(2)}, TypeError, "a Tensor for 0"),
        ({0: True}, TypeError, "a bool for 0"),
        ([1, 2], TypeError, "Give a dict"),
    ],
)
def test_wrong_arguments_are_said(values, error, said):
    net, loss = example()
    widget = GraphWidget(loss, names=net)
    with pytest.raises(error, match=said):
        widget.overlay(values, label="Fisher")
    assert widget._overlays is None


def test_a_label_is_a_text():
    _, loss = example()
    with pytest.raises(TypeError, match="label=''"):
        GraphWidget(loss).overlay({0: 1}, label="")
