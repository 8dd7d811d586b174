"""Piecewise operations at their bounds, ties, kinks and poles, and at random points.

Each row of the table has a name, a call of torch, and the points at which derivatives are compared.
A point is a tuple of inputs; each input is a list of numbers, nested as the tensor is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan, nextafter
from typing import Any

import torch
import torch.nn.functional as F

Call = Callable[..., Any]
Given = tuple[Any, ...]

aten = torch.ops.aten


@dataclass(frozen=True)
class Kinks:
    """An operation, and where its derivative is to be looked at."""

    name: str
    call: Call
    points: tuple[Given, ...]  # each a tuple of inputs that require grad

    def leaves(self, point: Given, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
        """Return fresh leaves for a point."""
        return [torch.tensor(each, dtype=dtype, requires_grad=True) for each in point]

    def outputs(self, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the differentiable outputs of the call."""
        found = self.call(*leaves)
        several = found if isinstance(found, (tuple, list)) else [found]
        return [each for each in several if isinstance(each, torch.Tensor) and each.requires_grad]


_WIDE = 7
"""So many times the points, so that torch's vectorised kernels take most of them."""


def about(*kinks: float) -> list[float]:
    """Return kinks, the next numbers on both sides of each, and numbers farther away."""
    near = [x for kink in kinks for x in (nextafter(kink, -inf), kink, nextafter(kink, inf))]
    return [*near, *(kink + d for kink in kinks for d in (-1.3, 0.7))]


def alone(*kinks: float) -> tuple[Given, ...]:
    """Return points for a function of one number: all together, each alone, several of each."""
    numbers = about(*kinks)
    together: list[Given] = [(numbers,), (numbers * _WIDE,), ([-0.0, 0.0],)]
    return (*together, *((x,) for x in numbers), *(([kink] * 3,) for kink in kinks))


def unary(name: str, call: Call, *kinks: float) -> Kinks:
    return Kinks(name, call, alone(*kinks))


def pairs(*numbers: float) -> tuple[Given, ...]:
    """Return points for a function of two numbers: every pair of them, ties among these."""
    every = list(itertools.product(numbers, repeat=2))
    one, other = [list(each) for each in zip(*every, strict=True)]
    equal = ([[x] * 2, [x] * 2] for x in numbers)
    wide = (one * _WIDE, other * _WIDE)
    return ((one, other), wide, *every, *map(tuple, equal), (list(numbers), numbers[0]))


def binary(name: str, call: Call, *numbers: float) -> Kinks:
    return Kinks(name, call, pairs(*(numbers or (-1.0, 0.0, 1.0, 2.5))))


ROWS = ([2.0, 1.0, 2.0, -1.0], [0.0, 0.0, 0.0, 0.0], [3.0, -3.0, 0.5, 3.0])
VECTORS: tuple[Given, ...] = (
    ([2.0, 1.0, 2.0, -1.0],),
    ([0.0, 0.0, 0.0],),
    ([-1.0, -1.0],),
    ([0.5, -2.0, 1.5],),
    ([0.0, 1.0, -2.0],),
    ([0.0, 0.0, 3.0],),
    ([1.5],),
    ([0.0],),
    (0.0,),
    (-2.0,),
)
WITH_NAN: tuple[Given, ...] = (([1.0, nan, 1.0],), ([nan, nan],))
TABLES: tuple[Given, ...] = ((list(ROWS),), ([[1.0, 1.0], [1.0, 1.0]],), ([[0.0]],))


def vector(name: str, call: Call, *more: Given) -> Kinks:
    return Kinks(name, call, (*VECTORS, *TABLES, *more))


def rows(name: str, call: Call, *more: Given) -> Kinks:
    """Return an operation along the last dimension."""
    return Kinks(name, call, (*(p for p in VECTORS if p[0] not in (0.0, -2.0)), *TABLES, *more))


IMAGES = (
    [[[1.0, 1.0, 0.0, 2.0], [1.0, 1.0, 2.0, 0.0], [0.0] * 4, [-1.0, -1.0, -1.0, -1.0]]],
    [[[0.0] * 4] * 4],
    [[[0.3, -0.2, 1.7, 0.4], [2.0, 0.1, -3.0, 0.0], [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]]],
)
SIGNAL = tuple(([image[0][0] + image[0][1]],) for image in IMAGES)
IMAGE = tuple((image,) for image in IMAGES)
VOLUME = tuple(([[image[0], image[0]]],) for image in IMAGES)


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def tensor(*numbers: Any) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def labels(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers)


_TRIPLES = list(itertools.product((-1.0, 0.0, 1.0), repeat=3))

