"""Steps of an optimizer under `watch()` are compared with the gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, optimizer

from gradwalk import diagnose, watch


def found(model, steps_of, inputs, *, steps=1, before=lambda: None, rate=None):
    """The findings about the steps of a loop that one watch sees."""
    with watch():
        for _ in range(steps):
            steps_of.zero_grad()
            loss = model(inputs).float().pow(2).mean()
            loss.backward()
            before()
            steps_of.step()
    return [each for each in diagnose(loss, names=model) if each.kind in ("step", "frozen")]


def test_a_step_that_is_rounded_away():
    model = nn.Linear(4, 3).to(torch.bfloat16)
    (finding,) = found(model, SGD(model.parameters(), 1e-7), torch.randn(8, 4).bfloat16())
    assert (finding.kind, finding.severity) == ("step", "warning")
    assert "weight and bias" in finding.message
    assert "bfloat16 rounds the step away" in finding.message
    assert "test_steps.py:" in finding.message


def test_adam_in_half_precision_makes_infinite_numbers():
    model = nn.Linear(4, 3).half()
    with torch.no_grad():
        model.bias.zero_()

    def small():
        model.weight.grad.fill_(1e-7)

    (finding,) = found(model, Adam(model.parameters()), torch.randn(8, 4).half(), before=small)
    assert "infinite or NaN" in finding.message
    assert "eps of 1e-8 is 0" in finding.message


def test_weight_decay_moves_what_has_no_gradient():
    model = nn.Linear(4, 3)

    def mask():
        model.weight.grad.zero_()

    (finding,) = found(model, AdamW(model.parameters()), torch.randn(8, 4), before=mask)
    assert "changed weight, although the gradient is zero" in finding.message
    assert finding.severity == "info"


def test_a_learning_rate_of_zero():
    model = nn.Linear(4, 3)
    (finding,) = found(model, SGD(model.parameters(), 0.0), torch.randn(8, 4))
    assert "learning rate was 0" in finding.message


def test_a_frozen_batch_norm_moves():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    model[1].requires_grad_(False)
    (finding,) = [
        each
        for each in found(model, SGD(model[0].parameters(), 0.1), torch.randn(8, 4))
        if "frozen, but in train mode" in each.message
    ]
    assert finding.severity == "info"
    model[1].eval()
    again = found(model, SGD(model[0].parameters(), 0.1), torch.randn(8, 4))
    assert not [each for each in again if "in train mode" in each.message]


SOUND = {
    "sgd": lambda p: SGD(p, 0.1),
    "momentum": lambda p: SGD(p, 0.1, momentum=0.9),
    "adam": Adam,
    "decay": AdamW,
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_step(name):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    kinds = [
        e.kind for e in found(model, SOUND[name](model.parameters()), torch.randn(8, 4), steps=5)
    ]
    assert "step" not in kinds


def test_what_a_scaler_skips_is_silent():
    model = nn.Linear(4, 3)

    def overflow():
        model.weight.grad.fill_(float("inf"))

    class Skips(SGD):
        def step(self, closure=None):
            return None

    assert not found(model, Skips(model.parameters(), 0.1), torch.randn(8, 4), before=overflow)


def test_nothing_stays_behind():
    count = len(optimizer._global_optimizer_pre_hooks)
    model = nn.Linear(4, 3)
    found(model, SGD(model.parameters(), 0.1), torch.randn(8, 4))
    assert len(optimizer._global_optimizer_pre_hooks) == count
