"""Optimizers of a plan: classes, names, instances, and those that read values."""

from __future__ import annotations

import pytest
import torch
from memory_oracle import tracked
from planned_steps import Step, squares
from torch import nn

from gradwalk import plan
from gradwalk.results import Plan

NAMES = ("Adafactor", "ASGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD")


def planned(optimizer: object) -> Plan:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    return plan(model, torch.ones(4, 8), loss=squares, optimizer=optimizer)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_class_and_counts_to_the_byte(name):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    peak, _ = tracked(Step(model, torch.ones(4, 8), squares, getattr(torch.optim, name)))
    found = planned(name)
    assert found.peak == planned(getattr(torch.optim, name)).peak == peak
    assert all("torch/optim/" in each for each in found.assumptions)


@pytest.mark.parametrize("steps", [0, 1])
def test_an_instance_is_copied_with_its_options_and_state(steps):
    model, x = nn.Linear(8, 8), torch.ones(4, 8)
    optimizer = torch.optim.Adam([model.weight], lr=0.1, amsgrad=True)
    for _ in range(steps):
        squares(model(x)).backward()
        optimizer.step()
        model.zero_grad()
    before = [{k: v.clone() for k, v in each.items()} for each in optimizer.state.values()]
    weight = model.weight.clone()
    found = plan(model, x, loss=squares, optimizer=optimizer)
    assert found.optimizer_state == 3 * model.weight.nbytes + 4
    assert torch.equal(model.weight, weight)
    assert optimizer.param_groups[0]["params"][0] is model.weight
    after = list(optimizer.state.values())
    assert len(before) == len(after) == steps
    for old, new in zip(before, after, strict=True):
        assert all(torch.equal(old[key], new[key]) for key in old)


def test_an_instance_for_other_parameters_is_refused():
    other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    with pytest.raises(ValueError, match="whose parameters are not the model's"):
        planned(other)


def test_an_optimizer_with_a_closure_is_a_lower_bound():
    found = planned(torch.optim.LBFGS)
    assert found.lower_bound == ("The history of LBFGS",)
    assert found.place(len(found.curve) - 1).phase == "optimizer step"
