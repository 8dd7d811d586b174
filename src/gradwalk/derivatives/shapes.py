"""Derivatives of operations that only move numbers: views, joining, splitting, repeating."""

from __future__ import annotations

from .case import Case, Row, Table, TensorType, listed, one_or_many


def _unpermuted(case: Case) -> str:
    dims = [d % len(case.output.shape) for d in case.saved["dims"]]
    return f"grad.permute({listed(map(dims.index, range(len(dims))))})" if dims else "grad"


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
    start = length(case.inputs[: case.input_nr])
    if start is None:
        after = length(case.inputs[case.input_nr + 1 :])
        if after is None:
            return None
        start = case.output.shape[dim] - after - own
    return f"grad.narrow(dim, {start}, {own})"


def _unstacked(case: Case) -> str:
    return f"grad.select(dim, {case.input_nr})"


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
    return f"grad.reshape({listed(shape)}).sum({one_or_many(tuple(repeated))})"


def _rolled_back(case: Case) -> str:
    shifts = tuple(-shift for shift in case.saved["shifts"])
    return f"grad.roll({shifts}, dims)" if case.saved["dims"] else f"grad.roll({shifts[0]})"


def _unpadded(case: Case) -> str:
    return f"torch.nn.functional.pad(grad, {tuple(-each for each in case.saved['pad'])})"


def _block(case: Case) -> str | None:
    """Return the block of grad that belongs to one of the matrices on the diagonal."""
    before = case.inputs[: case.input_nr]
    if any(each is None for each in before):
        return None  # how large it is cannot be known
    sizes = [_as_matrix(each.shape) for each in (*before, case.input) if each is not None]
    height, width = sizes.pop()
    rows, columns = (sum(size[side] for size in sizes) for side in (0, 1))
    block = f"grad[{rows}:{rows + height}, {columns}:{columns + width}]"
    return block if len(case.input.shape) == 2 else f"{block}.reshape({case.input.shape})"


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how block_diag reads a vector or a number."""
    height, width = (1, 1, *shape)[-2:]
    return height, width


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
    "ViewBackward0": _RESHAPED,
    "UnsafeViewBackward0": _RESHAPED,
    "ReshapeAliasBackward0": _RESHAPED,
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
    "TrilBackward0": {"self": "grad.tril(diagonal)"},
    "TriuBackward0": {"self": "grad.triu(diagonal)"},
    "CatBackward0": {"tensors": _piece_of_joined},
    "StackBackward0": {"tensors": _unstacked},
    **{
        f"{name}Backward0": {"self": "torch.cat(grads, dim)"}
        for name in ("Split", "SplitWithSizes", "UnsafeSplit", "UnsafeSplitWithSizes")
    },
    "UnbindBackward0": {"self": "torch.stack(grads, dim)"},
    "RepeatBackward0": {"self": _unrepeated},
    "FlipBackward0": {"self": "grad.flip(dims)"},
    "RollBackward0": {"self": _rolled_back},
    "ConstantPadNdBackward0": {"self": _unpadded},
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
"""Backward class -> forward argument -> derivative."""
