"""`check`: wrong backwards are found, right ones are not, as torch's gradcheck has it."""

from __future__ import annotations

import pytest
import torch
from own_functions import elementwise
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, check
from gradwalk.features.experiments.check import MOST_ENTRIES


def made(backward, forward=None, save=None):
    """A Function of x, w and a number: (x * w) ** 2 * scale, with some backward."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, scale):
            ctx.save_for_backward(*(save(x, w) if save else (x, w)))
            ctx.scale = scale
            return forward(x, w, scale) if forward else (x * w) ** 2 * scale

    Made.backward = staticmethod(backward)
    return Made


def right(ctx, grad):
    x, w = ctx.saved_tensors
    down = grad * 2 * x * w * ctx.scale
    return (
        down * w if ctx.needs_input_grad[0] else None,
        down * x if ctx.needs_input_grad[1] else None,
        None,
    )


def wrong_sign(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    return dx, -dw, None


def one_entry(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    dx = dx.clone()
    dx.view(-1)[-1] *= 1.01
    return dx, dw, None


def no_gradient(ctx, grad):
    return right(ctx, grad)[0], None, None


def missing_none(ctx, grad):
    return right(ctx, grad)[:2]


def wrong_shape(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    return dx.flatten()[:1].expand(7), dw, None


def summed(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    return dx.sum().reshape(1).expand(dx.shape), dw, None


def in_place(ctx, grad):
    x, w = ctx.saved_tensors
    down = grad * 2 * w * ctx.scale * x
    result = down * w, down * x, None
    x.mul_(2)
    return result


def in_place_unseen(ctx, grad):
    x, w = ctx.saved_tensors
    down = grad * 2 * w * ctx.scale * x
    result = down * w, down * x, None
    x.data.mul_(2)
    return result


def ignores_grad(ctx, grad):
    return right(ctx, torch.ones_like(grad))


FAULTS = [
    wrong_sign,
    one_entry,
    no_gradient,
    missing_none,
    wrong_shape,
    summed,
    in_place,
    in_place_unseen,
    ignores_grad,
]


def inputs(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    x, w = (torch.rand(2, 3, generator=generator, dtype=dtype) + 0.5 for _ in range(2))
    return x.requires_grad_(), w.requires_grad_()


@pytest.mark.parametrize("backward", FAULTS)
def test_planted_faults_are_found(backward):
    function = made(backward)
    x, w = inputs()
    state = torch.get_rng_state()
    y = function.apply(x, w, 3.0)  # torch up to 2.12 frees the node along with it
    found = check(y.grad_fn)
    assert not found.agrees
    assert "Made.backward is wrong" in found.sentence
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad is None
    assert torch.get_default_dtype() == torch.float32
    if backward not in (in_place, in_place_unseen):  # gradcheck calls it once for each
        with pytest.raises((RuntimeError, AssertionError)):
            torch.autograd.gradcheck(lambda a, b: function.apply(a, b, 3.0), inputs(torch.float64))


def test_the_entry_that_is_wrong_is_told():
    x, w = inputs()
    found = check(made(one_entry).apply(x, w, 3.0))
    (entry,) = found.wrong
    assert (entry.output.nr, entry.by.nr, entry.by.name) == (0, 0, "x")
    assert entry.by.index == entry.output.index == (1, 2)
    true = (2 * x * w * w * 3)[1, 2].item()
    assert entry.difference == pytest.approx(true, rel=1e-5)
    assert entry.gradient == pytest.approx(1.01 * true, rel=1e-5)
    assert "x[1, 2]" in found.sentence
    signs = check(made(wrong_sign).apply(x, w, 3.0))
    assert {entry.by.name for entry in signs.wrong} == {"w"}
    assert len(signs.wrong) == 6
    for entry in signs.wrong:
        assert entry.gradient == pytest.approx(-entry.difference, rel=1e-5)
    raised = check(made(missing_none).apply(x, w, 3.0)).sentence
    assert "incorrect number of gradients" in raised
    assert "in place" in check(made(in_place).apply(x, w, 3.0)).sentence
    assert "in place" in check(made(in_place_unseen).apply(x, w, 3.0)).sentence


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_right_one_agrees(dtype):
    x, w = inputs(dtype)
    for y, arguments in (
        (made(right).apply(x, w, 3.0), ()),
        (made(right).apply(x * 2, w.exp(), 3.0), ()),  # no leaves
        (made(right).apply(x, w.detach(), 3.0), (x, w, 3.0)),
        (made(once_differentiable(right)).apply(x, w, 3.0), ()),
    ):
        found = check(y)
        assert found.agrees, found
        assert found.wrong == ()
        assert check(y.grad_fn, *arguments) == found
    assert x.grad is None


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(x, shift):
        return x.sin() + shift, x.sum(), x.argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.shift = inputs[1]
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, grad, grad_sum, _):
        (x,) = ctx.saved_tensors
        return grad * x.cos() + 2 * grad_sum, None


def test_the_output_is_told_apart():
    x = torch.rand(3, requires_grad=True)
    found = check(TwoOutputs.apply(x, 1)[0])
    assert {entry.output.nr for entry in found.wrong} == {1}
    assert found.wrong[0].output.index == ()
    assert found.wrong[0].gradient == pytest.approx(2)
    assert found.wrong[0].difference == pytest.approx(1)


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        keep = torch.rand_like(x) > 0.5
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return grad * keep


def test_random_numbers_are_the_same_each_time():
    x = torch.rand(20, requires_grad=True)
    assert check(Masked.apply(x)).agrees  # a leaf is known although it was not saved
    y = Masked.apply(x * 2)
    with pytest.raises(ValueError, match="did not save x"):
        check(y)
    assert check(y, x * 2).agrees


class Clipped(torch.autograd.Function):
    """Saves an argument without grad, or something it made instead of it."""

    saves_mask = False

    @staticmethod
    def forward(ctx, x, limit):
        mask = x.abs() < limit
        ctx.save_for_backward(x, mask if Clipped.saves_mask else limit)
        return x.clamp(-limit.abs(), limit.abs())

    @staticmethod
    def backward(ctx, grad):
        x, other = ctx.saved_tensors
        return grad * (other if Clipped.saves_mask else x.abs() < other), None


def test_what_is_guessed_is_true_of_the_output():
    x, limit = torch.randn(5, requires_grad=True), torch.full((5,), 0.7)
    Clipped.saves_mask = False
    y = Clipped.apply(x, limit)
    assert check(y).agrees
    with pytest.raises(ValueError, match="did not save limit"):
        check(y.grad_fn)  # nothing says what it gave
    Clipped.saves_mask = True
    y = Clipped.apply(x, limit)
    with pytest.raises(ValueError, match="did not save limit"):
        check(y)
    assert check(y.grad_fn, x, limit).agrees


def test_one_click_in_the_panel():
    x, w = inputs()
    y = made(wrong_sign).apply(x, w, 3.0)
    widget = GraphWidget(y.sum())
    node = next(n["id"] for n in widget.model["nodes"] if n["op"] == "MadeBackward")
    widget.selected = node
    assert "def wrong_sign" in widget.details["function"]["code"]
    widget._handle({"kind": "check", "node": node})
    assert widget._checked == {
        "node": node,
        "agrees": False,
        "sentence": check(y).sentence,
    }
    other = next(n["id"] for n in widget.model["nodes"] if n["op"] == "SumBackward0")
    widget._handle({"kind": "check", "node": other})
    assert "not a node of a custom" in widget._checked["sentence"]
    assert x.grad is None
    widget.close()
    assert widget._checked is None


class Counts(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counts.calls += 1
        return x * Counts.calls

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_what_cannot_be_checked_is_a_sentence():
    x = torch.rand(3, requires_grad=True)
    for given in (x, x.sin(), x.sin().grad_fn, 3, checkpoint(torch.sin, x, use_reentrant=True)):
        with pytest.raises(TypeError, match="not a node of a custom"):
            check(given)
    with pytest.raises(ValueError, match="two different outputs"):
        check(Counts.apply(x))
    with pytest.raises(ValueError, match="bfloat16"):
        check(elementwise(lambda x: x.bfloat16() * 2, lambda _: 2).apply(x))
    y = made(right).apply(x, x * 1, 3.0)
    y.sum().backward()
    with pytest.raises(ValueError, match="Freed by the last backward"):
        check(y)
    assert check(y, x, x, 3.0).agrees
    with pytest.raises(ValueError, match="called with 3"):
        check(y, x)
    positive = elementwise(lambda x: x.sqrt() if x.min() >= 0 else 1 / 0, lambda x: 0.5 / x.sqrt())
    with pytest.raises(ValueError, match="forward raised ZeroDivisionError"):  # a step left of 0
        check(positive.apply(torch.zeros(1, requires_grad=True)))
    packed = checkpoint(lambda a: made(right).apply(a, a, 2.0), x * 1, use_reentrant=False)
    with pytest.raises(ValueError, match="left packed"):
        check(packed)
    raised = []
    x.register_hook(raised.append)
    check(made(right).apply(x, x, 3.0))
    assert raised == []


@pytest.mark.parametrize("size", [1, 1_000, 10_000])
def test_of_large_inputs_some_numbers_are_tried(size):
    calls = []

    def forward(x, w, scale):
        calls.append(1)
        return (x * w) ** 2 * scale

    x, w = (torch.rand(size, requires_grad=True) for _ in range(2))
    found = check(made(right, forward).apply(x, w, 1.0))
    assert found.agrees
    tried = 2 * min(size, MOST_ENTRIES)
    few = f"{tried:,} of {2 * size:,} numbers" if tried < 2 * size else f"{tried:,} numbers"
    assert few in found.sentence
    assert len(calls) < 100 + 10 * tried
