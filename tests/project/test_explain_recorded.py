"""`explain_grad` of a graph with a recorded backward pass: it says what that pass did."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from sentences import leaf, short_sentences
from torch import nn

from gradwalk import GraphWidget, explain_grad, record


def network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return net, net(torch.ones(2, 3)).sum()


def by_widget(loss):
    widget = GraphWidget(loss)
    widget.backward()
    return widget


def by_record(loss):
    return record(loss)


def by_the_user(loss):
    widget = GraphWidget(loss)
    loss.backward()
    return widget


RECORDED = pytest.mark.parametrize("recorded", [by_widget, by_record, by_the_user])


@RECORDED
def test_a_healthy_model_has_its_gradients_from_this_pass(recorded):
    net, loss = network()
    shows = recorded(loss)
    for graph in (shows, loss):
        text = explain_grad(net, graph)
        assert text == "All 4 parameters of Sequential have a gradient from this backward pass."
        weight = net[0].weight
        assert explain_grad(weight, graph).endswith("is the gradient from this backward pass.")


def test_a_leaf_is_found_by_its_name():
    w = leaf(2.0)
    loss = (w * w).sum()
    widget = GraphWidget(loss)
    widget.backward()
    for graph in (widget, loss, [loss]):
        assert explain_grad("w", graph) == "w.grad is the gradient from this backward pass."
    widget.close()
    w.grad = None
    recording = record(loss)
    for graph in (recording, loss):
        assert explain_grad("w", graph) == "w.grad is the gradient from this backward pass."


def cleared(net):
    net.zero_grad()


def added_to(net):
    net(torch.ones(1, 3)).sum().backward()


def clipped(net):
    nn.utils.clip_grad_norm_(net.parameters(), 1e-3)


def zeroed(net):
    net.zero_grad(set_to_none=False)


def of_another(net):
    net.zero_grad()
    net(torch.full((1, 3), 5.0)).sum().backward()


@RECORDED
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cleared, "although the recorded backward pass set it"),
        (zeroed, "gave 0.weight a gradient that is not zero. It was overwritten since"),
        (added_to, "chang"),
        (clipped, "chang"),
        (of_another, "chang"),
    ],
)
def test_what_became_of_it_since(recorded, change, words):
    net, loss = network()
    shows = recorded(loss)
    change(net)
    text = explain_grad(net, shows)
    assert words in text
    assert "is the gradient from this backward pass" not in text
    assert text == explain_grad(net, loss)


@pytest.mark.parametrize("held", [None, 0.0, 1.0])
@RECORDED
def test_what_was_there_before_is_known(recorded, held):
    net, loss = network()
    for each in net.parameters():
        each.grad = None if held is None else torch.full_like(each, held)
    shows = recorded(loss)
    alone = explain_grad(net, shows).count("\n") == 0
    assert alone is (not held)
    if held and recorded is not by_the_user:
        assert "this pass's gradient added to what it held before" in explain_grad(net, shows)


def test_at_the_start_of_a_pass_the_cursor_is_the_reason():
    net, loss = network()
    widget = by_widget(loss)
    widget.reset()
    assert net[0].weight.grad is None
    assert "the cursor is before the step" in explain_grad(net, widget)
    widget.cursor = len(widget.steps)
    assert "from this backward pass" in explain_grad(net, widget)


def test_the_panel_of_every_leaf_says_it_is_of_this_pass():
    net, loss = network()
    widget = by_widget(loss)
    leaves = [node for node in widget.model["nodes"] if node["kind"] == "leaf"]
    assert len(leaves) == len(list(net.parameters()))
    for node in leaves:
        widget.selected = node["id"]
        assert widget.details["explained"].endswith("is the gradient from this backward pass.")


def test_a_pass_that_left_a_leaf_out_or_stopped():
    w, x = leaf(2.0), leaf(3.0)
    loss = (w * x).sum()
    widget = GraphWidget(loss)
    widget.backward(inputs=[x])
    assert "did not reach w" in short_sentences(explain_grad(w, widget))
    w.grad = torch.ones(1)
    assert "did not add to it" in short_sentences(explain_grad(w, widget))

    def refuse(grad):
        raise ValueError("no")

    w, x = leaf(2.0), leaf(3.0)
    h = w * x
    h.register_hook(refuse)
    loss = h.exp().sum()
    for run in (GraphWidget(loss).backward, loss.backward):
        with pytest.raises(ValueError, match="no"):
            run()
        text = explain_grad(w, loss)
        assert "the recorded backward pass stopped with an error at MulBackward0" in text


def test_what_autograd_grad_returned_is_not_in_grad():
    w, x = leaf(2.0), leaf(3.0)
    loss = (w * x).sum()
    widget = GraphWidget(loss)
    torch.autograd.grad(loss, w, retain_graph=True)
    assert "torch.autograd.grad returns gradients" in explain_grad(w, widget)


def test_a_nan_is_of_this_pass_or_not():
    w = leaf(0.0)
    loss = (w * 1.0).sum()
    widget = by_widget(loss)
    w.grad = torch.tensor([torch.nan])
    assert "the gradient from this backward pass does not" in explain_grad(w, widget)


@pytest.mark.parametrize("accumulates", [True, False])
def test_sparse_gradients_are_compared(accumulates):
    table = nn.Embedding(6, 2, sparse=True)
    if accumulates:
        table(torch.tensor([2])).sum().backward()
    loss = table(torch.tensor([0, 1, 1])).square().sum()
    widget = GraphWidget(loss)
    loss.backward()
    said = explain_grad(table, widget)
    assert ("added to an earlier one" in said) is accumulates


def test_a_recorded_pass_names_where_nan_and_zero_began():
    w, v = leaf(0.0), leaf(1.0)
    root = (w * 2).sqrt()
    widget = by_widget((root * 0.0).sum() + ((v - v) * 3).sum())
    assert "SqrtBackward0 (node" in explain_grad(w, widget)
    assert "became zero where the contributions to Accumulate" in explain_grad(v, widget)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_the_call_to_make_is_one_that_torch_accepts(shape):
    w = torch.ones(shape, requires_grad=True)
    loss = w * 2
    said = explain_grad(w, loss)
    assert ("Call loss.backward()." in said) is (w.numel() == 1)
    assert ("loss.sum().backward()" in said) is (w.numel() > 1)


def test_an_intermediate_tensor_that_keeps_its_gradient():
    h = leaf(2.0) * 3
    h.retain_grad()
    loss = (h * h).sum()
    widget = GraphWidget(loss)
    loss.backward()
    assert explain_grad(h, widget) == "h.grad is the gradient from this backward pass."


def test_looking_for_a_pass_keeps_no_graph_alive():
    net, loss = network()
    widget = by_widget(loss)
    explain_grad(net, loss)
    graph = weakref.ref(widget._source)
    widget.close()
    del widget
    gc.collect()
    assert graph() is None
    assert "has not recorded a backward pass" in explain_grad(net, loss)


def test_another_loss_of_the_same_parameters_does_not_take_this_pass():
    net, loss = network()
    other = net(torch.ones(5, 3)).exp().sum()
    widget = by_widget(loss)
    assert "has not recorded a backward pass" in explain_grad(net, other)
    widget.close()


def test_a_name_needs_a_graph_that_has_it():
    w = leaf(2.0)
    with pytest.raises(TypeError, match="the widget whose graph has it"):
        explain_grad("w")
    for graph in (w * 3, record(w * 3)):
        with pytest.raises(ValueError, match="'v'"):
            explain_grad("v", graph)
