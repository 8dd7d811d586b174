"""Edits after `loss.backward()` has freed the graph: small graphs run with copies."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import closing

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, what_if


def neuron() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    w, b = torch.tensor(-3.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    pred = w * torch.tensor(2.0) + b
    return (pred - 1) ** 2, w, b


def test_edits_work_after_the_users_own_backward():
    loss, w, b = neuron()
    with closing(GraphWidget(loss)) as widget:
        loss.backward()
        with torch.no_grad():  # an optimizer's step changes a saved tensor in place
            w += 10
        assert widget.state["freed"]
        assert widget._edits_blocked is None
        widget.edits = [{"kind": "scale", "edge": (0, 0), "value": 0.5}]
        assert widget.effect is not None
        assert widget.effect["failed"] is None
        after = {leaf["node"]: leaf["after"]["values"] for leaf in widget.effect["leaves"]}
        assert sorted(after.values()) == [-12.0, -6.0]
        assert (w.grad, b.grad) == (torch.tensor(-24.0), torch.tensor(-12.0))


def test_what_if_of_a_widget_runs_after_the_users_own_backward():
    loss, _, _ = neuron()
    expected = what_if(loss, scale={(0, 0): 0.5})
    with closing(GraphWidget(loss)) as widget:
        loss.backward()
        found = what_if(widget, scale={(0, 0): 0.5})
        assert found.before == expected.before
        assert found.after == expected.after
    with pytest.raises(RuntimeError, match="freed"):
        what_if(loss, scale={(0, 0): 0.5})


def attend(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = nn.MultiheadAttention(4, 2)(x, x, x, need_weights=False)[0]
    return found


MODELS: dict[str, Callable[[], torch.Tensor]] = {
    "layers": lambda: (
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))(
            torch.randn(5, 4)
        )
        .log_softmax(-1)
        .square()
        .mean()
    ),
    "convolution": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())(
            torch.randn(2, 1, 8, 8)
        )
        .logsumexp(1)
        .sum()
    ),
    "attention": lambda: attend(torch.randn(3, 1, 4)).norm(),
}


@pytest.mark.parametrize("name", MODELS)
def test_freed_nodes_give_what_the_engine_gives(name: str):
    torch.manual_seed(0)
    loss = MODELS[name]()
    expected = what_if(loss, scale={(0, 0): 0.5})
    with closing(GraphWidget(loss)) as widget:
        loss.backward()
        widget.edits = [{"kind": "scale", "edge": (0, 0), "value": 0.5}]
        assert widget.effect is not None
        if widget._edits_blocked is not None:
            assert widget.effect["failed"] is not None
            return
        assert widget.effect["failed"] is None
        norms = [leaf["after"]["norm"] for leaf in widget.effect["leaves"]]
        true = [grad.norm().item() for grad in expected.after.values() if grad is not None]
        assert sorted(norms) == pytest.approx(sorted(true), rel=1e-4, abs=1e-6)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * (ctx.saved_tensors[0] == ctx.saved_tensors[0])


@pytest.mark.parametrize("retain_graph", [False, True])
@pytest.mark.parametrize("kind", ["large", "custom"])
def test_one_sentence_says_why_not_and_what_to_do(kind: str, retain_graph: bool):
    w = torch.ones(600, 600, requires_grad=True)
    loss = (w * w).sum() if kind == "large" else Twice.apply(w).sum()
    with closing(GraphWidget(loss)) as widget:
        assert widget._edits_blocked is None
        loss.backward(retain_graph=retain_graph)
        blocked = widget._edits_blocked
        if retain_graph:
            assert blocked is None
        else:
            assert blocked is not None
            assert "retain_graph=True" in blocked
        loss = (w[:2, :2] * 2).exp().sum()
        widget.update(loss)
        assert widget._edits_blocked is None


@pytest.mark.parametrize("size", [10, 1000])
def test_only_what_a_small_graph_saved_lives_longer_and_only_while_the_widget_is_open(size: int):
    w = torch.ones(size, size, requires_grad=True)
    widget = GraphWidget((w * torch.ones(size, size)).sum())
    copies = next(c._copies for c in widget._controllers if hasattr(c, "_copies"))
    assert copies is not None
    kept = [each for saved in copies._saved.values() for each in saved.values()]
    assert sum(each.numel() for each in kept) == (size**2 if size == 10 else 0)
    dies = [weakref.ref(each) for each in kept]
    del kept, copies
    widget.close()
    gc.collect()
    assert all(each() is None for each in dies)
