"""`compare_numerics` of eager and compiled runs: what is compared inside compiled code."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradwalk import GraphWidget, capture, compare_numerics


def test_eager_and_compiled():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    x = torch.randn(5, 4)

    def step():
        return F.mse_loss(net(x), torch.zeros(5, 2))

    compiled = torch.compile(step, backend="aot_eager")()
    found = compare_numerics(step(), compiled, names=net)
    assert found.first is None, str(found)
    leaves = {row.label for row in found.rows if row.op == "AccumulateGrad"}
    assert leaves == {name for name, _ in net.named_parameters()}
    assert "of a could not be aligned" not in str(found)  # all are found inside
    assert [row.op for row in found.inside] == [
        "TBackward0",
        "AddmmBackward0",
        "GeluBackward0",
        "TBackward0",
        "AddmmBackward0",
        "MseLossBackward0",
    ]
    assert {row.grad_error for row in found.inside} == {0}
    assert "6 gradients inside compiled code are within tolerance" in str(found)
    assert all(each.grad is None for each in net.parameters())


class Sloped(torch.autograd.Function):
    """The identity, with a backward that may be wrong."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.slope, None


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_wrong_backward_inside_compiled_code_is_between_what_is_right_and_wrong(is_turned):
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    x = torch.randn(5, 4)

    def step(slope):
        h = Sloped.apply(torch.tanh(net[0](x)), slope)
        return net[2](torch.tanh(net[1](h))).pow(2).mean()

    right = step(1.0)
    wrong = torch.compile(lambda: step(1.01), backend="aot_eager")()
    widget = GraphWidget(wrong)
    widget.backward()
    before = widget.model
    found = compare_numerics(*((widget, right) if is_turned else (right, widget)))
    assert widget.model is before  # opened for the comparison alone
    side = 1 if is_turned else 0
    graph = capture(right)
    calls = capture(wrong, opened=True)
    for row in found.inside:
        node, call = row.nodes[side], row.nodes[1 - side]
        assert calls.nodes[call]["kind"] == "call"
        assert row.op == graph.nodes[node]["op"]
        assert row.grad_error in (0, pytest.approx(0.01, rel=0.02))
    bad = [row.module for row in found.inside if row.leaves == "gradient"]
    assert bad
    assert "inside compiled code" in str(found)
    first = next(row for row in reversed(found.inside) if row.leaves)
    assert first.op == "TanhBackward0"  # right below the fault, on the way back
    compared = found.widget
    places = {each["place"] for each in compared.errors["nodes"]}
    for row in found.inside:
        assert any(of == list(row.nodes) for of in (compared.members[i] for i in places))
    compared.close()
    widget.close()
