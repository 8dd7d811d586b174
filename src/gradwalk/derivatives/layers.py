"""Derivatives of matrix products, convolutions, normalisation, pooling and attention."""

from __future__ import annotations

from .case import Case, Row, Table, call, one_or_many


def _added(case: Case) -> str:
    return case.reduced("grad * beta.conjugate()")


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


def _layer_norm_weight(case: Case) -> str:
    return _over_leading(case, "grad * (input - result1) * result2")


def _layer_norm_bias(case: Case) -> str:
    return _over_leading(case, "grad")


def _but_channels(case: Case) -> str:
    return one_or_many((0, *range(2, len(case.output.shape))))


def _per_channel(case: Case, name: str) -> str:
    ones = ", 1" * (len(case.output.shape) - 2)
    return f"{name}.reshape(-1{ones})"


def _batch_normal(case: Case) -> str:
    """The lines that bring the input to mean 0 and variance 1."""
    mean, scale = "result1", "result2"
    if not case.saved["training"]:
        mean, scale = "running_mean", "torch.rsqrt(running_var + eps)"
    scale_line = f"scale = {_per_channel(case, scale)}"
    return f"{scale_line}\nnormal = (input - {_per_channel(case, mean)}) * scale\n"


def _batch_norm(case: Case) -> str:
    weighted = f"grad * {_per_channel(case, 'weight')}" if case.has("weight") else "grad"
    if not case.saved["training"]:
        scale = _per_channel(case, "torch.rsqrt(running_var + eps)")
        return f"{weighted} * {scale}"
    dims = _but_channels(case)
    return (
        f"{_batch_normal(case)}"
        f"scaled = {weighted}\n"
        f"along = (scaled * normal).mean({dims}, keepdim=True)\n"
        f"scale * (scaled - scaled.mean({dims}, keepdim=True) - normal * along)"
    )


def _batch_norm_weight(case: Case) -> str:
    return f"{_batch_normal(case)}(grad * normal).sum({_but_channels(case)})"


def _over_all_but_channels(case: Case) -> str:
    return f"grad.sum({_but_channels(case)})"


_GROUP_NORMAL = (
    "grouped = input.reshape(N, group, -1) - result1.unsqueeze(-1)\n"
    "normal = grouped * result2.unsqueeze(-1)\n"
)


def _group_norm(case: Case) -> str:
    weighted = f"(grad * {_per_channel(case, 'weight')})" if case.has("weight") else "grad"
    return (
        f"{_GROUP_NORMAL}"
        f"scaled = {weighted}.reshape(N, group, -1)\n"
        "along = (scaled * normal).mean(-1, keepdim=True)\n"
        "centred = scaled - scaled.mean(-1, keepdim=True) - normal * along\n"
        "(centred * result2.unsqueeze(-1)).reshape(input.shape)"
    )


def _group_norm_weight(case: Case) -> str:
    return f"{_GROUP_NORMAL}(grad * normal.reshape(input.shape)).sum({_but_channels(case)})"


def _convolution_input(case: Case) -> str:
    dims = len(case.output.shape) - 2
    where = "stride, padding, dilation, groups"
    if case.saved["transposed"]:
        return f"torch.nn.functional.conv{dims}d(grad, weight, None, {where})"
    return f"torch.nn.grad.conv{dims}d_input(input.shape, weight, grad, {where})"


def _convolution_weight(case: Case) -> str:
    dims = len(case.output.shape) - 2
    where = "stride, padding, dilation, groups"
    # A transposed convolution is the other one with the input and the output exchanged.
    if case.saved["transposed"]:
        return f"torch.nn.grad.conv{dims}d_weight(grad, weight.shape, input, {where})"
    return f"torch.nn.grad.conv{dims}d_weight(input, weight.shape, grad, {where})"


