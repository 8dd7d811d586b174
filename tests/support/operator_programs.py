"""More small programs, for the backward classes of what models use less."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from formula_programs import X, aten, c, index, p, r, whole

MASK = torch.tensor([True, False, True, True])
ORDERS = (0, 0.5, 1, 1.5, 2, 3, math.inf)


def square(*shape, make=r):
    """Matrices far from singular."""
    return (make(*shape) + 3 * torch.eye(shape[-1])).detach().requires_grad_()


def symmetric(*shape):
    """Positive definite ones."""
    start = square(*shape).detach()
    return (start @ start.mT).requires_grad_()


def doubled(program, *leaves):
    """The sum of the gradients of a program, with its graph."""
    y = program(*leaves)
    weights = torch.randn_like(y, requires_grad=True)
    return sum(each.sum() for each in torch.autograd.grad(y, leaves, weights, create_graph=True))


MORE_PROGRAMS = {
    "threshold": lambda: [
        F.threshold(whole(*X), 1, 5),
        F.threshold(whole(*X) * 1, 1, 5, inplace=True),
        F.hardshrink(whole(*X), 2),
    ],
    "largest of nan": lambda: [(whole(5) * math.nan).median(), (whole(5) * math.nan).max()],
    "stable sort": lambda: [r(*X).sort(stable=True)[0]],
    "planes": lambda: [F.max_pool3d(r(1, 2, 6, 6, 6), 2)],
    "cumprod": lambda: [
        p(*X).cumprod(1),
        whole(*X).cumprod(0),
        c(*X).cumprod(-1),
        whole(*X).cummax(1)[0],
        whole(*X).cummin(0)[0],
    ],
    "norms": lambda: (
        [torch.norm(r(*X), order) for order in ORDERS]
        + [aten.norm.Scalar(r(*X), order) for order in ORDERS]
        + [torch.norm(r(*X), order, dim=1) for order in ORDERS]
        + [aten.norm.ScalarOpt_dim(r(*X), order, [1]) for order in ORDERS]
        + [aten.norm.ScalarOpt_dtype(r(*X), 2, dtype=torch.float64)]
        + [aten.norm.ScalarOpt_dim_dtype(r(*X), 2, [0], True, dtype=torch.float64)]
    ),
    "distances": lambda: [
        torch.cdist(r(2, 3, 4), r(5, 4), p=1),
        torch.cdist(r(3, 4), r(5, 4), p=1),
    ],
    "squeeze in place": lambda: [
        (r(3, 1) * 1).squeeze_(),
        (r(3, 1) * 1).squeeze_(1),
        (r(1, 3, 1) * 1).squeeze_((0, 2)),
    ],
    "unsafe split": lambda: [
        torch.unsafe_split(r(*X), 3, 1)[1],
        torch.unsafe_split_with_sizes(r(*X), [1, 3], 1)[0],
    ],
    "channels": lambda: [F.channel_shuffle(r(1, 6, 2, 2), 3)],
    "masked select": lambda: [r(*X).masked_select(MASK), r(4).masked_select(MASK.expand(3, 4))],
    "put": lambda: [
        r(*X).put(index(0, 3), values, accumulate=accumulate)
        for values in (r(2), torch.ones(2).double())
        for accumulate in (True, False)
    ],
    "double backward": lambda: [
        doubled(lambda x: x.log_softmax(0), r(*X)),
        doubled(lambda x: x[1:], r(*X)),
        doubled(lambda x: x[index(0, 2)], r(*X)),
        doubled(lambda x: x[:, index(0, 0)], r(*X)),
    ],
    "group norm of three": lambda: list(
        torch.native_group_norm(r(2, 4, 5), r(4), r(4), 2, 4, 5, 2, 1e-5)
    ),
    "group norm of nothing": lambda: [F.group_norm(r(0, 4, 5), 2, r(4), r(4))],
    "transposed convolution": lambda: [
        F.conv_transpose1d(r(1, 2, 4), r(2, 3, 3), dilation=2, output_padding=1),
        F.conv_transpose2d(
            r(1, 2, 4, 4), r(2, 3, 3, 3), padding=1, dilation=(2, 1), output_padding=(1, 0)
        ),
        F.conv_transpose3d(
            r(1, 2, 3, 3, 3), r(2, 2, 2, 2, 2), stride=(1, 2, 1), dilation=3, output_padding=2
        ),
    ],
    "no target": lambda: [
        F.cross_entropy(r(*X), torch.full((3,), -100)),
        F.cross_entropy(r(2, 4, 3), torch.full((2, 3), -100)),
        F.nll_loss(r(2, 4, 3, 1), torch.full((2, 3, 1), -100)),
        F.nll_loss(r(*X), index(0, 0, 0), weight=index(0, 1, 1, 1).double()),
    ],
    "real from complex": lambda: [
        r(*X, dtype=torch.float32).to(torch.complex128),
        c(*X).to(torch.complex64),
        r(*X).to(torch.complex64),
        c(*X).real.float(),
        r(3, 1, dtype=torch.float32) * c(4),
        r(3, 1, dtype=torch.float32) / c(4),
    ],
    "fourier": lambda: [
        torch.fft.fft(r(5)),
        torch.fft.rfft2(r(3, 5), norm="ortho"),
        torch.fft.rfft(r(3, 6), dim=0),
        torch.fft.irfft(c(4)),
        torch.fft.irfftn(c(3, 4), s=(3, 5)),
        torch.fft.hfft(c(5), n=1),
        torch.fft.ifft(c(5), norm="forward"),
    ],
    "determinants": lambda: [
        torch.linalg.det(square(2, 3, 3)),
        torch.linalg.slogdet(square(2, 3, 3))[1],
        torch.logdet(square(3, 3, make=c)),
    ],
    "solve": lambda: [
        torch.linalg.solve(square(2, 3, 3), r(2, 3, 4)),
        torch.linalg.solve(square(3, 3), r(3)),
        torch.linalg.solve(square(3, 3, make=c), c(2, 4, 3), left=False),
        torch.linalg.solve(square(2, 3, 3), r(2, 3)),
    ],
    "solve triangular": lambda: [
        torch.linalg.solve_triangular(
            square(2, 3, 3), r(1, 3, 3), upper=upper, left=left, unitriangular=ones
        )
        for upper in (True, False)
        for left in (True, False)
        for ones in (True, False)
    ],
    "cholesky": lambda: [
        torch.linalg.cholesky(symmetric(2, 3, 3)),
        torch.linalg.cholesky(symmetric(3, 3), upper=True),
        torch.cholesky(symmetric(3, 3)),
    ],
}
"""Name -> what makes the outputs."""
