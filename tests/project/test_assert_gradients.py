"""``gradwalk.testing.assert_gradients`` in a test suite."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import gradwalk
from gradwalk import GraphWidget, explain_grad
from gradwalk.testing import assert_gradients


class Net(nn.Module):
    def __init__(self, detached=False, times=1.0):
        super().__init__()
        self.body, self.head = nn.Linear(3, 3), nn.Linear(3, 1)
        self.detached, self.times = detached, times

    def forward(self, x):
        hidden = self.body(x)
        return self.head(hidden.detach() if self.detached else hidden) * self.times


def loss_of(model):
    return model(torch.ones(2, 3)).sum()


def grads_of(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def equal(left, right):
    return all(a is b or torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_a_healthy_model_passes_before_and_after_backward():
    model = Net()
    loss = loss_of(model)
    gradwalk.testing.assert_gradients(model, loss)
    assert grads_of(model) == [None] * 4
    loss.backward()  # nothing was freed
    after = grads_of(model)
    assert_gradients(model, loss)
    assert equal(after, grads_of(model))


def test_a_gradient_of_an_earlier_pass_hides_nothing_and_stays():
    model = Net()
    loss_of(model).backward()
    kept = [p.grad for p in model.parameters()]
    model.detached = True
    with pytest.raises(AssertionError, match=r"^2 of the 4 parameters of Net fail:\n- body\."):
        assert_gradients(model, loss_of(model))
    assert all(p.grad is old for p, old in zip(model.parameters(), kept, strict=True))


def test_after_backward_a_gradient_of_another_loss_does_not_count():
    model = Net()
    loss_of(model).backward()
    model.detached = True
    loss = loss_of(model)
    loss.backward()
    with pytest.raises(AssertionError, match="another loss, a hook or the program set it"):
        assert_gradients(model, loss)


@pytest.mark.parametrize("is_run", [False, True])
def test_a_missing_gradient_fails_with_the_sentence_of_explain_grad(is_run):
    model = Net(detached=True)
    loss = loss_of(model)
    if is_run:
        loss.backward()
    with pytest.raises(AssertionError) as raised:
        assert_gradients(model, loss)
    first, *lines = str(raised.value).splitlines()
    assert first == "2 of the 4 parameters of Net fail:"
    explained = explain_grad(model.body.weight, loss)
    assert lines[0] == f"- body.weight: {explained}"
    assert "body.bias" in lines[1]


@pytest.mark.parametrize("is_run", [False, True])
def test_zeros_fail_unless_they_are_allowed(is_run):
    model = Net(times=0.0)
    loss = loss_of(model)
    if is_run:
        loss.backward()
    with pytest.raises(AssertionError, match="is zero everywhere"):
        assert_gradients(model, loss)
    assert_gradients(model, loss, nonzero=False)


@pytest.mark.parametrize("is_run", [False, True])
def test_nan_fails_unless_it_is_allowed(is_run):
    model = Net()
    loss = (loss_of(model) * 0).sqrt()
    if is_run:
        loss.backward()
    with pytest.raises(AssertionError) as raised:
        assert_gradients(model, loss)
    assert re.search(r"model\.body\.weight\.grad contains .*NaN", str(raised.value))
    if not is_run:
        assert "is born here" in str(raised.value)
    assert_gradients(model, loss, finite=False)


def test_frozen_parameters_are_not_checked_but_one_has_to_be_trainable():
    model = Net(detached=True)
    model.body.requires_grad_(False)
    assert_gradients(model, loss_of(model))
    model.head.requires_grad_(False)
    with pytest.raises(AssertionError, match="no parameter that requires grad"):
        assert_gradients(model, torch.ones(()))


def test_a_loss_without_a_graph_fails():
    model = Net()
    with pytest.raises(AssertionError, match="does not require grad"):
        assert_gradients(model, loss_of(model).detach())


def test_the_pass_of_an_open_widget_is_used():
    model = Net()
    loss = loss_of(model)
    widget = GraphWidget(loss)
    widget.backward()
    runs = widget.state["runs"]
    assert_gradients(model, loss)
    assert widget.state["runs"] == runs
    widget.close()


def test_many_failures_are_counted():
    model = nn.ModuleList([nn.Linear(1, 1) for _ in range(30)])
    loss = model[0](torch.ones(1)).sum()
    with pytest.raises(AssertionError) as raised:
        assert_gradients(model, loss)
    lines = str(raised.value).splitlines()
    assert lines[0] == "58 of the 60 parameters of ModuleList fail:"
    assert len(lines) == 22
    assert lines[-1] == "- and 38 more"


def test_a_wrapper_names_by_its_callers_variables():
    def checked(given, level):
        assert_gradients(given, loss_of(given), stacklevel=level)

    quokka = Net(detached=True)
    with pytest.raises(AssertionError, match=r"given\.body\.weight is not"):
        checked(quokka, 1)
    with pytest.raises(AssertionError, match=r"quokka\.body\.weight is not"):
        checked(quokka, 2)


@pytest.mark.parametrize("given", [("model", torch.ones(())), (nn.Linear(1, 1), 3.0)])
def test_wrong_arguments_get_a_sentence(given):
    with pytest.raises(TypeError, match="Give the model first and then the loss"):
        assert_gradients(*given)
