"""Where gradients became zero is measured: at whatever place of a program it is made so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradwalk import GraphWidget
from gradwalk.backward.failures import first_zeros

DEPTH = 6


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return torch.zeros_like(grad)


def by_hook(h: Tensor) -> Tensor:
    h.register_hook(lambda grad: grad * 0)
    return h


def by_sum(h: Tensor) -> Tensor:
    return h + h * -1 + 1


WAYS = {"hook": by_hook, "sum": by_sum, "passed": Nothing.apply}


@pytest.mark.parametrize("place", range(DEPTH))
@pytest.mark.parametrize("how", WAYS)
def test_it_is_told_wherever_it_is(how: str, place: int) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(3, 3) for _ in range(DEPTH)]
    h = torch.randn(4, 3)
    for i, layer in enumerate(layers):
        h = layer(h).tanh()
        if i == place:
            h = WAYS[how](h)
    loss = h.square().sum()
    widget = GraphWidget(loss, names={f"l{i}": layer for i, layer in enumerate(layers)})
    widget.backward()
    source = widget._shown().source
    captured, run = source.captured, source.recording.run
    names = {data["name"]: node for node, data in captured.graph.nodes(data=True)}
    before = {f"l{i}.{which}" for i in range(place + 1) for which in ("weight", "bias")}
    after = {f"l{i}.{which}" for i in range(place + 1, DEPTH) for which in ("weight", "bias")}
    for layer in layers[: place + 1]:
        assert torch.equal(layer.weight.grad, torch.zeros(3, 3)), "torch's own"
    births = first_zeros(captured, run, [names[name] for name in before])
    assert {birth.how for birth in births.values()} == {how}
    assert set(births) >= {names[name] for name in before}
    (birth,) = set(births.values())
    told = [finding for finding in widget.diagnose() if finding.kind == "zero"]
    assert len(told) == 1
    assert set(told[0].nodes) == {names[name] for name in before}
    assert str(birth.node) in told[0].message
    assert not any(name in told[0].message for name in after)


def test_a_pass_that_began_with_zeros_has_no_birth() -> None:
    w = torch.ones(3, requires_grad=True)
    widget = GraphWidget(w * 2, names={"w": w})
    widget.backward(gradient=torch.zeros(3))
    (told,) = [finding for finding in widget.diagnose() if finding.kind == "zero"]
    assert "do not show where" in told.message


@pytest.mark.parametrize("length", [1, 10, 100])
def test_no_node_is_looked_at_twice(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradwalk.backward import failures as module  # noqa: PLC0415

    w = torch.ones(3, requires_grad=True)
    h = Nothing.apply(w)
    leaves = [torch.ones(3, requires_grad=True) for _ in range(length)]
    for leaf in leaves:
        h = h * leaf + leaf
    by_hook(h)
    widget = GraphWidget(h.sum(), names={"w": w})
    widget.backward()
    source = widget._shown().source
    asked: list[int] = []
    real = module._Seen.first_zero_at

    def counted(self: Any, node: int) -> Any:
        asked.append(node)
        return real(self, node)

    monkeypatch.setattr(module._Seen, "first_zero_at", counted)
    run = source.recording.run
    first_zeros(source.captured, run, list(run.steps)[2:])
    assert len(asked) == len(set(asked)) <= len(run.steps)
