"""A tensor that `watch` saw used is not said to be unused."""

from __future__ import annotations

import pytest
import torch
from sentences import leaf, short_sentences
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradwalk import explain_grad, watch


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize(
    "around",
    [
        lambda h: checkpoint(lambda each: each[0] * 2, [h], use_reentrant=True),
        lambda h: checkpoint(lambda each: each["h"].exp(), {"h": h}, use_reentrant=True),
        lambda h: checkpoint(lambda x: x * h, torch.ones(3), use_reentrant=True),
    ],
    ids=["list", "dict", "closure"],
)
def test_a_reentrant_checkpoint_ignores_what_is_not_passed_directly(around):
    w, head = leaf(1.0, 2.0, 3.0), leaf(1.0, 1.0, 1.0)
    with watch():
        loss = (around(w * 2) * head).sum()
    loss.backward()
    assert w.grad is None
    text = short_sentences(explain_grad(w, loss))
    assert "checkpoint(use_reentrant=True) used w, or a tensor computed from it, at" in text
    assert "test_explain_used.py:" in text
    assert "use_reentrant=False" in text


def test_one_that_has_a_backward_of_its_own_may_reach_it():
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with watch():
        loss = checkpoint(lambda v, each: v * each[0], v * 1, [w * 2], use_reentrant=True).sum()
    assert "Its own backward pass may reach w" in explain_grad(w, loss)
    loss.backward()
    assert w.grad is not None


def derived(net, order):
    t = torch.linspace(-1, 1, 5)[:, None].requires_grad_()
    with watch():
        u = net(t)
        for _ in range(order):
            (u,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return ((u - 1) ** 2).mean()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Softplus])
def test_what_drops_out_of_a_derivative_was_used(activation, order):
    net = nn.Sequential(nn.Linear(1, 4), activation(), nn.Linear(4, 1))
    loss = derived(net, order)
    loss.backward()
    without = [name for name, each in net.named_parameters() if each.grad is None]
    assert "2.bias" in without
    assert ("2.weight" in without) is (order == 2 and activation in (nn.ReLU, nn.LeakyReLU))
    for name in without:
        text = explain_grad(net.get_parameter(name), loss)
        assert f"net.{name} was used at " in text
        assert f"which does not depend on net.{name}" in text
        assert ("second derivative of" in text) is (activation in (nn.ReLU, nn.LeakyReLU))
        assert ("a term that is only added" in text) is name.endswith("bias")


def test_a_use_that_does_not_lead_to_the_loss_is_told():
    w, x = leaf(1.0), leaf(2.0)
    with watch():
        _kept = w * 3
        loss = x * 2
    text = short_sentences(explain_grad(w, loss))
    assert "It was used at " in text
    assert "`_kept = w * 3`" in text


def a_leaf(w):
    return torch.autograd.Variable((w * 2).data.sum(), requires_grad=True)


def a_scripted_function(w):
    scripted = torch.jit.script(nn.Linear(1, 1))
    return scripted(torch.ones(1) * float(w.detach() > 0)).sum()


def a_loss_without_a_graph(w):
    return torch.jit.script(nn.Linear(1, 1).requires_grad_(False))(torch.ones(1)).sum()


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("forward", [a_leaf, a_scripted_function, a_loss_without_a_graph])
def test_a_watched_run_is_not_to_be_watched_again(forward):
    w = leaf(1.0)
    with watch():
        loss = forward(w)
    assert "ask again" not in explain_grad(w, loss)


def test_a_loss_that_is_a_leaf_is_said_to_be_one():
    w = leaf(1.0)
    loss = a_leaf(w)
    assert "loss is itself a leaf" in short_sentences(explain_grad(w, loss))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_what_may_drop_out_of_a_derivative_is_not_called_unused(activation):
    net, t = nn.Sequential(nn.Linear(1, 4), activation(), nn.Linear(4, 1)), torch.ones(3, 1)
    t.requires_grad_()
    (slope,) = torch.autograd.grad(net(t).sum(), t, create_graph=True)
    loss = ((torch.autograd.grad(slope.sum(), t, create_graph=True)[0] - 1) ** 2).mean()
    loss.backward()
    for each in net.parameters():
        if each.grad is None:
            said = explain_grad(each, loss)
            assert "may drop out of them" in said
            assert "was not computed from" not in said


def test_a_watched_run_says_nothing_of_another_loss():
    w, v = leaf(1.0), leaf(2.0)
    with watch():
        earlier = (w * 2).sum()
    assert "watch() saw" not in explain_grad(w, (v * 3).sum())
    assert "watch() saw" in explain_grad(v, earlier)


@pytest.mark.parametrize("detached", [lambda w: w.detach(), lambda w: torch.tensor(1e9)])
def test_an_unwatched_loss_without_a_graph_was_not_seen(detached):
    w = leaf(1.0)
    with watch():
        _ = (w * 2).sum()
    said = explain_grad(w, detached(w) * 2)
    assert "does not require grad" in said
    assert "watch() saw" not in said
