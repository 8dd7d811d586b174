"""A reason that is given is the reason, also of values that came by odd ways."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from sentences import leaf

from gradwalk import diagnose, explain_grad, watch


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_what_went_in_before_it_required_grad_is_a_constant(watched, shape):
    w, x = torch.ones(shape), torch.ones(shape, requires_grad=True)
    with watch() if watched else contextlib.nullcontext():
        loss = (x * w).sum()
    w.requires_grad_()
    loss.backward()
    assert w.grad is None
    text = explain_grad(w, loss)
    if watched:
        assert "went into MulBackward0" in text
        assert "w.requires_grad_() before the forward pass" in text
    assert "was not computed from it, and" not in text


def test_a_copy_that_is_learned_instead_is_named():
    net = torch.nn.Linear(3, 2)
    for learned in (
        copy.deepcopy(net),
        {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()},
    ):
        given = learned if isinstance(learned, dict) else dict(learned.named_parameters())
        with watch():
            loss = torch.func.functional_call(net, given, (torch.ones(1, 3),)).sum()
        loss.backward()
        assert net.weight.grad is None
        text = explain_grad(net.weight, loss)
        assert "holds the same numbers: if it is a copy of net.weight" in text
        with torch.no_grad():
            given["weight"].add_(1)
        assert "the same numbers" not in explain_grad(net.weight, loss)


@pytest.mark.parametrize("create_graph", [True, False])
def test_a_derivative_without_its_graph_is_a_cut(create_graph):
    w, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with watch():
        (g,) = torch.autograd.grad((w * x).pow(2).sum(), x, create_graph=create_graph)
        loss = (g * x).sum()
    loss.backward()
    text = explain_grad(w, loss)
    assert (w.grad is not None) is create_graph
    assert ("Pass create_graph=True" in text) is not create_graph


def test_what_a_function_uses_beside_its_inputs_ends_there():
    w, x = leaf(1.0, 2.0), torch.ones(2)

    class Uses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            return given * w

        @staticmethod
        def backward(ctx, grad):
            return grad

    head = leaf(1.0, 1.0)
    with watch():
        loss = (Uses.apply(x) * head).sum()
    loss.backward()
    assert w.grad is None
    text = explain_grad(w, loss)
    assert "used in the forward of an autograd.Function at " in text
    assert "saw no path" not in text


@pytest.mark.parametrize("inplace", [torch.nn.ReLU, torch.nn.Dropout, torch.nn.LeakyReLU])
def test_an_activation_that_works_in_place_is_named(inplace):
    w = leaf(1.0, 2.0)
    with watch():
        h = torch.sigmoid(w)
        loss = inplace(inplace=True)(h).sum()
    found = [each.message for each in diagnose(loss) if each.kind == "changed"]
    assert len(found) == 1
    assert "in place by" in found[0]
    assert "inplace(inplace=True)(h)" in found[0]


def test_the_sign_of_complex_numbers_lets_gradients_through():
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    loss = torch.sgn(z).real.sum()
    loss.backward(retain_graph=True)
    assert z.grad.any(), "torch's own"
    z.grad.zero_()
    assert "SgnBackward0" not in explain_grad(z, loss)
