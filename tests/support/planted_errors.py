"""Programs in which one operation is numerically worse than in the same program in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Program = Callable[[torch.dtype, bool], tuple[Tensor, Tensor]]
"""Takes a dtype and whether the fault is there; gives the loss and what the operation made."""

PLANTED: list[Program] = []


def planted(program: Program) -> Program:
    """Counts a program among `PLANTED`."""
    PLANTED.append(program)
    return program


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Numbers that float32 and float64 both hold."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator) * scale


def model(made: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The same module whenever it is asked for, with parameters that float32 holds."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            fan = parameter[0].numel() if parameter.dim() > 1 else 100
            shift = parameter.mean().round() if parameter.dim() == 1 else 0.0  # of norms: ones
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / fan**0.5 + shift)
    return made.to(dtype)


def within(dtype: torch.dtype | None, work: Callable[..., Tensor], *given: Tensor) -> Tensor:
    """An operation in another dtype, between casts; None for its own."""
    if dtype is None:
        return work(*given)
    return work(*(each.to(dtype) for each in given))


@planted
def cross_entropy_in_bfloat16(dtype, faulty):
    net = model(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)), dtype)
    logits = net(drawn(8, 16).to(dtype))
    made = within(torch.bfloat16 if faulty else None, lambda x: F.log_softmax(x, -1), logits)
    return F.nll_loss(made, torch.arange(8)).to(dtype), made


@planted
def epsilon_in_a_layer_norm(dtype, faulty):
    layers = [
        nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(3)
    ]
    seen = []
    net = model(nn.Sequential(*layers), dtype)
    layers[1].norm1.register_forward_hook(lambda *args: seen.append(args[2]))
    if faulty:
        layers[1].norm1.eps = 1e-3
    return net(drawn(2, 6, 32).to(dtype)).pow(2).mean(), seen[0]


class SumOneByOne(torch.autograd.Function):
    """Adds one number after the other, in the dtype that they have; or all as torch does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, naive: bool) -> Tensor:
        ctx.like = x.shape
        if not naive:
            return x.sum()
        at = torch.zeros(x.numel(), dtype=torch.int64)
        return x.new_zeros(1).index_add(0, at, x.flatten())[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.expand(ctx.like), None


@planted
def sum_of_100_000_terms(dtype, faulty):
    w = drawn(100, seed=3).to(dtype).requires_grad_()
    x = drawn(1000, 100).abs().to(dtype)
    numbers = torch.exp(w * x / 4)
    made = SumOneByOne.apply(numbers, faulty)
    return (made / 100_000).log() ** 2, made


@planted
def mean_in_half_precision(dtype, faulty):
    w = drawn(32, 32, seed=2, scale=0.2).to(dtype).requires_grad_()
    hidden = torch.tanh(drawn(400, 32).to(dtype) @ w)
    made = within(torch.float16 if faulty else None, lambda x: x.mean(0), hidden.exp())
    return made.to(dtype).log().pow(2).sum(), made


@planted
def attention_scores_in_bfloat16(dtype, faulty):
    q, k, v = (drawn(2, 12, 16, seed=i).to(dtype).requires_grad_() for i in range(3))
    made = within(torch.bfloat16 if faulty else None, lambda a, b: a @ b.transpose(1, 2), q, k)
    weights = F.softmax(made.to(dtype) / 4, -1)
    return (weights @ v).pow(2).mean(), made


@planted
def one_step_of_a_recurrent_net(dtype, faulty):
    w, u = (drawn(12, 12, seed=i, scale=0.3).to(dtype).requires_grad_() for i in (1, 2))
    x, h, made = drawn(20, 4, 12).to(dtype), torch.zeros(4, 12, dtype=dtype), None
    for t in range(20):
        z = x[t] @ w + h @ u
        h = within(torch.bfloat16 if faulty and t == 9 else None, torch.tanh, z)
        if t == 9:
            made = h
        h = h.to(dtype)
    return h.pow(2).sum(), made


@planted
def epsilon_in_a_batch_norm(dtype, faulty):
    norms = [nn.BatchNorm2d(8) for _ in range(3)]
    convs = [nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1) for i in range(3)]
    if faulty:
        norms[1].eps = 1e-2
    net = model(nn.ModuleList([*convs, *norms]), dtype)
    assert net is not None
    h, made = drawn(4, 3, 10, 10).to(dtype), None
    for i, (conv, norm) in enumerate(zip(convs, norms, strict=True)):
        n = norm(conv(h))
        made = n if i == 1 else made
        h = F.relu(n)
    return h.mean((2, 3)).pow(2).sum(), made


@planted
def a_linear_layer_in_bfloat16(dtype, faulty):
    layers = nn.ModuleList([nn.Linear(24, 24) for _ in range(16)])
    model(layers, dtype)
    h, made = drawn(6, 24).to(dtype), None
    for i, layer in enumerate(layers):
        low = torch.bfloat16 if faulty and i == 7 else None
        z = within(low, F.linear, h, layer.weight, layer.bias)
        made = z if i == 7 else made
        h = h + F.gelu(z.to(dtype)) / 4
    return h.pow(2).mean(), made


