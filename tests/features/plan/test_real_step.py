"""Steps that run once on real copies: what they count, and that they change nothing."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from memory_oracle import tracked
from planned_steps import Step, squares
from torch import nn
from torch.nn import functional as F

from gradwalk import plan
from gradwalk.features.plan import run_step


class Routed(nn.Module):
    """A mixture of experts, with a count of steps and some random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3))
        self.register_buffer("steps", torch.zeros(()))
        self.seen = [torch.zeros(3)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        weights, chosen = self.router(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, column = torch.where(chosen == i)
            self.seen[0][i] += len(rows)
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, column, None])
        return F.dropout(out) * random.random() * float(np.random.rand())


class Center(nn.Module):
    """A loss with a parameter and a running mean."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, output: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.mean[:] = 0.9 * self.mean + output.mean(0)
        return (self.weight * (output - self.mean)).pow(2).mean()


def state_of(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def test_the_peak_is_that_of_the_step():
    torch.manual_seed(0)
    model, x = Routed(), torch.randn(32, 16)
    found = plan(copy.deepcopy(model), x, loss=squares, optimizer=torch.optim.AdamW)
    assert found.measured
    peak, _ = tracked(Step(model, x, squares, torch.optim.AdamW))
    assert found.peak == peak + model.seen[0].nbytes  # torch's tracker does not count it
    assert found.remarks[0].startswith("Measured by one real step on copies. ")
    assert "(rows, column = torch.where(chosen == i)), in Routed needs the values" in str(found)
    assert found.modules["experts"].at_peak
    summary = found.widget.model["plan"]["summary"]
    assert summary.startswith("Measured by a real step: peak ")
    assert "without weights" not in summary
    assert len(found.widget.steps) == len(found.widget._source.graph)
    assert found.apply(found.advise(1)).measured


def test_a_real_step_changes_nothing():
    model, center, x = Routed(), Center(), torch.randn(32, 16, requires_grad=True)
    model.router.weight.grad = torch.ones(3, 16)
    center.weight.grad = torch.full((16,), 2.0)
    tensors = [*state_of(model), *state_of(center), x, model.seen[0]]
    before = [(each, each.clone(), each.grad, each.data_ptr()) for each in tensors]
    grads = [None if grad is None else grad.clone() for _, _, grad, _ in before]
    kept = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    found = plan(model, x, loss=center, optimizer=torch.optim.SGD)
    assert found.measured
    assert found.widget
    for (each, value, grad, address), old in zip(before, grads, strict=True):
        assert torch.equal(each, value)
        assert each.grad is grad
        assert grad is None or torch.equal(grad, old)
        assert each.data_ptr() == address
    assert torch.equal(torch.get_rng_state(), kept[0])
    assert random.getstate() == kept[1]
    assert np.random.get_state()[1].tolist() == kept[2]


def test_a_plan_on_fake_tensors_leaves_the_parameters_of_a_loss_alone():
    center = Center()
    found = plan(nn.Linear(4, 16), torch.ones(2, 4), loss=center)
    assert not found.measured
    assert center.weight.grad is None
    assert torch.equal(center.mean, torch.zeros(16))


def test_a_function_that_builds_the_model_is_called_for_it():
    found = plan(Routed, torch.randn(32, 16), loss=squares)
    assert found.measured
    assert found.parameters == sum(each.nbytes for each in Routed().parameters())


def test_attributes_and_values_in_a_builder_are_planned():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.scale, self.shifts = torch.ones(4), [torch.zeros(4)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.scale + self.shifts[0]

    x = torch.ones(2, 4)
    found = plan(Scaled, x, loss=squares)
    assert found.peak == plan(Scaled(), x, loss=squares).peak

    def deep() -> nn.Module:
        rates = torch.linspace(0, 0.5, 3)
        return nn.Sequential(*(nn.Dropout(rate.item()) for rate in rates), Scaled())

    assert plan(deep, x, loss=squares).parameters == found.parameters


class Array(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * float(x.detach().numpy().mean())


class Graph(nn.Linear):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.register_buffer("edges", torch.eye(8).to_sparse())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(self.edges, super().forward(x)).relu()


class Positive(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y[y > 0]


@pytest.mark.parametrize("kind", [Array, Graph, Positive])
def test_steps_that_fake_tensors_cannot_run_are_measured(kind):
    found = plan(kind(16, 16), torch.randn(8, 16), loss=squares)
    assert found.measured
    assert found.peak > found.parameters


@pytest.mark.filterwarnings("ignore")
def test_parts_in_torchscript_are_measured():
    model = nn.Sequential(torch.jit.script(nn.Linear(16, 16)), nn.Tanh())
    before = [each.clone() for each in model.parameters()]
    found = plan(model, torch.randn(8, 16), loss=squares, optimizer=torch.optim.SGD)
    assert found.measured
    assert all(map(torch.equal, model.parameters(), before))
    assert all(each.grad is None for each in model.parameters())


def test_a_model_in_vmap_is_planned():
    class Each(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.vmap(self.inner)(x)

        def inner(self, x: torch.Tensor) -> torch.Tensor:
            return self.activation(super().forward(x))

    model = Each(16, 16)
    model.activation = nn.Tanh()
    assert not plan(model, torch.randn(8, 16), loss=squares).measured


def test_without_values_the_line_the_module_and_what_to_do_are_said():
    model = nn.Sequential(Positive(16, 16)).to("meta")
    said = r"test_real_step\.py:\d+ \(return y\[y > 0\]\), in 0 needs the values of a tensor for "
    with pytest.raises(RuntimeError, match=said + r"aten\.nonzero.* Give the model and the batch"):
        plan(model, torch.randn(8, 16), loss=squares)


def test_a_step_that_is_too_large_is_not_run(monkeypatch):
    model = nn.Sequential(Positive(16, 16))
    monkeypatch.setattr(run_step, "free_bytes", lambda _: 10_000)
    with pytest.raises(RuntimeError, match="does not fit in the memory that is free here"):
        plan(model, torch.randn(64, 16), loss=squares)


def test_an_error_of_the_model_is_one_sentence_with_its_place():
    with pytest.raises(RuntimeError) as raised:
        plan(nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), torch.ones(2, 5), loss=torch.sum)
    assert str(raised.value) == (
        "In 1: mat1 and mat2 shapes cannot be multiplied (2x5 and 4x4). It fails in the same way "
        "on real tensors, without plan()."
    )

    class Broken(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + {}["missing"]

    said = r"test_real_step\.py:\d+ \(return super.*\), in Broken: KeyError \'missing\'\. It fails"
    with pytest.raises(RuntimeError, match=said):
        plan(Broken(4, 4), torch.ones(2, 4), loss=torch.sum)
