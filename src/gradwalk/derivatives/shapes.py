"""Derivatives of operations that move numbers: views, joining, repeating, and picking by index."""

from __future__ import annotations

from .case import Case, Row, Table, TensorType, alike, call, joined_numbers, one_or_many, sum_to


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


def _block(case: Case) -> str | None:
    """Return the block of grad that belongs to one of the matrices on the diagonal."""
    before = case.inputs[: case.arg_nr]
    if any(each is None for each in before):
        return None  # how large it is cannot be known
    # block_diag reads a vector as a row.
    sizes = [(1, 1, *each.shape)[-2:] for each in (*before, case.input) if each is not None]
    height, width = sizes.pop()
    rows, columns = (sum(size[side] for size in sizes) for side in (0, 1))
    block = f"grad[{rows}:{rows + height}, {columns}:{columns + width}]"
    return block if len(case.input.shape) == 2 else f"{block}.reshape({case.input.shape})"


def _put_back(name: str, part: str, where: str) -> Table:
    """Return the row of an operation that writes into a part of a tensor."""
    return {
        f"{name.title()}ScatterBackward0": {
            "self": f"torch.{name}_scatter(grad, torch.zeros_like({part}), {where})",
            "src": part,
        }
    }


_RESHAPED: dict[str, Row] = {"self": "grad.reshape(self_sym_sizes)"}

