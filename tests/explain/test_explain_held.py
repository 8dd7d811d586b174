"""`explain_grad` of a gradient that is there: nothing writes down which loss it is of."""

from __future__ import annotations

import contextlib

import pytest
import torch
from processes import together
from sentences import leaf, short_sentences
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradwalk import explain_grad, watch


def another_pass():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    return x, (x * x).sum()


def another_pass_and_a_loss_that_saves_nothing():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    return x, x.sum()


def another_pass_that_freed_a_part():
    x = leaf(2.0, 3.0)
    h = x * x
    h.sum().backward()
    return x, h.exp().sum()


def its_own_pass():
    x = leaf(2.0, 3.0)
    loss = (x * x).sum()
    loss.backward()
    return x, loss


def its_own_pass_that_retained():
    x = leaf(2.0, 3.0)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    return x, loss


def its_own_pass_past_what_saves_nothing():
    x = leaf(2.0, 3.0)
    loss = (x + 1 - x * 3).exp().sum()
    loss.backward()
    return x, loss


def two_losses():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    loss = (x * x).sum()
    loss.backward()
    return x, loss


def by_hand():
    x = leaf(2.0, 3.0)
    x.grad = torch.ones(2)
    return x, (x * x).sum()


def by_hand_of_what_is_not_in_the_graph():
    x = leaf(2.0, 3.0)
    x.grad = torch.ones(2)
    return x, leaf(1.0).exp()


def by_hand_of_what_needs_no_grad():
    x = torch.ones(2)
    x.grad = torch.ones(2)
    return x, (leaf(1.0) * x).sum()


def only_asked_for():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    loss = (x * x).sum()
    torch.autograd.grad(loss, x)
    return x, loss


def only_for_another_input():
    x, y = leaf(2.0, 3.0), leaf(1.0, 1.0)
    x.exp().sum().backward()
    loss = (x * y).sum()
    loss.backward(inputs=[y])
    return x, loss


def clipped():
    x = leaf(2.0, 3.0)
    loss = (x * x).sum()
    loss.backward()
    nn.utils.clip_grad_norm_([x], 0.1)
    return x, loss


def after_a_step():
    x = leaf(2.0, 3.0)
    loss = (x * x).sum()
    loss.backward()
    torch.optim.SGD([x], 0.1).step()
    return x, (x * x).sum()


def by_a_hook_of_another_leaf():
    x, y = leaf(2.0, 3.0), leaf(1.0, 1.0)
    y.register_post_accumulate_grad_hook(lambda at: setattr(x, "grad", at.grad.clone()))
    loss = (y * y).sum()
    loss.backward()
    return x, loss


def frozen_since():
    x = leaf(2.0, 3.0)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    return x.requires_grad_(False), loss


def of_no_leaf():
    h = leaf(2.0, 3.0) * 2
    h.retain_grad()
    h.exp().sum().backward(retain_graph=True)
    return h, (h * h).sum()


def of_what_was_changed_in_place():
    h = leaf(2.0, 3.0) * 2
    h.retain_grad()
    loss = h.sum()
    loss.backward(retain_graph=True)
    h.add_(1)
    return h, loss


def of_what_was_detached_in_place():
    h = leaf(2.0, 3.0) * 2
    h.retain_grad()
    loss = h.sum()
    loss.backward(retain_graph=True)
    return h.detach_(), loss


def sparse():
    table = nn.Embedding(4, 2, sparse=True).weight
    loss = nn.functional.embedding(torch.tensor([1]), table, sparse=True).sum()
    loss.backward()
    return table, loss


def not_a_number():
    x = leaf(0.0, 3.0)
    (x * torch.inf).sqrt().sum().backward()
    return x, (x * x).sum()


def not_a_number_of_another_graph():
    x = leaf(0.0, 3.0)
    (x * torch.inf).sqrt().sum().backward()
    return x, leaf(1.0).exp()


def zeros_of_zero_grad():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    torch.optim.SGD([x], 0.1).zero_grad(set_to_none=False)
    return x, (x - 9).relu().sum()


def zeros_of_zero_grad_where_nothing_blocks():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    torch.optim.SGD([x], 0.1, foreach=True).zero_grad(set_to_none=False)
    return x, (x * x).sum()


def zeros_of_data():
    x = leaf(2.0, 3.0)
    x.exp().sum().backward()
    x.grad.data.zero_()
    return x, (x * x).sum()


def zeros_of_another_graph():
    x = leaf(2.0, 3.0)
    (x - 9).relu().sum().backward()
    return x, leaf(1.0).exp()


PROGRAMS = [
    another_pass,
    another_pass_and_a_loss_that_saves_nothing,
    another_pass_that_freed_a_part,
    its_own_pass,
    its_own_pass_that_retained,
    its_own_pass_past_what_saves_nothing,
    two_losses,
    by_hand,
    by_hand_of_what_is_not_in_the_graph,
    by_hand_of_what_needs_no_grad,
    only_asked_for,
    only_for_another_input,
    clipped,
    after_a_step,
    by_a_hook_of_another_leaf,
    frozen_since,
    of_no_leaf,
    of_what_was_changed_in_place,
    of_what_was_detached_in_place,
    sparse,
    not_a_number,
    not_a_number_of_another_graph,
    zeros_of_zero_grad,
    zeros_of_zero_grad_where_nothing_blocks,
    zeros_of_data,
    zeros_of_another_graph,
]


