"""Custom Functions with a wrong backward."""

from __future__ import annotations

import torch
from right_functions import leaf
from torch.autograd.function import Function

WRONG = []
"""A Function, its fault, the name of the argument whose derivative is wrong, and its arguments."""


def wrong(fault, name, *arguments):
    return lambda function: WRONG.append((function, fault, name, arguments)) or function


@wrong("layout", None, leaf(4, 4))
class ReadsAsContiguous(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        out = torch.zeros(g.shape, dtype=g.dtype)
        n = min(g.numel(), g.untyped_storage().nbytes() // g.element_size() - g.storage_offset())
        out.view(-1)[:n] = 2 * torch.as_strided(g, (n,), (1,), g.storage_offset())
        return out


@wrong("layout", None, leaf(4, 4))
class TransposedFault(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return (
            2 * torch.as_strided(g, g.shape, (g.shape[1], 1))
            if g.is_contiguous() or g.stride()[0] == 1
            else 2 * g
        )


@wrong("layout", None, leaf(4, 4))
class ViewRaises(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.s = x.shape
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return (g.view(-1) * 2).view(ctx.s)


@wrong("in place", None, leaf(4))
class InPlaceG(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 5

    @staticmethod
    def backward(ctx, g):
        g *= 5.0
        return g


@wrong("in place", None, leaf(4))
class InPlaceData(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 5

    @staticmethod
    def backward(ctx, g):
        g.data.mul_(5)
        return g


@wrong("second derivative", "x", leaf(4))
class KeptOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.e = x.exp()
        return ctx.e * 1

    @staticmethod
    def backward(ctx, g):
        return g * ctx.e


@wrong("second derivative", "x", leaf(4))
class Detached(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x.detach() ** 2


@wrong("repeat", None, leaf(4))
class RandBack(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2 * torch.rand_like(g)


@wrong("repeat", None, leaf(4))
class Counter(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.n = 0
        return x * 2

    @staticmethod
    def backward(ctx, g):
        ctx.n += 1
        return g * 2 * ctx.n


@wrong("derivative", "x", leaf(5))
class OneEntry(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        r = 2 * x * g
        r = r.clone()
        r[3] = r[3] * 1.001
        return r


@wrong("derivative", "x", leaf(1000))
class Flipped(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.flip(0) ** 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


@wrong("derivative", "w", leaf(3, 4), leaf(4, 4))
class Transposed(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (g @ w.t(), (x.t() @ g).t())


@wrong("derivative", "b", leaf(3, 4), leaf(4))
class NoSum(Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    def backward(ctx, g):
        return (g, g.mean(0))


@wrong("derivative", "x", leaf(3, dtype=torch.complex64))
class NoConj(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


@wrong("derivative", "x", leaf(4))
class IgnoreSecond(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.sin(), x.cos())

    @staticmethod
    def backward(ctx, a, b):
        (x,) = ctx.saved_tensors
        return a * x.cos()


@wrong("derivative", "x", leaf(4))
class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


@wrong("derivative", "x", leaf(6))
class WrongSingle(Function):
    @staticmethod
    def forward(ctx, x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sin()


@wrong("derivative", "x", leaf(4))
class WrongInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        return x.exp_()

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


@wrong("derivative", "x", leaf(30), 0.5)
class AnotherMask(Function):
    @staticmethod
    def forward(ctx, x, p):
        torch.manual_seed(1)
        m = (torch.rand_like(x) > p).to(x.dtype)
        return x * m

    @staticmethod
    def backward(ctx, g):
        torch.manual_seed(2)
        return (g * (torch.rand_like(g) > 0.5).to(g.dtype), None)


@wrong("error", None, leaf(4))
class NeedsAllGradients(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return (x * 2, x * 3)

    @staticmethod
    def backward(ctx, a, b):
        return a * 2 + b * 3


@wrong("error", None, leaf(4), 2.0)
class TooFew(Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g * ctx.s


@wrong("derivative", "x", torch.zeros(4).requires_grad_())
class NanAtZero(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * x / x


@wrong("derivative", "x", leaf(4, scale=1e-3))
class Tiny(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1e-08

    @staticmethod
    def backward(ctx, g):
        return g * 1.01e-08


class _Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()


@wrong("not linear", None, leaf(6))
class HalfBelowZero(_Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(g > 0, g, g * 0.5) * x.cos()


@wrong("not linear", None, leaf(6))
class AbsoluteGradient(_Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.abs() * x.cos()


@wrong("not linear", None, leaf(6))
class ClampedGradient(_Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.clamp(min=0) * x.cos()


@wrong("not linear", None, leaf(6))
class ClippedGradient(_Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.clamp(-1, 1) * x.cos()


@wrong("not linear", None, leaf(6))
class LargestGradientOnly(_Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (g.abs() == g.abs().max()) * x.cos()


def _odd(lay):
    return lay(leaf(4, 4).detach()).requires_grad_()


class _Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3


@wrong("layout", None, _odd(torch.t))
class WrongForTransposed(_Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * (x if x.is_contiguous() else x.t()) ** 2 * g


@wrong("layout", None, _odd(lambda x: torch.stack([x, x], -1)[..., 0]))
class WrongForSliced(_Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * torch.as_strided(x, x.shape, (4, 1), x.storage_offset()) ** 2 * g


@wrong("layout", None, _odd(lambda x: x[:, :1].expand(4, 4)))
class WrongForExpanded(_Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (3 if 0 not in x.stride() else 4) * x**2 * g
