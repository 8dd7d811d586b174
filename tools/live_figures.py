"""Live figures for lessons: small programs, each a page that computes.

python tools/live_figures.py FOLDER    writes all pages
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from gradwalk import GraphWidget, watch

FIGURES: dict[str, Callable[[], GraphWidget]] = {}
"""Name -> a function that returns the widget of a figure."""


def _figure(make: Callable[[], GraphWidget]) -> Callable[[], GraphWidget]:
    FIGURES[make.__name__.replace("_", "-")] = make
    return make


def _leaf(*numbers: float) -> torch.Tensor:
    one = len(numbers) == 1
    return torch.tensor(numbers[0] if one else numbers, requires_grad=True)


@_figure
def chain_rule() -> GraphWidget:
    """Return a neuron with one input."""
    w, b, x, y = _leaf(-3.0), _leaf(1.0), torch.tensor(2.0), torch.tensor(1.0)
    with watch():
        pred = w * x + b
        loss = (pred - y) ** 2
    return GraphWidget(loss)


@_figure
def zero_grad() -> GraphWidget:
    """Return a loss whose leaf has a gradient from an earlier backward."""
    w, x = _leaf(2.0), torch.tensor(3.0)
    (w * x).backward()  # type: ignore[no-untyped-call]
    with watch():
        loss = w * x
    widget = GraphWidget(loss)
    widget.backward()
    return widget


@_figure
def saturation() -> GraphWidget:
    """Return a tanh whose input is large."""
    w, x = _leaf(2.0), torch.tensor(2.0)
    with watch():
        h = w * x
        out = torch.tanh(h)
    return GraphWidget(out)


@_figure
def value_zero() -> GraphWidget:
    """Return x minus itself without gradient, as ratios of policies have it."""
    x, advantage = _leaf(0.7), torch.tensor(2.0)
    with watch():
        ratio = torch.exp(x - x.detach())
        loss = -(ratio * advantage)
    return GraphWidget(loss)


@_figure
def learning_rate() -> GraphWidget:
    """Return a valley that is steep in one direction."""
    a, b = _leaf(2.0), _leaf(1.0)
    with watch():
        loss = a**2 + 10 * b**2
    return GraphWidget(loss)


@_figure
def vanishing() -> GraphWidget:
    """Return a chain of sigmoids."""
    x, w = _leaf(0.5), torch.tensor(1.0)
    with watch():
        h = x * w
        for _ in range(5):
            h = torch.sigmoid(h)
    return GraphWidget(h)


@_figure
def attention() -> GraphWidget:
    """Return one head over three tokens of two numbers."""
    torch.manual_seed(0)
    x = torch.randn(3, 2)
    q, k, v = (torch.randn(2, 2).requires_grad_() for _ in range(3))
    with watch():
        scores = (x @ q) @ (x @ k).T / 2**0.5
        weights = nn.functional.softmax(scores, dim=-1)
        out = weights @ (x @ v)
        loss = out.pow(2).mean()
    return GraphWidget(loss)


@_figure
def xor() -> GraphWidget:
    """Return a network with two layers that learns XOR."""
    torch.manual_seed(3)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    w1, b1 = torch.randn(2, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    w2, b2 = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    with watch():
        h = torch.tanh(x @ w1 + b1)
        pred = torch.sigmoid(h @ w2 + b2)
        loss = ((pred - y) ** 2).mean()
    return GraphWidget(loss)


def write(folder: Path) -> None:
    """Write each figure as a page, all beside one script."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FIGURES.items():
        page = folder / f"figure-{name}.html"
        page.unlink(missing_ok=True)
        widget = make()
        title = name.replace("-", " ").capitalize()
        widget.to_html(page, title=title, assets="shared", live=True)
        widget.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