_BOUNDS = [
    unary("clamp(min=0)", lambda x: x.clamp(min=0.0), 0.0),
    unary("clamp(max=1)", lambda x: x.clamp(max=1.0), 1.0),
    unary("clamp(0, 1)", lambda x: x.clamp(0.0, 1.0), 0.0, 1.0),
    unary("clamp(1, 1)", lambda x: x.clamp(1.0, 1.0), 1.0),
    unary("clamp(1, 0)", lambda x: x.clamp(1.0, 0.0), 0.0, 1.0),
    unary("clamp_min(0)", lambda x: x.clamp_min(0.0), 0.0),
    unary("clamp_max(1)", lambda x: x.clamp_max(1.0), 1.0),
    binary("clamp(min=tensor)", lambda x, low: x.clamp(min=low)),
    binary("clamp(max=tensor)", lambda x, high: x.clamp(max=high)),
    binary("clamp(tensor, 1)", lambda x, low: torch.clamp(x, low, number(1.0))),
    binary("clamp(0, tensor)", lambda x, high: torch.clamp(x, number(0.0), high)),
    Kinks(
        "clamp(tensor, tensor)",
        torch.clamp,
        (
            tuple(map(list, zip(*_TRIPLES, strict=True))),
            *_TRIPLES,
            ([0.0, 0.0], [0.0, 0.0], [1.0, 1.0]),
            ([1.0, 1.0], [1.0, 1.0], [1.0, 1.0]),
        ),
    ),
    binary("clamp_min(tensor)", torch.clamp_min),
    binary("clamp_max(tensor)", torch.clamp_max),
    unary("hardtanh", F.hardtanh, -1.0, 1.0),
    unary("hardtanh(0, 2)", lambda x: F.hardtanh(x, 0.0, 2.0), 0.0, 2.0),
    unary("relu", F.relu, 0.0),
    unary("relu6", F.relu6, 0.0, 6.0),
    unary("leaky_relu", F.leaky_relu, 0.0),
    unary("leaky_relu in place", lambda x: F.leaky_relu(x * 1, 0.1, inplace=True), 0.0),
    unary("leaky_relu(0)", lambda x: F.leaky_relu(x, 0.0), 0.0),
    Kinks("prelu", F.prelu, tuple((about(0.0), w) for w in ([0.25], [0.0], [-0.5]))),
    unary("elu", F.elu, 0.0),
    unary("elu in place", lambda x: F.elu(x * 1, 0.5, inplace=True), 0.0),
    unary("celu", lambda x: F.celu(x, 0.5), 0.0),
    unary("selu", F.selu, 0.0),
    unary("hardswish", F.hardswish, -3.0, 0.0, 3.0),
    unary("hardsigmoid", F.hardsigmoid, -3.0, 3.0),
    unary("threshold", lambda x: F.threshold(x, 0.5, 9.0), 0.5),
    unary("hardshrink", F.hardshrink, -0.5, 0.0, 0.5),
    unary("softshrink", F.softshrink, -0.5, 0.0, 0.5),
    unary("hardshrink(0)", lambda x: F.hardshrink(x, 0.0), 0.0),
    unary("tanhshrink", F.tanhshrink, 0.0),
    unary("softsign", F.softsign, 0.0),
    unary("softplus", lambda x: F.softplus(x, 2.0, 3.0), 1.5),
    unary("logsigmoid", F.logsigmoid, 0.0),
    unary("sigmoid far out", torch.sigmoid, -800.0, 800.0),
    unary("tanh far out", torch.tanh, -30.0, 30.0),
]

