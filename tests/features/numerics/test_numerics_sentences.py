"""What `compare_numerics` says in words, on pairs of programs that would make it false."""

from __future__ import annotations

import contextlib
import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradwalk import compare_numerics, record, save, watch

pytestmark = pytest.mark.one_python

DOUBLE, SINGLE, HALF = torch.float64, torch.float32, torch.bfloat16


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def order(count, is_other):
    generator = torch.Generator().manual_seed(3)
    return torch.randperm(count, generator=generator) if is_other else torch.arange(count)


def dropout(is_other):
    torch.manual_seed(is_other)
    x = drawn(64).requires_grad_()
    return (F.dropout(x.sin(), 0.5) * 2).exp().sum()


def dropout_in_a_transformer(is_other):
    torch.manual_seed(0)
    net = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
    torch.manual_seed(is_other + 5)
    return net(drawn(2, 5, 16)).pow(2).sum()


def dropout_between_layers_of_an_lstm(is_other):
    torch.manual_seed(0)
    net = nn.LSTM(4, 5, num_layers=2, dropout=0.5)
    torch.manual_seed(is_other + 5)
    return net(drawn(3, 2, 4))[0].pow(2).sum()


def noise_in_a_rrelu(is_other):
    torch.manual_seed(is_other)
    return F.rrelu(drawn(32).requires_grad_() * 1.0, training=True).exp().sum()


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        dropout,
        dropout_in_a_transformer,
        dropout_between_layers_of_an_lstm,
        noise_in_a_rrelu,
    ],
)
def test_random_numbers_that_differ_are_told(program, is_watched):
    with watch() if is_watched else contextlib.nullcontext():
        losses = [program(is_other) for is_other in (0, 1)]
    found = compare_numerics(*losses)
    assert re.search("random numbers.* differ between the two", str(found)), str(found)
    same = compare_numerics(program(0), program(0))
    assert same.first is None
    assert "random" not in str(same)


def scaled(is_other):
    return drawn(6).requires_grad_().sin().sum() * (1024.0 if is_other else 1.0)


def in_place(is_other):
    y = drawn(8).requires_grad_().exp() * 1
    y.mul_(1.01 if is_other else 1.0).add_(1)
    return y.log().sum()


def one_part_of_several(is_other):
    q, r = torch.linalg.qr(drawn(4, 4).requires_grad_() * 1.0)
    return q.sum() + (r * (1.01 if is_other else 1.0)).sum()


def tied_weights(is_other):
    w = drawn(4, 4).requires_grad_()
    h = (drawn(3, 4) @ w).tanh() * (1.001 if is_other else 1.0)
    return (h @ w.T).pow(2).sum()


def complex_numbers(is_other):
    x = drawn(4).requires_grad_()
    return (torch.complex(x, x * (2.001 if is_other else 2.0)) ** 2).abs().sum()


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (scaled, "other is 1 in a, and 1024 in b"),
        (in_place, "other is 1 in a, and 1.01 in b"),
        (one_part_of_several, "other is 1 in a, and 1.01 in b"),
        (tied_weights, "other is 1 in a, and 1.001 in b"),
        (complex_numbers, "other is 2 in a, and 2.001 in b"),
    ],
)
def test_a_number_that_differs_is_told_at_the_operation_that_takes_it(program, words, is_watched):
    with watch() if is_watched else contextlib.nullcontext():
        losses = [program(is_other) for is_other in (False, True)]
    for turned in (False, True):
        found = compare_numerics(*(reversed(losses) if turned else losses))
        expected = words
        if turned:
            one, other = re.findall(r"[\d.]+(?= in)", words)
            expected = f"other is {other} in a, and {one} in b"
        assert expected in str(found), str(found)


def test_permuted_data_is_other_data_and_no_operations_error():
    def step(is_other):
        x = drawn(1000)[order(1000, is_other)].requires_grad_()
        return x.exp().sum().log()

    found = compare_numerics(step(False), step(True))
    assert (found.first.op, found.first.leaves) == ("AccumulateGrad", "value")
    assert "It is a leaf: the two runs started from different numbers" in str(found)


@pytest.mark.parametrize(
    "summed",
    [
        (lambda y: y.sum(1).sum(), lambda y: y.sum(0).sum()),
        (lambda y: y.flatten()[order(90_000, False)].sum(),) * 2,
        (
            lambda y: y.flatten()[order(90_000, False)].sum(),
            lambda y: y.flatten()[order(90_000, True)].sum(),
        ),
    ],
)
def test_another_order_of_a_sum_is_no_error(summed):
    found = compare_numerics(*(each(drawn(300, 300).requires_grad_().exp()) for each in summed))
    assert found.first is None, str(found)
    assert str(found).startswith("The two agree: ")


class MayGiveNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, gives_none):
        ctx.gives_none = gives_none
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, None if ctx.gives_none else grad, None


class TestGradientsInOneAlone:
    @pytest.mark.parametrize("is_saved", [False, True])
    @pytest.mark.parametrize("which", [0, 1])
    @pytest.mark.parametrize("work", [torch.exp, torch.clone, lambda y: y])
    def test_one_that_does_not_arrive_parts(self, work, which, is_saved, tmp_path):
        def step(gives_none):
            x, y = drawn(4).requires_grad_(), drawn(4, seed=2).requires_grad_()
            return MayGiveNone.apply(x.sin(), work(y), gives_none).pow(2).sum()

        sides = [step(side == which) for side in (0, 1)]
        if is_saved:
            sides = [save(record(each), tmp_path / f"{i}.gw") for i, each in enumerate(sides)]
        found = compare_numerics(*sides)
        assert found.first is not None
        assert found.first.leaves == "gradient"
        assert found.first.numbers[which] == 0
        assert found.first.grad_error == (math.inf if which == 0 else 1)
        assert f"Only in {'ba'[which]}, " in str(found)

    def test_zeros_and_none_agree_and_are_told(self):
        def step(gives_none):
            x, y = drawn(4).requires_grad_(), drawn(4, seed=2).requires_grad_()
            return (MayGiveNone.apply(x, y, gives_none) * 0).sum()

        found = compare_numerics(step(False), step(True))
        assert found.first is None
        assert "Only in a, 1 node got a gradient" in str(found)

    def test_what_one_alone_has_makes_the_two_agree_only_so_far(self):
        def step(is_cut):
            x, y = drawn(4).requires_grad_(), drawn(4, seed=2).requires_grad_()
            return (x.sin() + (y.detach() if is_cut else y)).pow(2).sum()

        found = compare_numerics(step(False), step(True))
        assert str(found).startswith("The two agree as far as they could be compared: ")
        assert "1 node of a could not be aligned" in str(found)


def test_other_shapes_are_told_as_that():
    def step(is_other):
        x = drawn(4, 5).requires_grad_()
        bias = drawn(5, seed=3)
        bias = (bias if is_other else bias.expand(4, 5).clone()).requires_grad_()
        return (x * bias).exp().sum()

    found = compare_numerics(step(False), step(True))
    assert str(found).startswith("The two agree as far as they could be compared: ")
    assert "1 node with different shapes could not be compared" in str(found)
    assert "no number is known" not in str(found)


@pytest.mark.parametrize("zero_in", [0, 1])
def test_zero_gradients(zero_in):
    def step(side):
        x = drawn(6).requires_grad_()
        h = x.sin()
        h.register_hook(lambda grad: grad * (side != zero_in))
        return h.exp().sum()

    found = compare_numerics(step(0), step(1))
    assert (found.first.op, found.first.leaves) == ("SinBackward0", "gradient")
    assert found.first.grad_error == (math.inf if zero_in == 0 else 1)
