"""Custom Functions with a right backward."""

from __future__ import annotations

import torch
from torch.autograd.function import Function, once_differentiable

RIGHT = []
"""A Function, and its arguments."""


def right(*arguments):
    return lambda function: RIGHT.append((function, arguments)) or function


def leaf(*shape, dtype=torch.float32, grad=True, scale=1.0):
    drawn = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))
    return (drawn * scale).requires_grad_(grad)


@right(leaf(5, 3), torch.tensor([0, 2]))
class Gather(Function):
    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        ctx.s = x.shape
        return x[i]

    @staticmethod
    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        return (g.new_zeros(ctx.s).index_add(0, i, g), None)


@right(leaf(4))
class TwoOutputs(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.sin(), x.cos())

    @staticmethod
    def backward(ctx, a, b):
        (x,) = ctx.saved_tensors
        return a * x.cos() - b * x.sin()


@right(leaf(4), leaf(4))
class NoneGrad(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x * 2 + 0 * y.detach()

    @staticmethod
    def backward(ctx, g):
        return (g * 2, None)


@right(leaf(2, 6))
class Max(Function):
    @staticmethod
    def forward(ctx, x):
        v, i = x.max(1)
        ctx.save_for_backward(i)
        ctx.s = x.shape
        ctx.mark_non_differentiable(i)
        return (v, i)

    @staticmethod
    def backward(ctx, g, _):
        (i,) = ctx.saved_tensors
        return g.new_zeros(ctx.s).scatter(1, i[:, None], g[:, None])


@right(leaf(3, dtype=torch.complex64))
class Complex(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z.conj()


@right(leaf())
class Scalar(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


@right(torch.empty(0, 3, requires_grad=True))
class Empty(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@right(leaf(4))
class OnceDifferentiable(Function):
    @staticmethod
    def forward(ctx, x):
        e = x.exp()
        ctx.e = e
        return e * 1

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.e


@right(leaf(3, 2), 2.0)
class WithSetup(Function):
    @staticmethod
    def forward(x, s):
        return (x * s).tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.s = inputs[1]

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return (g * (1 - y * y) * ctx.s, None)


@right(leaf(4))
class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


@right(leaf(2, 3))
class View(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.s = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(ctx.s)


@right(leaf(3, 4))
class TransposedView(Function):
    @staticmethod
    def forward(ctx, x):
        return x.t()

    @staticmethod
    def backward(ctx, g):
        return g.t()


@right(leaf(5), [1, 2], "mean", None)
class NonTensor(Function):
    @staticmethod
    def forward(ctx, x, sizes, mode, other):
        ctx.n = x.numel()
        ctx.k = sum(sizes)
        return x.mean() * ctx.k

    @staticmethod
    def backward(ctx, g):
        return ((g * ctx.k / ctx.n).expand(ctx.n), None, None, None)


@right(leaf(30), 0.5)
class Dropout(Function):
    @staticmethod
    def forward(ctx, x, p):
        m = (torch.rand_like(x) > p).to(x.dtype) / (1 - p)
        ctx.save_for_backward(m)
        return x * m

    @staticmethod
    def backward(ctx, g):
        (m,) = ctx.saved_tensors
        return (g * m, None)


@right(leaf(6))
class Single(Function):
    @staticmethod
    def forward(ctx, x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


@right(leaf(6))
class SingleOut(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.d = x.dtype
        return (x.float() ** 2).sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (2 * g * x.float()).to(ctx.d)


@right(leaf(3, 4), leaf(4, 2, grad=False), leaf(2))
class Needs(Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x @ w + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        n = ctx.needs_input_grad
        return (
            g @ w.t() if n[0] else None,
            x.t() @ g if n[1] else None,
            g.sum(0) if n[2] else None,
        )


@right(torch.tensor([0.0, 0.0, 1.0, -1.0]).requires_grad_())
class Relu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0)


@right(torch.zeros(3, 3).requires_grad_())
class AbsZero(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs().sum(1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g[:, None] * x.sign()


@right(leaf(6, scale=100))
class Softmax(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.softmax(0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum())


@right(leaf(40, 50), leaf(50, 60))
class Product(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return (g @ b.t(), a.t() @ g)


@right(leaf(5))
class ThroughNumpy(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() ** 2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(g.detach().numpy() * 2 * x.detach().numpy())


@right(leaf(4))
class Unmaterialized(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return (x.sin(), x.exp())

    @staticmethod
    def backward(ctx, a, b):
        (x,) = ctx.saved_tensors
        r = None
        if a is not None:
            r = a * x.cos()
        if b is not None:
            r = b * x.exp() if r is None else r + b * x.exp()
        return r


@right(leaf(4))
class Identity(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g


@right(leaf(4, dtype=torch.bfloat16))
class Bfloat(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


@right(torch.tensor([0.0001, 0.001, 1.0]).requires_grad_())
class LogSmall(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / x


@right(leaf(6), leaf(6))
class Stacked(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.stack([x * y, x + y])

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (g[0] * y + g[1], g[0] * x + g[1])


@right(leaf(4, 3).detach().t().requires_grad_())
class ReadsTransposed(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


@right(leaf(4, 1).detach().expand(4, 3).requires_grad_(), leaf(4, 6).detach()[:, ::2])
class ReadsExpanded(ReadsTransposed):
    @staticmethod
    def forward(ctx, x, y):  # type: ignore[override]
        ctx.save_for_backward(x, y)
        return x.exp() * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * x.exp() * y, None
