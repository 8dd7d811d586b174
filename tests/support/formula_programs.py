"""Small programs that between them make every backward class with a formula of our own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def r(*shape, dtype=torch.float64):
    """A leaf with positive and negative numbers."""
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def p(*shape):
    """A leaf with numbers between 0.1 and 0.9."""
    return (torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1).requires_grad_()


def whole(*shape):
    """A leaf with small whole numbers, so that there are ties and bounds are met."""
    return torch.randint(-3, 4, shape).double().requires_grad_()


def c(*shape):
    """A complex leaf."""
    return r(*shape, dtype=torch.complex128)


def index(*numbers):
    return torch.tensor(numbers)


def times_itself(x):
    return x * x


def positive_part(x):
    return x[x > 0]


def written_into(x, where, values):
    x[where] = values
    return x


X = (3, 4)
LABELS = index(1, 0, 3)
PROGRAMS = {
    "add": lambda: [r(3, 1) + r(4), r(*X) + 2, torch.add(r(*X), r(), alpha=3)],
    "add scalar": lambda: [aten.add.Scalar(r(*X), 2)],
    "sub": lambda: [r(3, 1) - r(4), r(*X) - 2, torch.sub(r(*X), r(*X), alpha=-2)],
    "sub scalar": lambda: [aten.sub.Scalar(r(*X), 2)],
    "rsub": lambda: [2 - r(*X), torch.rsub(r(4), r(3, 1), alpha=2), torch.rsub(r(4), 1, alpha=2)],
    "mul": lambda: [r(3, 1) * r(4), r(*X) * 2, r(*X) * r(), r() * r(), r(*X) * r(*X).detach()],
    "mul scalar": lambda: [aten.mul.Scalar(r(*X), 2.5)],
    "mul by itself": lambda: [times_itself(r(*X))],
    "div": lambda: [r(3, 1) / r(4), r(*X) / 2, 2 / r(*X), aten.div.Scalar(r(*X), 3)],
    "div rounded": lambda: [
        torch.div(r(3, 1), r(4), rounding_mode=mode) for mode in ("floor", "trunc", None)
    ],
    "div rounded scalar": lambda: [
        aten.div.Scalar_mode(r(*X), 2.5, rounding_mode=mode) for mode in ("floor", None)
    ],
    "rest": lambda: [r(*X).fmod(2), r(*X) % 2],
    "neg": lambda: [-r(*X)],
    "addcmul": lambda: [torch.addcmul(r(3, 1), r(4), r(1), value=v) for v in (1, -2)],
    "addcdiv": lambda: [torch.addcdiv(r(3, 1), r(4), p(1), value=v) for v in (1, -2)],
    "lerp": lambda: [torch.lerp(r(3, 1), r(4), 0.3), torch.lerp(r(3, 1), r(4), r(2, 1, 1))],
    "pow number": lambda: [r(*X) ** n for n in (0, 1, 2, 3, -1)] + [p(*X) ** 0.5, r(*X).square()],
    "pow tensor": lambda: [p(3, 1) ** r(4), whole(5, 6) ** whole(5, 6).abs().detach()],
    "pow of zero": lambda: [torch.zeros(3, dtype=torch.float64) ** whole(3).relu()],
    "exponent": lambda: [2 ** r(*X), 0 ** r(*X), 2.5 ** r()],
    "square root": lambda: [p(*X).sqrt(), p(*X).rsqrt()],
    "exp": lambda: [r(*X).exp(), r(*X).exp2(), r(*X).expm1(), r(*X).erf()],
    "log": lambda: [p(*X).log(), p(*X).log2(), p(*X).log10(), p(*X).log1p()],
    "two logs": lambda: [
        torch.hypot(r(3, 1), r(4)),
        torch.logaddexp(r(3, 1), r(4)),
        torch.xlogy(whole(3, 1), whole(4).abs()),
    ],
    "sin": lambda: [r(*X).sin(), r(*X).cos(), r(*X).tan()],
    "asin": lambda: [p(*X).asin(), p(*X).acos(), r(*X).atan(), torch.atan2(r(3, 1), r(4))],
    "sinh": lambda: [r(*X).sinh(), r(*X).cosh(), r(*X).tanh()],
    "sigmoid": lambda: [r(*X).sigmoid(), F.logsigmoid(r(*X))],
    "relu": lambda: [r(*X).relu(), whole(*X).relu(), (r(*X) * 1).relu_()],
    "leaky": lambda: [
        F.leaky_relu(whole(*X), 0.1),
        F.leaky_relu(r(*X) * 1, 0.1, inplace=True),
        F.prelu(r(2, 3, 4), r(3)),
    ],
    "elu": lambda: [
        F.elu(whole(*X), 2.0),
        F.elu(whole(*X)),
        F.selu(r(*X)),
        F.celu(whole(*X), 2.0),
        F.celu(whole(*X)),
        F.elu(r(*X) * 1, 2.0, inplace=True),
        F.selu(r(*X) * 1, inplace=True),
    ],
    "gelu": lambda: [F.gelu(r(*X)), F.gelu(r(*X), approximate="tanh")],
    "silu": lambda: [F.silu(r(*X)), F.mish(r(*X))],
    "softplus": lambda: [F.softplus(r(*X)), F.softplus(whole(*X), beta=2, threshold=2)],
    "hard": lambda: [
        F.hardtanh(whole(*X)),
        F.relu6(r(*X)),
        F.hardsigmoid(2 * whole(5, 6)),
        F.hardswish(3 * r(5, 6)),  # at its bounds torch's releases differ
        F.softshrink(r(*X)),
    ],
    "abs": lambda: [whole(*X).abs()],
    "clamp": lambda: [
        whole(*X).clamp(-1, 2),
        whole(*X).clamp(min=1),
        whole(*X).clamp(max=1),
        whole(*X).clamp_min(1),
        whole(*X).clamp_max(1),
    ],
    "clamp tensor": lambda: [
        r(3, 4).clamp(r(4), r(3, 1)),
        r(3, 4).clamp(min=r(4)),
        r(3, 4).clamp(max=r(4)),
        torch.clamp_min(r(3, 4), r(4)),
        torch.clamp_max(r(3, 4), r(4)),
    ],
    "maximum": lambda: [
        operation(whole(3, 1), whole(4))
        for operation in (torch.maximum, torch.minimum, torch.fmax, torch.fmin)
    ],
    "fmax of nan": lambda: [torch.fmax(r(3) / 0 * 0, r(3) / 0 * 0)],
    "where": lambda: [torch.where(torch.rand(2, 3, 4) > 0.5, r(3, 1), r(4))],
    "masked fill": lambda: [
        r(3, 1).masked_fill(torch.rand(3, 4) > 0.5, 0.0),
        r(3, 1).masked_fill(torch.rand(3, 4) > 0.5, r()),
    ],
    "nan to num": lambda: [(r(4) / index(0, 1, 0, 1)).nan_to_num()],
    "dropout": lambda: [
        aten.native_dropout(r(*X), 0.4, True)[0],
        aten.native_dropout(r(*X), 0.4, False)[0],
        aten.native_dropout(r(*X), 1.0, True)[0],
        F.dropout(r(*X), 0.4),
    ],
    "no slope": lambda: [
        r(*X).sign(),
        r(*X).round(),
        r(*X).floor(),
        r(*X).ceil(),
        r(*X).trunc(),
        r(*X).mul(1).zero_(),
    ],
    "copies": lambda: [
        r(*X).clone(),
        r(*X).T.contiguous(),
        aten.alias(r(*X)),
        r(*X).float(),
        r(*X).to(torch.complex128),
        r(*X).mul(1).copy_(r(4)),
    ],
    "fill": lambda: [
        r(*X).mul(1).fill_(2),
        r(*X).mul(1).fill_(r()),
        torch.fill(r(*X), 2),
        torch.fill(r(*X), r()),
    ],
    "mixed types": lambda: [
        operation(r(3, 1, dtype=torch.float32), r(4))
        for operation in (torch.add, torch.mul, torch.div, torch.maximum)
    ],
    "real and complex": lambda: [r(3, 1) * c(4), r(4) + c(3, 1), r(4) / c(3, 1)],
    "complex": lambda: [
        c(*X) * c(4),
        c(*X) / c(3, 1),
        torch.sub(c(*X), c(4), alpha=2j),
        c(*X) ** 3,
        c(*X) ** c(4),
        2j ** c(*X),
        c(*X).exp(),
        c(*X).log(),
        c(*X).sqrt(),
        c(*X).sin(),
        c(*X).tanh(),
        c(*X).sigmoid(),
        c(*X).abs(),
        c(*X).conj(),
        c(*X).reciprocal(),
        c(*X).rsqrt(),
        aten.mul.Scalar(c(*X), 2j),
        c(*X) @ c(4, 2),
        c(2, 3, 4) @ c(2, 4, 3),
        c(3, 4) @ c(4),
        torch.addmm(c(5), c(3, 4), c(4, 5), alpha=2j, beta=1j),
        c(*X).sum(1),
        c(*X).mean(),
        c(*X).prod(1),
        torch.complex(r(*X), r(*X)),
        torch.view_as_real(c(*X)),
        torch.view_as_complex(r(3, 2)),
        c(*X).real,
        c(*X).imag,
    ],
    "sum": lambda: [r(*X).sum(), r().sum(), r(2, 3, 4).sum((0, -1)), r(*X).sum(-1, keepdim=True)],
    "sum of a number": lambda: [r().sum(0), r(*X).sum(()), r(0, 3).sum(0)],
    "mean": lambda: [r(*X).mean(), r(2, 3, 4).mean((0, -1)), r(*X).mean(-1, keepdim=True)],
    "prod": lambda: [r(*X).prod(), r(*X).prod(1), r(*X).prod(-1, keepdim=True), r().prod()],
    "prod with zeros": lambda: [
        whole(4, 5).prod(),
        whole(4, 5).prod(1),
        whole(4, 5).prod(-2, keepdim=True),
        whole(8).prod(0),
    ],
    "var": lambda: [
        r(*X).var(),
        r(2, 3, 4).var((0, -1)),
        r(*X).var(1, keepdim=True, correction=0),
        torch.var_mean(r(2, 3, 4), (0, 2))[0],
        torch.var_mean(r(2, 3, 4))[1],
    ],
    "std": lambda: [
        r(*X).std(),
        r(2, 3, 4).std((0, -1)),
        r(*X).std(1, keepdim=True, correction=0),
        torch.ones(3, requires_grad=True).std(),
        torch.std_mean(r(2, 3, 4), (0, 2))[0],
        torch.std_mean(r(2, 3, 4))[1],
    ],
    "logsumexp": lambda: [r(*X).logsumexp(-1), r(*X).logsumexp((0, 1), keepdim=True)],
    "norm": lambda: (
        [r(*X).norm(p=order) for order in (1, 2, 3, math.inf, -math.inf)]
        + [r(*X).norm(dim=1), r(*X).norm(p=3, dim=1, keepdim=True), (r(*X) * 0).norm()]
    ),
    "softmax": lambda: [
        r(*X).softmax(-1),
        r(2, 3, 4).log_softmax(1),
        r(*X).float().softmax(0, dtype=torch.float64),
    ],
    "max": lambda: [whole(*X).max(), whole(*X).min(), whole(5).median(), r().max()],
    "max along": lambda: [
        whole(*X).max(1)[0],
        whole(*X).min(-2, keepdim=True)[0],
        whole(3, 5).median(1)[0],
        r().max(0)[0],
    ],
    "amax": lambda: [whole(*X).amax(1), whole(*X).amin(), whole(2, 3, 4).amax((0, -1), True)],
    "sort": lambda: [r(*X).sort(1)[0], r(*X).topk(2)[0], r(*X).topk(2, 0)[0]],
    "cumsum": lambda: [r(*X).cumsum(-1), r(*X).cumsum(0), r().cumsum(0)],
    "mse": lambda: [
        loss(r(*X), r(*X), reduction=reduction)
        for loss in (F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.l1_loss)
        for reduction in ("none", "mean", "sum")
    ],
    "smooth l1": lambda: [
        F.smooth_l1_loss(whole(*X), whole(*X), beta=2),
        F.huber_loss(whole(*X), whole(*X), delta=2),
    ],
    "cross entropy of bits": lambda: [
        loss(p(*X), p(*X), weight=weight, reduction=reduction)
        for loss in (F.binary_cross_entropy, F.binary_cross_entropy_with_logits)
        for reduction in ("none", "mean", "sum")
        for weight in (None, torch.rand(4, dtype=torch.float64))
    ],
    "cross entropy of rare bits": lambda: [
        F.binary_cross_entropy_with_logits(
            r(*X), p(*X), pos_weight=torch.rand(4, dtype=torch.float64), reduction=reduction
        )
        for reduction in ("none", "mean")
    ],
    "nll": lambda: (
        [
            F.nll_loss(r(*X), labels, weight=weight, reduction=reduction, ignore_index=ignored)
            for reduction in ("none", "mean", "sum")
            for weight in (None, torch.rand(4, dtype=torch.float64))
            for labels, ignored in ((LABELS, -100), (index(1, -100, 3), -100), (LABELS, 1))
        ]
        + [F.nll_loss(r(4), torch.tensor(2))]
    ),
    "nll of images": lambda: [
        F.nll_loss(r(2, 4, 3, 1), labels, weight=weight, reduction=reduction, ignore_index=ignored)
        for reduction in ("none", "mean", "sum")
        for weight in (None, torch.rand(4, dtype=torch.float64))
        for labels, ignored in (
            (torch.randint(4, (2, 3, 1)), -100),
            (torch.randint(4, (2, 3, 1)) * 0 + 1, 2),
        )
    ],
    "cross entropy": lambda: [
        F.cross_entropy(r(*X), LABELS),
        F.cross_entropy(r(*X), LABELS, label_smoothing=0.1),
        F.cross_entropy(r(*X), p(*X)),
        F.cross_entropy(r(2, 4, 3), torch.randint(4, (2, 3))),
    ],
    "kl": lambda: [
        F.kl_div(r(*X), p(*X), reduction="sum"),
        F.kl_div(r(*X), r(*X), reduction="batchmean", log_target=True),
    ],
    "t": lambda: [r(*X).t(), r(4).t(), r(*X).T, r(2, 3, 4).mT, r(2, 3, 4).transpose(-1, 0)],
    "permute": lambda: [r(2, 3, 4).permute(1, -1, 0), r(2, 3, 4).movedim(0, -1), r().permute(())],
    "view": lambda: [
        r(*X).view(-1),
        r(*X).T.reshape(2, 6),
        r(1).view(()),
        aten._reshape_alias(r(*X), [12], [1]),
    ],
    "expand": lambda: [r(4).expand(3, 4), r(3, 1).expand(2, 3, 4), r().expand(2, 3)],
    "squeeze": lambda: [
        r(1, 3, 1).squeeze(),
        r(1, 3).squeeze(0),
        r(1, 3, 1).squeeze((0, -1)),
        r(2, 3).squeeze(1),
    ],
    "unsqueeze": lambda: [r(*X).unsqueeze(-1), r().unsqueeze(0), r(*X)[:, None]],
    "select": lambda: [r(*X)[0], r(*X)[:, -1], r(4)[2]],
    "slice": lambda: [r(*X)[1:], r(*X)[:, 1:3], r(*X)[:, ::2], r(*X)[:, -2:], r(5).narrow(0, 1, 3)],
    "diagonal": lambda: [
        r(*X).diagonal(),
        r(2, 3, 4).diagonal(1, -1, 0),
        r(*X).diag(),
        torch.diag(r(3)),
    ],
    "triangle": lambda: [r(*X).tril(), r(*X).triu(1)],
    "cat": lambda: [
        torch.cat([r(3, 2), r(3, 4), r(3, 1)], -1),
        torch.cat([r(2, 4).detach(), r(3, 4), r(1, 4)]),
        torch.cat([r(2, 4), r(3, 4).detach(), r(1, 4)]),
        torch.cat([r(0), r(3, 4)]),
    ],
    "stack": lambda: [torch.stack([r(*X), r(*X), r(*X)], -1), torch.stack([r(), r()])],
    "split": lambda: [r(*X).split(3, 1)[1], r(*X).split([1, 3], -1)[0], r(*X).chunk(2)[0]],
    "unbind": lambda: [r(*X).unbind(-1)[0]],
    "repeat": lambda: [r(*X).repeat(2, 3), r(4).repeat(2, 1, 3), r().repeat(3), r().repeat(())],
    "repeat each": lambda: [r(*X).repeat_interleave(2, 1)],
    "flip": lambda: [r(*X).flip(-1), r(*X).flip((0, 1))],
    "roll": lambda: [r(*X).roll(1, 0), r(*X).roll((1, -2), (0, -1)), r(*X).roll(5)],
    "pad": lambda: [F.pad(r(*X), (1, 2)), F.pad(r(*X), (1, -2, 0, 3))],
    "pixel shuffle": lambda: [F.pixel_shuffle(r(1, 4, 2, 3), 2)],
    "gather": lambda: [r(*X).gather(-1, torch.tensor([[0, 0], [1, 2], [3, 3]]))],
    "scatter": lambda: [
        r(*X).scatter(1, torch.tensor([[0, 2], [1, 3]]), r(2, 2)),
        r(*X).scatter(-1, torch.tensor([[0, 2], [1, 3]]), 2.0),
        r(*X).scatter_add(1, torch.tensor([[0, 0], [1, 3]]), r(2, 2)),
    ],
    "index": lambda: [
        r(*X)[index(0, 0, 2)],
        r(*X)[:, index(0, 0, 2)],
        r(2, 3, 4)[index(0, 1), :, index(3, 3)],
        positive_part(r(*X)),
    ],
    "index put": lambda: [
        r(*X).index_put((index(0, 2),), r(2, 4)),
        r(*X).index_put((index(0, 2),), r()),
        r(*X).index_put((index(0, 0), index(1, 1)), r(2), accumulate=True),
        written_into(r(*X) * 1, (slice(None), index(0, 1)), r(3, 2)),
        written_into(r(*X) * 1, torch.rand(3, 4) > 0.5, r()),
    ],
    "index along": lambda: [
        r(*X).index_select(-1, index(0, 0, 3)),
        r(*X).index_add(1, index(0, 0, 3), r(3, 3), alpha=2),
        r(*X).index_add(1, index(0), r(3, 1)),
        r(*X).index_fill(1, index(0, 3), 0.0),
    ],
    "embedding": lambda: [
        F.embedding(torch.tensor([[0, 0], [2, 3]]), r(5, 3)),
        F.embedding(index(0, 0, 2), r(5, 3), padding_idx=0),
    ],
    "mm": lambda: [r(*X) @ r(4, 5), r(*X) @ r(4), r(4) @ r(4), r(2, 3, 4) @ r(2, 4, 5)],
    "addmm": lambda: [
        torch.addmm(r(5), r(*X), r(4, 5)),
        torch.addmm(r(), r(*X), r(4, 5), alpha=2, beta=3),
        torch.addmm(r(3, 1), r(*X), r(4, 5), alpha=0.5),
        torch.baddbmm(r(5), r(2, 3, 4), r(2, 4, 5)),
        torch.baddbmm(r(2, 1, 5), r(2, 3, 4), r(2, 4, 5), alpha=2, beta=3),
        torch.addmv(r(3), r(*X), r(4)),
        torch.addmv(r(1), r(*X), r(4), alpha=2, beta=3),
    ],
    "linear": lambda: [
        F.linear(r(*X), r(5, 4), r(5)),
        F.linear(r(*X), r(5, 4)),
        F.linear(r(2, 3, 4), r(5, 4), r(5)),
    ],
    "inverse": lambda: [torch.linalg.inv(r(3, 3)), torch.linalg.inv(c(2, 3, 3))],
    "convolution": lambda: [
        F.conv1d(r(2, 3, 8), r(4, 3, 3), r(4)),
        F.conv2d(r(2, 4, 7, 6), r(6, 2, 3, 3), r(6), stride=2, padding=1, groups=2),
        F.conv2d(r(3, 7, 6), r(4, 3, 3, 2), None, dilation=2),
        F.conv3d(r(1, 2, 4, 4, 4), r(2, 2, 2, 2, 2), r(2)),
        F.conv_transpose1d(r(2, 3, 8), r(3, 4, 3), r(4)),
        F.conv_transpose2d(
            r(2, 4, 5, 6), r(4, 3, 3, 3), r(6), stride=2, padding=1, output_padding=1, groups=2
        ),
    ],
    "layer norm": lambda: [
        F.layer_norm(r(2, 3, 4), (4,), r(4), r(4)),
        F.layer_norm(r(2, 3, 4), (3, 4), r(3, 4)),
        F.layer_norm(r(4), (4,), r(4), r(4)),
        F.layer_norm(r(*X), (4,)),
    ],
    "batch norm": lambda: [
        F.batch_norm(r(5, 3, 4), None, None, r(3), r(3), training=True),
        F.batch_norm(r(5, 3), None, None, training=True),
        F.batch_norm(r(2, 3, 4, 2), r(3).detach(), p(3).detach(), r(3), r(3)),
        F.batch_norm(r(2, 3), r(3).detach(), p(3).detach()),
        F.instance_norm(r(2, 4, 5)),
    ],
    "group norm": lambda: [F.group_norm(r(2, 4, 5), 2, r(4), r(4)), F.group_norm(r(2, 4, 5), 2)],
    "pool": lambda: [
        F.avg_pool2d(r(2, 3, 7, 8), 2, padding=1),
        F.max_pool2d(r(2, 3, 7, 8), 3, stride=2, padding=1),
        F.max_pool2d(r(3, 7, 8), 2),
        F.max_pool1d(r(2, 3, 8), 2),
        F.adaptive_avg_pool2d(r(2, 3, 8, 8), 1),
        F.adaptive_avg_pool2d(r(2, 3, 8, 7), 3),
    ],
    "upsample": lambda: [
        F.interpolate(r(2, 3, 4, 5), scale_factor=2),
        F.interpolate(r(2, 3, 4, 5), size=(7, 9), mode="bilinear"),
        F.interpolate(r(2, 3, 4, 5), scale_factor=2, mode="bilinear", align_corners=True),
    ],
    "glu": lambda: [F.glu(r(*X)), F.glu(r(2, 6, 3), 1)],
    "attention": lambda: [
        F.scaled_dot_product_attention(*[r(1, 2, 3, 4) for _ in range(3)]),
        F.scaled_dot_product_attention(*[r(1, 2, 3, 4) for _ in range(3)], scale=0.3),
        F.scaled_dot_product_attention(*[r(1, 2, 3, 4) for _ in range(3)], is_causal=True),
        F.scaled_dot_product_attention(
            *[r(1, 2, 3, 4) for _ in range(3)], attn_mask=torch.rand(3, 3, dtype=torch.float64)
        ),
    ],
}