SHAPES: Table = {
    "TBackward0": {"self": lambda case: "grad.T" if len(case.output.shape) == 2 else "grad"},
    "TransposeBackward0": {"self": "grad.transpose(dim0, dim1)"},
    "PermuteBackward0": {"self": _unpermuted},
    **alike("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", **_RESHAPED),
    "ExpandBackward0": {"self": "grad.sum_to_size(self_sym_sizes)"},
    **{f"SqueezeBackward{nr}": _RESHAPED for nr in range(6)},
    "UnsqueezeBackward0": {"self": "grad.squeeze(dim)"},
    "SelectBackward0": {
        "self": "torch.select_scatter(grad.new_zeros(self_sym_sizes), grad, dim, index)"
    },
    "SliceBackward0": {
        "self": "torch.slice_scatter(grad.new_zeros(self_sym_sizes), grad, dim, start, end, step)"
    },
    "DiagonalBackward0": {
        "self": "torch.diagonal_scatter(grad.new_zeros(self_sym_sizes), grad, offset, dim1, dim2)"
    },
    "NarrowCopyBackward0": {
        "self": "torch.slice_scatter("
        "grad.new_zeros(self_sym_sizes), grad, dim, start, start + length)"
    },
    **_put_back("select", "grad.select(dim, index)", "dim, index"),
    **_put_back(
        "slice", "torch.ops.aten.slice(grad, dim, start, end, step)", "dim, start, end, step"
    ),
    **_put_back("diagonal", "grad.diagonal(offset, dim1, dim2)", "offset, dim1, dim2"),
    "DiagEmbedBackward0": {"self": "grad.diagonal(offset, dim1, dim2)"},
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
    "ConstantPadNdBackward0": {
        "self": lambda case: (
            f"torch.nn.functional.pad(grad, {tuple(-each for each in case.saved['pad'])})"
        )
    },
    "BlockDiagBackward0": {"tensors": _block},
    "ChannelShuffleBackward0": {"self": "torch.channel_shuffle(grad, grad.shape[1] // groups)"},
    "PixelShuffleBackward0": {"self": "torch.pixel_unshuffle(grad, upscale_factor)"},
    "ComplexBackward0": {
        "real": lambda case: case.reduced("grad.real"),
        "imag": lambda case: case.reduced("grad.imag"),
    },
    "ViewAsRealBackward0": {"self": "torch.view_as_complex(grad.contiguous())"},
    "ViewAsComplexBackward0": {"self": "torch.view_as_real(grad.resolve_conj())"},
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


def _reduced_at(source: str, *, pick: str, add: str, again: str, clear: str) -> dict[str, Row]:
    """The rows of an operation that reduces many numbers of ``source`` into one of ``self``."""

    def steps(reduce: str, with_self: bool) -> tuple[str, str, str]:
        """Return the first lines, and the last ones for ``self`` and for ``source``."""
        if reduce == "sum":
            return "", "grad", pick.format("grad")
        if reduce == "mean":
            start = f"torch.{'ones' if with_self else 'zeros'}_like(grad)"
            count = add.format(start, f"torch.ones_like({source})")
            first = f"count = {count}\nshare = grad / count.clamp(min=1)\n"
            return first, "share", pick.format("share")
        if reduce == "prod":
            others = f"({again.format('self.masked_fill(self == 0, 1)', source)})"
            zeros = add.format("torch.zeros_like(self)", f"({source} == 0).to(self.dtype)")
            without = f"(grad * {again.format('self', 'nonzero')})"
            return (
                f"nonzero = {source}.masked_fill({source} == 0, 1)\n"
                f"only_zero = ({source} == 0) & ({pick.format(zeros)} == 1)\n",
                f"grad * {others} / self.masked_fill(self == 0, 1)",
                f"torch.where(only_zero, {pick.format(without)}, "
                f"{pick.format('(grad * result)')} / nonzero)",
            )
        first = (
            "of_self = (self == result).to(grad.dtype)\n"
            f"of_source = ({source} == {pick.format('result')}).to(grad.dtype)\n"
            f"share = grad / {add.format('of_self', 'of_source')}\n"
        )
        return first, "share * of_self", f"{pick.format('share')} * of_source"

    def of_self(case: Case) -> str:
        first, last, _ = steps(case.saved["reduce"], case.saved["include_self"])
        if case.saved["reduce"] == "prod":
            first = ""
        return first + (last if case.saved["include_self"] else call(last, clear))

    def of_source(case: Case) -> str:
        first, _, last = steps(case.saved["reduce"], case.saved["include_self"])
        return first + last

    return {"self": of_self, source: of_source}


INDEXING: Table = {
    "SliceBackwardBackward0": {"grad_output": "torch.ops.aten.slice(grad, dim, start, end, step)"},
    "GatherBackward0": {
        "self": lambda case: (
            None
            if case.saved["sparse_grad"]
            else "torch.zeros_like(self).scatter_add(dim, index, grad)"
        )
    },
    "ScatterBackward0": {"self": "grad.scatter(dim, index, 0)", "src": "grad.gather(dim, index)"},
    "ScatterBackward1": {"self": "grad.scatter(dim, index, 0)"},
    "ScatterAddBackward0": {"self": "grad", "src": "grad.gather(dim, index)"},
    "IndexBackward0": {"self": _indexed},
    **{
        f"{name}Backward0": {"self": _overwritten, "values": _written_in}
        for name in ("IndexPut", "IndexPutImpl")
    },
    "PutBackward0": {"self": _put_over, "source": "grad.take(index).reshape(source.shape)"},
    "IndexSelectBackward0": {"self": "grad.new_zeros(self_sym_sizes).index_add(dim, index, grad)"},
    "IndexAddBackward0": {"self": "grad", "source": "grad.index_select(dim, index) * alpha"},
    "IndexFillBackward1": {
        "self": "grad.index_fill(dim, index, 0)",
        "value": "grad.index_select(dim, index.unique()).sum()",
    },
    "IndexCopyBackward0": {
        "self": "grad.index_fill(dim, index, 0)",
        "source": "grad.index_select(dim, index).reshape(source.shape)",
    },
    "TakeBackward0": {"self": "torch.zeros_like(self).put(index, grad, accumulate=True)"},
    "MaskedSelectBackward0": {"self": _unselected},
    "ScatterReduceBackward0": _reduced_at(
        "src",
        pick="{}.gather(dim, index)",
        add="{}.scatter_add(dim, index, {})",
        again="{}.scatter_reduce(dim, index, {}, reduce, include_self=include_self)",
        clear="scatter(dim, index, 0)",
    ),
    "IndexReduceBackward0": _reduced_at(
        "source",
        pick="{}.index_select(dim, index)",
        add="{}.index_add(dim, index, {})",
        again="{}.index_reduce(dim, index, {}, reduce, include_self=include_self)",
        clear="index_fill(dim, index, 0)",
    ),
    "EmbeddingBackward0": {"weight": _embedded},
}
