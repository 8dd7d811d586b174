"""`check` where numbers are small, infinite or NaN, a kink is near, or tensors are not dense."""

from __future__ import annotations

import math

import pytest
import torch
from own_functions import elementwise, with_backward

from gradwalk import check


def test_a_kink_is_no_fault():
    kink = elementwise(lambda x: x.clamp(min=0), lambda x: x > 0)
    assert check(kink.apply(torch.tensor([0.0, 1.0, -1.0], requires_grad=True))).agrees


@pytest.mark.parametrize(("factor", "agrees"), [(1e-6, True), (1.01e-6, False)])
def test_a_wrong_derivative_is_found_however_small_it_is(factor, agrees):
    tiny = elementwise(lambda x: x * 1e-6, lambda _: factor)
    assert check(tiny.apply(torch.tensor([0.5, -2.0], requires_grad=True))).agrees is agrees


@pytest.mark.parametrize("off", [1, -1])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("called", "derivative", "odd"),
    [
        (torch.sqrt, lambda x: 0.5 / x.sqrt(), 0.0),
        (torch.sqrt, lambda x: 0.5 / x.sqrt(), -1.0),
        (torch.log, lambda x: 1 / x, 0.0),
        (torch.log, lambda x: 1 / x, -2.0),
        (torch.log, lambda x: 1 / x, 1e-9),
        (torch.square, lambda x: 2 * x, math.inf),
        (torch.square, lambda x: 2 * x, math.nan),
    ],
)
def test_where_there_is_no_difference_nothing_is_said_and_the_rest_is_checked(
    called, derivative, odd, place, off
):
    numbers = [1.0, 2.0, 3.0]
    numbers[place] = odd
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    y = elementwise(called, lambda x: off * derivative(x)).apply(x)
    found = check(y.grad_fn)
    assert found.agrees == (off == 1)
    assert all(math.isfinite(each.difference) for each in found.wrong)
    if off == -1:
        assert {each.by.index[0] for each in found.wrong} >= {0, 1, 2} - {place}


def test_a_derivative_that_is_nan_where_the_difference_is_not_is_wrong():
    cut = elementwise(lambda x: x.clamp(min=0) ** 2, lambda x: 2 * x.clamp(min=0) * x / x)
    y = cut.apply(torch.tensor([0.0, 1.0], requires_grad=True))
    found = check(y.grad_fn)
    assert not found.agrees
    assert {each.by.index for each in found.wrong} == {(0,)}


def test_without_any_difference_that_is_a_sentence():
    x = torch.tensor([math.nan], requires_grad=True)
    with pytest.raises(ValueError, match="every finite difference is NaN or infinite"):
        check(elementwise(torch.square, lambda x: 2 * x).apply(x))


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (torch.eye(3).to_sparse(), "sparse_coo"),
        (torch.eye(3).to_sparse_csr(), "sparse_csr"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
        (torch.ones(3, device="meta"), "meta"),
    ],
)
def test_tensors_without_plain_numbers_are_refused_by_a_sentence(x, word):
    doubled = elementwise(lambda x: x * 2, lambda x: 2)
    with pytest.raises(ValueError, match=f"cannot be checked: it takes a .*{word}"):
        check(doubled.apply(x.detach().requires_grad_()))


def test_a_sparse_gradient_is_compared_like_another():
    doubled = with_backward(lambda x: x * 2, lambda grad, _: (2 * grad).to_sparse())
    assert check(doubled.apply(torch.ones(3, requires_grad=True))).agrees


@pytest.mark.parametrize("said", [math.inf, -math.inf, math.nan])
def test_no_derivative_that_is_finite_is_infinite(said):
    doubled = with_backward(lambda x: x * 2, lambda grad, _: torch.full_like(grad, said))
    found = check(doubled.apply(torch.tensor([1.0, 2.0], requires_grad=True)))
    assert not found.agrees
    assert not math.isfinite(found.wrong[0].gradient)


def test_of_a_derivative_that_is_infinite_no_finite_difference_tells():
    cube_root = with_backward(
        lambda x: x.sign() * x.abs().pow(1 / 3), lambda grad, x: grad / (3 * x.abs().pow(2 / 3))
    )
    found = check(cube_root.apply(torch.tensor([0.0, 1.0, -8.0], requires_grad=True)))
    assert found.agrees, found
    assert "1 of them without a finite difference" in str(found)
