"""Functions with a backward of their own, as users write them."""

from __future__ import annotations

import torch


def with_backward(forward, backward):
    """A Function of tensors; its backward is given the gradient, and what it was called with."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            ctx.save_for_backward(*given)
            return forward(*given)

        @staticmethod
        def backward(ctx, grad):
            return backward(grad, *ctx.saved_tensors)

    return Made


def elementwise(called, derivative):
    """A Function of one tensor, with the derivative in terms of its input."""
    return with_backward(called, lambda grad, x: grad * derivative(x))


class Many(torch.autograd.Function):
    """The identity, whose backward has so many operations."""

    times = 0

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        for _ in range(Many.times):
            grad = grad + 0
        return grad
