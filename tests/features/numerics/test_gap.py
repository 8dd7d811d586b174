"""`tensor_distance`: how far two tensors are apart, as torch.testing has it."""

from __future__ import annotations

import math

import pytest
import torch

from gradwalk.features.numerics.tensor_distance import Number, tensor_distance
from gradwalk.torch_api.summary import summarise

DOUBLE, SINGLE, HALF = torch.float64, torch.float32, torch.bfloat16


def numbers_to_compare():
    inf, nan = math.inf, math.nan
    torch.manual_seed(0)
    base = torch.randn(40, dtype=DOUBLE)
    return [
        (base, base),
        (base, base + 1e-9),
        (base, base + 1e-3),
        (base, base.to(SINGLE)),
        (base, base.to(HALF)),
        (base.to(SINGLE), (base * (1 + 1e-4)).to(SINGLE)),
        (torch.tensor([1.0, nan, inf]), torch.tensor([1.0, nan, inf])),
        (torch.tensor([1.0, nan]), torch.tensor([1.0, 2.0])),
        (torch.tensor([1.0, inf]), torch.tensor([1.0, -inf])),
        (torch.zeros(3), torch.full((3,), 1e-6)),
        (torch.zeros(3), torch.full((3,), 1e-3)),
        (base.to(torch.complex64), (base * 1j).to(torch.complex64)),
        (torch.ones(()).expand(5, 1000), torch.ones(5, 1000)),
        (torch.randn(7, 11).T, torch.randn(7, 11).T),
        (torch.ones(0), torch.ones(0)),
    ]


class TestGap:
    @pytest.mark.parametrize(("expected", "found"), numbers_to_compare())
    def test_is_what_torch_testing_says(self, expected, found):
        measured = tensor_distance(Number(expected), Number(found))
        try:
            torch.testing.assert_close(found, expected, check_dtype=False, equal_nan=True)
            is_close = True
        except AssertionError:
            is_close = False
        assert measured.leaves is not is_close
        wide = torch.complex128 if expected.is_complex() else DOUBLE
        difference, whole = (found.to(wide) - expected.to(wide)).norm(), expected.to(wide).norm()
        if difference.isfinite() and whole > 0:
            assert measured.error == pytest.approx(float(difference / whole), rel=1e-12)
        elif not is_close and expected.isfinite().all() and found.isfinite().all():
            assert measured.error == math.inf

    def test_of_more_numbers_than_are_looked_at_at_once(self):
        a = torch.randn(3, 1_200_000)
        b = a.clone()
        b[2, 1_111_111] += 1
        measured = tensor_distance(Number(a), Number(b))
        assert measured.worst == (a[2, 1_111_111].item(), b[2, 1_111_111].item())
        assert measured.error == pytest.approx(float((b - a).double().norm() / a.double().norm()))

    def test_of_summaries_says_what_it_is_of(self):
        small, large = torch.randn(8), torch.randn(100, 100)
        for tensor, how in ((small, "all"), (large, "sample")):
            told = Number(None, summarise(tensor)), Number(None, summarise(tensor * 1.5))
            assert tensor_distance(*told).error == pytest.approx(0.5)
            assert tensor_distance(*told).compared == how
        norms = [{**summarise(each), "values": None} for each in (large, large * 1.5)]
        measured = tensor_distance(*(Number(None, each) for each in norms))
        assert (measured.compared, measured.leaves) == ("norm", True)
        assert measured.error == pytest.approx(0.5)

    def test_other_shapes_are_not_compared(self):
        assert tensor_distance(Number(torch.ones(3)), Number(torch.ones(4))) is None
