"""A summary's numbers are torch's own, and always plain JSON."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwalk.summary import MOST_VALUES, evenly_spread, json_number, summarise


def plain(tensor):
    summary = summarise(tensor)
    json.dumps(summary, allow_nan=False)
    return summary


shapes = st.lists(st.integers(0, 12), max_size=4).map(tuple)


@settings(max_examples=100, deadline=None)
@given(shapes, st.sampled_from([torch.float32, torch.float64, torch.int64, torch.float16]))
def test_statistics_equal_torchs(shape, dtype):
    tensor = (torch.randn(shape) * 5).to(dtype)
    summary = plain(tensor)
    assert summary["shape"] == list(shape)
    assert summary["numel"] == tensor.numel()
    assert summary["zeros"] == int((tensor == 0).sum())
    assert summary["nan"] == summary["inf"] == 0
    wide = tensor.double()
    assert summary["norm"] == pytest.approx(float(wide.norm()))
    if tensor.numel():
        assert summary["min"] == tensor.min().item()
        assert summary["max"] == tensor.max().item()
        assert summary["mean"] == pytest.approx(float(wide.mean()))
    else:
        assert summary["min"] is summary["max"] is summary["mean"] is None


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_values_are_an_evenly_spread_slice(shape):
    tensor = torch.randn(shape)
    summary = plain(tensor)
    shown = torch.tensor(summary["values"])
    assert shown.numel() <= MOST_VALUES
    if not summary["truncated"]:
        assert summary["values"] == tensor.tolist()
        return
    indices = summary["indices"]
    assert torch.equal(
        shown.float(), tensor[torch.meshgrid(*map(torch.tensor, indices), indexing="ij")]
    )
    for size, picked in zip(shape, indices, strict=True):
        assert picked == sorted(set(picked))
        if len(picked) > 1:
            assert (picked[0], picked[-1]) == (0, size - 1)
            steps = [b - a for a, b in pairwise(picked)]
            assert max(steps) - min(steps) <= 1


def test_a_large_slice_uses_the_room_there_is():
    for shape in [(64, 3, 7, 7), (1000,), (1, 1000), (100, 100), (9408, 1), (5, 13), (3, 300, 3)]:
        shown, _ = evenly_spread(torch.zeros(shape), MOST_VALUES)
        assert MOST_VALUES // 2 < shown.numel() <= MOST_VALUES


def test_nan_and_infinities_are_words():
    summary = plain(torch.tensor([1.0, math.nan, math.inf, -math.inf]))
    assert summary["values"] == [1.0, "nan", "inf", "-inf"]
    assert (summary["nan"], summary["inf"]) == (1, 2)
    assert summary["mean"] == "nan"
    assert plain(torch.tensor([1.0, math.inf]))["max"] == "inf"
    assert plain(torch.tensor([1.0, -math.inf]))["min"] == "-inf"


def test_numbers_a_browser_cannot_hold_are_words():
    assert json_number(2**53) == 2**53
    assert json_number(2**60) == str(2**60)
    assert plain(torch.tensor([2**60]))["values"] == [str(2**60)]


def test_a_scalar_is_a_bare_value():
    assert plain(torch.tensor(2.5))["values"] == 2.5
    assert plain(torch.tensor([True, False]))["values"] == [True, False]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, dtype=torch.complex64),
        torch.randn(3).bfloat16(),
        torch.randn(3).to(torch.float8_e4m3fn),
        torch.ones(3, dtype=torch.uint16),
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.zeros(3, device="meta"),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        torch.zeros(0),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tensor.layout}-{tensor.device}",
)
def test_every_kind_of_tensor_is_shown(tensor):
    summary = plain(tensor)
    assert summary["dtype"] == str(tensor.dtype)
    unreadable = tensor.is_meta or tensor.is_nested
    assert (summary["values"] is None) == unreadable
    assert (summary["note"] is not None) == (unreadable or tensor.layout is not torch.strided)


def test_what_refuses_to_be_read_says_so():
    from torch._subclasses import FakeTensorMode  # noqa: PLC0415

    with FakeTensorMode():
        fake = torch.ones(3)
    summary = plain(fake)
    assert summary["shape"] == [3]
    assert "torch says" in summary["note"]


def test_summarising_changes_nothing():
    tensor = torch.randn(4, requires_grad=True)
    before, state = tensor._version, torch.get_rng_state()
    summarise(tensor)
    assert tensor._version == before
    assert torch.equal(state, torch.get_rng_state())


def test_a_number_that_torch_saved_as_a_tensor():
    product = (torch.ones(2, requires_grad=True) * 3.0).grad_fn
    assert summarise(product._saved_other)["mean"] == 3.0
