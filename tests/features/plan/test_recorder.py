"""The recorder counts what torch's own memory tracker and saved-tensor hooks count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from memory_oracle import changes, stepped, tracked
from planned_steps import STEPS, Step

from gradwalk.features.plan.recorder import STEP, Recorder
from gradwalk.features.plan.run_step import (
    Recorded,
    StepInputs,
    _read_graph,
    loss_of,
    named_tensors,
    run_step,
)
from gradwalk.torch_api.modes import unseen


def saved_by_hooks(step: Step) -> int:
    """The bytes that torch packs in a real forward pass, each storage once."""
    tensors = [*step.model.parameters(), *step.model.buffers()]
    tensors += [tensor for _, tensor in named_tensors(step.batch)]
    own = {each.untyped_storage()._cdata for each in tensors}
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        found[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
        loss = loss_of(step.model, step.batch, step.loss)
    assert loss.requires_grad
    return sum(each.nbytes() for key, each in found.items() if key not in own)


def planned(step: Step) -> Recorded:
    return run_step(StepInputs(step.model, step.batch, step.loss, step.optimizer))


def curve_of(recorded: Recorded) -> list[int]:
    return changes(each.live for each in recorded.recorder.operations)


def saved_bytes(recorded: Recorded) -> int:
    return sum(held.bytes_at(recorded.forward_end - 1) for held, _ in recorded.keepers)


@contextmanager
def recorded_really(step: Step) -> Iterator[Recorded]:
    """The same recorder on real tensors."""
    optimizer = stepped(step)
    recorded = Recorded(Recorder(step.model.named_modules()))
    recorder = recorded.recorder
    for name, tensor in [*step.model.named_parameters(), *step.model.named_buffers()]:
        recorder.note("parameter", name, tensor)
        if tensor.grad is not None:
            recorder.note("gradient", name, tensor.grad)
    for name, tensor in named_tensors(step.batch):
        recorder.note("input", name, tensor)
    for state in optimizer.state.values() if optimizer else ():
        for tensor in state.values():
            recorder.note("optimizer state", "", tensor)
    with recorder.recording():
        loss = loss_of(step.model, step.batch, step.loss)
        recorded.forward_end = len(recorder.operations)
        with unseen():
            _read_graph(loss, recorded)
        loss.backward()
        if optimizer:
            recorder.phase = STEP
            optimizer.step()
    yield recorded


@pytest.mark.parametrize("name", STEPS)
def test_a_plan_counts_what_torch_counts_of_the_real_step(name):
    peak, curve = tracked(STEPS[name]())
    recorded = planned(STEPS[name]())
    assert max(curve_of(recorded)) == peak
    assert curve_of(recorded) == curve


@pytest.mark.parametrize("name", STEPS)
def test_the_recorder_on_real_tensors_counts_what_torch_counts(name):
    with recorded_really(STEPS[name]()) as recorded:
        assert (max(curve_of(recorded)), curve_of(recorded)) == tracked(STEPS[name]())


UNPACKED = [name for name in STEPS if "recomputed" not in name and name != "half_saved_elsewhere"]


@pytest.mark.parametrize("name", UNPACKED)
def test_saved_bytes_are_those_that_torch_packs(name):
    recorded = planned(STEPS[name]())
    assert saved_bytes(recorded) == saved_by_hooks(STEPS[name]())
