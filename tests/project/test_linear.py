"""Work grows with the graph, and not faster: four times the nodes, four times the calls.

All calls count, also of C functions: a search through a list within a loop shows as calls of what
it compares or splits. Differences of counts leave out what does not depend on the size.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from counted import events_of
from torch import nn

from gradwalk import (
    GraphWidget,
    compare,
    diagnose,
    explain_grad,
    held,
    load,
    plan,
    record,
    save,
    watch,
)
from gradwalk.checks import run_checks
from gradwalk.derivatives import chain as derivatives

MOST = 1.15
FEW = 10  # calls by chance, such as for one more digit of a number


def chain(n):
    layers = [layer for _ in range(n) for layer in (nn.Linear(3, 3), nn.Tanh())]
    return nn.Sequential(*layers), torch.ones(2, 3)


class Arms(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.arms = nn.ModuleList(nn.Linear(3, 2) for _ in range(n))

    def forward(self, x):
        return torch.stack([arm(x).tanh() for arm in self.arms]).sum(0)


def wide(n):
    return Arms(n), torch.ones(2, 3)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def forward(self, x):
        return x + self.inner(x)


def modules(n):
    return nn.Sequential(*[Block() for _ in range(n)]), torch.ones(2, 3)


class Scales(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(3)) for _ in range(n))

    def forward(self, x):
        for scale in self.scales:
            x = x * scale + 1
        return x


def leaves(n):
    return Scales(n), torch.ones(3)


def events(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file is replaced
        result, found = events_of(work)
    return result, found


def quick_verbs(make, n, watched):
    """The calls of what takes little."""
    found = {}

    def counted(verb, work):
        result, found[verb] = events(work)
        return result

    def forward():
        if not watched:
            return model(x).sum()
        with watch():
            return model(x).sum()

    torch.manual_seed(0)
    model, x = make(n)
    loss = counted("forward", forward)
    widget = counted("GraphWidget", lambda: GraphWidget(loss))
    counted("get_state", widget.get_state)
    counted("backward", widget.backward)
    counted("get_state after backward", widget.get_state)
    counted("step_back", widget.step_back)
    counted("reset", widget.reset)
    counted("step", widget.step)
    widget.close()
    model.zero_grad()
    del loss
    loss = forward()
    recording = counted("record", lambda: record(loss))
    first = next(model.parameters())
    counted("explain_grad", lambda: explain_grad(first, recording))
    counted("diagnose", lambda: diagnose(recording, names=model))
    return found


def thorough_verbs(make, n, folder):
    """The calls of what looks at everything."""
    found = {}

    def counted(verb, work):
        result, found[verb] = events(work)
        return result

    torch.manual_seed(0)
    model, x = make(n)
    loss = model(x).sum()
    recording = record(loss)
    path = folder / "run.gw"
    counted("save", lambda: save(recording, path))
    counted("load", lambda: load(path)).close()
    widget = GraphWidget(recording)
    counted("to_html", widget.to_html)
    counted("to_svg", widget.to_svg)
    widget.close()
    other = model(x).sum()
    counted("compare", lambda: compare({"a": loss, "b": other})).close()
    counted("plan", lambda: plan(model, x, loss=torch.sum))
    return found


def assert_linear(counts):
    """Fail where a node costs more calls in the largest graph than in the smaller ones."""
    (tiny, at_tiny), (few, at_few), (many, at_many) = sorted(counts.items())
    grown = {}
    for verb, calls in at_many.items():
        small, middle, large = (sum(each[verb].values()) for each in (at_tiny, at_few, at_many))
        before, after = (middle - small) / (few - tiny), (large - middle) / (many - few)
        if after > MOST * before + FEW:
            most = {each: calls[each] - 4 * at_few[verb][each] for each in calls}
            worst = sorted(most.items(), key=lambda each: -each[1])[:5]
            grown[verb] = f"{before:,.0f} calls per repetition, then {after:,.0f}: {worst}"
    assert not grown, f"Not linear: {grown}"


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "watched"])
@pytest.mark.parametrize("make", [chain, wide, modules, leaves], ids=lambda make: make.__name__)
def test_looking_is_linear(make, watched, monkeypatch):
    # A finding that looks through all objects of the process: `held` is measured by itself.
    monkeypatch.setattr(run_checks.MORE_CHECKS, "_added", [])
    quick_verbs(make, 3, watched)
    assert_linear({n: quick_verbs(make, n, watched) for n in (3, 16, 64)})


@pytest.mark.parametrize("make", [chain, wide, modules, leaves], ids=lambda make: make.__name__)
def test_what_looks_at_everything_is_linear(make, tmp_path, monkeypatch):
    monkeypatch.setattr(run_checks.MORE_CHECKS, "_added", [])
    monkeypatch.setattr(derivatives, "LONGEST_PATH", 6)  # else paths grow with these graphs
    thorough_verbs(make, 2, tmp_path)
    assert_linear({n: thorough_verbs(make, n, tmp_path) for n in (2, 6, 24)})


def test_held_is_linear():
    def calls(n):
        losses = [torch.ones(3, requires_grad=True).exp().sum() for _ in range(n)]
        found = events(held)[1]
        del losses
        return {"held": found}

    calls(5)
    assert_linear({n: calls(n) for n in (5, 50, 200)})
