"""Using the widget changes no gradient, no random state and no graph: bit for bit."""

from __future__ import annotations

import json

import pytest
import torch
from programs import PROGRAMS, backward, outputs_of

from gradwalk import GraphWidget, capture


def leaves_of(outputs):
    """The leaf tensors of a graph, in its order."""
    seen, order = set(), [output.grad_fn or output for output in outputs]
    leaves = []
    for node in order:
        if isinstance(node, torch.Tensor):
            leaves.append(node)
            continue
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                order.append(child)
    return leaves


def dense(grad):
    return None if grad is None else grad.to_dense() if grad.is_sparse else grad


def same(a, b):
    if a is None or b is None:
        return a is b
    if a.is_nested:
        return all(same(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True))
    if a.is_meta:
        return a.shape == b.shape
    return (
        a.stride() == b.stride()
        and a.dtype == b.dtype
        and torch.equal(a.nan_to_num(123.0), b.nan_to_num(123.0))
        and torch.equal(a.isnan(), b.isnan())
    )


def run(name, *, watched):
    outputs = outputs_of(name)
    widget = GraphWidget(outputs, names={}) if watched else None
    random_before = torch.get_rng_state()
    for step in range(2):
        if widget is not None:
            for i in range(len(widget.graph["nodes"])):
                widget.selected = i
                json.dumps(widget.details, allow_nan=False)
            assert torch.equal(torch.get_rng_state(), random_before)
        if step == 0:
            backward(outputs)
            random_before = torch.get_rng_state()
    grads = [dense(leaf.grad) for leaf in leaves_of(outputs)]
    if widget is not None:
        assert widget.fault is None
        widget.close()
    return grads, torch.get_rng_state()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_random_state_are_those_without_the_widget(name):
    plain, random_plain = run(name, watched=False)
    watched, random_watched = run(name, watched=True)
    assert len(plain) == len(watched)
    assert all(same(a, b) for a, b in zip(plain, watched, strict=True))
    assert torch.equal(random_plain, random_watched)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_is_the_same_after_looking_at_it(name):
    outputs = outputs_of(name)
    before = capture(outputs)
    widget = GraphWidget(outputs, names={})
    for i in range(len(before)):
        widget.selected = i
    widget.close()
    after = capture(outputs)
    assert list(before.nodes(data=True)) == list(after.nodes(data=True))
    assert list(before.edges(data=True)) == list(after.edges(data=True))


def test_looking_during_grad_mode_off_or_inference_changes_nothing():
    (output,) = outputs_of("squared_difference")
    widget = GraphWidget(output, names={})
    with torch.inference_mode():
        widget.selected = 1
    with torch.no_grad():
        widget.selected = 2
    output.backward()
    assert widget.details["id"] == 2


def test_the_users_hooks_run_once_and_see_the_same():
    calls = []
    x = torch.ones(3, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: calls.append(("post", t.grad.clone())))
    y = x * 2
    y.register_hook(lambda grad: calls.append(("hook", grad)))
    widget = GraphWidget(y.sum(), names={})
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert [kind for kind, _ in calls] == ["hook", "post"] * 2
    widget.close()
