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


class _Scan(nn.Module):
    """A selective state space, as in Mamba, one step after the other."""

    def __init__(self, width: int, inside: int, states: int = 16) -> None:
        super().__init__()
        self.within = nn.Linear(width, inside, bias=False)
        self.steps = nn.Linear(inside, inside)
        self.ways = nn.Linear(inside, 2 * states, bias=False)
        self.rates = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inside, 1))
        self.out = nn.Linear(inside, width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = nn.functional.silu(self.within(tokens))
        step = nn.functional.softplus(self.steps(x))
        way_in, way_out = self.ways(x).chunk(2, -1)
        decay = torch.exp(-step.unsqueeze(-1) * self.rates.exp())
        given = (step * x).unsqueeze(-1) * way_in.unsqueeze(2)
        state, found = torch.zeros_like(given[:, 0]), []
        for i in range(tokens.shape[1]):
            state = decay[:, i] * state + given[:, i]
            found.append((state @ way_out[:, i].unsqueeze(-1)).squeeze(-1))
        mixed: Tensor = tokens + self.out(torch.stack(found, 1))
        return mixed


def made_scans(
    layers: int, width: int = 64, tokens: tuple[int, int] = (2, 128)
) -> tuple[nn.Module, Tensor]:
    """Layers of a selective state space, as in Mamba, beside their loss.

    The gradients of what each step picks are as large as what it picks from: they spend any budget.
    """
    model = nn.Sequential(*(_Scan(width, 2 * width) for _ in range(layers)))
    return model, model(torch.randn(*tokens, width)).square().mean()


class _Mixed(nn.Module):
    """A block of MLP-Mixer: one perceptron over the places, one over the channels."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_places = _perceptron(places, 2 * places)
        self.over_channels = _perceptron(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.over_places(self.first(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.over_channels(self.second(x))
        return mixed


def _perceptron(width: int, inside: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, inside), nn.GELU(), nn.Linear(inside, width))


def mixer() -> Tensor:
    """An MLP-Mixer of 12 blocks of 256, on two small images."""
    patches = nn.Conv2d(3, 256, 16, 16)(torch.randn(2, 3, 64, 64)).flatten(2).transpose(1, 2)
    model = nn.Sequential(*(_Mixed(16, 256) for _ in range(12)), nn.LayerNorm(256))
    loss: Tensor = nn.Linear(256, 10)(model(patches).mean(1)).square().mean()
    return loss
