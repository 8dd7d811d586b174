"""`contributions` against torch: parts add up, and each is what torch gives of it alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from surgery import gan, of_model, random_program
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from gradwalk import contributions

pytestmark = pytest.mark.one_python

MODELS = {
    **{f"random {seed}": random_program(seed) for seed in range(8)},
    **{name: of_model(name) for name in ("lenet", "resnet", "transformer_encoder", "lstm")},
    "gan": gan(),
}


def total(parts: Any) -> Tensor:
    return torch.stack([part.gradient.to_dense() for part in parts]).sum(0)


@pytest.mark.parametrize("by", ["edge", "output", "path"])
@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up(name: str, by: Any):
    outputs, leaves = MODELS[name]()
    expected = torch.autograd.grad(outputs, leaves, retain_graph=True, allow_unused=True)
    for leaf, whole in list(zip(leaves, expected, strict=True))[:3]:
        if whole is None:
            continue
        parts = contributions(leaf, *outputs, by=by)
        assert torch.allclose(total(parts), whole, rtol=1e-5, atol=1e-5 * whole.abs().max())
        assert sum(part.share for part in parts) == pytest.approx(1 if whole.any() else 0)
        sizes = [abs(part.share) for part in parts]
        assert sizes == sorted(sizes, reverse=True)
        if by == "output":
            alone = {
                torch.autograd.grad(o, leaf, retain_graph=True, allow_unused=True)[0]
                for o in outputs
            } - {None}
            for part in parts:
                assert any(torch.allclose(part.gradient, each) for each in alone)


def test_edges_are_what_each_use_gives():
    x = torch.tensor(3.0, requires_grad=True, dtype=torch.double)
    h = x * 2
    out = h**2 + h.sin() * h
    parts = contributions("h", out)
    a, b, c = (torch.tensor(6.0, dtype=torch.double, requires_grad=True) for _ in range(3))
    expected = torch.autograd.grad(a**2 + b.sin() * c, [a, b, c])
    found = sorted(part.gradient.item() for part in parts)
    assert found == sorted(each.item() for each in expected)
    assert {part.label for part in parts} == {
        "PowBackward0 1 → h", "SinBackward0 4 → h", "MulBackward0 2 → h",
    }  # fmt: skip
    twice = contributions(x, x * x)
    assert [part.label for part in twice] == [
        "MulBackward0 0 → x (self)",
        "MulBackward0 0 → x (other)",
    ]


def test_paths_are_products_of_derivatives():
    x = torch.tensor(0.7, requires_grad=True, dtype=torch.double)
    a, b = x.sin(), x.exp()
    c = a * b
    out = c + a.tanh()
    v = x.detach()
    s, e = v.sin(), v.exp()
    expected = sorted([e * v.cos(), s * e, (1 - s.tanh() ** 2) * v.cos()])
    parts = contributions(x, out, by="path")
    assert len(parts) == 3
    for part, value in zip(sorted(parts, key=lambda p: p.gradient), expected, strict=True):
        torch.testing.assert_close(part.gradient, value, rtol=1e-12, atol=0)
    assert all(part.label.endswith("x") and part.label.startswith("out") for part in parts)


def test_many_paths_are_a_few_and_the_rest():
    x = torch.tensor(1.0, requires_grad=True, dtype=torch.double)
    h = x
    for _ in range(40):  # 2 ** 40 paths
        h = h * 0.5 + h.sin() * 0.5
    (whole,) = torch.autograd.grad(h, x, retain_graph=True)
    parts = contributions(x, h, by="path")
    assert len(parts) <= 9
    assert any(part.label == "all other paths" for part in parts)
    torch.testing.assert_close(total(parts), whole, rtol=1e-12, atol=0)


def net(dtype: torch.dtype) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.LayerNorm(48), nn.Linear(48, 5)
    )
    return layers.to(dtype), torch.randn(7, 1, 6, 6, dtype=dtype), torch.arange(7) % 5


LOSSES: dict[str, Any] = {
    "cross entropy": lambda y, t: F.cross_entropy(y, t, reduction="sum"),
    "squares": lambda y, t: ((y - t[:, None]) ** 2).sum(),
    "mse": lambda y, t: F.mse_loss(y, t[:, None].expand(-1, 5).to(y.dtype), reduction="sum"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [False, True])
def test_samples_are_vmap_of_grad(loss: str, dtype: torch.dtype, penalty: bool):
    layers, x, t = net(dtype)
    parameters = {k: v.detach() for k, v in layers.named_parameters()}
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12

    def one(p: Any, a: Tensor, b: Tensor) -> Tensor:
        return LOSSES[loss](functional_call(layers, p, (a[None],)), b[None])

    expected = vmap(grad(one), in_dims=(None, 0, 0))(parameters, x, t)
    value = LOSSES[loss](layers(x), t)
    if penalty:
        value = value + sum((p**2).sum() for p in layers.parameters())
    for name, parameter in layers.named_parameters():
        parts = contributions(parameter, value, by="sample")
        (whole,) = torch.autograd.grad(value, parameter, retain_graph=True)
        scale = whole.abs().max() + expected[name].abs().max()
        assert (total(parts) - whole).abs().max() <= tolerance * scale
        samples = {p.label: p.gradient for p in parts}
        assert ("no sample" in samples) == penalty
        for i, each in enumerate(expected[name]):
            assert (samples[f"sample {i}"] - each).abs().max() <= tolerance * scale


def test_bad_input_is_a_sentence():
    w = torch.ones(2, requires_grad=True)
    hidden = w * w
    loss = hidden.sum()
    for given, kind, said in [
        ("hiden", ValueError, "nearest name is 'hidden'"),
        (torch.ones(2), ValueError, "does not require grad"),
        (torch.ones(2, requires_grad=True), ValueError, "not in this graph"),
        (None, TypeError, "a tensor's name"),
    ]:
        with pytest.raises(kind, match=said):
            contributions(given, loss)
    with pytest.raises(ValueError, match="'edge', 'output', 'path', 'sample'"):
        contributions(w, loss, by="layer")
    x = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(ValueError, match="single numbers only"):
        contributions(x, x * 2, by="sample")
    y = torch.ones(4, requires_grad=True)
    with pytest.raises(ValueError, match="2, 4 rows"):
        contributions(y, (w.sin() * y[:2]).sum() + (y * w[0]).sum(), by="sample")


def test_what_gets_no_gradient_has_no_parts():
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, __: Tensor) -> Any:
            return None

    x = torch.ones(2, requires_grad=True)
    out = Nothing.apply(x).sum()
    assert get_gradient_edge(x)
    assert contributions(x, out) == []


@pytest.mark.parametrize("by", ["edge", "path", "output"])
def test_no_two_parts_have_the_same_label(by: str):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    h = w * 1
    programs = [
        (h * h).sum(),
        (h * h + h * h).sum(),
        ((h * w) * (w * h)).sum(),
        torch.addcmul(h, h, h).sum() + (h / h).sum(),
        torch.stack([h, h, h.sin(), h]).sum(),
        (h**h).sum() * (h @ h),
    ]
    for loss in programs:
        labels = [part.label for part in contributions(w, loss, by=by)]
        assert len(set(labels)) == len(labels), labels
    paths = contributions(w, programs[0], by="path")
    assert {part.label.rpartition(" (")[2] for part in paths} == {"self)", "other)"}
