"""Graphs of earlier steps: a finding, a line of the panel, and `GraphWidget.grows`."""

from __future__ import annotations

import collections
import contextlib

import pytest
import torch
from leaks import Kept, one
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, diagnose, record, watch
from gradwalk.features.held import held_controller

STEPS = 10
HEALTHY = {}


def found(loss):
    """The findings about graphs that are held."""
    held_controller.not_before = 0.0
    return [each for each in diagnose(loss) if each.kind == "held"]


def healthy(loop):
    HEALTHY[loop.__name__] = loop
    return loop


def step(model, scale=1.0):
    return (model(torch.ones(2, 3)) * scale).pow(2).mean()


@healthy
def a_plain_loop(model, check):
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        check(loss)


@healthy
def numbers_in_a_list(model, check):
    losses = []
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        losses.append(loss.item())
        check(loss)


@healthy
def detached_tensors_in_a_list(model, check):
    losses = []
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        losses.append(loss.detach())
        check(loss)


@healthy
def a_running_sum_of_numbers(model, check):
    total = 0.0
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        total += loss.item()
        check(loss)


@healthy
def gradients_of_several_batches(model, check):
    for i in range(STEPS):
        loss = step(model) / 4
        loss.backward()
        check(loss)
        if i % 4 == 3:
            model.zero_grad()


@healthy
def two_networks_with_a_loss_each(model, check):
    critic = nn.Linear(1, 1)
    for _ in range(STEPS):
        fake = model(torch.ones(2, 3))
        loss_critic = critic(fake.detach()).mean()
        loss_critic.backward()
        loss = -critic(fake).mean()
        loss.backward()
        check(loss)
        check(loss_critic)


@healthy
def a_detached_state(model, check):
    state = torch.zeros(1)
    for _ in range(STEPS):
        state = state.detach() + model(torch.ones(1, 3)).squeeze()
        loss = state.sum()
        loss.backward()
        check(loss)


@healthy
def losses_of_one_step_in_a_list(model, check):
    for _ in range(STEPS):
        losses = [step(model, i) for i in range(10)]
        loss = sum(losses)
        loss.backward()
        check(loss)


@healthy
def losses_of_one_step_in_a_dict(model, check):
    for _ in range(STEPS):
        losses = {f"task {i}": step(model, i) for i in range(10)}
        loss = sum(losses.values())
        loss.backward()
        check(loss)


@healthy
def models_with_a_loss_each(model, check):
    models = [nn.Linear(3, 1) for _ in range(6)]
    for _ in range(STEPS):
        losses = [step(each) for each in models]
        for loss in losses:
            loss.backward()
            check(loss)


@healthy
def tasks_with_a_head_each(model, check):
    heads = [nn.Linear(1, 1) for _ in range(5)]
    for _ in range(STEPS):
        losses = {}
        for i, head in enumerate(heads):
            losses[i] = head(model(torch.ones(2, 3)).detach()).mean()
            losses[i].backward()
            check(losses[i])


@healthy
def micro_batches_that_wait(model, check):
    for _ in range(3):
        waiting = [step(model, i) for i in range(4)]
        check(waiting[-1])
        for loss in waiting:
            loss.backward()


@healthy
def the_loss_before(model, check):
    before = None
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        check(loss)
        before = loss
    assert before is not None


@healthy
def the_last_loss_as_an_attribute(model, check):
    for _ in range(STEPS):
        model.last = loss = step(model)
        loss.backward()
        check(loss)


@healthy
def the_best_and_the_last(model, check):
    best = {}
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        best["last"] = loss
        best.setdefault("first", loss)
        check(loss)


@healthy
def a_window_of_two(model, check):
    window = collections.deque(maxlen=2)
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        check(loss)
        window.append(loss)


@healthy
def validation_without_grad(model, check):
    results = []
    for _ in range(STEPS):
        with torch.no_grad():
            results.append(model(torch.ones(2, 3)))
        check(step(model))


@healthy
def an_average_of_weights(model, check):
    average = [p.detach().clone() for p in model.parameters()]
    for _ in range(STEPS):
        loss = step(model)
        loss.backward()
        for kept, p in zip(average, model.parameters(), strict=True):
            kept.lerp_(p.detach(), 0.1)
        check(loss)


@healthy
def an_optimizer_with_momentum(model, check):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = step(model)
        loss.backward()
        optimizer.step()
        check(loss)


@healthy
def an_optimizer_with_a_closure(model, check):
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = step(model)
        loss.backward()
        check(loss)
        return loss

    for _ in range(3):
        optimizer.step(closure)


@healthy
def checkpointing(model, check):
    for _ in range(STEPS):
        loss = checkpoint(step, model, use_reentrant=False)
        loss.backward()
        check(loss)


@healthy
def backward_twice(model, check):
    for _ in range(STEPS):
        loss = step(model)
        loss.backward(retain_graph=True)
        loss.backward()
        check(loss)


@healthy
def a_penalty_on_gradients(model, check):
    for _ in range(STEPS):
        loss = step(model)
        grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        loss = loss + sum(grad.pow(2).sum() for grad in grads)
        loss.backward()
        check(loss)


@healthy
def an_exception_that_was_handled(model, check):
    def fails():
        step(model)
        raise ValueError

    for _ in range(STEPS):
        with contextlib.suppress(ValueError):
            fails()
        check(step(model))


