"""The graphs that are laid out: autograd graphs of real programs, and random ones of any size."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measured_programs import resnet, transformer
from torch import Tensor, nn
from torch.nn import functional

from gradwalk import capture
from gradwalk.sources.graph_model import graph_model


def double_backward() -> Tensor:
    """A penalty on the gradient of a LeNet's loss: its backward pass is in the graph."""
    net = nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(256, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    x = torch.randn(2, 1, 28, 28, requires_grad=True)
    loss = functional.cross_entropy(net(x), torch.tensor([3, 7]))
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    return loss + grad.pow(2).sum()


def deep_resnet(blocks: tuple[int, int, int, int] = (3, 8, 36, 3)) -> Tensor:
    """Bottleneck blocks, with a convolution on the skip at each change of width: ResNet-152."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    before = 8
    for repeats, after in zip(blocks, (8, 16, 32, 64), strict=True):
        for _ in range(repeats):
            net.append(_Bottleneck(before, after))
            before = after
    loss: Tensor = nn.Linear(before, 10)(net(torch.randn(2, 3, 8, 8)).mean((2, 3))).sum()
    return loss


class _Bottleneck(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        sizes = [(before, after // 2, 1), (after // 2, after // 2, 3), (after // 2, after, 1)]
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, k, padding=k // 2, bias=False) for a, b, k in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _ in sizes)
        self.skip = nn.Sequential()
        if before != after:
            self.skip = nn.Sequential(
                nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(functional.relu(y) if k else y))
        return functional.relu(y + self.skip(x))


def densenet(blocks: tuple[int, ...] = (6, 12)) -> Tensor:
    """Dense blocks: each layer reads the outputs of all before it."""
    x = nn.Conv2d(3, 8, 3, padding=1)(torch.randn(2, 3, 8, 8))
    for layers in blocks:
        features = [x]
        for _ in range(layers):
            read = torch.cat(features, 1)
            read = nn.Conv2d(read.shape[1], 8, 1, bias=False)(
                nn.BatchNorm2d(read.shape[1])(read).relu()
            )
            features.append(
                nn.Conv2d(8, 4, 3, padding=1, bias=False)(nn.BatchNorm2d(8)(read).relu())
            )
        x = torch.cat(features, 1)
        x = nn.Conv2d(x.shape[1], 8, 1)(nn.BatchNorm2d(x.shape[1])(x).relu())
    loss: Tensor = x.mean()
    return loss


def unet(depth: int = 4) -> Tensor:
    """Halved and doubled again, with a skip at each size."""

    def twice(x: Tensor, width: int) -> Tensor:
        for _ in range(2):
            conv = nn.Conv2d(x.shape[1], width, 3, padding=1)
            x = nn.BatchNorm2d(width)(conv(x)).relu()
        return x

    x, skips = torch.randn(2, 3, 2**depth, 2**depth), []
    for level in range(depth):
        skips.append(twice(x, 4 * 2**level))
        x = functional.max_pool2d(skips[-1], 2)
    x = twice(x, 4 * 2**depth)
    for skip in reversed(skips):
        up = nn.ConvTranspose2d(x.shape[1], skip.shape[1], 2, 2)(x)
        x = twice(torch.cat([skip, up], 1), skip.shape[1])
    return x.mean()


def rnn(steps: int) -> Tensor:
    """A recurrent cell that uses the same weights at every step."""
    cell, h = nn.RNNCell(4, 4), torch.zeros(1, 4)
    for _ in range(steps):
        h = cell(torch.randn(1, 4), h)
    return h.sum()


def lstm(steps: int) -> Tensor:
    """An LSTM cell, unrolled."""
    cell, state = nn.LSTMCell(4, 4), (torch.zeros(1, 4), torch.zeros(1, 4))
    for _ in range(steps):
        state = cell(torch.randn(1, 4), state)
    return state[0].sum()


def gru(steps: int) -> Tensor:
    """A GRU written out, unrolled."""
    width = 4
    of_x, of_h = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)
    h = torch.zeros(1, width)
    for _ in range(steps):
        x_reset, x_update, x_new = of_x(torch.randn(1, width)).chunk(3, 1)
        h_reset, h_update, h_new = of_h(h).chunk(3, 1)
        reset, update = (x_reset + h_reset).sigmoid(), (x_update + h_update).sigmoid()
        new = torch.tanh(x_new + reset * h_new)
        h = new + update * (h - new)
    return h.sum()


def rk4(steps: int) -> Tensor:
    """A neural differential equation, by Runge-Kutta steps."""
    f, y, step = (
        nn.Sequential(nn.Linear(4, 4), nn.Tanh()),
        torch.randn(1, 4, requires_grad=True),
        0.1,
    )
    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + step / 2 * k1)
        k3 = f(y + step / 2 * k2)
        k4 = f(y + step * k3)
        y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y.sum()


def random_layered(n: int) -> dict[str, Any]:
    """Rows of nodes with one or two edges down, most to the row below and near by, in no order."""
    draw = random.Random(n)
    row = max(10, round(n**0.5))
    name = list(range(n))
    draw.shuffle(name)
    source, target = [], []
    for v in range(row, n):
        above, place = divmod(v, row)
        for _ in range(draw.randint(1, 2)):
            back = draw.randint(1, min(above, 5)) if draw.random() < 0.1 else 1
            near = min(row - 1, max(0, place + draw.randint(-3, 3)))
            source.append(name[v])
            target.append(name[(above - back) * row + near])
    return {"n": n, "source": source, "target": target}


@dataclass(frozen=True)
class Given:
    """A graph to lay out.

    Attributes:
        name: What tables call it.
        family: Graphs of one family differ in size only, and come smallest first.
        build: Makes the loss; or, for a graph that no program made, its nodes and edges.
        is_small: Whether it is part of the quick run.
    """

    name: str
    family: str
    build: Callable[[], Tensor | dict[str, Any]]
    is_small: bool = False

    @property
    def is_real(self) -> bool:
        """Whether a program made it."""
        return self.family != "random"

    def loss(self) -> Tensor:
        """The loss, from the same random numbers every time."""
        torch.manual_seed(0)
        made = self.build()
        if not isinstance(made, Tensor):
            raise TypeError(f"The graph {self.name!r} comes from no program, so it has no loss.")
        return made

    def write(self, path: Path) -> None:
        """Write the graph as the browser would get it."""
        model: Any = graph_model(capture(self.loss())) if self.is_real else self.build()
        path.write_text(json.dumps(model))


GRAPHS = (
    Given("LeNet, double backward", "LeNet", double_backward, is_small=True),
    Given("ResNet-50-like", "ResNet", resnet, is_small=True),
    Given("ResNet-152-like", "ResNet", deep_resnet),
    Given("transformer, 12 layers", "transformer", partial(transformer, 12), is_small=True),
    Given("transformer, 48 layers", "transformer", partial(transformer, 48)),
    Given("U-Net", "U-Net", unet, is_small=True),
    Given("DenseNet, blocks of 6 and 12", "DenseNet", densenet, is_small=True),
    Given("DenseNet-121-like", "DenseNet", partial(densenet, (6, 12, 24, 16))),
    Given("GRU, 50 steps", "GRU", partial(gru, 50), is_small=True),
    Given("GRU, 200 steps", "GRU", partial(gru, 200)),
    Given("RK4, 50 steps", "RK4", partial(rk4, 50), is_small=True),
    Given("RK4, 200 steps", "RK4", partial(rk4, 200)),
    Given("LSTM, 50 steps", "LSTM", partial(lstm, 50), is_small=True),
    Given("LSTM, 200 steps", "LSTM", partial(lstm, 200)),
    Given("LSTM, 1,000 steps", "LSTM", partial(lstm, 1000)),
    Given("RNN, 1,000 steps", "RNN", partial(rnn, 1000)),
    Given("random layered, 1,000", "random", partial(random_layered, 1000), is_small=True),
    Given("random layered, 10,000", "random", partial(random_layered, 10_000)),
    Given("random layered, 100,000", "random", partial(random_layered, 100_000)),
)
