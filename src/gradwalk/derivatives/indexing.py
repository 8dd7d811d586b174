"""Derivatives of operations that pick numbers by index or mask, and of those that write there."""

from __future__ import annotations

from .case import Case, Row, Table, call, sum_to


def _gathered(case: Case) -> str | None:
    if case.saved["sparse_grad"]:
        return None
    return "torch.zeros_like(self).scatter_add(dim, index, grad)"


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
    """Return the rows of an operation that reduces many numbers of ``source`` into one of ``self``.

    Args:
        source: The argument that the numbers come from.
        pick: How each place's number is given to all that went there.
        add: How a tensor gets numbers added at those places.
        again: The operation itself.
        clear: The method that writes zeros at those places.
    """

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
    "GatherBackward0": {"self": _gathered},
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
    "IndexFillBackward0": {"self": "grad.index_fill(dim, index, 0)"},
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
"""Backward class -> forward argument -> derivative."""