class Scaled(torch.autograd.Function):
    """Three times its input, with a derivative that may be wrong."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.slope = slope
        return 3 * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.slope, None


@planted
def a_backward_with_a_wrong_factor(dtype, faulty):
    net = model(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), dtype)
    made = Scaled.apply(net[1](net[0](drawn(5, 8).to(dtype))), 2.99 if faulty else 3.0)
    return net[2](made).pow(2).mean(), made


@planted
def another_formula_of_gelu(dtype, faulty):
    net = model(nn.ModuleList([nn.Conv1d(4, 8, 3), nn.Conv1d(8, 8, 3), nn.Linear(8, 3)]), dtype)
    h = F.gelu(net[0](drawn(3, 4, 20).to(dtype)))
    made = F.gelu(net[1](h), approximate="tanh" if faulty else "none")
    return F.cross_entropy(net[2](made.amax(-1)), torch.arange(3)), made


@planted
def epsilon_in_an_rms_norm(dtype, faulty):
    ws = [drawn(20, 20, seed=i, scale=0.25).to(dtype).requires_grad_() for i in range(4)]
    h, made = drawn(7, 20).to(dtype), None
    for i, w in enumerate(ws):
        mean = h.pow(2).mean(-1, keepdim=True)
        root = torch.rsqrt(mean + (1e-3 if faulty and i == 2 else 1e-6))
        made = root if i == 2 else made
        h = h + F.silu((h * root) @ w)
    return h.pow(2).mean(), made


@planted
def sigmoid_of_a_gate_in_bfloat16(dtype, faulty):
    w, u, g = (drawn(10, 10, seed=i, scale=0.3).to(dtype).requires_grad_() for i in (4, 5, 6))
    x, h, made = drawn(12, 3, 10).to(dtype), torch.zeros(3, 10, dtype=dtype), None
    for t in range(12):
        gate = within(torch.bfloat16 if faulty and t == 4 else None, torch.sigmoid, h @ g + x[t])
        made = gate if t == 4 else made
        h = gate.to(dtype) * torch.tanh(x[t] @ w) + (1 - gate.to(dtype)) * (h @ u)
    return h.abs().sum(), made


@planted
def embeddings_added_in_bfloat16(dtype, faulty):
    table = nn.Embedding(50, 12)
    net = model(nn.ModuleList([table, nn.Linear(12, 12), nn.LayerNorm(12)]), dtype)
    low = torch.bfloat16 if faulty else None
    made = within(low, lambda x: x.sum(1), table(torch.arange(40).reshape(4, 10)))
    return net[2](torch.tanh(net[1](made.to(dtype)))).pow(3).mean(), made


@planted
def epsilon_in_a_group_norm(dtype, faulty):
    net = model(
        nn.ModuleDict(
            {
                "down": nn.Conv2d(2, 8, 3, padding=1, stride=2),
                "norm": nn.GroupNorm(2, 8, eps=1e-2 if faulty else 1e-5),
                "up": nn.ConvTranspose2d(8, 4, 2, stride=2),
                "last": nn.Conv2d(6, 1, 1),
            }
        ),
        dtype,
    )
    x = drawn(2, 2, 8, 8).to(dtype)
    made = net["norm"](net["down"](x))
    h = torch.cat([net["up"](F.silu(made)), x], 1)
    return F.binary_cross_entropy_with_logits(
        net["last"](h), torch.ones(2, 1, 8, 8).to(dtype)
    ), made


@planted
def dot_product_of_100_000_terms_in_half(dtype, faulty):
    w = drawn(100_000, seed=8, scale=0.1).to(dtype).requires_grad_()
    x = drawn(3, 100_000, seed=9).to(dtype)
    made = within(torch.float16 if faulty else None, lambda a, b: b @ a, w, x)
    return F.softplus(made.to(dtype) / 30).sum(), made


class Softplus(torch.autograd.Function):
    """softplus, with a derivative that may forget the slope."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return F.softplus(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(ctx.slope * x), None


@planted
def a_backward_with_a_wrong_slope(dtype, faulty):
    net = model(nn.Sequential(*(nn.Linear(14, 14) for _ in range(6))), dtype)
    h, made = drawn(9, 14).to(dtype), None
    for i, layer in enumerate(net):
        h = Softplus.apply(layer(h), 1.05 if faulty and i == 3 else 1.0)
        made = h if i == 3 else made
    return h.pow(2).mean(), made


@planted
def another_slope_of_a_leaky_relu(dtype, faulty):
    net = model(nn.ModuleList([nn.Conv2d(1, 6, 3) for _ in range(1)] + [nn.Linear(96, 5)]), dtype)
    made = F.leaky_relu(net[0](drawn(4, 1, 6, 6).to(dtype)), 0.0101 if faulty else 0.01)
    return F.cross_entropy(net[1](made.flatten(1)), torch.arange(4)), made


@planted
def upsampled_with_aligned_corners(dtype, faulty):
    net = model(nn.ModuleList([nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3)]), dtype)
    h = torch.tanh(net[0](drawn(1, 3, 8, 8).to(dtype)))
    made = F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=faulty)
    return net[1](made).pow(2).mean(), made


@planted
def squared_error_in_half_precision(dtype, faulty):
    net = model(nn.Sequential(nn.Linear(6, 12), nn.ELU(), nn.Linear(12, 3)), dtype)
    low = torch.float16 if faulty else None
    found = net(drawn(20, 6).to(dtype))
    made = within(low, F.mse_loss, found, drawn(20, 3, seed=5).to(dtype))
    return made.to(dtype).sqrt(), made


@planted
def exponentials_in_half_precision(dtype, faulty):
    w = drawn(16, 16, seed=11, scale=0.2).to(dtype).requires_grad_()
    h = torch.sin(drawn(5, 16).to(dtype) @ w)
    made = within(torch.float16 if faulty else None, torch.exp, h)
    return torch.logsumexp(made.to(dtype) @ w, -1).mean() * math.pi, made
