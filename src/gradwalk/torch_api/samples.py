"""Small objects of torch's on which a capability is tried; made anew each time, kept by nobody."""

from __future__ import annotations

from typing import Any

import torch


def product() -> torch.Tensor:
    """Return a product whose node saves both operands."""
    one = torch.ones(2, device="cpu", requires_grad=True)
    return one * torch.ones(2, device="cpu", requires_grad=True)


def product_node() -> Any:
    """Return the node of a product."""
    return product().grad_fn


def function_output() -> torch.Tensor:
    """Return the output of a custom Function that saves its input."""
    found: torch.Tensor = Same.apply(torch.ones(2, device="cpu", requires_grad=True))  # type: ignore[no-untyped-call]
    return found


class Same(torch.autograd.Function):
    """Copies its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        ctx.save_for_backward(x)
        return x.clone()
