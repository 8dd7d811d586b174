"""Repeated layers, drawn as a strip: each bar tells what torch says of its layer's gradients."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, watch

pytestmark = pytest.mark.one_python

SVG = "{http://www.w3.org/2000/svg}"


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return self.head(x).square().mean()


def encoder(_):
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)


def lstm(_):
    return nn.LSTM(8, 8, batch_first=True)


def residual(_):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x):
            return x + torch.tanh(self.linear(self.norm(x)))

    return Block()


def vanishing(_):
    class Sigmoids(nn.Sequential):
        pass

    return Sigmoids(nn.Linear(8, 8), nn.Sigmoid())


def bars_of(widget, tmp_path):
    """By a bar's name, what a screen reader says of it, and the number that is written on it."""
    path = tmp_path / "strip.svg"
    path.unlink(missing_ok=True)
    widget.to_svg(path)
    bars = {}
    for node in ET.parse(path).iter(f"{SVG}g"):
        title, words = node.find(f"{SVG}title"), node.find(f"{SVG}desc")
        if title is not None and words is not None and re.fullmatch(r"layers\.\d", title.text):
            _, *numbers = [text.text for text in node.iter(f"{SVG}text")]  # after its own
            bars[title.text] = (words.text, *numbers)
    return bars


def norm_of(layer):
    return torch.cat([p.grad.flatten() for p in layer.parameters()]).norm().item()


@pytest.mark.parametrize("whose", ["own", "theirs", "theirs, twice"])
@pytest.mark.parametrize("make", [encoder, lstm, residual, vanishing])
def test_each_bar_tells_the_norm_of_its_layers_gradient(make, whose, tmp_path):
    torch.manual_seed(0)
    model = Stack(make(i) for i in range(9))
    x = torch.randn(2, 5, 8)
    with watch():
        loss = model(x)
    widget = GraphWidget(loss, names=model)
    assert [len(told) for told in bars_of(widget, tmp_path).values()] == [1] * 9
    if whose == "own":
        widget.backward()
    else:
        loss.backward(retain_graph=True)
    expected = [norm_of(layer) for layer in model.layers]
    if whose == "theirs, twice":  # what a pass brings, not what has piled up
        loss.backward()
    bars = bars_of(widget, tmp_path)
    assert list(bars) == [f"layers.{i}" for i in range(9)]
    for (words, number), norm in zip(bars.values(), expected, strict=True):
        told = re.match(r"gradient norm of its \d+ parameters: (\S+) ", words)[1]
        assert float(told.replace("−", "-")) == pytest.approx(norm, rel=5.1e-3)
        assert float(number.replace("−", "-")) == pytest.approx(norm, rel=5.1e-2)
    widget.close()
