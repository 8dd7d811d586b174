"""Backward passes that the program itself runs under `watch()` are recorded."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, diagnose, explain_grad, record, watch
from gradwalk.backward import recorded_pass
from gradwalk.features.watched_backward import record_own
from gradwalk.tracing import session


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def by_method(loss: Tensor) -> None:
    loss.backward()


def by_function(loss: Tensor) -> None:
    torch.autograd.backward([loss])


def kept(loss: Tensor) -> None:
    loss.backward(retain_graph=True)


@pytest.mark.parametrize("backward", [by_method, by_function, kept])
def test_a_plain_backward_is_recorded_and_changes_nothing(backward: Callable[[Tensor], None]):
    x, plain, watched = torch.randn(4, 3), net(), net()
    backward(plain(x).pow(2).mean())
    with watch():
        loss = watched(x).pow(2).mean()
        backward(loss)
    for one, other in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    assert "no-backward" not in {each.kind for each in diagnose(loss)}
    widget = GraphWidget(loss)
    (step,) = (each for each in widget.steps if each.name == "watched.0.weight")
    assert torch.equal(step.grad_outputs[0], watched[0].weight.grad)
    assert widget.cursor == len(widget.steps)


def test_nan_of_a_plain_backward_is_named_with_its_line():
    w = torch.zeros(3, requires_grad=True)
    with watch():
        root = w.mul(2).pow(2).sum().sqrt()
        root.backward()
    (found,) = (each for each in diagnose(root) if each.kind == "nan")
    assert "SqrtBackward0" in found.message
    assert "root = w.mul(2).pow(2).sum().sqrt()" in found.message
    assert "SqrtBackward0" in str(explain_grad(w, root))


def test_the_latest_of_several_passes_is_shown():
    w = torch.ones(2, requires_grad=True)
    with watch():
        loss = (w * 3).sum()
        loss.backward(torch.tensor(1.0), retain_graph=True)
        loss.backward(torch.tensor(2.0))
    (step,) = (each for each in GraphWidget(loss).steps if each.name == "w")
    assert step.grad_outputs[0].tolist() == [6.0, 6.0]


def test_a_pass_lives_as_long_as_its_loss(monkeypatch: pytest.MonkeyPatch):
    known: list[weakref.ref[object]] = []
    monkeypatch.setattr(
        record_own, "announce", lambda found: known.append(weakref.ref(found)) or announce(found)
    )
    announce = recorded_pass.announce
    w = torch.ones(2, requires_grad=True)
    gc.disable()
    try:
        with watch():
            loss = (w * 3).sum()
            loss.backward()
            (w * 4).sum().backward()
        assert [each() is None for each in known] == [False, True]
        node = weakref.ref(loss)
        del loss
        assert known[0]() is None
        assert node() is None
    finally:
        gc.enable()


def test_passes_that_are_looked_at_otherwise_are_not_recorded_again(
    monkeypatch: pytest.MonkeyPatch,
):
    observed: list[object] = []
    monkeypatch.setattr(record_own, "_keep", lambda *found: observed.append(found))
    w = torch.ones(2, requires_grad=True)
    with watch():
        widget = GraphWidget((w * 3).sum())
        widget.backward()
        record((w * 3).sum())
        loss = (w * 3).sum()
        shown = GraphWidget(loss)
        loss.backward()
    assert not observed
    assert shown.steps


def test_a_pass_within_a_pass_is_part_of_the_outer_one():
    x = torch.randn(2, 3, requires_grad=True)
    model = net()
    with watch():
        loss = checkpoint(model, x, use_reentrant=True).sum()
        loss.backward()
    ops = [step.op for step in GraphWidget(loss).steps]
    assert ops == ["SumBackward0", "CheckpointFunctionBackward", "AccumulateGrad"]


def test_a_failing_backward_raises_as_before_and_shows_what_ran():
    w = torch.ones(2, requires_grad=True)

    def fails(_: Tensor) -> None:
        raise ValueError("a hook of the user")

    def run() -> Tensor:
        product = w * 3
        product.register_hook(fails)
        loss = product.exp().sum()
        loss.backward()
        return loss

    with pytest.raises(ValueError, match="a hook of the user"), watch():
        run()


def test_a_block_records_a_bounded_number_of_nodes(monkeypatch: pytest.MonkeyPatch):
    observed: list[object] = []
    monkeypatch.setattr(record_own, "_keep", lambda *found: observed.append(found))
    monkeypatch.setattr(session, "_MOST_IN_BACKWARD", 10)
    w = torch.ones(2, requires_grad=True)
    with watch():
        for _ in range(20):
            (w * 3).sum().backward()  # three nodes
    assert len(observed) == 4
