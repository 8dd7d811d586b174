"""A mode of the user's sees what it sees without gradwalk: in forward and in backward."""

from __future__ import annotations

import contextlib

import pytest
import torch
from programs import PROGRAMS, leaf
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from gradwalk import GraphWidget, record
from gradwalk.torch_api.modes import lowest_mode, pop_mode, push_mode, random_numbers_kept
from gradwalk.tracing.watch import watch


class Dispatched(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Called(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Counted(FlopCounterMode):
    def __init__(self):
        super().__init__(display=False)

    @property
    def seen(self):
        return self.get_flop_counts()


def with_constants_and_cuts():
    x, model = leaf(3), nn.Sequential(nn.Linear(3, 3), nn.TransformerEncoderLayer(3, 1)).eval()
    y = x * torch.ones(3) + x.detach() + x.sum().item() + (x * torch.tensor([1j]).conj()).real
    return (model(y[None]) * torch.ones(1, 3)).sum()


@pytest.mark.parametrize("watched_first", [False, True])
@pytest.mark.parametrize("mode", [Dispatched, Called, Counted])
@pytest.mark.parametrize("program", [*PROGRAMS.values(), with_constants_and_cuts])
def test_of_a_watched_forward(program, mode, watched_first):
    program()  # the first checkpoint imports torch's compiler, which computes meanwhile

    def seen(watching):
        mine = mode()
        torch.manual_seed(0)
        with contextlib.ExitStack() as stack:
            for each in (watching(), mine) if watched_first else (mine, watching()):
                stack.enter_context(each)
            program()
        return mine.seen

    assert seen(watch) == seen(contextlib.nullcontext)


def seen_of_backward(mode, run):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    loss = model(torch.ones(8, 64)).sum()
    run, mine = run(loss), mode()
    with mine:
        run()
    assert mine.seen
    return mine.seen


def plain(loss):
    return loss.backward


def looked_at(loss):
    widget = GraphWidget(loss)
    widget.selected = 2

    def run():
        loss.backward()
        assert widget.details is not None

    return run


@pytest.mark.parametrize("mode", [Dispatched, Called, Counted])
def test_of_a_backward_that_is_looked_at(mode):
    assert seen_of_backward(mode, looked_at) == seen_of_backward(mode, plain)


OWN = {
    "record": lambda loss: lambda: record(loss),
    "step": lambda loss: lambda: GraphWidget(loss).step(99),
    "backward": lambda loss: lambda: GraphWidget(loss).backward(),
}


# Not of the functions called: backward of ours is no call of Tensor.backward.
@pytest.mark.parametrize("mode", [Dispatched, Counted])
@pytest.mark.parametrize("run", OWN.values(), ids=OWN)
def test_of_a_backward_of_its_own(mode, run):
    assert seen_of_backward(mode, run) == seen_of_backward(mode, plain)


def test_the_generators_of_every_device_are_kept(monkeypatch):
    asked = []

    def fork(devices, device_type):
        asked.append((device_type, list(devices)))
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.random, "fork_rng", fork)
    devices = ["cpu", "cuda:1", "cuda:0", "xpu:0", "meta"]
    with random_numbers_kept(map(torch.device, devices)):
        pass
    assert asked == [("cuda", [0, 1]), ("xpu", [0])]


@pytest.mark.parametrize("default", [None, "meta"])
@pytest.mark.parametrize("others", [[], [Called], [Called, lambda: torch.device("cpu")]])
def test_a_mode_is_pushed_and_popped_below_those_of_the_user(default, others):
    def stack():
        return torch.overrides._get_current_function_mode_stack()

    ours, at = Called(), 0 if default is None else 1
    torch.set_default_device(default)
    try:
        with contextlib.ExitStack() as block:
            for other in others:
                block.enter_context(other())
            before = stack()
            with lowest_mode(None):
                push_mode(ours)
            assert stack() == [*before[:at], ours, *before[at:]]
            with lowest_mode(ours):
                pop_mode()
            assert stack() == before
            with lowest_mode(ours):  # somebody has popped it before
                assert stack()[-1] is ours
            assert stack() == before
    finally:
        torch.set_default_device(None)
    assert stack() == []
