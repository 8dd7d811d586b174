"""Derivatives of matrix products, convolutions, normalisation, pooling, attention and losses."""

from __future__ import annotations

from .case import Case, Row, Table, alike, call, one_or_many, sum_to

_MEAN = 1  # torch's numbers for reduction=: 0 none, 1 mean, 2 sum


def _averaged(code: str, with_pos_weight: str = "") -> Row:
    """``code`` times each term's weight if there is one, divided by their number for a mean."""

    def row(case: Case) -> str:
        averaged = with_pos_weight if case.has("pos_weight") else code
        if case.has("weight"):
            averaged += " * weight"
        return f"{averaged} / self.numel()" if case.saved["reduction"] == _MEAN else averaged

    return row


def _of_difference(code: str) -> dict[str, Row]:
    """The rows of a loss whose derivative is an odd function of the difference."""
    return {
        "self": _averaged(f"difference = self - target\ngrad * {code}"),
        "target": _averaged(f"difference = target - self\ngrad * {code}"),
    }


def _negative_log_likelihood(case: Case) -> str:
    """Minus grad at the place of each target's class, zero elsewhere."""
    # Classes are the last dimension of a matrix, and the second of everything larger.
    shape = case.input.shape
    of_images = len(shape) == 4
    dim = 1 if of_images else -1
    classes = "torch.arange(self.shape[1], device=self.device).reshape(-1, 1, 1)"
    if not of_images:
        classes = "torch.arange(self.shape[-1], device=self.device)"
    chosen = f"target.unsqueeze({dim}) == {classes}"
    if 0 <= case.saved["ignore_index"] < shape[dim]:
        chosen = f"({chosen}) & (target != ignore_index).unsqueeze({dim})"
    code = f"-grad.unsqueeze({dim})" if case.saved["reduction"] == 0 else "-grad"
    if case.has("weight"):
        code += " * weight.reshape(-1, 1, 1)" if of_images else " * weight"
    if case.saved["reduction"] == _MEAN:
        code += " / total_weight"
    # Where every target is ignored, the weight is 0 and nothing is divided by it.
    return f"chosen = {chosen}\ntorch.where(chosen, {code}, 0)"


_LOG_SIGMOID = "torch.nn.functional.logsigmoid"

LOSSES: Table = {
    "MseLossBackward0": {
        "self": _averaged("grad * 2 * (self - target)"),
        "target": _averaged("grad * 2 * (target - self)"),
    },
    "SmoothL1LossBackward0": _of_difference(
        "torch.where(difference.abs() < beta, difference / beta, difference.sign())"
    ),
    "HuberLossBackward0": _of_difference(
        "torch.where(difference.abs() < delta, difference, difference.sign() * delta)"
    ),
    "BinaryCrossEntropyBackward0": {
        "self": _averaged("grad * (self - target) / (self * (1 - self)).clamp(min=1e-12)"),
        "target": _averaged(
            "grad * ((1 - self).log().clamp(min=-100) - self.log().clamp(min=-100))"
        ),
    },
    "BinaryCrossEntropyWithLogitsBackward0": {
        "self": _averaged(
            "grad * (self.sigmoid() - target)",
            "grad * (self.sigmoid() * (1 - target) - (1 - self.sigmoid()) * target * pos_weight)",
        ),
        "target": _averaged(
            "-grad * self", f"grad * ({_LOG_SIGMOID}(-self) - pos_weight * {_LOG_SIGMOID}(self))"
        ),
    },
    "NllLossBackward0": {"self": _negative_log_likelihood},
    "NllLoss2DBackward0": {"self": _negative_log_likelihood},
}


_ADDED: dict[str, Row] = {"self": lambda case: case.reduced("grad * beta.conjugate()")}
_ADDED_BATCHES: dict[str, Row] = {
    **_ADDED,
    "batch1": "grad @ batch2.mT.conj() * alpha.conjugate()",
    "batch2": "batch1.mT.conj() @ grad * alpha.conjugate()",
}


