"""More small programs, for the backward classes of what models use less."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from formula_programs import X, aten, c, index, p, r, whole

MASK = torch.tensor([True, False, True, True])
PLACES = torch.tensor([[0, 0, 2, 1], [1, 1, 2, 0]])
REDUCED = ("sum", "prod", "mean", "amax", "amin")
ORDERS = (0, 0.5, 1, 1.5, 2, 3, math.inf)

HAS_CHOLESKY = hasattr(torch._C._functions, "CholeskyBackward0")
"""Whether this torch has ``torch.cholesky``, which 2.14 removed."""


def square(*shape, make=r):
    """Matrices far from singular."""
    return (make(*shape) + 3 * torch.eye(shape[-1])).detach().requires_grad_()


def symmetric(*shape):
    """Positive definite ones."""
    start = square(*shape).detach()
    return (start @ start.mT).requires_grad_()


def pooled(dims):
    """Pooling over a plane of so many dimensions, and its way back."""
    x = r(1, 2, *[6] * dims)
    pool = {2: F.max_pool2d, 3: F.max_pool3d}[dims]
    adaptive = {2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[dims]
    fractional = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}[dims]
    back = {2: F.max_unpool2d, 3: F.max_unpool3d}[dims]
    small, places = pool(x, 2, return_indices=True)
    unpooled = back(r(*small.shape), places, 2)
    return [pool(x, 2), adaptive(x, 3), fractional(x, 2, output_size=3), unpooled]


def doubled(program, *leaves):
    """The sum of the gradients of a program, with its graph."""
    y = program(*leaves)
    weights = torch.randn_like(y, requires_grad=True)
    return sum(each.sum() for each in torch.autograd.grad(y, leaves, weights, create_graph=True))


def lu(*shape):
    return torch.linalg.lu_factor(square(*shape).detach())


def solved_by_factors(left, adjoint):
    packed, pivots = lu(2, 3, 3)
    b = r(2, 3, 4) if left else r(2, 4, 3)
    return torch.linalg.lu_solve(packed.requires_grad_(), pivots, b, left=left, adjoint=adjoint)


def unpacked(rows, columns):
    packed, pivots = torch.linalg.lu_factor(r(rows, columns).detach())
    return torch.lu_unpack(packed.requires_grad_(), pivots)[1]


def batch_normal(op, *rest):
    given = r(5, 3, 4), r(3), r(3)
    return op(*given, *rest)[0]


def running():
    return r(3).detach(), p(3).detach()


MORE_PROGRAMS = {
    "asinh": lambda: [r(*X).asinh(), (1.5 + p(*X)).acosh(), p(*X).atanh(), c(*X).acosh()],
    "degrees": lambda: [r(*X).deg2rad(), r(*X).rad2deg(), whole(*X).sinc()],
    "gamma": lambda: [(3 + p(*X)).mvlgamma(3), p(*X).polygamma(1), p(*X).lgamma()],
    "direction": lambda: [r(*X).sgn(), c(*X).sgn(), r(*X).angle(), c(*X).angle()],
    "polar": lambda: [torch.polar(p(*X), r(*X))],
    "sign of another": lambda: [torch.copysign(whole(3, 1), r(4)), torch.copysign(r(*X), -2)],
    "threshold": lambda: [
        F.threshold(whole(*X), 1, 5),
        F.threshold(whole(*X) * 1, 1, 5, inplace=True),
        F.hardshrink(whole(*X), 2),
        F.celu(r(*X) * 1, 2.0, inplace=True),
    ],
    "nansum": lambda: [(r(4) / index(0, 1, 0, 1)).nansum(), r(*X).nansum(1)],
    "median of nan": lambda: [
        r(5).nanmedian(),
        r(3, 5).nanmedian(1)[0],
        (whole(5) * math.nan).median(),
        (whole(5) * math.nan).max(),
    ],
    "kth": lambda: [r(*X).kthvalue(2, 1)[0], whole(*X).mode(0)[0], r(*X).sort(stable=True)[0]],
    "aminmax": lambda: [whole(*X).aminmax()[0], whole(*X).aminmax(dim=1)[1]],
    "cumprod": lambda: [
        p(*X).cumprod(1),
        whole(*X).cumprod(0),
        c(*X).cumprod(-1),
        whole(*X).cummax(1)[0],
        whole(*X).cummin(0)[0],
        r(*X).logcumsumexp(1),
        (1000 * r(*X)).logcumsumexp(0),
    ],
    "trace": lambda: [r(*X).trace()],
    "norms": lambda: (
        [torch.norm(r(*X), order) for order in ORDERS]
        + [aten.norm.Scalar(r(*X), order) for order in ORDERS]
        + [torch.norm(r(*X), order, dim=1) for order in ORDERS]
        + [aten.norm.ScalarOpt_dim(r(*X), order, [1]) for order in ORDERS]
        + [aten.norm.ScalarOpt_dtype(r(*X), 2, dtype=torch.float64)]
        + [aten.norm.ScalarOpt_dim_dtype(r(*X), 2, [0], True, dtype=torch.float64)]
        + [torch.dist(r(*X), r(*X), order) for order in ORDERS[1:]]
        + [torch.dist(r(3, 1), r(4))]
    ),
    "distances": lambda: [
        torch.cdist(r(2, 3, 4), r(5, 4), p=1),
        torch.cdist(r(3, 4), r(5, 4), p=1),
        torch.cdist(r(3, 4), r(5, 4), compute_mode="use_mm_for_euclid_dist"),
    ],
    "safe softmax": lambda: [aten._safe_softmax(r(*X), -1)],
    "squeeze in place": lambda: [
        (r(3, 1) * 1).squeeze_(),
        (r(3, 1) * 1).squeeze_(1),
        (r(1, 3, 1) * 1).squeeze_((0, 2)),
    ],
    "unsafe split": lambda: [
        torch.unsafe_split(r(*X), 3, 1)[1],
        torch.unsafe_split_with_sizes(r(*X), [1, 3], 1)[0],
    ],
    "narrow copy": lambda: [torch.narrow_copy(r(*X), 1, 1, 2)],
    "put into a part": lambda: [
        torch.select_scatter(r(*X), r(4), 0, 1),
        torch.slice_scatter(r(*X), r(3, 2), 1, 1, 3),
        torch.diagonal_scatter(r(*X), r(3)),
    ],
    "blocks": lambda: [torch.block_diag(r(2, 3), r(4), r(), r(1, 2))],
    "channels": lambda: [F.channel_shuffle(r(1, 6, 2, 2), 3)],
    "masked select": lambda: [r(*X).masked_select(MASK), r(4).masked_select(MASK.expand(3, 4))],
    "put": lambda: [
        r(*X).put(index(0, 3), values, accumulate=accumulate)
        for values in (r(2), torch.ones(2).double())
        for accumulate in (True, False)
    ],
    "index put, by its own name": lambda: [
        aten._index_put_impl_(r(*X) * 1, [index(0, 2)], r(2, X[1]))
    ],
    "double backward": lambda: [
        doubled(lambda x: x.log_softmax(0), r(*X)),
        doubled(lambda x: x[1:], r(*X)),
        doubled(lambda x: x[index(0, 2)], r(*X)),
        doubled(lambda x: x[:, index(0, 0)], r(*X)),
        doubled(F.conv1d, r(1, 2, 4), r(3, 2, 2), r(3)),
    ],
    "take": lambda: [r(*X).take(index(0, 0, 5))],
    "index value": lambda: [
        r(*X).index_fill(1, index(0, 3), r()),
        r(*X).index_copy(1, index(0, 3), r(3, 2)),
    ],
    "scatter reduce": lambda: [
        whole(3, 4).scatter_reduce(0, PLACES, whole(2, 4), reduce, include_self=with_self)
        for reduce in REDUCED
        for with_self in (True, False)
    ],
    "index reduce": lambda: [
        whole(3, 4).index_reduce(0, index(0, 0), whole(2, 4), reduce, include_self=with_self)
        for reduce in REDUCED[1:]
        for with_self in (True, False)
    ],
    "planes": lambda: pooled(2) + pooled(3),
    "pooling twice": lambda: [
        aten.max_pool2d_with_indices_backward(
            r(1, 1, 2, 2),
            r(1, 1, 4, 4).detach(),
            2,
            2,
            0,
            1,
            False,
            index(0, 2, 8, 10).reshape(1, 1, 2, 2),
        )
    ],
    "sums of products": lambda: [
        torch.addbmm(r(5), r(2, 3, 4), r(2, 4, 5), alpha=2, beta=3),
        torch.addr(r(4), r(3), r(4), alpha=2, beta=3),
        torch.vdot(c(4), c(4)),
        F.bilinear(r(2, 3), r(2, 4), r(5, 3, 4)),
        torch.linalg.cross(r(4, 3), r(1, 3)),
    ],
    "batch norm variants": lambda: [
        batch_normal(aten._native_batch_norm_legit, *running(), True, 0.1, 1e-5),
        batch_normal(aten._native_batch_norm_legit.no_stats, True, 0.1, 1e-5),
        batch_normal(aten._native_batch_norm_legit_no_training, *running(), 0.1, 1e-5),
        batch_normal(aten._batch_norm_with_update, *running(), 0.1, 1e-5),
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
    "inverses": lambda: [
        torch.linalg.pinv(r(2, 3)),
        torch.linalg.pinv(c(4, 3)),
        torch.linalg.det(square(2, 3, 3)),
        torch.linalg.slogdet(square(2, 3, 3))[1],
        torch.logdet(square(3, 3, make=c)),
        torch.linalg.matrix_exp(r(2, 3, 3)),
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
    "solve with factors": lambda: [
        solved_by_factors(left, adjoint) for left in (True, False) for adjoint in (True, False)
    ],
    "cholesky": lambda: [
        torch.linalg.cholesky(symmetric(2, 3, 3)),
        torch.linalg.cholesky(symmetric(3, 3), upper=True),
        *([torch.cholesky(symmetric(3, 3))] if HAS_CHOLESKY else []),
        *[torch.cholesky_inverse(square(3, 3), upper) for upper in (True, False)],
        *[torch.cholesky_solve(r(3, 2), square(3, 3), upper) for upper in (True, False)],
    ],
    "decompositions": lambda: [
        torch.linalg.eigh(symmetric(2, 3, 3))[0],
        torch.linalg.svd(r(3, 3))[1],
        torch.linalg.svd(r(2, 4, 3), full_matrices=False)[1],
        torch.linalg.svd(r(3, 4), full_matrices=False)[0],
        torch.linalg.svd(r(3, 4))[1],
        torch.linalg.qr(r(2, 4, 3))[0],
        torch.linalg.qr(r(3, 4))[0],
    ],
    "lu": lambda: [
        *[torch.linalg.lu_factor(r(*shape))[0] for shape in ((3, 3), (2, 4, 3), (3, 4))],
        *[torch.linalg.lu(r(*shape))[1] for shape in ((3, 3), (4, 3), (3, 4))],
        *[unpacked(*shape) for shape in ((3, 3), (4, 3), (3, 4))],
    ],
}
"""Name -> what makes the outputs."""
