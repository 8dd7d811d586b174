from __future__ import annotations

import re

import torch

from gradwalk import GraphWidget


def test_bars_are_the_norms_that_torch_has():
    h, results = torch.randn(4), []
    for _ in range(12):
        h = torch.tanh((torch.randn(4, 4) / 2).requires_grad_() @ h) * 2 + h.sin()
        h.retain_grad()
        results.append(h)
    assert bars(h.pow(2).sum()) == [norm(h) for h in results]


def bars(loss: torch.Tensor) -> list[float]:
    """The numbers of the bars, in the order of the steps."""
    widget = GraphWidget(loss)
    widget.backward()
    picture = widget.to_svg(width=1400)
    widget.close()
    words = re.findall(r"gradient norm of its results: ([\d.e−-]+)", picture)
    return [float(word.replace("−", "-")) for word in words]


def norm(result: torch.Tensor) -> float:
    """The norm of a kept gradient, with three digits."""
    assert result.grad is not None
    return float(f"{result.grad.norm():.3g}")


def test_the_sum_of_losses_is_left_out():
    w, h, loss, results = torch.randn(4, 4, requires_grad=True), torch.randn(4), torch.zeros(()), []
    for _ in range(20):
        h = torch.tanh(w @ h)
        h.retain_grad()
        results.append(h)
        loss = loss + h.pow(2).mean()
    assert bars(loss) == [norm(h) for h in results]
