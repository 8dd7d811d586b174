"""What `check()` of an interactive box says of each gradient and its finite difference."""

from __future__ import annotations

import math

import pytest
import torch
from own_functions import elementwise, with_backward

from gradwalk import interact


def test_a_gradient_and_its_finite_difference_agree_unless_backward_is_wrong():
    def neuron(w, x, b, y):
        loss = (w * x + b - y) ** 2
        return loss  # noqa: RET504  the name is what is tested

    box = interact(neuron, w=(-5.0, 5.0), x=2.0, b=(-5.0, 5.0), y=1.0)
    found = box.differences()
    assert found.keys() == {"w", "x", "b", "y"}
    for name, pair in found.items():
        assert pair.agrees
        assert pair.gradient == box.leaves[name].grad.item()
        assert pair.difference == pytest.approx(pair.gradient, rel=1e-6, abs=1e-6)
    told = {one["quotient"]: one["value"] for one in box.widget._differences}
    assert told["Δloss/Δw"] == found["w"].difference
    box.controls["w"].value = 2.0
    assert box.widget._differences is None
    box.close()
    wrong = elementwise(lambda x: x * 3, lambda _: 2)
    made = interact(lambda x: wrong.apply(x), x=(1.0, 2.0))  # noqa: PLW0108  apply names no argument
    pair = made.differences()["x"]
    assert (pair.agrees, pair.gradient) == (False, 2.0)
    assert pair.difference == pytest.approx(3.0)
    made.close()


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1.0, 1e6, 1e12])
def test_a_wrong_gradient_is_seen_however_small_it_is(scale):
    for slope, agrees in ((2.0, True), (2.01, False), (-2.0, False)):
        squared = elementwise(torch.square, lambda x, slope=slope: slope * x)
        made = interact(lambda x, squared=squared: squared.apply(x) * scale, x=(1.0, 2.0))
        assert made.differences()["x"].agrees is agrees, (scale, slope)
        made.close()


def test_zero_and_what_cancels_agree():
    made = interact(lambda x, y: torch.softmax(torch.stack([x, y]) + x, 0).sum(), x=0.3, y=0.7)
    assert all(pair.agrees for pair in made.differences().values())
    made.close()
    made = interact(lambda w: (w * 3.0000001 - 3.0) ** 2, w=(0.0, 2.0))
    made.controls["w"].value = 1.0
    assert made.differences()["w"].agrees
    made.close()
    made = interact(lambda w: w * 3 - w * 3 + 0 * w, w=(0.0, 2.0))
    assert made.differences()["w"].agrees
    made.close()


@pytest.mark.parametrize(
    ("function", "sides"),
    [(torch.relu, (0, 1)), (torch.abs, (-1, 1)), (torch.tanh, (1, 1))],  # the last has no kink
)
def test_at_a_kink_what_is_between_the_slopes_of_both_sides_agrees(function, sides):
    made = interact(function, x=(-1.0, 1.0))
    made.controls["x"].value = 0.0
    assert made.differences()["x"].agrees
    made.close()
    low, high = sides
    for slope, agrees in ((low, True), (high, True), (low - 0.1, False), (high + 0.1, False)):
        sloped = elementwise(function, lambda _, slope=slope: slope)
        made = interact(lambda x, sloped=sloped: sloped.apply(x), x=(-1.0, 1.0))
        made.controls["x"].value = 0.0
        assert made.differences()["x"].agrees is agrees, slope
        made.close()


@pytest.mark.parametrize("said", [math.inf, -math.inf, math.nan])
def test_no_gradient_agrees_that_is_not_finite_where_the_difference_is(said):
    doubled = elementwise(lambda x: x * 2, lambda _: said)
    made = interact(lambda x: doubled.apply(x), x=(0.0, 1.0))  # noqa: PLW0108  apply names no argument
    assert not made.differences()["x"].agrees
    made.close()


@pytest.mark.parametrize("function", [torch.sqrt, torch.log, lambda x: x.pow(-1)])
def test_where_no_finite_difference_is_finite_nothing_is_said_of_the_gradient(function):
    made = interact(lambda x, y: function(x) + 2 * y, x=(0.0, 1.0), y=(0.0, 1.0))
    made.controls["x"].value = 0.0
    is_there = [each.is_finite for each in made.differences().values()]
    assert is_there == ([False, True] if function(torch.tensor(0.0)) == 0 else [False, False])
    assert all(math.isfinite(one["value"]) for one in made.widget._differences)
    assert made._row._checked() == (
        f"{sum(is_there)} gradients and finite differences agree; of {2 - sum(is_there)} more "
        "there is none that is finite"
    )
    made.close()


def test_a_check_uses_the_random_numbers_of_the_call_and_draws_none():
    made = interact(lambda x: (x * torch.rand(5)).sum(), x=(1.0, 3.0))
    state = torch.get_rng_state()
    grad = made.leaves["x"].grad.item()
    # In double precision the same state gives other numbers, so only the state is compared.
    made.differences()
    assert torch.equal(torch.get_rng_state(), state)
    assert made.leaves["x"].grad.item() == grad
    assert torch.get_default_dtype() is torch.float32
    made.close()


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w * torch.rand(()),
        lambda w: (w * torch.randn(50)).pow(2).mean(),
        lambda w: torch.dropout((w * torch.ones(20)).tanh(), 0.5, train=True).sum(),
        lambda w: torch.relu(w * torch.randn(5)).sum() * 1e-6,
    ],
)
@pytest.mark.parametrize("value", [0.0, 2.0])
def test_a_function_of_random_numbers_is_right(function, value):
    made = interact(function, w=(-5.0, 5.0))
    made.controls["w"].value = value
    found = made.differences()["w"]
    assert found.agrees, found
    made.close()


def test_a_wrong_gradient_of_random_numbers_is_found():
    wrong = with_backward(torch.mul, lambda grad, w, drawn: (1.05 * grad * drawn, None))
    made = interact(lambda w: wrong.apply(w, torch.rand(())), w=(-5.0, 5.0))
    made.controls["w"].value = 2.0
    assert not made.differences()["w"].agrees
    made.close()


def test_what_cannot_be_checked_is_a_sentence():
    weight = torch.ones(2, 2)
    made = interact(lambda x: (weight @ x).sum(), x=torch.ones(2))
    with pytest.raises(ValueError, match="in double precision it raised"):
        made.differences()
    made.close()


def test_a_function_that_is_another_each_time_is_not_compared():
    factor = torch.tensor(1.0)

    def function(w):
        factor.mul_(1.5)
        return w * factor

    made = interact(function, w=(1.0, 5.0))
    with pytest.raises(ValueError, match="called twice with the same numbers it gave"):
        made.differences()
    made.close()