def _layer_norm(case: Case) -> str:
    dims = one_or_many(tuple(range(-len(case.saved["normalized_shape"]), 0)))
    scaled = "grad * weight" if case.has("weight") else "grad"
    return (
        "normal = (input - result1) * result2\n"
        f"scaled = {scaled}\n"
        f"along = (scaled * normal).mean({dims}, keepdim=True)\n"
        f"result2 * (scaled - scaled.mean({dims}, keepdim=True) - normal * along)"
    )


def _over_leading(case: Case, code: str) -> str:
    """``code``, summed over the dimensions that layer_norm does not normalise."""
    dims = tuple(range(len(case.output.shape) - len(case.saved["normalized_shape"])))
    return call(code, f"sum({one_or_many(dims)})") if dims else code


def _but_channels(case: Case) -> str:
    return one_or_many((0, *range(2, len(case.output.shape))))


def _per_channel(case: Case, name: str) -> str:
    ones = ", 1" * (len(case.output.shape) - 2)
    return f"{name}.reshape(-1{ones})"


def _in_training(case: Case) -> bool:
    # Variants for training only, or for evaluation only, do not save the mode.
    training: bool = case.saved.get("training", "result3" in case.saved)
    return training


def _batch_normal(case: Case) -> str:
    """Return the lines that bring the input to mean 0 and variance 1."""
    mean, scale = "result1", "result2"
    if not _in_training(case):
        mean, scale = "running_mean", "torch.rsqrt(running_var + eps)"
    scale_line = f"scale = {_per_channel(case, scale)}"
    return f"{scale_line}\nnormal = (input - {_per_channel(case, mean)}) * scale\n"


def _batch_norm(case: Case) -> str:
    weighted = f"grad * {_per_channel(case, 'weight')}" if case.has("weight") else "grad"
    if not _in_training(case):
        scale = _per_channel(case, "torch.rsqrt(running_var + eps)")
        return f"{weighted} * {scale}"
    dims = _but_channels(case)
    return (
        f"{_batch_normal(case)}"
        f"scaled = {weighted}\n"
        f"along = (scaled * normal).mean({dims}, keepdim=True)\n"
        f"scale * (scaled - scaled.mean({dims}, keepdim=True) - normal * along)"
    )


def _over_all_but_channels(case: Case) -> str:
    return f"grad.sum({_but_channels(case)})"


_GROUP_NORMAL = (
    "grouped = input.reshape(N, group, C * HxW // group) - result1.unsqueeze(-1)\n"
    "normal = grouped * result2.unsqueeze(-1)\n"
)


def _group_norm(case: Case) -> str:
    weighted = f"(grads[0] * {_per_channel(case, 'weight')})" if case.has("weight") else "grads[0]"
    # native_group_norm gives mean and rstd, too, and either may have been used.
    return (
        f"{_GROUP_NORMAL}"
        f"scaled = {weighted}.reshape(grouped.shape)\n"
        "along = (scaled * normal).mean(-1, keepdim=True)\n"
        "centred = scaled - scaled.mean(-1, keepdim=True) - normal * along\n"
        "of_mean = grads[1].unsqueeze(-1) / grouped.shape[-1]\n"
        "of_rstd = -grads[2].unsqueeze(-1) * normal * result2.unsqueeze(-1) ** 2\n"
        "into_input = centred * result2.unsqueeze(-1) + of_mean + of_rstd / grouped.shape[-1]\n"
        "into_input.reshape(input.shape)"
    )


def _convolution_input(case: Case) -> str:
    dims = len(case.output.shape) - 2
    where = "stride, padding, dilation, groups"
    if not case.saved["transposed"]:
        return f"torch.nn.grad.conv{dims}d_input(input.shape, weight, grad, {where})"
    code = f"torch.nn.functional.conv{dims}d(grad, weight, None, {where})"
    if not any(_beyond(case)):
        return code
    sizes = ", ".join(f":{size}" for size in case.input.shape[2:])
    return f"{code}[:, :, {sizes}]"


