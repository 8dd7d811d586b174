"""The recorder counts what torch's own memory tracker and saved-tensor hooks count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby

import pytest
import torch
from planned_steps import STEPS, Step
from torch.distributed._tools.mem_tracker import MemTracker

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

RECURRENT = "long_short_term_memory"  # fake tensors do not model the workspace of fused RNNs


class Tracker(MemTracker):
    """torch's memory tracker, with its total after every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: list[int] = []

    def _track_module_params_and_buffers(self, module, install_grad_hooks=True):
        # Its hooks only say which storage is a gradient, and fail for frozen parameters.
        return super()._track_module_params_and_buffers(module, install_grad_hooks=False)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.curve.append(sum(each["Total"] for each in self._curr_mem_snap.values()))
        return result


def tracked(step: Step) -> tuple[int, list[int]]:
    """The peak and the curve of a real step, by torch."""
    tracker = Tracker()
    optimizer = stepped(step)
    inputs = [tensor for _, tensor in named_tensors(step.batch)]
    tracker.track_external(step.model, *inputs, *([optimizer] if optimizer else []))
    with tracker:
        loss = loss_of(step.model, step.batch, step.loss)
        loss.backward()
        if optimizer:
            optimizer.step()
    (peak,) = (each["Total"] for each in tracker.get_tracker_snapshot("peak").values())
    return peak, changes(tracker.curve)


def stepped(step: Step) -> torch.optim.Optimizer | None:
    """An optimizer that has its state, and a model without gradients."""
    if step.optimizer is None:
        return None
    optimizer = step.optimizer(step.model.parameters())
    loss_of(step.model, step.batch, step.loss).backward()
    optimizer.step()
    optimizer.zero_grad()
    return optimizer


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


def changes(live: Iterable[int]) -> list[int]:
    """The curve without repeats: fake tensors make some views by more calls than real ones."""
    return [key for key, _ in groupby(live)]


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


@pytest.mark.parametrize("name", [each for each in STEPS if each != RECURRENT])
def test_a_plan_counts_what_torch_counts_of_the_real_step(name):
    peak, curve = tracked(STEPS[name]())
    recorded = planned(STEPS[name]())
    assert max(curve_of(recorded)) == peak
    assert curve_of(recorded) == curve


@pytest.mark.parametrize("name", STEPS)
def test_the_recorder_on_real_tensors_counts_what_torch_counts(name):
    with recorded_really(STEPS[name]()) as recorded:
        assert (max(curve_of(recorded)), curve_of(recorded)) == tracked(STEPS[name]())


def test_only_the_workspace_of_fused_recurrent_layers_is_missing():
    peak, _ = tracked(STEPS[RECURRENT]())
    assert max(curve_of(planned(STEPS[RECURRENT]()))) < peak


UNPACKED = [
    name
    for name in STEPS
    if "recomputed" not in name and name not in (RECURRENT, "half_saved_elsewhere")
]


@pytest.mark.parametrize("name", UNPACKED)
def test_saved_bytes_are_those_that_torch_packs(name):
    recorded = planned(STEPS[name]())
    assert saved_bytes(recorded) == saved_by_hooks(STEPS[name]())
