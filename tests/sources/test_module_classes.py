"""The class names of modules are those that the model itself tells."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, load, save, watch
from gradwalk.schema.graph import ModulesModel


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.layers = nn.ModuleList([nn.Linear(size, size), nn.Linear(size, size)])
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        for layer in self.layers:
            y = self.act(layer(y))
        return x + y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.bn = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.encoder(self.blocks(self.embed(x))).mean(1)
        out: torch.Tensor = self.head(self.bn(y))
        return out


def loss_of(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randint(0, 11, (4, 5))).logsumexp(1).sum()
    return out


def by_path(modules: ModulesModel) -> dict[str, str]:
    return {
        space.replace("/", "."): modules["names"][place]
        for space, place in zip(modules["namespaces"], modules["classes"], strict=True)
    }


def classes(model: nn.Module) -> dict[str, str]:
    return {path: type(module).__name__ for path, module in model.named_modules() if path}


def spaces_of(widget: GraphWidget) -> set[str]:
    """The modules that nodes belong to, and those around them."""
    paths = {node["namespace"] for node in widget.model["nodes"]} - {None, ""}
    parts = [path.split("/") for path in paths]
    return {".".join(each[: i + 1]) for each in parts for i in range(len(each))}


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_each_is_the_class_that_the_model_tells(watched: bool, by_name: bool) -> None:
    model = Net()
    if watched:
        with watch():
            loss = loss_of(model)
    else:
        loss = loss_of(model)
    widget = GraphWidget(loss, names=model) if by_name else GraphWidget(loss)
    found, spaces = by_path(widget.model["modules"]), spaces_of(widget)
    expected = classes(model)
    if not watched and not by_name:  # then they go by the name of the variable
        expected = {"model": "Net"} | {f"model.{path}": kind for path, kind in expected.items()}
    widget.close()
    assert found == {path: kind for path, kind in expected.items() if path in spaces}
    assert {"Block", "ModuleList", "TransformerEncoderLayer", "BatchNorm1d"} <= set(found.values())


def test_what_only_holds_modules_is_left_out_where_nothing_tells_its_class() -> None:
    model = Net()
    with watch():
        loss = loss_of(model)
    widget = GraphWidget(loss, names={})
    found = by_path(widget.model["modules"])
    widget.close()
    assert "blocks.0.layers" not in found
    assert found == {path: kind for path, kind in classes(model).items() if path in found}
    assert found["blocks.0.layers.1"] == "Linear"
    assert found["blocks"] == "Sequential"


def test_two_models_with_modules_of_one_name_are_told_apart() -> None:
    first, second = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Tanh(), nn.Linear(3, 1))
    with watch():
        loss = second(first(torch.ones(2, 3))).sum()
    widget = GraphWidget(loss, names={})
    found = by_path(widget.model["modules"])
    widget.close()
    assert found == {
        "(Sequential)": "Sequential",
        "(Sequential).0": "Tanh",
        "(Sequential).1": "Linear",
        "(Sequential 2)": "Sequential",
        "(Sequential 2).0": "Linear",
    }


def test_a_graph_without_modules_has_none() -> None:
    widget = GraphWidget(torch.ones(2, requires_grad=True).sum())
    assert widget.model["modules"] == {"namespaces": [], "classes": [], "names": []}
    widget.close()


def test_they_are_saved_with_the_graph(tmp_path) -> None:
    model = Net()
    widget = GraphWidget(loss_of(model), names=model)
    save(widget, tmp_path / "net.gw.json.gz")
    opened = load(tmp_path / "net.gw.json.gz")
    assert opened.model["modules"] == widget.model["modules"] != {}
    assert by_path(opened.model["modules"])["encoder"] == "TransformerEncoderLayer"
    for each in (widget, opened):
        each.close()


class Backwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in "abc")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys = self.c(x)
        out: torch.Tensor = self.a(x) + self.b(x).tanh().exp() * keys
        return out


@pytest.mark.parametrize("watched", [False, True])
def test_they_are_in_the_order_of_the_program(watched: bool):
    model = Backwards()
    with watch() if watched else nullcontext():
        loss = model(torch.randn(2, 4)).sum()
    widget = GraphWidget(loss, names=model)
    assert [space for space in widget.model["modules"]["namespaces"] if space] == ["c", "a", "b"]
    widget.close()
