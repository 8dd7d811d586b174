"""Derivatives of operations that move numbers: views, joining, repeating, and picking by index."""

from __future__ import annotations

from .case import Case, Row, Table, TensorType, alike, joined_numbers, one_or_many, sum_to


def _unpermuted(case: Case) -> str:
    dims = [d % len(case.output.shape) for d in case.saved["dims"]]
    return f"grad.permute({joined_numbers(map(dims.index, range(len(dims))))})" if dims else "grad"


def _piece_of_joined(case: Case) -> str | None:
    """Return the part of grad that belongs to one of the joined tensors.

    The shape of an operand without gradient is not known, so the place is counted from whichever
    end has none in between.
    """
    rank = len(case.output.shape)
    dim: int = case.saved["dim"] % rank
    if len(case.input.shape) != rank:  # torch lets an empty vector be joined with anything
        return "grad.new_zeros(0)"

    def length(others: tuple[TensorType | None, ...]) -> int | None:
        shapes = [each.shape for each in others if each is not None]
        if len(shapes) < len(others):
            return None
        return sum(shape[dim] for shape in shapes if len(shape) == rank)

    own = case.input.shape[dim]
    start = length(case.inputs[: case.arg_nr])
    if start is None:
        after = length(case.inputs[case.arg_nr + 1 :])
        if after is None:
            return None
        start = case.output.shape[dim] - after - own
    return f"grad.narrow(dim, {start}, {own})"


def _unrepeated(case: Case) -> str:
    """Return the repeats as dimensions of their own, summed away."""
    repeats, sizes = case.saved["repeats"], case.saved["self_sym_sizes"]
    if not repeats:
        return "grad"
    new = len(repeats) - len(sizes)
    shape: list[int] = list(repeats[:new])
    repeated = list(range(new))
    for repeat, size in zip(repeats[new:], sizes, strict=True):
        repeated.append(len(shape))
        shape += [repeat, size]
    return f"grad.reshape({joined_numbers(shape)}).sum({one_or_many(tuple(repeated))})"


def _rolled_back(case: Case) -> str:
    shifts = tuple(-shift for shift in case.saved["shifts"])
    return f"grad.roll({shifts}, dims)" if case.saved["dims"] else f"grad.roll({shifts[0]})"


_RESHAPED: dict[str, Row] = {"self": "grad.reshape(self_sym_sizes)"}

SHAPES: Table = {
    "TBackward0": {"self": lambda case: "grad.T" if len(case.output.shape) == 2 else "grad"},
    "PermuteBackward0": {"self": _unpermuted},
    "ExpandBackward0": {"self": "grad.sum_to_size(self_sym_sizes)"},
    **{f"SqueezeBackward{nr}": _RESHAPED for nr in range(6)},
    "SelectBackward0": {
        "self": "torch.select_scatter(grad.new_zeros(self_sym_sizes), grad, dim, index)"
    },
    "SliceBackward0": {
        "self": "torch.slice_scatter(grad.new_zeros(self_sym_sizes), grad, dim, start, end, step)"
    },
    "DiagonalBackward0": {
        "self": "torch.diagonal_scatter(grad.new_zeros(self_sym_sizes), grad, offset, dim1, dim2)"
    },
    "CatBackward0": {"tensors": _piece_of_joined},
    "StackBackward0": {"tensors": lambda case: f"grad.select(dim, {case.arg_nr})"},
    **alike(
        *("SplitBackward0", "SplitWithSizesBackward0", "UnsafeSplitBackward0"),
        "UnsafeSplitWithSizesBackward0",
        self="torch.cat(grads, dim)",
    ),
    "UnbindBackward0": {"self": "torch.stack(grads, dim)"},
    "RepeatBackward0": {"self": _unrepeated},
    "RollBackward0": {"self": _rolled_back},
    "ViewAsRealBackward0": {"self": "torch.view_as_complex(grad.contiguous())"},
    "ViewAsComplexBackward0": {"self": "torch.view_as_real(grad.resolve_conj())"},
    "ChannelShuffleBackward0": {"self": "torch.channel_shuffle(grad, grad.shape[1] // groups)"},
    "ConstantPadNdBackward0": {
        "self": lambda case: (
            f"torch.nn.functional.pad(grad, {tuple(-each for each in case.saved['pad'])})"
        )
    },
}


def _indexed(case: Case) -> str:
    zeros = "grad.new_zeros(self_sym_sizes)"
    if _whole_dimensions(case):
        return f"torch.ops.aten.index_put({zeros}, indices, grad, True)"
    return f"{zeros}.index_put(indices, grad, accumulate=True)"


def _overwritten(case: Case) -> str:
    if case.saved["accumulate"]:
        return "grad"
    if _whole_dimensions(case):
        return "torch.ops.aten.index_put(grad, indices, grad.new_zeros(()))"
    return "grad.index_put(indices, grad.new_zeros(()))"


def _written_in(case: Case) -> str:
    # Values may be broadcast to what the indices pick, whose shape only the indices know.
    return f"torch.ops.aten.index(grad, indices).{sum_to(case.input.shape)}"


def _put_over(case: Case) -> str:
    return "grad" if case.saved["accumulate"] else "grad.put(index, grad.new_zeros(index.shape))"


def _whole_dimensions(case: Case) -> bool:
    """Return whether an index leaves a dimension whole, which Tensor.index_put cannot say."""
    return "indices" not in case.saved or any(each is None for each in case.saved["indices"])


def _embedded(case: Case) -> str | None:
    if case.saved["sparse"] or case.saved["scale_grad_by_freq"]:
        return None
    rows = "grad.reshape(-1, grad.shape[-1])"
    if case.saved["padding_idx"] >= 0:
        rows = f"({rows} * (indices != padding_idx).reshape(-1, 1))"
    zeros = "grad.new_zeros(weight_sym_argsize_0, grad.shape[-1])"
    return f"{zeros}.index_add(0, indices.flatten(), {rows})"


def _unselected(case: Case) -> str:
    """Zeros but for what was selected; mask and tensor are broadcast to each other."""
    mask = case.saved.get("mask")
    if mask is not None and mask.shape == case.input.shape:
        return "torch.zeros_like(self).masked_scatter(mask, grad)"
    return (
        "zeros, chosen = torch.broadcast_tensors(torch.zeros_like(self), mask)\n"
        f"zeros.masked_scatter(chosen, grad).{sum_to(case.input.shape)}"
    )


INDEXING: Table = {
    "SliceBackwardBackward0": {"grad_output": "torch.ops.aten.slice(grad, dim, start, end, step)"},
    "GatherBackward0": {
        "self": lambda case: (
            None
            if case.saved["sparse_grad"]
            else "torch.zeros_like(self).scatter_add(dim, index, grad)"
        )
    },
    "IndexBackward0": {"self": _indexed},
    "IndexPutBackward0": {"self": _overwritten, "values": _written_in},
    "PutBackward0": {"self": _put_over, "source": "grad.take(index).reshape(source.shape)"},
    "IndexSelectBackward0": {"self": "grad.new_zeros(self_sym_sizes).index_add(dim, index, grad)"},
    "IndexAddBackward0": {"self": "grad", "source": "grad.index_select(dim, index) * alpha"},
    "MaskedSelectBackward0": {"self": _unselected},
    "EmbeddingBackward0": {"weight": _embedded},
}
