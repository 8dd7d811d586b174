"""Programs that live pages compute: functions of leaves, with their leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

F = torch.nn.functional


def r(*shape: int, **options: Any) -> Tensor:
    return torch.randn(shape, **options)


def attention(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    scores = (x @ q) @ (x @ k).T / 2
    scores = scores.masked_fill(torch.triu(torch.ones(3, 3), 1).bool(), -1e9)
    return (F.softmax(scores, -1) @ (x @ v)).pow(2).sum()


def rnn(wh: Tensor, wx: Tensor, x: Tensor) -> Tensor:
    h = torch.zeros(2)
    for t in range(3):
        h = torch.tanh(wh @ h + wx * x[t])
    return h.sum()


def lstm(w: Tensor, u: Tensor, x: Tensor) -> Tensor:
    h = c = torch.zeros(2)
    for t in range(2):
        i, f, g, o = (w * x[t] + u @ h).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h.sum()


def hessian(x: Tensor) -> Tensor:
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return grad.pow(2).sum()


def micrograd_neuron(x1: Tensor, x2: Tensor, w1: Tensor, w2: Tensor, b: Tensor) -> Tensor:
    n = x1 * w1 + x2 * w2 + b
    e = (2 * n).exp()
    return (e - 1) / (e + 1)


def cs231n_sigmoid(w0: Tensor, x0: Tensor, w1: Tensor, x1: Tensor, w2: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-(w0 * x0 + w1 * x1 + w2)))


def cs231n_gates(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> Tensor:
    return 2 * (x * y + torch.maximum(z, w))


def d2l_norm(x: Tensor) -> Tensor:
    y = 2 * torch.dot(x, x)
    u = (x * x).detach()
    return y + (u * x).sum()


def activations(x: Tensor) -> Tensor:
    return (x.clamp(-1, 1) + x.abs() + F.leaky_relu(x) + F.gelu(x) + F.softplus(x)).sum()


def cnn(k: Tensor, b: Tensor, w: Tensor, x: Tensor) -> Tensor:
    h = F.max_pool2d(F.relu(F.conv2d(x, k, b)), 2)
    return F.cross_entropy(h.flatten(1) @ w, torch.tensor([1]))


def mlp(a: Tensor, b: Tensor, c: Tensor, d: Tensor, x: Tensor) -> Tensor:
    return ((torch.tanh(torch.tanh(x @ a + b) @ c + d) - 1) ** 2).mean()


def logistic(w: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x @ w + b, torch.ones(4))


def classified(w: Tensor, x: Tensor) -> Tensor:
    return F.cross_entropy(x @ w, torch.tensor([0, 1, 2, 1]))


def embedded(e: Tensor, w: Tensor) -> Tensor:
    return F.cross_entropy(F.embedding(torch.tensor([0, 2]), e) @ w, torch.tensor([0, 1]))


def generator(g: Tensor, d: Tensor, z: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(F.relu(z @ g) @ d, torch.ones(4))


def chosen(x: Tensor) -> Tensor:
    return (torch.where(x > 0, x, 2 * x)[1:3] * x[0]).sum()


def in_place(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    y[1:] = x * 2
    y += 1
    return (y * y).sum()


def ratio(x: Tensor) -> Tensor:
    """Policy gradients: the value is 1, and yet a gradient flows."""
    return torch.exp(x - x.detach()).mean() * 3


PROGRAMS: dict[str, tuple[Callable[..., Tensor], Callable[[], list[Tensor]]]] = {
    "neuron": (lambda w, x, b: torch.tanh(w * x + b).sum(), lambda: [r(), r(), r()]),
    "mlp": (mlp, lambda: [r(3, 4), r(4), r(4, 1), r(1), r(5, 3)]),
    "logistic": (logistic, lambda: [r(3), r(), r(4, 3)]),
    "classified": (classified, lambda: [r(3, 4), r(4, 3)]),
    "cnn": (cnn, lambda: [r(2, 1, 3, 3), r(2), r(18, 3), r(1, 1, 8, 8)]),
    "layer_norm": (
        lambda g, b, x: F.layer_norm(x, (4,), g, b).pow(2).sum(),
        lambda: [r(4), r(4), r(3, 4)],
    ),
    "batch_norm": (
        lambda g, b, x: F.batch_norm(x, None, None, g, b, True).pow(3).sum(),
        lambda: [r(4), r(4), r(3, 4)],
    ),
    "attention": (attention, lambda: [r(4, 4), r(4, 4), r(4, 4), r(3, 4)]),
    "rnn": (rnn, lambda: [r(2, 2), r(2), r(3)]),
    "lstm": (lstm, lambda: [r(8), r(8, 2), r(2)]),
    "activations": (activations, lambda: [r(5)]),
    "chosen": (chosen, lambda: [r(5)]),
    "embedded": (embedded, lambda: [r(3, 4), r(4, 3)]),
    "generator": (generator, lambda: [r(2, 3), r(3), r(4, 2)]),
    "hessian": (hessian, lambda: [r(3)]),
    "micrograd neuron": (micrograd_neuron, lambda: [r(), r(), r(), r(), r()]),
    "cs231n sigmoid": (cs231n_sigmoid, lambda: [r(), r(), r(), r(), r()]),
    "cs231n gates": (cs231n_gates, lambda: [r(), r(), r(), r()]),
    "d2l": (d2l_norm, lambda: [r(4)]),
    "in place": (in_place, lambda: [r(3)]),
    "ratio": (ratio, lambda: [r(4)]),
}
