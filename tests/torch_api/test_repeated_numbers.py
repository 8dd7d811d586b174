"""Repeated numbers are read once: statistics of expanded tensors are torch's, without a copy."""

from __future__ import annotations

import math

import pytest
import torch
from fresh import fresh
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwalk.backward.kept_gradients import statistics_of
from gradwalk.torch_api.reading import distinct, everywhere, parts
from gradwalk.torch_api.summary import summarise

DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64]


@st.composite
def views(draw):
    """A random view of random numbers: sliced, transposed, expanded, shown again and again."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    tensor = (torch.randn(shape) * 3).round().to(draw(st.sampled_from(DTYPES)))
    for _ in range(draw(st.integers(0, 4))):
        dim = draw(st.integers(0, tensor.dim() - 1))
        match draw(st.sampled_from(["slice", "transpose", "expand", "new", "unfold", "diagonal"])):
            case "slice":
                tensor = tensor[(slice(None),) * dim + (slice(draw(st.integers(0, 2)), None, 2),)]
            case "transpose":
                tensor = tensor.transpose(0, dim)
            case "expand" if tensor.shape[dim] == 1:
                sizes = [-1] * tensor.dim()
                sizes[dim] = draw(st.integers(1, 6))
                tensor = tensor.expand(sizes)
            case "new":
                tensor = tensor.expand(draw(st.integers(1, 4)), *tensor.shape)
            case "unfold" if tensor.shape[dim] > 1:
                tensor = tensor.unfold(dim, 2, 1)
            case "diagonal" if tensor.dim() > 1:
                tensor = tensor.diagonal()
    return tensor


@settings(max_examples=200, deadline=None)
@given(views())
def test_statistics_of_any_view_are_torchs(tensor):
    found = summarise(tensor)
    plain = tensor.clone(memory_format=torch.contiguous_format)
    wide = plain.to(torch.complex128 if plain.is_complex() else torch.float64)
    assert found["note"] is None
    assert found["zeros"] == int((plain == 0).sum())
    assert found["nan"] == found["inf"] == 0
    assert found["norm"] == pytest.approx(float(torch.linalg.vector_norm(wide)))
    if plain.numel() and not plain.is_complex():
        assert found["mean"] == pytest.approx(float(wide.mean()))
        if plain.dtype != torch.bool:
            assert (found["min"], found["max"]) == (plain.min().item(), plain.max().item())
    assert found == {**summarise(plain), **{k: found[k] for k in ("norm", "mean")}}
    once, repeats = distinct(tensor)
    assert once.numel() * repeats == tensor.numel()
    for most in (1, 3, 7):
        pieces = list(parts(once, most))
        assert all(piece.numel() <= most for piece in pieces)
        joined = torch.cat([piece.flatten() for piece in pieces])
        assert sorted(map(str, joined.tolist())) == sorted(map(str, once.flatten().tolist()))
    if plain.numel():
        assert everywhere(tensor, lambda part: part == 0) == bool((plain == 0).all())
    if plain.is_floating_point() and plain.numel():
        kept = statistics_of(tensor)
        assert float(kept.norm) == pytest.approx(found["norm"], rel=1e-3)
        assert (float(kept.low), float(kept.high)) == (found["min"], found["max"])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_counted_as_often_as_it_stands(bad):
    tensor = torch.tensor([1.0, bad, 0.0]).unsqueeze(1).expand(3, 10**9)
    found = summarise(tensor)
    assert (found["nan"], found["inf"]) == ((10**9, 0) if math.isnan(bad) else (0, 10**9))
    assert found["zeros"] == 10**9
    kept = statistics_of(tensor)
    assert (int(kept.nan), int(kept.inf)) == (found["nan"], found["inf"])


def test_a_large_tensor_is_summed_in_double_precision_some_at_a_time():
    torch.manual_seed(0)
    tensor = torch.randn(3, 1_500_000).t()[1::2]
    found = summarise(tensor)
    assert found["norm"] == pytest.approx(float(tensor.double().norm()), rel=1e-12)
    assert found["mean"] == pytest.approx(float(tensor.double().mean()), rel=1e-9)
    assert (found["min"], found["max"]) == (tensor.min().item(), tensor.max().item())


def test_a_thousand_million_numbers_of_four_bytes_take_no_memory():
    fresh(
        """
        class Keep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, mask):
                ctx.save_for_backward(mask)
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2, None

        many = 10**9
        x = torch.ones(1, requires_grad=True)
        mask = torch.zeros(1).expand(many)
        wide = torch.ones(3, 1, dtype=torch.float16).expand(3, many // 3)
        warm = GraphWidget(Keep.apply(x, mask[:3]).sum()); warm.backward()
        for warm.selected in range(3): pass
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, -1))  # all that follows: 256 MiB
        with watch():
            y = Keep.apply(x, mask).sum() + Keep.apply(x, wide).sum()
        widget = GraphWidget(y)
        widget.backward()
        for widget.selected in range(len(widget.model["nodes"])):
            assert widget.details["failed"] == []
            for saved in widget.details["saved"]:
                told = saved["summary"]
                assert told is None or (told["numel"] >= many - 1 and told["note"] is None)
        diagnose(widget)
        # A gradient that is expanded, as the backward of sum() makes it, and one of the user's.
        big = torch.ones(1, requires_grad=True).expand(many)
        out = big.sum()
        grown = GraphWidget(out); grown.backward()
        for grown.selected in range(len(grown.model["nodes"])):
            assert grown.details["failed"] == []
        leaf = torch.zeros(1).expand(many).requires_grad_()
        leaf.grad = torch.zeros(1).expand(many)
        last = GraphWidget(leaf[:1] * 2)
        last.selected = 2
        assert last.details["grad"]["zeros"] == many, last.details
        assert last.details["value"]["values"] == [0.0] * 64
        """
    )