def _convolution_weight(case: Case) -> str:
    dims = len(case.output.shape) - 2
    where = "stride, padding, dilation, groups"
    if not case.saved["transposed"]:
        return f"torch.nn.grad.conv{dims}d_weight(input, weight.shape, grad, {where})"
    # A transposed convolution is the other one with the input and the output exchanged.
    beyond = [size for extra in reversed(_beyond(case)) for size in (0, extra)]
    padded = f"torch.nn.functional.pad(input, {tuple(beyond)})" if any(beyond) else "input"
    return f"torch.nn.grad.conv{dims}d_weight(grad, weight.shape, {padded}, {where})"


def _convolution_twice(arg_nr: int, name: str) -> Row:
    """Return the row of one input of a convolution's backward."""

    def row(case: Case) -> str:
        incoming = [f"grads[{i}]" if each.shape else "None" for i, each in enumerate(case.outputs)]
        mask = [i == arg_nr for i in range(3)]
        # The input has a part in the weight's gradient alone, the weight in the input's.
        if incoming[2 - arg_nr] == "None" and arg_nr > 0:
            return f"torch.zeros_like({name})"
        return (
            f"torch.ops.aten._convolution_double_backward({', '.join(incoming)}, "
            "grad_output, weight, input, stride, padding, dilation, transposed, "
            f"output_padding, groups, {mask})[{arg_nr}]"
        )

    return row