def _attention(input_nr: int) -> Row:
    """Attention without a mask in readable steps, every other kind by torch's own function."""

    def row(case: Case) -> str:
        saved = case.saved
        if case.has("attn_mask") or saved["is_causal"] or saved["dropout_p"]:
            mask = "attn_mask" if case.has("attn_mask") else "None"
            return (
                "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward("
                "grad, query, key, value, output, logsumexp, dropout_p, is_causal, "
                f"attn_mask={mask}, scale=scale)[{input_nr}]"
            )
        factor = "query.shape[-1] ** -0.5" if saved.get("scale") is None else "scale"
        weights = f"weights = torch.exp(query @ key.mT * {factor} - logsumexp.unsqueeze(-1))\n"
        scores = (
            "scores = weights * (grad @ value.mT - (grad * output).sum(-1, keepdim=True))"
            f" * {factor}\n"
        )
        steps = (f"{scores}scores @ key", f"{scores}scores.mT @ query", "weights.mT @ grad")
        return weights + steps[input_nr]

    return row


LAYERS: Table = {
    "MmBackward0": {"self": "grad @ mat2.T.conj()", "mat2": "self.T.conj() @ grad"},
    "BmmBackward0": {"self": "grad @ mat2.mT.conj()", "mat2": "self.mT.conj() @ grad"},
    "MvBackward0": {"self": "torch.outer(grad, vec.conj())", "vec": "self.T.conj() @ grad"},
    "DotBackward0": {"self": "grad * tensor.conj()", "tensor": "grad * self.conj()"},
    "AddmmBackward0": {
        "self": _added,
        "mat1": "grad @ mat2.T.conj() * alpha.conjugate()",
        "mat2": "mat1.T.conj() @ grad * alpha.conjugate()",
    },
    "AddmvBackward0": {
        "self": _added,
        "mat": "torch.outer(grad, vec.conj()) * alpha.conjugate()",
        "vec": "mat.T.conj() @ grad * alpha.conjugate()",
    },
    "BaddbmmBackward0": {
        "self": _added,
        "batch1": "grad @ batch2.mT.conj() * alpha.conjugate()",
        "batch2": "batch1.mT.conj() @ grad * alpha.conjugate()",
    },
    "LinalgInvExBackward0": {"A": "-inverse.mT.conj() @ grad @ inverse.mT.conj()"},
    "ConvolutionBackward0": {
        "input": _convolution_input,
        "weight": _convolution_weight,
        "bias": _over_all_but_channels,
    },
    "NativeLayerNormBackward0": {
        "input": _layer_norm,
        "weight": _layer_norm_weight,
        "bias": _layer_norm_bias,
    },
    "NativeBatchNormBackward0": {
        "input": _batch_norm,
        "weight": _batch_norm_weight,
        "bias": _over_all_but_channels,
    },
    "NativeGroupNormBackward0": {
        "input": _group_norm,
        "weight": _group_norm_weight,
        "bias": _over_all_but_channels,
    },
    "AvgPool2DBackward0": {
        "self": "torch.ops.aten.avg_pool2d_backward(grad, self, kernel_size, stride, padding, "
        "ceil_mode, count_include_pad, divisor_override)"
    },
    "MaxPool2DWithIndicesBackward0": {
        "self": "zeros = torch.zeros_like(self).flatten(-2)\n"
        "zeros.scatter_add(-1, result1.flatten(-2), grad.flatten(-2)).reshape(self.shape)"
    },
    "AdaptiveAvgPool2DBackward0": {
        "self": "torch.ops.aten._adaptive_avg_pool2d_backward(grad, self)"
    },
    "UpsampleNearest2DBackward0": {
        "self": "torch.ops.aten.upsample_nearest2d_backward("
        "grad, output_size, self_sym_sizes, scales_h, scales_w)"
    },
    "UpsampleBilinear2DBackward0": {
        "self": "torch.ops.aten.upsample_bilinear2d_backward("
        "grad, output_size, self_sym_sizes, align_corners, scales_h, scales_w)"
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
"""Backward class -> forward argument -> derivative."""
