"""What flowed is told as it was then, or is said to be unknown, whatever changes later."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_capture import random_programs, walked
from torch import Tensor, nn

from gradwalk import GraphWidget, record
from gradwalk.backward.kept_gradients import norms
from gradwalk.backward.leaf_grads import LeafGrads
from gradwalk.backward.observe import Observer
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.torch_api.reading import storage_id

pytestmark = pytest.mark.one_python

MIB = 2**20 // 4  # so many float32 make 1 MiB


def copies_of(output: Tensor) -> dict[int, tuple[list[Tensor | None], list[Tensor | None]]]:
    """Gets a copy of what flows at every node when it flows, before anybody can change it."""
    found: dict[int, tuple[list[Tensor | None], list[Tensor | None]]] = {}

    def note(i, grad_inputs, grad_outputs):
        found[i] = (_copied(grad_inputs), _copied(grad_outputs))

    order, _ = walked(output)
    for i, node in enumerate(order):
        node.register_hook(lambda went, came, i=i: note(i, went, came))
    return found


def _copied(grads):
    return [None if grad is None else grad.detach().clone() for grad in grads]


def assert_true_or_unknown(steps, copies):
    """Every gradient is torch's own, or is not told; and so is every norm. How many are unknown."""
    unknown = 0
    assert set(steps) == set(copies)
    for i, step in steps.items():
        told = [*step.grad_inputs, *step.grad_outputs]
        for kept, true, norm in zip(told, [*copies[i][0], *copies[i][1]], norms(told), strict=True):
            assert (kept is None) == (true is None)
            if kept is None:
                continue
            if kept.tensor is None:
                unknown += 1
                assert "in place" in kept.summarise()["note"]
            else:
                assert torch.equal(kept.tensor, true)
            if norm is None:
                assert kept.tensor is None
            else:
                assert norm == pytest.approx(float(true.norm()), rel=1e-4, nan_ok=True)
    return unknown


def _all_doubled(grads):
    for grad in grads:
        if grad is not None and 0 not in grad.stride():  # of such torch refuses it
            grad.mul_(2)


@settings(max_examples=30, deadline=None)
@given(random_programs(), st.data())
def test_in_place_changes_of_what_flows(values, data):
    output = (values[-1] + values[0]).square().sum()
    order, _ = walked(output)
    observer = Observer(order, lambda: None, {0})
    copies = copies_of(output)
    flowed = []
    for node in data.draw(st.lists(st.sampled_from(order[1:]), max_size=4)):
        node.register_prehook(_all_doubled)
    for node in data.draw(st.lists(st.sampled_from(order[1:]), max_size=4)):
        node.register_prehook(flowed.extend)
    output.backward()
    with torch.no_grad():
        for grad in flowed:  # changed when the pass is over, before anybody looked
            if grad is not None and 0 not in grad.stride():
                grad.add_(1)
    assert observer.fault is None
    assert observer.last is not None
    assert_true_or_unknown(observer.last.steps, copies)
    observer.close()


def _doubled(grad):
    grad.mul_(2)


@pytest.mark.parametrize("size", [3, 5_000, MIB + 1])
def test_a_gradient_that_a_hook_changes_in_place_is_said_to_be_unknown_where_it_was(size):
    #   x ─► y = 3 x ─► z = exp(y); the hook of y doubles what exp passed on
    x = torch.rand(size, requires_grad=True)
    y = x * 3
    y.register_hook(_doubled)
    z = y.exp().sum()
    widget = GraphWidget(z)
    copies = copies_of(z)
    z.backward()
    assert widget.run is not None
    order, _ = walked(z)
    widget.selected = order.index(y.grad_fn) - 1  # exp
    details = widget.details
    assert details is not None
    assert details["op"] == "ExpBackward0"
    assert details["grad_input"][0]["norm"] is None
    assert "changed in place" in details["grad_input"][0]["note"]
    widget.selected = order.index(y.grad_fn)
    assert widget.details["grad_output"][0]["norm"] == pytest.approx(
        float(copies[widget.selected][1][0].norm()), rel=1e-4
    )
    recorded = record((x * 3).exp().sum())
    assert all(step.kept for step in recorded.steps)


def _clip(w):
    nn.utils.clip_grad_norm_([w], 1e-3)


def _zero(w):
    torch.optim.SGD([w], 0.1).zero_grad(set_to_none=False)


def _again(w):
    (w * 5).sum().backward()


def _by_hand(w):
    with torch.no_grad():
        w.grad.copy_(torch.full_like(w.grad, 7.0))


def _drop(w):
    w.grad = None