_NUMBERS = [
    unary("abs", torch.abs, 0.0),
    unary("sign", torch.sign, 0.0),
    unary("sgn", torch.sgn, 0.0),
    unary("trunc", torch.trunc, -1.0, 0.0, 1.0),
    unary("round", torch.round, 0.5, 1.0),
    unary("round(decimals=1)", lambda x: torch.round(x, decimals=1), 0.25),
    unary("floor", torch.floor, 0.0, 1.0),
    unary("ceil", torch.ceil, 0.0, 1.0),
    unary("frac", torch.frac, -1.0, 0.0, 1.0),
    binary("heaviside", lambda x, y: torch.heaviside(x, y.detach()) * x, 0.0, 1.0, -1.0),
    unary("square root", torch.sqrt, 0.0, 4.0),
    unary("rsqrt", torch.rsqrt, 0.0, 4.0),
    unary("reciprocal", torch.reciprocal, 0.0),
    unary("log", torch.log, 0.0, 1.0),
    unary("log1p", torch.log1p, -1.0, 0.0),
    unary("logit", torch.logit, 0.0, 1.0),
    unary("logit(eps)", lambda x: torch.logit(x, 0.25), 0.25, 0.75),
    *(unary(f"pow {n}", lambda x, n=n: x**n, 0.0) for n in (0, 1, 2, 3, 0.5, -1, 1.5)),
    binary("pow", torch.pow, -2.0, 0.0, 1.0, 2.0, 0.5),
    *(unary(f"{n} to a power", lambda x, n=n: n**x, 0.0, 1.0) for n in (0.0, 1.0, 2.0, -1.0)),
    unary("square", torch.square, 0.0),
    binary("xlogy", torch.xlogy, 0.0, 1.0, -1.0, 2.0),
    binary("xlog1py", torch.special.xlog1py, 0.0, 1.0, -1.0, 2.0),
    unary("entr", torch.special.entr, 0.0, 1.0),
    unary("acos", torch.acos, -1.0, 0.0, 1.0),
    unary("asin", torch.asin, -1.0, 0.0, 1.0),
    unary("acosh", torch.acosh, 1.0),
    unary("atanh", torch.atanh, -1.0, 0.0, 1.0),
    unary("tan", torch.tan, 0.0),
    unary("sinc", torch.sinc, 0.0, 1.0),
    unary("digamma", torch.digamma, 0.0, -1.0),
    unary("lgamma", torch.lgamma, 0.0, -1.0),
    unary("erfinv", torch.erfinv, -1.0, 0.0, 1.0),
    unary("i0", torch.special.i0, 0.0),
    unary("i1", torch.special.i1, 0.0),
    binary("atan2", torch.atan2, -0.0, 0.0, 1.0, -1.0),
    binary("hypot", torch.hypot, -0.0, 0.0, 1.0, -1.0),
    binary("copysign", torch.copysign, -0.0, 0.0, 1.0, -1.0),
    binary("division", torch.div, 0.0, 1.0, -1.0),
    binary("floor division", lambda x, y: torch.div(x, y, rounding_mode="floor"), 1.0, 2.0, -2.0),
    binary("truncated division", lambda x, y: torch.div(x, y, rounding_mode="trunc"), 1.0, 2.0),
    binary("remainder", torch.remainder, 0.0, 1.0, -1.0, 2.0, -2.5),
    binary("fmod", torch.fmod, 0.0, 1.0, -1.0, 2.0, -2.5),
    unary("remainder(2)", lambda x: torch.remainder(x, 2.0), 0.0, 2.0, -2.0),
    unary("fmod(2)", lambda x: torch.fmod(x, 2.0), 0.0, 2.0, -2.0),
    unary("nan_to_num", torch.nan_to_num, 0.0, inf, -inf),
    unary("nan_to_num of nan", torch.nan_to_num, nan),
    binary("logaddexp", torch.logaddexp, 0.0, inf, -inf, 1.0),
    binary("logaddexp2", torch.logaddexp2, 0.0, inf, -inf, 1.0),
    unary("where", lambda x: torch.where(x > 0, x, 0.5 * x), 0.0),
    binary("where of two", lambda x, y: torch.where(x > y, x, y)),
    unary("masked_fill", lambda x: x.masked_fill(x > 0, 2.0), 0.0),
    unary("angle", torch.angle, 0.0),
    binary("lerp at its ends", lambda x, y: torch.lerp(x, y, 1.0)),
    binary("dist of one", torch.dist),
]

