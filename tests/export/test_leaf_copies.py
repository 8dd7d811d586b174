"""Each copy of a leaf has the gradient of its use, as torch computes it for one leaf per use."""

from __future__ import annotations

import re
from contextlib import closing

import torch

from gradwalk import GraphWidget, watch

FACTORS = [0.2, -0.1, 0.3, -0.2, 0.1, 0.05, -0.15, 0.25, -0.3, 0.12]


def chain(weights: list[torch.Tensor]) -> torch.Tensor:
    h = torch.tensor(0.5)
    for weight, factor in zip(weights, FACTORS, strict=True):
        h = torch.tanh(weight * h + factor)
    return h


def written(number: float) -> str:
    return f"{number:.4g}".replace("-", "\u2212")


def test_each_copy_has_the_gradient_of_its_use_and_one_has_the_sum() -> None:
    apart = [torch.tensor(0.9, requires_grad=True) for _ in FACTORS]
    shares = torch.autograd.grad(chain(apart), apart)
    w = torch.tensor(0.9, requires_grad=True)
    with watch():
        loss = chain([w] * len(FACTORS))
    with closing(GraphWidget(loss)) as widget:
        widget.backward()
        texts = re.findall(r">([^<]+)</text>", widget.to_svg())
    assert w.grad is not None
    assert texts.count(f"\u03a3 {written(w.grad.item())}") == 1
    assert texts.count(written(w.grad.item())) == 0
    for share in shares:
        assert written(share.item()) in texts
