"""Gradients with zeros around them, which are made again rather than held."""

from __future__ import annotations

import gc

import pytest
import torch
from engine import same

from gradwalk import record
from gradwalk.backward.observe import Observer
from gradwalk.backward.recorded_run import Padded
from gradwalk.torch_api.summary import summarise

PARTS = [
    lambda y: y[2],
    lambda y: y[:, -3],
    lambda y: y[1:5],
    lambda y: y[:, -7:-2:2],
    lambda y: y[4:4],
    lambda y: y.select(-1, -2),
]


def picked_twice(part):
    x = torch.linspace(-2, 2, 1200).reshape(30, 40).requires_grad_()
    y = x * 1.0
    one, other = part(y), part(y)
    return y, one, other, (one.exp().sum() - (other * 0.5).sin().sum())


@pytest.mark.parametrize("part", PARTS)
def test_it_is_what_torch_passed_on(part):
    _, one, other, loss = picked_twice(part)
    passed = []
    for each in (one, other):
        each.grad_fn.register_hook(lambda went, _: passed.append(went[0]))
    loss.backward(retain_graph=True)
    _, one, other, loss = picked_twice(part)
    recording = record(loss)
    ids = [recording._pass.captured.nodes.index(each.grad_fn) for each in (other, one)]
    steps = recording._pass.run.steps
    for i, expected in zip(sorted(ids, key=list(steps).index), passed, strict=True):
        (kept,) = steps[i].grad_inputs
        assert isinstance(kept, Padded)
        assert same(kept.tensor, expected)
        assert kept.tensor.stride() == expected.stride()
        assert kept.tensor is kept.tensor
        assert kept.summarise() == summarise(expected)
        assert not kept.changed


def test_it_is_not_held():
    def alive():
        found = [each for each in gc.get_objects() if type(each) is torch.Tensor]
        return sum(each.shape == (30, 40) for each in found)

    _, one, other, loss = picked_twice(PARTS[0])
    observer = Observer([loss.grad_fn, one.grad_fn, other.grad_fn], lambda: None)
    before = alive()
    loss.backward()
    assert alive() == before
    assert observer.last.total == 3
    observer.close()


def test_a_hook_that_came_since_may_change_it_in_place():
    y, one, other, loss = picked_twice(PARTS[0])
    nodes = [loss.grad_fn, one.grad_fn, other.grad_fn, y.grad_fn]
    observer = Observer(nodes, lambda: None)

    def three_times(went, _):
        went[0].mul_(3)

    one.grad_fn.register_hook(three_times)
    loss.backward()
    changed, as_it_was = (observer.last.steps[i].grad_inputs[0] for i in (1, 2))
    assert not isinstance(changed, Padded)
    assert "changed in place" in changed.summarise()["note"]
    assert isinstance(as_it_was, Padded)
    observer.close()


def test_one_that_nothing_is_added_to_is_kept_as_it_is():
    x = torch.randn(30, 40, requires_grad=True)
    loss = (x * 1.0)[3].sum()
    steps = record(loss)._pass.run.steps.values()
    assert not any(isinstance(kept, Padded) for step in steps for kept in step.grad_inputs)


def test_what_is_in_the_middle_may_have_been_changed_since():
    _, one, _, loss = picked_twice(PARTS[0])
    seen = []
    one.register_hook(seen.append)
    recording = record(loss)
    seen[0].zero_()
    i = recording._pass.captured.nodes.index(one.grad_fn)
    (kept,) = recording._pass.run.steps[i].grad_inputs
    assert kept.tensor is None
    assert "changed in place" in kept.summarise()["note"]


def test_a_hook_that_was_there_before_says_what_is_passed_on():
    y, one, _, loss = picked_twice(PARTS[0])
    one.grad_fn.register_hook(lambda went, _: (went[0] + 1,))
    recording = record(loss)
    i = recording._pass.captured.nodes.index(one.grad_fn)
    (kept,) = recording._pass.run.steps[i].grad_inputs
    (grad,) = torch.autograd.grad(loss, y, retain_graph=True)
    assert not isinstance(kept, Padded)
    assert kept.tensor.min() == 1
    assert grad.abs().sum() > 1000


def test_values_asked_for_in_inference_mode_can_be_used_outside():
    recording = record(picked_twice(PARTS[0])[-1])
    with torch.inference_mode():
        found = [kept for step in recording._pass.run.steps.values() for kept in step.grad_inputs]
        made = [kept.tensor for kept in found if isinstance(kept, Padded)]
    assert made
    assert not any(each.is_inference() for each in made)


@pytest.mark.parametrize("max_bytes", [0, 2 * 4800])
def test_they_count_as_if_they_were_held(max_bytes):
    x = torch.randn(30, 40, requires_grad=True)
    y = x * 1.0
    loss = sum((y[:, i] * (i + 1.0)).sum() for i in range(10))
    steps = record(loss, max_bytes=max_bytes)._pass.run.steps.values()
    passed = [kept for step in steps for kept in step.grad_inputs if kept is not None]
    large = [kept for kept in passed if kept.summarise()["numel"] > 64]
    known = sum(kept.tensor is not None for kept in large)
    assert known <= max_bytes // 4800
    assert all("exceed" in kept.summarise()["note"] for kept in large if kept.tensor is None)
    norms = [float(kept.summarise()["norm"]) for kept in large]
    assert all(norm > 0 for norm in norms)