_MAXIMA = [
    binary("maximum", torch.maximum, -1.0, 0.0, 1.0, nan),
    binary("minimum", torch.minimum, -1.0, 0.0, 1.0, nan),
    binary("fmax", torch.fmax, -1.0, 0.0, 1.0, nan),
    binary("fmin", torch.fmin, -1.0, 0.0, 1.0, nan),
    binary("max of two", torch.max),
    binary("min of two", torch.min),
    vector("max", torch.max, *WITH_NAN),
    vector("min", torch.min, *WITH_NAN),
    rows("max along", lambda x: x.max(-1)[0], *WITH_NAN),
    rows("min along", lambda x: x.min(-1)[0], *WITH_NAN),
    vector("amax", torch.amax, *WITH_NAN),
    vector("amin", torch.amin, *WITH_NAN),
    rows("amax along", lambda x: x.amax(-1)),
    rows("amin along", lambda x: x.amin(-1)),
    vector("aminmax", lambda x: list(torch.aminmax(x))),
    rows("aminmax along", lambda x: list(torch.aminmax(x, dim=-1))),
    vector("median", torch.median, *WITH_NAN),
    vector("nanmedian", torch.nanmedian, *WITH_NAN),
    rows("median along", lambda x: x.median(-1)[0]),
    rows("nanmedian along", lambda x: x.nanmedian(-1)[0], *WITH_NAN),
    rows("mode", lambda x: x.mode(-1)[0]),
    rows("kthvalue", lambda x: x.kthvalue(1, -1)[0]),
    rows("topk", lambda x: x.topk(1, -1)[0]),
    rows("sort", lambda x: x.sort(-1)[0]),
    rows("msort", torch.msort),
    rows("cummax", lambda x: x.cummax(-1)[0]),
    rows("cummin", lambda x: x.cummin(-1)[0]),
    rows("quantile", lambda x: x.quantile(0.5, -1)),
    Kinks("max_pool1d", lambda x: F.max_pool1d(x, 2), SIGNAL),
    Kinks("max_pool1d overlapping", lambda x: F.max_pool1d(x, 3, 1, 1), SIGNAL),
    Kinks("max_pool2d", lambda x: F.max_pool2d(x, 2), IMAGE),
    Kinks("max_pool2d overlapping", lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE),
    Kinks("max_pool3d", lambda x: F.max_pool3d(x, 2), VOLUME),
    Kinks("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3), SIGNAL),
    Kinks("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 3), IMAGE),
    Kinks("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, 2), VOLUME),
    Kinks("lp_pool2d", lambda x: F.lp_pool2d(x, 2.0, 2), IMAGE),
]


def _loss(name: str, call: Call, *numbers: float) -> list[Kinks]:
    """Return a loss of two tensors, with its three ways to reduce."""
    return [
        Kinks(f"{name} {how}", lambda x, y, how=how: call(x, y, reduction=how), pairs(*numbers))
        for how in ("none", "mean", "sum")
    ]


_LOSSES = [
    *_loss("l1_loss", F.l1_loss, 0.0, 1.0, -1.0),
    *_loss("smooth_l1_loss", F.smooth_l1_loss, 0.0, 1.0, -1.0, 2.0),
    *_loss("smooth_l1_loss(beta=0)", lambda x, y, **k: F.smooth_l1_loss(x, y, beta=0.0, **k), 0, 1),
    *_loss("huber_loss", F.huber_loss, 0.0, 1.0, -1.0, 2.0),
    *_loss("huber_loss(delta=2)", lambda x, y, **k: F.huber_loss(x, y, delta=2.0, **k), 0, 2, 1),
    *_loss("mse_loss", F.mse_loss, 0.0, 1.0),
    Kinks(
        "binary_cross_entropy",
        lambda x: F.binary_cross_entropy(x, tensor(0.0, 1.0, 0.0, 1.0, 0.5).to(x.dtype)),
        (([0.0, 0.0, 1.0, 1.0, 0.5],), ([0.5, 0.25, 0.5, 0.75, 0.1],)),
    ),
    Kinks(
        "hinge_embedding_loss",
        lambda x: F.hinge_embedding_loss(x, tensor(-1.0, -1.0, 1.0, -1.0), margin=1.0),
        (([1.0, 1.0, 0.0, 1.0],), ([0.5, 2.0, 1.0, 1.0],), ([1.0, 2.0, 1.0, 3.0],)),
    ),
    Kinks(
        "margin_ranking_loss",
        lambda x, y: F.margin_ranking_loss(x, y, tensor(1.0, -1.0, 1.0), margin=0.5),
        (
            ([0.5, 0.0, 0.0], [0.0, 0.5, 0.0]),
            ([0.5, 0.0, 0.5], [0.0, 0.5, 0.0]),
            ([2.0, 0.0, 2.0], [0.0, 2.0, 0.0]),
        ),
    ),
    Kinks(
        "multi_margin_loss",
        lambda x: F.multi_margin_loss(x, labels(0, 1), margin=1.0),
        (([[1.0, 0.0, 0.5], [0.0, 1.0, 2.0]],), ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],)),
    ),
    Kinks(
        "multi_margin_loss p=2",
        lambda x: F.multi_margin_loss(x, labels(0, 1), p=2),
        (([[1.0, 0.0, 0.5], [0.0, 1.0, 2.0]],), ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],)),
    ),
    Kinks(
        "multilabel_margin_loss",
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[0, 2, -1], [1, -1, -1]])),
        (([[1.0, 0.0, 0.5], [0.0, 1.0, 2.0]],), ([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]],)),
    ),
    Kinks(
        "triplet_margin_loss",
        lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=1.0, eps=0.0),
        (
            ([[0.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]),
            ([[0.0, 0.0]], [[1.0, 0.0]], [[2.0, 0.0]]),
            ([[0.0, 0.0]], [[0.0, 0.0]], [[1.0, 0.0]]),
            ([[0.0, 0.5]], [[1.0, 0.0]], [[0.0, 1.0]]),
        ),
    ),
    Kinks(
        "cosine_embedding_loss",
        lambda x, y: F.cosine_embedding_loss(x, y, tensor(-1.0, 1.0), margin=0.0),
        (
            ([[1.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]]),
            ([[1.0, 2.0]] * 2, [[0.0, 3.0]] * 2),
        ),
    ),
    Kinks("cosine_similarity", F.cosine_similarity, (([[0.0, 0.0]], [[0.0, 1.0]]),)),
    Kinks(
        "pairwise_distance",
        lambda x, y: F.pairwise_distance(x, y, eps=0.0),
        (([[0.0, 1.0]], [[0.0, 1.0]]), ([[0.0, 1.0]], [[1.0, 1.0]])),
    ),
    Kinks("normalize", lambda x: F.normalize(x, dim=-1), (([[0.0, 0.0], [3.0, 4.0]],),)),
    Kinks("soft_margin_loss", lambda x: F.soft_margin_loss(x, tensor(1.0, -1.0)), (([0.0, 0.0],),)),
]

_ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf, -inf)
_POINTS = (
    ([[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]),
    ([[1.0, 1.0]], [[1.0, 1.0]]),
    ([[0.5, -1.0], [2.0, 0.3]], [[0.1, 0.2]]),
)
_NORMS = [
    *(vector(f"vector_norm {p}", lambda x, p=p: torch.linalg.vector_norm(x, p)) for p in _ORDERS),
    *(vector(f"norm {p}", lambda x, p=p: torch.norm(x, p)) for p in _ORDERS),
    *(vector(f"aten norm {p}", lambda x, p=p: aten.norm.Scalar(x, p)) for p in _ORDERS),
    *(
        rows(f"aten norm {p} along", lambda x, p=p: aten.norm.ScalarOpt_dim(x, p, [-1], False))
        for p in _ORDERS
    ),
    rows("norm along", lambda x: x.norm(dim=-1)),
    *(binary(f"dist {p}", lambda x, y, p=p: torch.dist(x, y, p), 0.0, 1.0, -2.0) for p in _ORDERS),
    *(
        Kinks(f"cdist {p}", lambda x, y, p=p: torch.cdist(x, y, p), _POINTS)
        for p in _ORDERS
        if p >= 0
    ),
    Kinks(
        "cdist by a product",
        lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"),
        _POINTS,
    ),
    *(
        Kinks(
            f"pdist {p}", lambda x, p=p: F.pdist(x, p), (([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]],),)
        )
        for p in _ORDERS
        if p >= 0
    ),
    Kinks("renorm", lambda x: torch.renorm(x, 2.0, 0, 1.0), (*TABLES, ([[0.6, 0.8], [0.0, 1.0]],))),
]

_REDUCTIONS = [
    vector("prod", torch.prod),
    rows("prod along", lambda x: x.prod(-1)),
    rows("cumprod", lambda x: x.cumprod(-1)),
    vector("logsumexp", lambda x: x.reshape(-1).logsumexp(0), ([-inf, -inf],), ([-inf, 1.0],)),
    vector("logsumexp of inf", lambda x: x.reshape(-1).logsumexp(0), ([inf, 0.0],)),
    rows("logcumsumexp", lambda x: x.logcumsumexp(-1), ([-inf, -inf],), ([-inf, 1.0],)),
    rows("softmax", lambda x: x.softmax(-1), ([-inf, 1.0],), ([900.0, 0.0],)),
    rows("log_softmax", lambda x: x.log_softmax(-1), ([900.0, 0.0],)),
    vector("var", torch.var),
    vector("std", torch.std),
    vector("var(correction=0)", lambda x: torch.var(x, correction=0)),
    vector("std(correction=0)", lambda x: torch.std(x, correction=0)),
    rows("std along", lambda x: x.std(-1)),
    rows("std_mean", lambda x: list(torch.std_mean(x, -1))),
    rows("var_mean", lambda x: list(torch.var_mean(x, -1))),
    vector("nansum", torch.nansum, *WITH_NAN),
    vector("nanmean", torch.nanmean, *WITH_NAN),
    rows("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:])),
]

TABLE: tuple[Kinks, ...] = (*_BOUNDS, *_NUMBERS, *_MAXIMA, *_LOSSES, *_NORMS, *_REDUCTIONS)
BY_NAME = {each.name: each for each in TABLE}


def every_point() -> Iterator[tuple[Kinks, Given]]:
    """Yield each row with each of its points."""
    for row in TABLE:
        for point in row.points:
            yield row, point