CHANGES = [_clip, _zero, _again, _by_hand, _drop]
SIZES = [3, 5_000, MIB, MIB + 1, 3 * MIB]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("factors", [1, 2])
def test_what_arrived_at_a_leaf_is_true_whatever_becomes_of_its_grad(size, factors, change):
    w, c = torch.rand(size, requires_grad=True), torch.rand(size)
    loss = sum(((w * c) for _ in range(factors)), torch.zeros(())).sum()
    widget = GraphWidget(loss, names={"w": w})
    order, _ = walked(loss)
    observer = Observer(order, lambda: None, {0})
    copies = copies_of(loss)
    loss.backward()
    copies = copies.copy()  # of this pass alone
    change(w)
    assert observer.last is not None
    assert_true_or_unknown(observer.last.steps, copies)
    (leaf,) = [node["id"] for node in widget.model["nodes"] if node["kind"] == "leaf"]
    (arrived,) = copies[leaf][1]
    # The norm is what an optimizer's step must not make unknown: the picture is shown after it.
    (kept,) = observer.last.steps[leaf].grad_outputs
    assert norms([kept]) == [pytest.approx(float(arrived.norm()), rel=1e-4)]
    if size <= MIB:
        assert torch.equal(kept.tensor, arrived)
    run = widget.run
    assert run is not None
    for edge, norm in zip(run["edges"], run["norms"], strict=True):
        drawn = widget.model["edges"][edge]
        true = copies[drawn["source"]][0][drawn["arg_nr"]]
        assert norm == pytest.approx(float(true.norm()), rel=1e-4)
    observer.close()


@pytest.mark.parametrize("factors", [1, 2])
def test_what_arrived_sparse_at_a_leaf(factors):
    table = nn.Embedding(10, 3, sparse=True)
    loss = sum(
        (table(torch.tensor([1, 1, 4])).exp().sum() for _ in range(factors)), torch.zeros(())
    )
    order, _ = walked(loss)
    observer = Observer(order, lambda: None, {0})
    copies = copies_of(loss)
    loss.backward()
    assert table.weight.grad is not None
    with torch.no_grad():
        table.weight.grad.mul_(0)
    assert observer.last is not None
    for i, step in observer.last.steps.items():
        told = [*step.grad_inputs, *step.grad_outputs]
        for kept, true in zip(told, [*copies[i][0], *copies[i][1]], strict=True):
            if kept is not None and kept.tensor is not None:
                assert torch.equal(kept.tensor.to_dense(), true.to_dense())
    observer.close()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", SIZES)
def test_what_a_recording_puts_into_grad_is_what_torch_had(size, change):
    w, c = torch.rand(size, requires_grad=True), torch.rand(size)
    (w * c).sum().backward()
    true = w.grad.clone()
    w.grad = None
    recording = record((w * c).sum())
    assert torch.equal(w.grad, true)
    recording.cursor = 0
    assert w.grad is None
    recording.cursor = len(recording.steps)
    assert torch.equal(w.grad, true)
    change(w)
    now = None if w.grad is None else w.grad.clone()
    recording.cursor = 0  # something else changed it, so it stays
    assert (w.grad is None) if now is None else torch.equal(w.grad, now)


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 1])
@pytest.mark.parametrize("own", [False, True])
def test_a_budget_that_is_spent_within_a_pass(share, own):
    x = torch.rand(5_000, requires_grad=True)
    y = x
    for _ in range(40):
        y = (y * 1.01).sin()
    loss = y.sum()
    captured = capture_nodes(read_outputs((loss,), "test"), Names())
    most = int(share * 85 * x.nbytes)
    observer = Observer(captured.nodes, lambda: None, {0}, max_bytes=most)
    copies = copies_of(loss)
    if own:
        run = observer.new_run(grads=LeafGrads(captured, ()), seeds=[torch.ones(())])
        with observer.owning(run, on_devices=False):
            loss.backward()
    else:
        loss.backward()
    assert observer.fault is None
    assert observer.last is not None
    steps = observer.last.steps
    held, numbers, unknown = {}, 0, 0
    for i, step in steps.items():
        told = [*step.grad_inputs, *step.grad_outputs]
        for kept, true in zip(told, [*copies[i][0], *copies[i][1]], strict=True):
            assert (kept is None) == (true is None)
            if kept is None or true is None:
                continue
            summary = kept.summarise()
            assert summary["norm"] == pytest.approx(float(true.norm()), rel=1e-4)
            assert summary["max"] == pytest.approx(float(true.max()), rel=1e-4)
            if kept.tensor is None:
                unknown += 1
                assert "exceed max_bytes" in summary["note"]
            else:
                assert torch.equal(kept.tensor, true)
                numbers += kept.tensor.numel() > 1
                if kept.tensor.untyped_storage().nbytes() > 2**14:
                    held[storage_id(kept.tensor)] = kept.tensor.untyped_storage().nbytes()
    assert sum(held.values()) <= most
    assert (numbers == 0) == (share == 0)
    assert (unknown == 0) == (share == 1)
    observer.close()
