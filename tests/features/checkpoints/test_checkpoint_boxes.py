"""The box of a checkpointed region: that of its module, one around several, or none."""

from __future__ import annotations

import pytest
import torch
from checkpointed import Block
from torch import nn
from torch.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
)

from gradwalk import GraphWidget, watch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Linear(8, 8)
        self.layers = nn.ModuleList(Block(8) for _ in range(3))

    def forward(self, x):
        x = self.emb(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x.sum()


@pytest.mark.parametrize("watched", [False, True])
def test_a_region_that_is_a_module_is_the_modules_box(watched):
    net = Net()
    if watched:
        with watch():
            loss = net(torch.rand(2, 8))
    else:
        loss = net(torch.rand(2, 8))
    widget = GraphWidget(loss, names={"net": net})
    model = widget.model
    prefix = "" if watched else "net/"
    assert [region["box"] for region in model["checkpoints"]] == [
        f"{prefix}layers/{i}" for i in range(3)
    ]
    for node in model["nodes"]:
        inside = node["kind"] == "op" and "layers/" in (node["namespace"] or "")
        place = int(node["namespace"].split("layers/")[1][0]) if inside else None
        assert node["checkpoint"] == place
    said = [region["saves"] for region in model["checkpoints"]]
    assert all(each.startswith("saves at least" if not watched else "saves ") for each in said)
    widget.selected = next(n["id"] for n in model["nodes"] if n["checkpoint"] == 1)
    assert widget.details["checkpoint"] == model["checkpoints"][1]["about"]
    assert "Block runs forward again" in widget.details["checkpoint"]


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.b(self.a(x).tanh()) + 1


class Unsized(Sized):
    def __len__(self):
        raise TypeError("has no length, as a compiled module may say")


class Empty(Sized):
    def __len__(self):
        return 0


@pytest.mark.parametrize("kind", [Sized, Unsized, Empty])
def test_a_region_is_a_modules_box_whatever_the_length_of_the_module(kind):
    net = kind()
    loss = checkpoint(net, torch.randn(2, 3, requires_grad=True), use_reentrant=False).sum()
    (model,) = GraphWidget(loss, names={"net": net}).model["checkpoints"]
    assert model["box"] == "net"


def test_a_region_of_several_modules_has_a_box_around_them():
    net = nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(4, 4), nn.Tanh())))
    with watch():
        loss = checkpoint_sequential(net, 3, torch.rand(2, 4), use_reentrant=False).sum()
    model = GraphWidget(loss, names={"net": net}).model
    boxes = [region["box"] for region in model["checkpoints"]]
    assert boxes == ["checkpoint 1 forward()", "checkpoint 2 forward()"]
    spaces = dict(zip(model["modules"]["namespaces"], model["modules"]["classes"], strict=True))
    for nr, box in enumerate(boxes):
        inside = {n["id"] for n in model["nodes"] if (n["namespace"] or "").startswith(box)}
        assert {n["id"] for n in model["nodes"] if n["checkpoint"] == nr} <= inside
        assert model["modules"]["names"][spaces[f"{box}/{2 * nr}"]] == "Linear"


def test_a_region_that_cuts_through_a_module_has_no_box():
    cell = nn.Linear(2, 2)
    x = torch.rand(3, 2, requires_grad=True)
    with watch():
        for _ in range(3):
            x = checkpoint(lambda a: torch.tanh(cell(a)), x, use_reentrant=False)
    model = GraphWidget(x.sum(), names={"cell": cell}).model
    assert [region["box"] for region in model["checkpoints"]] == [None] * 3
    assert sum(node["checkpoint"] is not None for node in model["nodes"]) == 9