def by_torch(x, loss):
    """What torch computes anew; "freed" where a pass has been there, None where nothing comes."""
    try:
        return torch.autograd.grad(loss, x, retain_graph=True, allow_unused=True)[0]
    except RuntimeError as error:
        return "freed" if "second time" in str(error) else error


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_said_of_a_gradient_that_is_there_is_so(program):
    x, loss = program()
    held = x.grad.clone()
    alone, text = explain_grad(x), explain_grad(x, loss)
    assert torch.equal(x.grad.to_dense(), held.to_dense()) or held.isnan().any()
    if not x.requires_grad:
        wanted = by_torch(x.requires_grad_(), loss)
        x.requires_grad_(False)
        assert ("is not part of the graph of loss" in text) is (wanted is None)
        assert ("requires_grad is False" in text) is (wanted is not None)
        return
    wanted = by_torch(x, loss)
    kind = "NaN" if held.to_dense().isnan().any() else "zero" if not held.any() else "holds"
    assert kind in alone
    assert kind in text
    assert ("is not part of the graph of loss" in text) is (wanted is None)
    if kind == "holds":
        assert ("so other losses may have contributed" in text) is (wanted is not None)
    if "adds nothing to it" in text:
        assert not wanted.any()


@pytest.mark.parametrize("own", [True, False])
def test_a_checkpoint_that_may_have_added_to_it_is_named(own):
    x, w = leaf(2.0, 3.0), leaf(1.0, 1.0)
    loss = checkpoint(lambda at: (at * w).exp(), x, use_reentrant=True).sum()
    (loss if own else w.exp().sum()).backward()
    text = short_sentences(explain_grad(w, loss))
    assert "CheckpointFunctionBackward (node 1) can reach w by a backward pass of its own" in text


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    "change",
    [lambda h: h.add_(1), lambda h: h.relu_(), lambda h: h.copy_(torch.ones(2)), torch.exp_],
)
def test_what_was_computed_before_a_change_in_place_is_not_denied(watched, change):
    with watch() if watched else contextlib.nullcontext():
        h = leaf(2.0, 3.0) * 2
        h.retain_grad()
        loss = h.sum()
        change(h)
    text = short_sentences(explain_grad(h, loss))
    assert "loss was computed from its earlier value, or not from it" in text
    loss.backward()
    assert torch.autograd.grad(h.sum(), h)[0] is not None


def test_a_pass_that_came_before_retain_grad_or_failed_is_considered():
    h = leaf(2.0, 3.0).exp()
    loss = (h * h).sum()
    loss.backward()
    h.retain_grad()
    assert "or ran before retain_grad()" in short_sentences(explain_grad(h, loss))

    def refuse(grad):
        raise ValueError("no")

    x = leaf(2.0, 3.0)
    h = x.exp()
    h.register_hook(refuse)
    loss = (h * h).sum()
    with pytest.raises(ValueError, match="no"):
        loss.backward()
    assert x.grad is None
    assert "no backward pass has added" in explain_grad(x, loss)
    x = leaf(2.0, 3.0)
    x.register_hook(refuse)
    loss = (x * x).sum()
    with pytest.raises(ValueError, match="no"):
        loss.backward()
    assert "or failed" in short_sentences(explain_grad(x, loss))


def test_an_account_says_of_how_many_the_loss_is_not_known():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    net.append(nn.Linear(1, 1))
    given = torch.ones(1, 2)
    net(given).sum().backward()
    loss = net[1](net[0](given)).sum()
    text = explain_grad(net, loss)
    assert text.startswith("All 6 parameters of Sequential have a gradient.\n- ")
    assert "Has a gradient, but no pass was recorded (4): 0.weight, 0.bias, 1.weight" in text
    assert "Has a gradient, but not from this loss (2): 2.weight and 2.bias. 2.weight.grad" in text
    assert explain_grad(net) == "All 6 parameters of Sequential have a gradient."
    assert explain_grad(net[0], loss).endswith("so other losses may have contributed.")


def test_parameters_that_fsdp_keeps_in_parts_are_part_of_the_graph():
    together(
        """
from gradwalk import explain_grad

def work(rank):
    model = mlp()
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    holder = [[model]]
    weight = model[0].weight
    del model
    loss = holder[0][0](batch(rank)).square().mean()
    count = len(list(holder[0][0].parameters()))
    waits = explain_grad(holder[0][0], loss)
    assert f"- In the graph, and .grad is None ({count}): 0.weight" in waits, waits
    assert "is part of the graph of loss" in explain_grad(weight, loss)
    loss.backward()
    assert weight.grad is not None
    assert explain_grad(holder[0][0], loss).startswith(f"All {count} parameters")
    model = holder[0][0]
    assert "has not recorded a backward pass" in explain_grad(weight, loss)

on_ranks(work)
"""
    )
