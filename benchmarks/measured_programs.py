"""The graphs that are measured: real programs of different shapes and sizes."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


def mlp() -> Tensor:
    """Three linear layers: a graph for a lecture."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    loss: Tensor = model(torch.randn(16, 4)).pow(2).mean()
    return loss


def lenet() -> Tensor:
    """Two convolutions and three linear layers."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    return nn.functional.cross_entropy(model(torch.randn(2, 1, 28, 28)), torch.tensor([3, 7]))


class _Block(nn.Module):
    """A bottleneck block with a skip connection, as in ResNet-50."""

    def __init__(self, inside: int, between: int, outside: int) -> None:
        super().__init__()
        widths = [(inside, between, 1), (between, between, 3), (between, outside, 1)]
        self.path = nn.Sequential(
            *(
                layer
                for a, b, k in widths
                for layer in (nn.Conv2d(a, b, k, padding=k // 2), nn.BatchNorm2d(b), nn.ReLU())
            )
        )
        self.skip = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.path(x) + self.skip(x)
        return added


def resnet() -> Tensor:
    """Sixteen bottleneck blocks, narrow enough to run in no time."""
    return made_resnet()[1]


def made_resnet(
    wider: int = 1, images: tuple[int, int, int, int] = (2, 3, 8, 8)
) -> tuple[nn.Module, Tensor]:
    """Sixteen bottleneck blocks, of any width, beside their loss."""
    widths = [wider * width for width in [8] * 3 + [16] * 4 + [32] * 6 + [64] * 3]
    blocks = [_Block(a, b // 2, b) for a, b in zip([3, *widths], widths, strict=False)]
    model = nn.Sequential(*blocks)
    return model, model(torch.randn(images)).mean()


class _BasicBlock(nn.Module):
    """Two convolutions with a skip connection, as in ResNet-18."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        stride = 1 if inside == outside else 2
        self.path = nn.Sequential(
            *(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)),
            nn.ReLU(),
            *(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)),
        )
        self.skip: nn.Module = nn.Identity()
        if stride == 2:
            skip = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.skip = nn.Sequential(skip, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.path(x) + self.skip(x))


def resnet18() -> Tensor:
    """ResNet-18 as it is used, with its eleven million parameters, on two small images."""
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    model = nn.Sequential(
        *(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
        *(_BasicBlock(a, b) for a, b in pairwise(widths)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)),
    )
    loss: Tensor = nn.functional.cross_entropy(model(torch.randn(2, 3, 64, 64)), torch.arange(2))
    return loss


def transformer(layers: int, width: int = 16, tokens: tuple[int, int] = (2, 5)) -> Tensor:
    """A transformer encoder of so many layers, over a batch of sequences of tokens."""
    return made_transformer(layers, width, tokens)[1]


def made_transformer(
    layers: int, width: int = 16, tokens: tuple[int, int] = (2, 5)
) -> tuple[nn.Module, Tensor]:
    """The same, beside its model."""
    layer = nn.TransformerEncoderLayer(
        width, 4, (4 if width > 100 else 2) * width, batch_first=True
    )
    model = nn.TransformerEncoder(layer, layers)
    return model, model(torch.randn(*tokens, width)).mean()


def chain(operations: int) -> Tensor:
    """One operation after the other: the deepest a graph can be."""
    y = torch.ones(3, requires_grad=True)
    for i in range(operations):
        y = y * 1.0 if i % 2 else y + 1.0
    return y.sum()


def unrolled(steps: int) -> Tensor:
    """A recurrent cell that uses the same weights at every step."""
    cell, h = nn.RNNCell(8, 8), torch.zeros(1, 8)
    for _ in range(steps):
        h = cell(torch.randn(1, 8), h)
    return h.sum()