def _beyond(case: Case) -> list[int]:
    """How far the output of a transposed convolution, padded, goes beyond what its input made."""
    padding, stride = case.saved["output_padding"], case.saved["stride"]
    return [more // step for more, step in zip(padding, stride, strict=True)]


def _attention(arg_nr: int) -> Row:
    """Attention without a mask in readable steps, every other kind by torch's own function."""

    def row(case: Case) -> str:
        saved = case.saved
        if case.has("attn_mask") or saved["is_causal"] or saved["dropout_p"]:
            mask = "attn_mask" if case.has("attn_mask") else "None"
            return (
                "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward("
                "grad, query, key, value, output, logsumexp, dropout_p, is_causal, "
                f"attn_mask={mask}, scale=scale)[{arg_nr}]"
            )
        factor = "query.shape[-1] ** -0.5" if saved.get("scale") is None else "scale"
        weights = f"weights = torch.exp(query @ key.mT * {factor} - logsumexp.unsqueeze(-1))\n"
        scores = (
            "scores = weights * (grad @ value.mT - (grad * output).sum(-1, keepdim=True))"
            f" * {factor}\n"
        )
        steps = (f"{scores}scores @ key", f"{scores}scores.mT @ query", "weights.mT @ grad")
        return weights + steps[arg_nr]

    return row


def _unpooled(dims: int) -> Row:
    """Each number of grad at the place in its plane that was the largest."""
    plane = f"flatten(-{dims})"
    return (
        f"zeros = torch.zeros_like(self).{plane}\n"
        f"zeros.scatter_add(-1, result1.{plane}, grad.{plane}).reshape(self.shape)"
    )


def _picked(dims: int) -> Row:
    """Return the numbers of grad at the places in their planes that the indices say."""
    return f"grad.flatten(-{dims}).gather(-1, indices.flatten(-{dims})).reshape(indices.shape)"


def _all_pairs(code: str) -> Row:
    """``code``, summed where one set of points was compared with several."""

    def row(case: Case) -> str:
        alone = case.input.shape[:-2] == case.output.shape[:-2]
        return code if alone else call(code, sum_to(case.input.shape))

    return row


_CLOSER = "ratio = (grad / result).masked_fill(result == 0, 0)\n"

LAYERS: Table = {
    "MmBackward0": {"self": "grad @ mat2.T.conj()", "mat2": "self.T.conj() @ grad"},
    "BmmBackward0": {"self": "grad @ mat2.mT.conj()", "mat2": "self.mT.conj() @ grad"},
    "MvBackward0": {"self": "torch.outer(grad, vec.conj())", "vec": "self.T.conj() @ grad"},
    "DotBackward0": {"self": "grad * tensor.conj()", "tensor": "grad * self.conj()"},
    "AddmmBackward0": {
        **_ADDED,
        "mat1": "grad @ mat2.T.conj() * alpha.conjugate()",
        "mat2": "mat1.T.conj() @ grad * alpha.conjugate()",
    },
    **alike("AddbmmBackward0", "BaddbmmBackward0", **_ADDED_BATCHES),
    "AddrBackward0": {
        **_ADDED,
        "vec1": "grad @ vec2.conj() * alpha.conjugate()",
        "vec2": "grad.T @ vec1.conj() * alpha.conjugate()",
    },
    "VdotBackward0": {"self": "grad.conj() * other", "other": "grad * self"},
    "TrilinearBackward0": {
        "i1": "torch.ops.aten._trilinear(grad, i2, i3, sumdim, expand2, expand3, expand1)",
        "i2": "torch.ops.aten._trilinear(i1, grad, i3, expand1, sumdim, expand3, expand2)",
        "i3": "torch.ops.aten._trilinear(i1, i2, grad, expand1, expand2, sumdim, expand3)",
    },
    "AddmvBackward0": {
        **_ADDED,
        "mat": "torch.outer(grad, vec.conj()) * alpha.conjugate()",
        "vec": "mat.T.conj() @ grad * alpha.conjugate()",
    },
    "ConvolutionBackward0": {
        "input": _convolution_input,
        "weight": _convolution_weight,
        "bias": _over_all_but_channels,
    },
    "ConvolutionBackwardBackward0": {
        name: _convolution_twice(nr, name)
        for nr, name in enumerate(("grad_output", "input", "weight"))
    },
    "NativeLayerNormBackward0": {
        "input": _layer_norm,
        "weight": lambda case: _over_leading(case, "grad * (input - result1) * result2"),
        "bias": lambda case: _over_leading(case, "grad"),
    },
    **{
        f"{name}Backward{nr}": {
            "input": _batch_norm,
            "weight": lambda case: (
                f"{_batch_normal(case)}(grad * normal).sum({_but_channels(case)})"
            ),
            "bias": _over_all_but_channels,
        }
        for name, nr in (
            ("NativeBatchNorm", 0),
            ("NativeBatchNormLegit", 0),
            ("NativeBatchNormLegit", 1),
            ("NativeBatchNormLegitNoTraining", 0),
            ("BatchNormWithUpdate", 0),
        )
    },
    "NativeGroupNormBackward0": {
        "input": _group_norm,
        "weight": lambda case: (
            f"{_GROUP_NORMAL}(grads[0] * normal.reshape(input.shape)).sum({_but_channels(case)})"
        ),
        "bias": lambda case: f"grads[0].sum({_but_channels(case)})",
    },
    **{
        f"{name}{dims}DBackward0": {"self": _unpooled(dims)}
        for name in ("AdaptiveMaxPool", "FractionalMaxPool")
        for dims in (2, 3)
    },
    **{f"MaxPool{dims}DWithIndicesBackward0": {"self": _unpooled(dims)} for dims in (2, 3)},
    **{f"MaxUnpool{dims}DBackward0": {"self": _picked(dims)} for dims in (2, 3)},
    "MaxPool2DWithIndicesBackwardBackward0": {"grad_output": _picked(2)},
    "CdistBackward0": {
        "x1": _all_pairs("torch.ops.aten._cdist_backward(grad.contiguous(), x1, x2, p, result)"),
        "x2": _all_pairs(
            "torch.ops.aten._cdist_backward("
            "grad.mT.contiguous(), x2, x1, p, result.mT.contiguous())"
        ),
    },
    "EuclideanDistBackward0": {
        "x1": f"{_CLOSER}x1 * ratio.sum(-1, keepdim=True) - ratio @ x2",
        "x2": f"{_CLOSER}x2 * ratio.mT.sum(-1, keepdim=True) - ratio.mT @ x1",
    },
    "GluBackward0": {
        "self": "values, gate = self.chunk(2, dim)\n"
        "slope = gate.sigmoid() * (1 - gate.sigmoid())\n"
        "torch.cat([grad * gate.sigmoid(), grad * values * slope], dim)"
    },
    "ScaledDotProductFlashAttentionForCpuBackward0": {
        "query": _attention(0),
        "key": _attention(1),
        "value": _attention(2),
    },
}
