"""A summary's numbers are torch's own, and always plain JSON."""

from __future__ import annotations

import json
import math
import weakref
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwalk.torch_api.summary as summary_module
from gradwalk.schema.json_values import json_number
from gradwalk.torch_api.summary import MOST_VALUES, Summaries, evenly_spread, summarise


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
    summary = plain(torch._to_functional_tensor(torch.ones(3)))
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


DTYPES = sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str)


@pytest.mark.filterwarnings("ignore:B?Complex(Half|32) support is experimental")  # torch's own
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_of_the_installed_torch_is_shown(dtype):
    try:
        tensor = torch.empty(3, dtype=dtype).zero_()
    except (RuntimeError, NotImplementedError):
        try:  # dtypes without any kernel: their bits can still be made
            tensor = torch.zeros(3 * 16, dtype=torch.uint8).view(dtype)
        except (RuntimeError, NotImplementedError):
            tensor = torch.empty(3, dtype=dtype, device="meta")
    summary = plain(tensor)
    assert summary["dtype"] == str(dtype)
    assert summary["shape"] == list(tensor.shape)
    assert summary["values"] is not None or summary["note"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 64))
def test_evenly_spread_laws(shape, most):
    tensor = torch.zeros(1).expand(shape)
    shown, indices = evenly_spread(tensor, most)
    assert shown.numel() <= most
    assert shown.dim() == len(shape)
    if indices is None:
        assert tensor.numel() <= most
        return
    assert [len(picked) for picked in indices] == list(shown.shape)
    for size, picked in zip(shape, indices, strict=True):
        assert all(a < b for a, b in pairwise(picked))
        assert picked
        if len(picked) >= 2:
            assert (picked[0], picked[-1]) == (0, size - 1)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_a_sparse_tensors_statistics_are_those_of_the_dense_one(layout):
    dense = torch.tensor([[0.0, -2.0, 0.0], [3.0, 0.0, 0.0]])
    of_sparse, of_dense = plain(getattr(dense, layout)()), plain(dense)
    for key in ("shape", "values", "min", "max", "mean", "norm", "nan", "inf", "zeros"):
        assert of_sparse[key] == of_dense[key]


def test_an_uncoalesced_sparse_gradient_counts_repeated_rows_once():
    #   row 2 is looked up twice: torch stores it twice and means the sum
    index, values = torch.tensor([[1, 2, 2]]), torch.ones(3, 2)
    sparse = torch.sparse_coo_tensor(index, values, (4, 2), check_invariants=True)
    summary = plain(sparse)
    assert summary["values"] == sparse.to_dense().tolist()
    assert (summary["max"], summary["zeros"]) == (2.0, 4)


def test_a_large_tensors_statistics_are_those_of_torch():
    tensor = torch.randn(1_200_000)
    tensor[7] = 0.0
    summary = plain(tensor)
    assert summary["mean"] == pytest.approx(float(tensor.double().mean()), rel=1e-3, abs=1e-6)
    assert summary["norm"] == pytest.approx(float(tensor.double().norm()), rel=1e-4)
    assert (summary["min"], summary["max"]) == (float(tensor.min()), float(tensor.max()))
    assert summary["zeros"] == int((tensor == 0).sum())


def test_complex_numbers_have_a_norm_and_a_mean_but_no_order():
    tensor = torch.tensor([3 + 4j, 0j, complex(math.nan, 1)])
    summary = plain(tensor)
    assert (summary["min"], summary["max"]) == (None, None)
    assert (summary["nan"], summary["zeros"]) == (1, 1)
    assert plain(tensor[:2])["norm"] == 5.0
    assert len(summary["values"]) == 3


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_the_callers_modes_make_no_difference(mode):
    tensor = torch.randn(70, requires_grad=True)
    expected = plain(tensor)
    with mode():
        assert plain(tensor) == expected
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert plain(tensor) == expected


def test_summaries_are_those_of_each_tensor():
    x = torch.randn(4, 4)
    complex_numbers = torch.randn(3, dtype=torch.complex64)
    tensors = [
        *(x, x.detach(), x.t(), x[1:], x.view(2, 8), x.view(torch.int32), x[0].expand(4, 4)),
        *(complex_numbers, complex_numbers.conj(), complex_numbers.conj().imag),
        *(
            torch.zeros(0),
            torch.zeros(0, 2),
            torch.eye(3).to_sparse(),
            torch.ones(2, device="meta"),
        ),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        torch._efficientzerotensor(3),
    ]
    with torch.inference_mode():
        tensors.append(torch.ones(2))
    summaries = Summaries()
    for tensor in tensors * 2:
        assert summaries.of(tensor) == summarise(tensor)
    torch.func.vmap(lambda row: summaries.of(row) == summarise(row) and row)(x)
    assert summaries.of(x) is summaries.of(x.detach())
    x.add_(1)
    assert summaries.of(x) == summarise(x)


def test_a_tensor_is_summarised_once(monkeypatch):
    found = []
    monkeypatch.setattr(
        summary_module, "summarise", lambda tensor: found.append(tensor) or summarise(tensor)
    )
    summaries, x = Summaries(), torch.ones(3, requires_grad=True)
    for tensor in (x, x.detach(), x.data, x.view(3)):
        summaries.of(tensor)
    assert len(found) == 1
    found.clear()
    alive = weakref.ref(x)
    del x, tensor, summaries
    assert alive() is None


def test_what_summaries_hold_is_bounded(monkeypatch):
    monkeypatch.setattr(summary_module, "_MOST_HELD", 1_000)
    summaries = Summaries()
    alive = []
    for _ in range(100):
        summaries.of(tensor := torch.ones(25))
        alive.append(weakref.ref(tensor))
    del tensor
    assert sum(each() is not None for each in alive) <= 10


def test_a_huge_view_of_little_memory_has_no_statistics():
    windows = torch.ones(10**6).unfold(0, 5 * 10**5, 1)
    found = summarise(windows)
    assert "too many for statistics" in found["note"]
    assert found["norm"] is None