@healthy
def a_custom_function(model, check):
    for _ in range(STEPS):
        loss = Kept.apply(step(model))
        loss.backward()
        check(loss)


@healthy
def a_recording_per_step(model, check):
    for _ in range(STEPS):
        recording = record(step(model))
        check(recording)


def test_there_are_enough_healthy_loops():
    assert len(HEALTHY) >= 20


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_loop_raises_no_alarm(name):
    def check(loss):
        assert found(loss) == []

    HEALTHY[name](nn.Linear(3, 1), check)


def test_a_list_of_losses_is_a_finding():
    losses = []
    for i in range(5):
        loss = one(i)
        loss.backward()
        assert len(found(loss)) == (i > 2)
        losses.append(loss)
    (only,) = found(one())
    assert only.severity == "warning"
    assert only.nodes == [0]
    assert only.numbers == {"graphs": 5, "bytes": 20}
    assert only.message == (
        "5 graphs of earlier steps are alive, 20 bytes, held by losses[0..4] (list, local of "
        "test_a_list_of_losses_is_a_finding()). Keep `loss.item()` or `loss.detach()` there "
        "instead."
    )


def test_a_dict_of_losses_is_a_finding():
    losses = {}
    for i in range(4):
        losses[f"step {i}"] = one(i)
        losses[f"step {i}"].backward()
    found(one())
    losses["step 4"] = one()
    (only,) = found(one())
    assert "5 graphs of earlier steps are alive" in only.message
    assert "losses['step 0']" in only.message


def test_losses_that_may_be_of_one_step_are_a_note():
    losses = [one(i) for i in range(4)]
    for loss in losses:
        loss.backward()
    for _ in range(2):  # nothing was added between
        (only,) = found(one())
        assert only.severity == "info"
        assert only.message.startswith("4 graphs computed before this one are alive")
        assert "If they are of earlier steps: keep `loss.item()`" in only.message


def test_losses_between_which_an_optimizer_stepped_are_a_warning():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    with watch():
        for i in range(5):
            losses.append(step(model, i))
            losses[-1].backward()
            optimizer.step()
    (only,) = found(step(model))
    assert only.severity == "warning"
    assert only.message.startswith("5 graphs of earlier steps are alive")


def test_results_of_a_validation_are_a_note():
    results = [one(i) for i in range(7)]
    assert found(one()) == []
    results.append(one())
    (only,) = found(one())
    assert only.severity == "info"
    assert only.message.endswith("compute them under torch.no_grad().")


def test_the_search_takes_little_of_the_programs_time():
    losses = [one(i) for i in range(9)]
    loss = one()
    assert found(loss)
    assert [each for each in diagnose(loss) if each.kind == "held"] == []
    del losses


def test_the_panel_of_the_output_has_the_line():
    losses = [one(i) for i in range(4)]
    for loss in losses:
        loss.backward()
    widget = GraphWidget(one())
    widget.selected = 0
    assert "earlier steps" not in widget.details["about"]
    held_controller.not_before = 0.0
    widget.diagnose()
    assert "held by losses[0..3]" in widget.details["about"]
    widget.selected = 1
    assert "earlier steps" not in widget.details["about"]
    widget.close()


@pytest.mark.parametrize("is_kept", [False, True])
def test_grows_names_what_holds_graphs_of_earlier_updates(is_kept):
    kept = []
    widget = GraphWidget(one())
    for i in range(4):
        loss = one(i)
        widget.update(loss)
        loss.backward()
        if is_kept:
            kept.append(loss)
    graphs = widget.grows()
    if is_kept:
        (only,) = graphs
        assert only.graphs == 3
        assert only.holders == [f"kept[0..2] (list, local of {grows_test()}())"]
    else:
        assert graphs == []
    widget.close()


def grows_test():
    return test_grows_names_what_holds_graphs_of_earlier_updates.__name__


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("losses_of_a_step", [1, 3])
def test_grows_does_not_name_the_widget_that_was_asked(is_watched, losses_of_a_step):
    model, widget = nn.Linear(3, 1), None
    for _ in range(4):
        with watch() if is_watched else contextlib.nullcontext():
            losses = [step(model, i) for i in range(losses_of_a_step)]
        if widget is None:
            widget = GraphWidget(losses[0])
        else:
            widget.update(losses[0])
        assert widget.grows() == []
        for loss in losses:
            loss.backward()
        assert widget.grows() == []
        del loss
    other = GraphWidget(losses[0])
    widget.update(step(model))
    del losses
    (only,) = widget.grows()
    assert only.holders == ["other (GraphWidget)"]
    widget.close()
    other.close()


def test_a_state_that_is_not_detached_grows():
    weight = torch.ones(1, requires_grad=True)
    state = weight * 1
    widget = GraphWidget(state)
    for _ in range(3):
        state = state * weight
        widget.update(state)
    (only,) = widget.grows()
    assert only.graphs == 3
    assert "state = state.detach()" in only.advice
    widget.close()


def test_grows_before_any_update_and_after_close():
    widget = GraphWidget(one())
    assert widget.grows() == []
    widget.close()
    with pytest.raises(ValueError, match="closed"):
        widget.grows()
