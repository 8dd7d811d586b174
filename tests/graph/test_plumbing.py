"""Every class of plumbing hands numbers on: its Jacobian, by torch, has one 1 in each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from gradwalk import capture
from gradwalk.graph.labels import PLUMBING, is_pass_through

aten = torch.ops.aten

# What makes a node of each class, out of a tensor of shape (4, 1, 6) of double numbers.
EXAMPLES: dict[str, Callable[[Tensor], Tensor]] = {
    "AliasBackward0": aten.alias,
    "AsStridedBackward0": lambda x: x.as_strided((2, 3), (6, 2)),
    "CloneBackward0": lambda x: x.clone(),
    "CopyBackwards": lambda x: torch.zeros(4, 1, 6, dtype=torch.double).copy_(x),
    "DiagonalBackward0": lambda x: x.diagonal(0, 0, 2),
    "ExpandBackward0": lambda x: x.expand(4, 3, 6),
    "LiftBackward0": aten.lift,
    "PermuteBackward0": lambda x: x.permute(2, 0, 1),
    "RepeatBackward0": lambda x: x.repeat(1, 2, 1),
    "ReshapeAliasBackward0": lambda x: aten._reshape_alias(x, (4, 6), (6, 1)),
    "SelectBackward0": lambda x: x.select(0, 2),
    "SliceBackward0": lambda x: x[1:3],
    "SplitBackward0": lambda x: x.split(2)[1],
    "SplitWithSizesBackward0": lambda x: x.split([1, 3])[1],
    "SqueezeBackward0": lambda x: x.squeeze(),
    "SqueezeBackward1": lambda x: x.squeeze(1),
    "SqueezeBackward2": lambda x: x.squeeze((1,)),
    "SqueezeBackward3": lambda x: x.clone().squeeze_(),
    "SqueezeBackward4": lambda x: x.clone().squeeze_(1),
    "SqueezeBackward5": lambda x: x.clone().squeeze_((1,)),
    "TBackward0": lambda x: x[:, 0].t(),
    "ToCopyBackward0": lambda x: x.float(),
    "TransposeBackward0": lambda x: x.transpose(0, 2),
    "TransposeBackward1": lambda x: x.clone().transpose_(0, 2),
    "UnbindBackward0": lambda x: x.unbind()[2],
    "UnfoldBackward0": lambda x: x.unfold(2, 3, 1),
    "UnsafeSplitBackward0": lambda x: x.unsafe_split(2)[1],
    "UnsafeSplitWithSizesBackward0": lambda x: x.unsafe_split_with_sizes([1, 3])[1],
    "UnsafeViewBackward0": lambda x: aten._unsafe_view(x, (6, 4)),
    "UnsqueezeBackward0": lambda x: x.unsqueeze(0),
    "UnsqueezeBackward1": lambda x: x.clone().unsqueeze_(0),
    "ViewAsComplexBackward0": lambda x: torch.view_as_complex(x.view(12, 2)),
    "ViewAsRealBackward0": lambda x: torch.view_as_real(torch.view_as_complex(x.view(12, 2))),
    "ViewBackward0": lambda x: x.view(2, 12),
}


def test_every_class_has_an_example():
    assert EXAMPLES.keys() == PLUMBING


@pytest.mark.parametrize("op", sorted(EXAMPLES))
def test_plumbing_only_hands_numbers_on(op):
    x = torch.randn(4, 1, 6, dtype=torch.double, requires_grad=True)
    made = EXAMPLES[op](x)
    assert type(made.grad_fn).__name__ == op

    def real(y: Tensor) -> Tensor:
        y = EXAMPLES[op](y)
        return torch.view_as_real(y) if y.is_complex() else y

    jacobian = torch.autograd.functional.jacobian(real, x.detach()).reshape(-1, x.numel())
    assert len(jacobian) > 0
    assert ((jacobian == 0) | (jacobian == 1)).all()
    assert (jacobian.sum(1) == 1).all()
    assert is_pass_through(op)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.mul(2),
        lambda x: x.sum(0),
        lambda x: x.mean(),
        lambda x: x.neg(),
        lambda x: x.relu(),
        lambda x: x.add(1),
        lambda x: torch.cat([x, x]),
        lambda x: x[:, 0] @ x[:, 0].t(),
    ],
)
def test_what_computes_or_joins_is_no_plumbing(compute):
    x = torch.randn(4, 1, 6, dtype=torch.double, requires_grad=True)
    assert not is_pass_through(type(compute(x).grad_fn).__name__)


def test_a_copying_twin_is_plumbing_too():
    x = torch.randn(4, 1, 6, requires_grad=True)
    assert is_pass_through(type(aten.view_copy(x, (6, 4)).grad_fn).__name__)


@pytest.mark.filterwarnings("ignore:`torch.jit")  # of torch itself
def test_inside_a_transform_no_other_reason_is_given():
    said: list[str] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = (x**3).sum()
        try:
            capture(y)
        except ValueError as error:
            said.append(str(error))
        return y

    def with_tangents() -> None:
        with forward_ad.dual_level():
            function(forward_ad.make_dual(x, x))

    x = torch.randn(5, 3)
    transforms: list[Callable[[], Any]] = [
        lambda: torch.func.vmap(function)(x),
        lambda: torch.func.grad(lambda z: torch.func.vmap(function)(z).sum())(x),
        lambda: torch.func.vmap(torch.func.vmap(function))(x.unsqueeze(0)),
        lambda: torch.func.jvp(function, (x,), (x,)),
        lambda: torch.func.jacfwd(function)(x),
        lambda: torch.func.functionalize(function)(x),
        with_tangents,
    ]
    for number, transform in enumerate(transforms, 1):
        transform()
        assert len(said) >= number
    assert not any("no_grad" in each for each in said), said
    assert all("torch.func" in each or "forward-mode" in each for each in said), said
