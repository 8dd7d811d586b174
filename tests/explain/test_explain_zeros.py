"""`explain_grad` of gradients that are zero, cleared or passed on as None by a backward."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from sentences import leaf, short_sentences
from torch import nn

from gradwalk import GraphWidget, explain_grad, watch


def test_cleared_by_zero_grad():
    w = leaf(2.0)
    optimizer = torch.optim.SGD([w], 0.1)
    loss = (w * w).sum()
    loss.backward()
    optimizer.zero_grad()
    assert w.grad is None
    text = short_sentences(explain_grad(w, loss))
    assert "a backward pass has run through the graph of loss" in text
    assert "zero_grad()" in text


@pytest.mark.parametrize("layer", ["linear", "embedding", "scale"])
def test_zeros_of_a_parameter_that_learns_end_with_its_first_step(layer):
    x, w = torch.ones(3, 2), leaf(1.0, 2.0)
    zero = nn.Parameter(torch.zeros(4, 2))
    loss = {
        "linear": lambda: nn.functional.linear(x * w, zero),
        "embedding": lambda: nn.functional.embedding(torch.tensor([1, 3]), zero) * w,
        "scale": lambda: zero * w,
    }[layer]().sum()
    loss.backward(retain_graph=True)
    assert "zero is zero and has a gradient itself" in explain_grad(w, loss)
    zero.grad = None
    assert "first step" not in explain_grad(w, loss)


def test_the_zeros_of_a_leaf_explain_also_where_saved_tensors_are_freed():
    w, zero = leaf(1.0, 2.0), nn.Parameter(torch.zeros(4, 2))
    loss = nn.functional.linear(torch.ones(3, 2) * w, zero).sum()
    loss.backward()
    said = explain_grad(w, loss)
    assert "its other factor (mat2) is zero everywhere now: shape (" in said
    assert said.endswith("so this ends with its first step.")
    with torch.no_grad():
        zero += 1  # as an optimizer's step would: what was multiplied is not known any more
    assert "The reason is unknown" in explain_grad(w, loss)


def test_cleared_where_the_last_operation_saves_nothing():
    w, b = leaf(2.0), leaf(1.0)
    loss = (w * w + b).exp().sum()
    loss.backward()
    b.grad = None
    assert "a backward pass has run" in explain_grad(b, loss)


def test_overwritten_with_zeros_by_zero_grad():
    w = leaf(2.0)
    optimizer = torch.optim.SGD([w], 0.1)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0]
    for text in (explain_grad(w, loss), explain_grad(w)):
        assert "zero_grad(set_to_none=False)" in short_sentences(text)
        assert "lets nothing through" not in text


def test_a_fresh_gradient_of_zeros_was_not_overwritten():
    w = leaf(2.0)
    loss = (w - w).sum()
    loss.backward()
    assert w.grad.tolist() == [0.0]
    text = explain_grad(w, loss)
    assert text.causes == ("zero-unseen",)
    assert "The reason is unknown, because no operation blocks every gradient" in text
    assert "zero_grad" not in text
    w.grad = None
    with contextlib.closing(GraphWidget(loss)) as widget:
        widget.backward()
        assert "became zero where the contributions to" in explain_grad(w, widget)


def recorded(outputs, gradient=None):
    widget = GraphWidget(outputs)
    widget.backward(gradient=gradient)
    return contextlib.closing(widget)


def test_zeros_that_a_pass_started_from():
    w = leaf(2.0, 3.0)
    with recorded([w * w], [torch.zeros(2)]) as widget:
        assert explain_grad(w, widget).causes == ("zero-from-the-start",)


def test_zeros_from_before_a_pass():
    w = leaf(2.0, 3.0)
    w.grad = torch.zeros(2)
    with recorded((w * w).sum()) as widget:
        assert explain_grad(w, widget).kind == "recorded"
        widget.cursor = 0
        assert explain_grad(w, widget).causes == ("zero-before-step",)


def test_zeros_that_a_pass_did_not_make():
    w, x = leaf(2.0), leaf(3.0)
    loss = w * 2 + x
    with recorded([w * 2 + x, x]) as widget:
        w.grad = torch.zeros(1)
        assert explain_grad(w, widget).causes == ("zero-overwritten",)
    w.grad = torch.zeros(1)
    with contextlib.closing(GraphWidget(loss)) as widget:
        torch.autograd.grad(loss, x)
        assert explain_grad(w, widget).causes == ("zero-not-by-pass",)


def test_slopes_of_zero_are_counted_where_saved_tensors_are_freed():
    w = leaf(-1.0, 2.0, 7.0, 3.0)
    loss = (w.clamp(0, 6) * torch.tensor([1.0, 0.0, 1.0, 0.0])).sum()
    with contextlib.closing(GraphWidget(loss)) as widget:
        loss.backward()
        assert not w.grad.any()
        text = explain_grad(w, widget)
        assert "became zero at ClampBackward1" in text
        assert "its derivative was 0 at all 2 elements that received a gradient" in text
        (finding,) = [each for each in widget.diagnose() if each.kind == "zero"]
        assert "its derivative was 0 at all 2 elements that received a gradient." in finding.message


def test_tiny_gradients_are_not_called_slopes_of_zero():
    w = torch.tensor([1.0, 1.0], requires_grad=True)
    loss = (torch.maximum(w, torch.ones(2)) * torch.tensor(2**-149)).sum()
    with contextlib.closing(GraphWidget(loss)) as widget:
        loss.backward()
        assert not w.grad.any(), "half of the smallest number is zero"
        assert "its derivative was 0" not in explain_grad(w, widget)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda w: w.clamp(min=9), "outside of its range from 9: 3 elements)"),
        (lambda w: torch.clamp(w, max=torch.tensor([0.0, 0.0, 1.0])), "range: 3 elements)"),
        (lambda w: torch.maximum(w, torch.tensor([9.0])), "takes nothing of self: 3 elements)"),
        (lambda w: torch.prod(w * 0), "its derivative is zero for the values that it has"),
        (lambda w: torch.lerp(w, torch.zeros(3), 1.0), "with respect to self is zero"),
        (lambda w: torch.copysign(torch.ones(3), w), "with respect to other is zero for all"),
        (lambda w: F.hardtanh(w - 3, -1, 0), "from -1 to 0: 3 elements, 2 of them at a bound)"),
    ],
)
def test_how_many_elements_lie_where(forward, words):
    w = leaf(1.0, 2.0, 3.0)
    loss = forward(w).sum()
    loss.backward(retain_graph=True)
    assert not w.grad.any(), "torch says zero"
    assert words in explain_grad(w, loss)


ONES, ZEROS = torch.ones(2), torch.zeros(2)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda w: (w - 5).relu(), "nowhere above 0"),
        (lambda w: nn.functional.threshold(w, 9.0, 0.0), "threshold, 9"),
        (lambda w: w.clamp(5, 6), "range from 5 to 6"),
        (lambda w: w.clamp(min=5), "range from 5"),
        (lambda w: nn.functional.hardtanh(w * 10), "range from -1 to 1"),
        (lambda w: (w * 1000).sigmoid(), "saturated"),
        (lambda w: (w * 1000).tanh(), "saturated"),
        (lambda w: w * ZEROS, "zero everywhere"),
        (lambda w: ZEROS * w, "zero everywhere"),
        (lambda w: w.masked_fill(ONES > 0, 1.0), "mask covers everything"),
        (lambda w: torch.where(ONES > 0, ONES, w), "condition selects nothing"),
        (lambda w: w.round(), "RoundBackward0"),
        (lambda w: nn.functional.linear(torch.zeros(3, 2), w[None]), "zero everywhere"),
        (lambda w: nn.functional.dropout(w, 1.0), "zero everywhere"),
    ],
)
def test_zero_everywhere(forward, words):
    w = leaf(1.0, 2.0)
    with watch():
        loss = forward(w).sum()
    loss.backward(retain_graph=True)
    assert not w.grad.any(), "torch says zero"
    text = short_sentences(explain_grad(w, loss))
    assert "w.grad is zero everywhere, and loss adds nothing to it: " in text
    assert words in text
    assert "test_explain_zeros.py:" in text


@pytest.mark.parametrize(
    "forward",
    [
        lambda w: (w - 1.5).relu(),
        lambda w: w.clamp(1.5, 6),
        lambda w: w.masked_fill(torch.tensor([True, False]), 1.0),
        lambda w: torch.where(torch.tensor([True, False]), w, ZEROS),
        lambda w: w * ZEROS + w,
        lambda w: (w - 5).relu() + w.tanh(),
    ],
)
def test_what_does_let_a_gradient_through_is_not_blamed(forward):
    w = leaf(1.0, 2.0)
    loss = forward(w).sum()
    loss.backward(retain_graph=True)
    assert w.grad.any(), "torch says not zero"
    assert "holds a gradient" in explain_grad(w, loss)
    w.grad = torch.zeros(2)
    assert "lets nothing through" not in explain_grad(w, loss)


def test_two_operations_block_two_ways():
    w = leaf(1.0, 2.0)
    loss = ((w - 5).relu() + w * ZEROS).sum()
    loss.backward(retain_graph=True)
    assert not w.grad.any()
    text = explain_grad(w, loss)
    assert "nowhere above 0" in text
    assert "MulBackward0" in text


def test_what_backward_freed_is_not_guessed():
    w = leaf(1.0, 2.0)
    loss = (w - 5).relu().sum()
    loss.backward()
    text = short_sentences(explain_grad(w, loss))
    assert "w.grad is zero everywhere" in text
    assert "retain_graph=True" in text


def test_zeros_from_elsewhere():
    w, x = leaf(1.0), leaf(2.0)
    w.grad = torch.zeros(1)
    text = short_sentences(explain_grad(w, x * 2))
    assert "not part of the graph" in text


class ToNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return None


class ToZeros(ToNone):
    @staticmethod
    def backward(ctx, grad):
        return grad * 0


def test_what_a_custom_function_passed_is_considered():
    w = torch.ones(3, requires_grad=True)
    loss = ToNone.apply(w).sum()
    loss.backward()
    assert "or the backward of ToNoneBackward returned None" in explain_grad(w, loss)
    loss = ToZeros.apply(w).sum()
    loss.backward()
    assert "or the backward of ToZerosBackward returned zeros" in explain_grad(w, loss)
