"""Equal runs do not differ, and hooks and `eps` are named for what they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradwalk import compare_numerics, watch


def both(step: Callable[[Any], torch.Tensor], one: Any, other: Any) -> Any:
    with watch():
        a, b = step(one), step(other)
    return compare_numerics(a, b)


def attention(fused: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    if fused:
        return F.scaled_dot_product_attention(q, k, v)
    weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1)
    return weights @ v


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 3, 5, 8), (1, 2, 2, 3, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_eager_and_fused_attention_agree(shape: tuple[int, ...], seed: int):
    torch.manual_seed(seed)
    lin, h = nn.Linear(shape[-1], 3 * shape[-1]), torch.randn(shape)

    def step(fused: bool, factor: float = 1.0) -> torch.Tensor:
        q, k, v = (lin(h) * factor).chunk(3, -1)
        return attention(fused, q, k, v).pow(2).mean()

    found = both(step, False, True)
    assert found.first is None, str(found)


@pytest.mark.parametrize("fused", [False, True])
def test_a_fault_beside_fused_attention_is_found(fused: bool):
    torch.manual_seed(0)
    lin, h = nn.Linear(8, 24), torch.randn(2, 5, 8)

    def step(given: tuple[bool, float]) -> torch.Tensor:
        q, k, v = lin(h).chunk(3, -1)
        return (attention(given[0], q, k, v) * given[1]).pow(2).mean()

    found = both(step, (False, 1.0), (fused, 1.01))
    assert found.first is not None


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 2 * ctx.factor, None


@pytest.mark.parametrize("is_backward", [False, True])
def test_more_than_rounding_is_found(is_backward: bool):
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), torch.randn(6, 4)

    def step(dtype: torch.dtype, factor: float) -> torch.Tensor:
        h = copy.deepcopy(net).to(dtype)(x.to(dtype))
        h = Wrong.apply(h, factor) if is_backward else h * factor
        return F.layer_norm(h.exp(), (8,)).exp().sum()

    with watch():
        found = compare_numerics(step(torch.double, 1.0), step(torch.float, 1.5))
    assert found.first is not None
    # The wrong gradient arrives at tanh; the first value known after the product is that of exp.
    expected = ("TanhBackward0", "gradient") if is_backward else ("ExpBackward0", "value")
    assert (found.first.op, found.first.leaves) == expected


@pytest.mark.parametrize("where", [0, 1, 2])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_hook_in_one_run_is_named(where: int, side: str):
    torch.manual_seed(0)
    layers, x = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)]), torch.randn(4, 8)

    def step(name: str) -> torch.Tensor:
        h = x
        for nr, layer in enumerate(layers):
            h = torch.tanh(layer(h))
            if nr == where and name == side:
                h.register_hook(lambda grad: grad * 1.02)
        return h.pow(2).mean()

    found = compare_numerics(step("a"), step("b"))
    assert f"In {side} a hook changed this gradient" in str(found)


def test_without_a_hook_none_is_named():
    torch.manual_seed(0)
    w = torch.randn(4, requires_grad=True)

    found = both(lambda factor: (Wrong.apply(w.sin(), factor) + w).sum(), 1.0, 1.1)
    assert found.first is not None
    assert "hook" not in str(found)


NORMS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "layer": lambda h, eps: F.layer_norm(h, (8,), eps=eps),
    "layer of two dimensions": lambda h, eps: F.layer_norm(h, (4, 8), eps=eps),
    "group": lambda h, eps: F.group_norm(h.unsqueeze(-1), 4, eps=eps),
    "batch": lambda h, eps: F.batch_norm(h, None, None, training=True, eps=eps),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("eps", [1e-3, 1e-2])
def test_another_eps_is_named(norm: str, eps: float):
    torch.manual_seed(0)
    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    found = both(lambda given: NORMS[norm](x @ w, given).pow(3).sum(), 1e-5, eps)
    assert "argument eps is" in str(found), str(found)
    assert f"{eps:.6g} in b" in str(found)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_an_equal_eps_is_not_named(scale: float):
    torch.manual_seed(0)
    x, w = torch.randn(4, 8) * scale, torch.randn(8, 8, requires_grad=True)
    found = both(lambda k: F.layer_norm(x @ w * k, (8,)).pow(3).sum(), 1.0, 1.3)
    assert "eps" not in str(found)
