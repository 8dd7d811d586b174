"""What stands for a tensor in the graph of a loss: an alias of its memory, or a copy of it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from gradwalk import explain_grad, watch
from gradwalk.torch_api.reading import overlap


def gets_none(tensor, loss):
    """torch's own word."""
    grads = torch.autograd.grad(loss.sum(), tensor, retain_graph=True, allow_unused=True)
    return grads == (None,)


def test_an_alias_that_went_in_before_any_node_is_told():
    w, scale = torch.randn(3, requires_grad=True), torch.ones(1, requires_grad=True)
    alias = w.detach()
    with watch():
        hidden = (alias * 2).exp()
        loss = (hidden * scale).sum()
    assert gets_none(w, loss)
    text = explain_grad(w, loss)
    assert "`hidden = (alias * 2).exp()`" in text
    assert "shares the memory of w" in text
    assert "inferred" in text


def test_a_loss_that_needs_no_grad_tells_of_its_aliases_too():
    w = torch.randn(3, requires_grad=True)
    alias = w.detach()
    with watch():
        loss = alias.sum() * 2
    text = explain_grad(w, loss)
    assert "`loss = alias.sum() * 2`" in text
    assert "shares the memory of w" in text


def test_parameters_of_functional_call_that_were_detached():
    net, head = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Linear(3, 1)
    params = {name: p.detach() for name, p in net.named_parameters()}
    x = torch.randn(2, 3)
    with watch():
        loss = head(torch.func.functional_call(net, params, (x,))).sum()
    assert gets_none(net[0].weight, loss)
    assert "shares the memory of 0.weight" in explain_grad(net, loss)


def test_neighbours_in_one_memory_are_no_aliases():
    memory = torch.randn(6)
    first, second = memory[:3].requires_grad_(), memory[3:]
    w = torch.ones(3, requires_grad=True)
    assert not overlap(first, second)
    assert overlap(first, memory)
    with watch():
        loss = (second.exp() * w).sum()
    assert gets_none(first, loss)
    assert "watch() saw no path from first to loss" in explain_grad(first, loss)
    with watch():
        loss = (memory.exp()[:3] * w).sum()
    assert "shares the memory of first" in explain_grad(first, loss)


@pytest.mark.parametrize("watched", [True, False])
def test_a_leaf_in_the_same_memory(watched):
    w = nn.Parameter(torch.randn(3))
    other = nn.Parameter(w.data)
    if watched:
        with watch():
            loss = (other * 2).sum()
    else:
        loss = (other * 2).sum()
    assert gets_none(w, loss)
    text = explain_grad(w, loss)
    assert "AccumulateGrad of other (node 2) of this graph is another tensor in the memory" in text


def test_a_copy_that_was_changed_since():
    net = nn.Linear(8, 4)
    inner = copy.deepcopy(net)
    with torch.no_grad():
        inner.weight += 0.01 * torch.randn(4, 8)
    loss = inner(torch.randn(2, 8)).sum()
    assert gets_none(net.weight, loss)
    text = explain_grad(net.weight, loss)
    apart = (inner.weight - net.weight).norm() / (net.weight - net.weight.mean()).norm()
    assert f"holds nearly the same numbers (the norm of the difference is {apart:.2g} times" in text
    assert "likely" in text


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: nn.Linear(8, 4).weight, id="of another start"),
        pytest.param(lambda: nn.Parameter(torch.ones(4, 8)), id="ones"),
    ],
)
def test_what_is_not_near_is_no_copy(other):
    w, v = other(), other()
    loss = (v * 2).sum()
    if not torch.equal(w, v):
        assert "same numbers" not in explain_grad(w, loss)
    assert "likely" not in explain_grad(w, loss)


def test_numbers_read_in_parts_are_as_near_as_in_one(monkeypatch):
    from gradwalk.explain import not_in_graph  # noqa: PLC0415

    w = nn.Parameter(torch.randn(7, 5))
    v = nn.Parameter(w.detach() + 0.01)
    whole = not_in_graph._apart(v, w)
    monkeypatch.setattr(not_in_graph, "PART", 10)
    assert not_in_graph._apart(v, w) == pytest.approx(whole)


def test_a_parameter_made_in_a_way_that_is_not_seen_is_not_denied():
    w = nn.Parameter(torch.randn(3))

    def loss_of():
        with watch():
            fast = nn.Parameter(w * 5)
            return (fast * 2).sum()

    text = explain_grad(w, loss_of())
    assert "the reason is unknown" in text
    assert "how AccumulateGrad (node 2) was made" in text
