"""Write the graphs that the demo of the front end shows.

    python tools/demo_graphs.py

Each is a saved file with a recorded backward pass. `gradwalk.load()` opens it, and `npm run demo`
in `js/` shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gradwalk

FOLDER = Path(__file__).parents[1] / "js" / "demo" / "graphs"


def expression() -> tuple[torch.Tensor, Any]:
    """Return a loss of scalars, and the names of its leaves."""
    x = torch.tensor(2.0, requires_grad=True)
    w = torch.tensor(-3.0, requires_grad=True)
    with gradwalk.watch():
        h = (w * x + 1).tanh()
        return (h - 0.5) ** 2 + h * x.detach(), {"x": x, "w": w}


def perceptron() -> tuple[torch.Tensor, Any]:
    """Return the loss of a small network whose gradient becomes NaN, and the network."""
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    with gradwalk.watch():
        out = model(torch.randn(3, 4))
        return (out - out.detach()).pow(2).sum(dim=1).sqrt().sum(), model


class Block(nn.Module):
    """A linear layer with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the layer to its input."""
        out: torch.Tensor = x + self.linear(self.norm(x)).relu()
        return out


def residual() -> tuple[torch.Tensor, Any]:
    """Return the loss of a network with repeated blocks, and the network."""
    model = nn.Sequential(*(Block() for _ in range(5)), nn.Linear(4, 2))
    with gradwalk.watch():
        return model(torch.randn(3, 4)).logsumexp(dim=1).mean(), model


GRAPHS: tuple[Callable[[], tuple[torch.Tensor, Any]], ...] = (expression, perceptron, residual)


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for make in GRAPHS:
        torch.manual_seed(0)
        loss, names = make()
        widget = gradwalk.GraphWidget(loss, names=names)
        widget.backward()
        path = FOLDER / f"{make.__name__}.gw"
        path.unlink(missing_ok=True)
        gradwalk.save(widget, path)


if __name__ == "__main__":
    main()
