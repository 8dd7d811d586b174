"""Derivatives of operations that reduce many numbers to few, and of their running forms."""

from __future__ import annotations

import math
from collections.abc import Callable

from .case import Case, Row, Table, alike, call, sum_to


def _product(case: Case) -> str:
    if "result" in case.saved and "self" in case.saved and bool((case.saved["result"] == 0).any()):
        return _product_with_zeros(case)
    return f"{case.kept('grad')} * ({case.kept('result')} / self).conj()"


def _product_with_zeros(case: Case) -> str:
    """Return the product of all the others: dividing by a zero would not give it."""
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


def _variance(case: Case, grad: str = "grad") -> str:
    return f"{case.kept(grad)} * 2 * {_deviation(case)}"


def _standard_deviation(case: Case, grad: str = "grad", result: str = "result") -> str:
    ratio = f"({grad} / {result}).masked_fill({result} == 0, 0)"
    return f"{case.kept(ratio)} * {_deviation(case)}"


def _and_mean(case: Case, code: str) -> str:
    """``code``, and the derivative of the mean that the operation also gives."""
    return f"{code} + {case.kept('grads[1]')} / {case.reduced_count()}"


def _norm(order_name: str, values: str = "self") -> Callable[[Case], str]:
    """Return the derivative of a p-norm; ``values`` is what it was taken of."""

    def row(case: Case) -> str:
        grad, result = case.kept("grad"), case.kept("result")
        order = case.saved.get(order_name)
        if order is None or order == 2:
            return f"{grad} * ({values} / {result}).masked_fill({result} == 0, 0)"
        if order == 0:
            return f"torch.zeros_like({values})"
        if order == 1:
            return f"{grad} * {values}.sgn()"
        if abs(order) == math.inf:
            ties = f"({values}.abs() == {result})"
            return f"{grad} * {values}.sgn() * {ties} / {ties}.sum({case.dim_argument()})"
        slope = f"{values}.sgn() * {values}.abs() ** ({order_name} - 1)"
        if order < 1:
            slope = f"({slope}).masked_fill({values} == 0, 0)"
            return f"{grad} * {slope} * {result} ** (1 - {order_name})"
        scale = f"({result} ** (1 - {order_name})).masked_fill({result} == 0, 0)"
        return f"{grad} * {slope} * {scale}"

    return row


def _distance(sign: str) -> Row:
    of_difference = _norm("p", "difference")

    def row(case: Case) -> str:
        code = f"difference = self - other\n{sign}{of_difference(case)}"
        # The two were broadcast to each other, to a shape that the result no longer has.
        are_alike = case.saved["self"].shape == case.saved["other"].shape
        return code if are_alike else call(code, sum_to(case.input.shape))

    return row


def _shared_among_ties(case: Case) -> str:
    ties = f"(self == {case.kept('result')})"
    return f"{case.kept('grad')} * {ties} / {ties}.sum({case.dim_argument()})"


def _shared_among_ties_of_all(case: Case) -> str:
    result = case.saved.get("result")
    if result is None or not result.isnan():
        return _shared_among_ties(case)
    return "grad * self.isnan() / self.isnan().sum()"  # nothing is equal to NaN


def _smallest_and_largest(case: Case) -> str:
    def part(number: int, name: str) -> str:
        found = case.kept(name)
        ties = f"(self == {found})"
        shared = f"{case.kept(f'grads[{number}]')} * {ties}"
        return f"{shared} / {ties}.sum({case.dim_argument()})"

    return f"{part(0, 'min')} + {part(1, 'max')}"


def _running_product(case: Case) -> str | None:
    if "result" not in case.saved or bool((case.saved["result"] == 0).any()):
        return None  # dividing by a zero would not give the others' product
    return "(grad * result.conj()).flip(dim).cumsum(dim).flip(dim) / self.conj()"


def _running_log_sum(case: Case) -> str:
    """Among logarithms, because exp(-result) may be beyond all numbers."""
    if case.is_complex:
        return (
            "waiting = grad.log() - result.conj()\n"
            "(waiting.flip(dim).logcumsumexp(dim).flip(dim) + self.conj()).exp()"
        )
    return (
        "up = grad.clamp(min=0).log() - result\n"
        "down = (-grad).clamp(min=0).log() - result\n"
        "up = up.flip(dim).logcumsumexp(dim).flip(dim) + self\n"
        "down = down.flip(dim).logcumsumexp(dim).flip(dim) + self\n"
        "up.exp() - down.exp()"
    )


def _to_chosen(case: Case) -> str:
    places, grad = case.kept("indices"), case.kept("grad")
    return f"grad.new_zeros(self_sym_sizes).scatter(dim, {places}, {grad})"


REDUCTIONS: Table = {
    "SumBackward0": {"self": "grad.expand(self_sym_sizes)"},
    "SumBackward1": {"self": lambda case: f"{case.kept('grad')}.expand(self_sym_sizes)"},
    "NansumBackward0": {"self": lambda case: f"{case.kept('grad')} * ~self.isnan()"},
    "MeanBackward0": {"self": "grad.expand(self_sym_sizes) / self_sym_numel"},
    "MeanBackward1": {
        "self": lambda case: f"{case.kept('grad')}.expand(self_sym_sizes) / {case.reduced_count()}"
    },
    "ProdBackward0": {"self": _product},
    "ProdBackward1": {"self": _product},
    "VarBackward0": {"self": _variance},
    "StdBackward0": {"self": _standard_deviation},
    "VarMeanBackward0": {"self": lambda case: _and_mean(case, _variance(case, "grads[0]"))},
    "StdMeanBackward0": {
        "self": lambda case: _and_mean(case, _standard_deviation(case, "grads[0]", "result0"))
    },
    "TraceBackward0": {
        "self": "grad * torch.eye(*self_sym_sizes, dtype=grad.dtype, device=grad.device)"
    },
    "LogsumexpBackward0": {
        "self": lambda case: f"{case.kept('grad')} * torch.exp(self - {case.kept('result')}).conj()"
    },
    "LinalgVectorNormBackward0": {"self": _norm("ord")},
    **{f"NormBackward{nr}": {"self": _norm("p")} for nr in range(4)},
    "DistBackward0": {"self": _distance(""), "other": _distance("-")},
    **alike(
        "SoftmaxBackward0",
        "SafeSoftmaxBackward0",
        self="result * (grad - (grad * result).sum(dim, keepdim=True))",
    ),
    "LogSoftmaxBackward0": {"self": "grad - torch.exp(result) * grad.sum(dim, keepdim=True)"},
    **alike(
        *("MaxBackward0", "MinBackward0", "MedianBackward1", "NanmedianBackward1"),
        *("KthvalueBackward0", "ModeBackward0"),
        self=_to_chosen,
    ),
    **alike(
        *("MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"),
        self=_shared_among_ties_of_all,
    ),
    **alike("AmaxBackward0", "AminBackward0", self=_shared_among_ties),
    "AminmaxBackward0": {"self": _smallest_and_largest},
    **alike(
        "SortBackward0",
        "SortBackward1",
        "TopkBackward0",
        self="grad.new_zeros(self_sym_sizes).scatter(dim, indices, grad)",
    ),
    "CumsumBackward0": {"self": "grad.flip(dim).cumsum(dim).flip(dim)"},
    "CumprodBackward0": {"self": _running_product},
    **alike(
        "CummaxBackward0",
        "CumminBackward0",
        self="torch.zeros_like(self).scatter_add(dim, indices, grad)",
    ),
    "LogcumsumexpBackward0": {"self": _running_log_sum},
}
