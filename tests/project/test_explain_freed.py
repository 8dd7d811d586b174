"""Advice about freed graphs helps when it is followed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, watch


def refused(loss):
    with pytest.raises(RuntimeError, match="Backward cannot run") as error:
        GraphWidget(loss).backward()
    return str(error.value)


class Carries(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.evolved = nn.Linear(3, 3), torch.zeros(3)

    def forward(self, x, keep):
        self.evolved = torch.tanh(self.cell(x) + keep(self.evolved))
        return self.evolved.sum()


def two_iterations(keep):
    net = Carries()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for last in (False, True):
        with watch():
            loss = net(torch.ones(3), keep)
        if not last:
            loss.backward()
            optimizer.step()
    return loss


def test_state_of_an_earlier_iteration_is_named_with_its_line():
    text = refused(two_iterations(lambda state: state))
    assert "self.evolved = torch.tanh" in text
    assert "Keep .detach() of it" in text
    assert "retain_graph" not in text
    GraphWidget(two_iterations(torch.Tensor.detach)).backward()


def test_a_part_that_two_losses_share():
    w = torch.ones(2, requires_grad=True)
    h = w.exp()
    one, two = (h * h).sum(), h.exp().sum()
    one.backward()
    text = refused(two)
    assert "add them and call backward() once" in text
    assert "retain_graph" not in text


@pytest.mark.parametrize("steps", [False, True])
def test_its_own_pass_is_repeated_only_before_a_step(steps):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with watch():
        loss = net(torch.ones(1, 2)).sum().exp()
    loss.backward()
    if steps:
        torch.optim.SGD(net.parameters(), 0.1).step()
    text = refused(loss)
    assert ("retain_graph=True" in text) is not steps
    assert ("its parameters have changed since" in text) is steps
