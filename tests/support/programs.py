"""The test set: real programs, each returning its output(s).

Every program is a function of nothing and seeds what it draws, so that two calls compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    """Enter a function into the test set, seeded."""

    def seeded() -> Any:
        torch.manual_seed(0)
        return function()

    PROGRAMS[function.__name__] = seeded
    return seeded


def leaf(*shape: int, **options: Any) -> Tensor:
    return torch.randn(*shape, requires_grad=True, **options)


@program
def linear() -> Tensor:
    w, x, b = (torch.tensor([v], requires_grad=True) for v in (4.0, 1.0, 0.5))
    return w * x + b


@program
def squared_difference() -> Tensor:
    x = torch.tensor(3.0, requires_grad=True)
    return (x + 1 - 2 * x) ** 2


@program
def same_tensor_twice() -> Tensor:
    x = leaf(3)
    return x * x


@program
def only_a_leaf() -> Tensor:
    return leaf(2, 3)


class MultiplyAdd(torch.autograd.Function):
    """a * x + b for a number a; b gets no gradient although it could."""

    @staticmethod
    def forward(ctx: Any, a: float, x: Tensor, b: Tensor) -> Tensor:
        ctx.a = a
        ctx.save_for_backward(x, b)
        return a * x + b

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, ctx.a * grad, None


@program
def custom_function() -> Tensor:
    return MultiplyAdd.apply(2.0, leaf(3), leaf(3)).sum()


@program
def two_outputs() -> tuple[Tensor, Tensor]:
    x1, x2 = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    return x1 * x2, x1 + x2


@program
def double_backward() -> Tensor:
    x = leaf(3)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return gradient.sum()


@program
def in_place_and_views() -> Tensor:
    x = leaf(3, 3) * 1.0
    x[0].mul_(3)
    x[1:, 1].add_(1)
    return x.relu_().t().sum()


@program
def several_outputs_of_one_node() -> Tensor:
    a, _, c = leaf(3, 4).unbind()
    left, right = leaf(4, 6).split([2, 4], dim=1)
    return a.sum() + c.prod() + left.sum() * right.mean()


class Fails(torch.autograd.Function):
    """Passes everything on, and raises in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise ValueError("no gradient today")


class LeNet(nn.Module):
    """Two convolutions and three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2).flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())


@program
def lenet() -> Tensor:
    return F.cross_entropy(LeNet()(torch.randn(2, 1, 28, 28)), torch.tensor([3, 7]))


@program
def transformer() -> Tensor:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2)(torch.randn(2, 5, 16)).mean()


@program
def recomputed() -> Tensor:
    layer, x = nn.Linear(3, 3), leaf(2, 3)
    again = checkpoint(lambda t: layer(t).tanh(), x, use_reentrant=False)
    return again.sum() + checkpoint(lambda t: layer(t).tanh(), x, use_reentrant=True).sum()


@program
def function_transforms() -> Tensor:
    x = leaf(3, 4)
    slopes = torch.func.vmap(torch.func.grad(lambda t: (t**3).sum()))(x)
    return slopes.sum() + torch.func.vmap(lambda t: t.sin().sum())(x).sum()


@program
def recurrent() -> Tensor:
    cell, h = nn.RNNCell(3, 4), torch.zeros(1, 4)
    for _ in range(6):
        h = cell(torch.randn(1, 3), h)
    return h.sum()


@program
def lstm_and_norm() -> Tensor:
    output, (h, _) = nn.LSTM(3, 4)(torch.randn(5, 2, 3))
    return nn.BatchNorm1d(4)(output[-1]).pow(2).sum() + h.sum()


@program
def joined_and_indexed() -> Tensor:
    x, y = leaf(4, 3), leaf(2, 3)
    joined = torch.cat([x, y, x]) * torch.stack([y[0], y[1]]).sum()
    return joined[torch.tensor([0, 5])].sum() + torch.where(x > 0, x, 0.0).sum()


@program
def sparse_gradient() -> Tensor:
    return nn.Embedding(10, 3, sparse=True)(torch.tensor([1, 2, 2])).sum()


@program
def complex_numbers() -> Tensor:
    z = leaf(3, dtype=torch.complex64)
    return (z * z.conj()).real.sum()


@program
def low_precision() -> Tensor:
    x = leaf(4, dtype=torch.bfloat16)
    return (x * 2).float().to(torch.float8_e4m3fn).float().sum()


@program
def empty_and_scalar() -> Tensor:
    return leaf(0, 3).sum() + torch.tensor(2.0, requires_grad=True)


@program
def not_a_number() -> Tensor:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    return (x.log() * 0 + x / 0).sum()


@program
def nested() -> Tensor:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    return (x * 2).to_padded_tensor(0.0).sum()


@program
def changed_by_a_hook() -> Tensor:
    x = leaf(3)
    y = x.exp()
    y.register_hook(lambda grad: grad * 10)
    y.retain_grad()
    return y.sum()


@program
def meta_tensors() -> Tensor:
    return (torch.ones(3, device="meta", requires_grad=True) * 2).sum()


@program
def attention() -> Tensor:
    q = leaf(1, 2, 4, 8)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).sum()


def outputs_of(name: str) -> list[Tensor]:
    """A program's outputs, as a list."""
    found = PROGRAMS[name]()
    return list(found) if isinstance(found, tuple) else [found]


def backward(outputs: list[Tensor]) -> None:
    """Run backward from all outputs at once, with ones for those that are not scalars."""
    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
