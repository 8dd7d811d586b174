"""Derivatives of operations that reduce many numbers to few, and of their running forms."""

from __future__ import annotations

import math

from .case import Case, Row, Table


def _spread(case: Case) -> str:
    return f"{case.kept('grad')}.expand(self_sym_sizes)"


def _mean(case: Case) -> str:
    return f"{case.kept('grad')}.expand(self_sym_sizes) / {case.reduced_count()}"


def _product(case: Case) -> str:
    if "result" in case.saved and "self" in case.saved and bool((case.saved["result"] == 0).any()):
        return _product_with_zeros(case)
    return f"{case.kept('grad')} * ({case.kept('result')} / self).conj()"


def _product_with_zeros(case: Case) -> str:
    """The product of all the others: dividing by a zero would not give it."""
    along = "dim" in case.saved
    values, dim = ("self", "dim") if along else ("self.flatten()", "0")
    before_and_after = (
        f"first = torch.ones_like(values.narrow({dim}, 0, 1))\n"
        f"before = torch.cat([first, values.narrow({dim}, 0, values.shape[{dim}] - 1)], {dim})\n"
        f"after = torch.cat([values.narrow({dim}, 1, values.shape[{dim}] - 1), first], {dim})\n"
        f"others = before.cumprod({dim}) * after.flip({dim}).cumprod({dim}).flip({dim})\n"
    )
    others = "others.conj()" if along else "others.conj().reshape(self.shape)"
    if len(case.input.shape) == 0:
        return "grad"
    return f"values = {values}\n{before_and_after}{case.kept('grad')} * {others}"


def _deviation(case: Case) -> str:
    """How far each number is from the mean, over how many numbers the variance divides by."""
    correction = case.saved.get("correction")
    divisor = f"({case.reduced_count()} - {1 if correction is None else correction})"
    return f"(self - self.mean({case.dim_argument()})) / {divisor}"


def _variance(case: Case) -> str:
    return f"{case.kept('grad')} * 2 * {_deviation(case)}"


def _deviation_from(grad: str, result: str) -> Row:
    def row(case: Case) -> str:
        ratio = f"({grad} / {result}).masked_fill({result} == 0, 0)"
        return f"{case.kept(ratio)} * {_deviation(case)}"

    return row


def _with_mean(first: Row) -> Row:
    """The derivative of a pair: a spread and the mean."""

    def row(case: Case) -> str:
        spread = first(case) if callable(first) else first
        return f"{spread} + {case.kept('grads[1]')} / {case.reduced_count()}"

    return row


def _variance_of_pair(case: Case) -> str:
    return f"{case.kept('grads[0]')} * 2 * {_deviation(case)}"


def _log_sum_exp(case: Case) -> str:
    return f"{case.kept('grad')} * torch.exp(self - {case.kept('result')}).conj()"


def _norm(case: Case) -> str | None:
    grad, result, order = case.kept("grad"), case.kept("result"), case.saved["ord"]
    if order == 1:
        return f"{grad} * self.sgn()"
    if order == 2:
        return f"{grad} * (self / {result}).masked_fill({result} == 0, 0)"
    if abs(order) == math.inf:
        ties = f"(self.abs() == {result})"
        return f"{grad} * self.sgn() * {ties} / {ties}.sum({case.dim_argument()})"
    if order > 2:
        slope = "self * self.abs() ** (ord - 2)"
        return f"{grad} * {slope} * ({result} ** (1 - ord)).masked_fill({result} == 0, 0)"
    return None


def _shared_among_ties(case: Case) -> str:
    ties = f"(self == {case.kept('result')})"
    return f"{case.kept('grad')} * {ties} / {ties}.sum({case.dim_argument()})"


def _to_chosen(case: Case) -> str:
    return (
        f"grad.new_zeros(self_sym_sizes).scatter(dim, {case.kept('indices')}, {case.kept('grad')})"
    )


_CHOSEN_IN_ORDER = "grad.new_zeros(self_sym_sizes).scatter(dim, indices, grad)"

REDUCTIONS: Table = {
    "SumBackward0": {"self": "grad.expand(self_sym_sizes)"},
    "SumBackward1": {"self": _spread},
    "MeanBackward0": {"self": "grad.expand(self_sym_sizes) / self_sym_numel"},
    "MeanBackward1": {"self": _mean},
    "ProdBackward0": {"self": _product},
    "ProdBackward1": {"self": _product},
    "VarBackward0": {"self": _variance},
    "StdBackward0": {"self": _deviation_from("grad", "result")},
    "VarMeanBackward0": {"self": _with_mean(_variance_of_pair)},
    "StdMeanBackward0": {"self": _with_mean(_deviation_from("grads[0]", "result0"))},
    "LogsumexpBackward0": {"self": _log_sum_exp},
    "LinalgVectorNormBackward0": {"self": _norm},
    "SoftmaxBackward0": {"self": "result * (grad - (grad * result).sum(dim, keepdim=True))"},
    "LogSoftmaxBackward0": {"self": "grad - torch.exp(result) * grad.sum(dim, keepdim=True)"},
    "MaxBackward0": {"self": _to_chosen},
    "MaxBackward1": {"self": _shared_among_ties},
    "MinBackward0": {"self": _to_chosen},
    "MinBackward1": {"self": _shared_among_ties},
    "AmaxBackward0": {"self": _shared_among_ties},
    "AminBackward0": {"self": _shared_among_ties},
    "MedianBackward0": {"self": _shared_among_ties},
    "MedianBackward1": {"self": _to_chosen},
    "SortBackward0": {"self": _CHOSEN_IN_ORDER},
    "TopkBackward0": {"self": _CHOSEN_IN_ORDER},
    "CumsumBackward0": {"self": "grad.flip(dim).cumsum(dim).flip(dim)"},
}
"""Backward class -> forward argument -> derivative."""
