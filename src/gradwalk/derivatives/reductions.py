"""Derivatives of operations that reduce many numbers to few, and of their running forms."""

from __future__ import annotations

import math

from .case import Case, Row, Table, call, sum_to


def _spread(case: Case) -> str:
    return f"{case.kept('grad')}.expand(self_sym_sizes)"


def _spread_over_numbers(case: Case) -> str:
    return f"{case.kept('grad')} * ~self.isnan()"


def _mean(case: Case) -> str:
    return f"{case.kept('grad')}.expand(self_sym_sizes) / {case.reduced_count()}"


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


def _variance(case: Case) -> str:
    return f"{case.kept('grad')} * 2 * {_deviation(case)}"


def _deviation_from(grad: str, result: str) -> Row:
    def row(case: Case) -> str:
        ratio = f"({grad} / {result}).masked_fill({result} == 0, 0)"
        return f"{case.kept(ratio)} * {_deviation(case)}"

    return row


def _with_mean(first: Row) -> Row:
    """Return the derivative of a pair: a spread and the mean."""

    def row(case: Case) -> str:
        spread = first(case) if callable(first) else first
        return f"{spread} + {case.kept('grads[1]')} / {case.reduced_count()}"

    return row


def _variance_of_pair(case: Case) -> str:
    return f"{case.kept('grads[0]')} * 2 * {_deviation(case)}"


def _log_sum_exp(case: Case) -> str:
    return f"{case.kept('grad')} * torch.exp(self - {case.kept('result')}).conj()"


def _norm(order_name: str, values: str = "self") -> Row:
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


def _were_broadcast(case: Case) -> bool:
    """Return whether the operands of a distance had two shapes, as far as one can know."""
    return bool(case.saved["self"].shape != case.saved["other"].shape)


def _distance(sign: str) -> Row:
    of_difference = _norm("p", "difference")

    def row(case: Case) -> str:
        assert callable(of_difference)
        code = f"difference = self - other\n{sign}{of_difference(case)}"
        # The two were broadcast to each other, to a shape that the result no longer has.
        return call(code, sum_to(case.input.shape)) if _were_broadcast(case) else code

    return row


def _shared_among_ties(case: Case) -> str:
    ties = f"(self == {case.kept('result')})"
    result = case.saved.get("result")
    if len(case.output.shape) == 0 and result is not None and bool(result.isnan()):
        ties = "self.isnan()"  # which nothing is equal to
    return f"{case.kept('grad')} * {ties} / {ties}.sum({case.dim_argument()})"


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
    return (
        f"grad.new_zeros(self_sym_sizes).scatter(dim, {case.kept('indices')}, {case.kept('grad')})"
    )


_CHOSEN_IN_ORDER = "grad.new_zeros(self_sym_sizes).scatter(dim, indices, grad)"

_SUMMED_TO_CHOSEN = "torch.zeros_like(self).scatter_add(dim, indices, grad)"
_SOFTMAX = "result * (grad - (grad * result).sum(dim, keepdim=True))"

REDUCTIONS: Table = {
    "SumBackward0": {"self": "grad.expand(self_sym_sizes)"},
    "SumBackward1": {"self": _spread},
    "NansumBackward0": {"self": _spread_over_numbers},
    "MeanBackward0": {"self": "grad.expand(self_sym_sizes) / self_sym_numel"},
    "MeanBackward1": {"self": _mean},
    "ProdBackward0": {"self": _product},
    "ProdBackward1": {"self": _product},
    "VarBackward0": {"self": _variance},
    "StdBackward0": {"self": _deviation_from("grad", "result")},
    "VarMeanBackward0": {"self": _with_mean(_variance_of_pair)},
    "StdMeanBackward0": {"self": _with_mean(_deviation_from("grads[0]", "result0"))},
    "TraceBackward0": {
        "self": "grad * torch.eye(*self_sym_sizes, dtype=grad.dtype, device=grad.device)"
    },
    "LogsumexpBackward0": {"self": _log_sum_exp},
    "LinalgVectorNormBackward0": {"self": _norm("ord")},
    **{f"NormBackward{nr}": {"self": _norm("p")} for nr in range(4)},
    "DistBackward0": {"self": _distance(""), "other": _distance("-")},
    **{f"{name}Backward0": {"self": _SOFTMAX} for name in ("Softmax", "SafeSoftmax")},
    "LogSoftmaxBackward0": {"self": "grad - torch.exp(result) * grad.sum(dim, keepdim=True)"},
    "MaxBackward0": {"self": _to_chosen},
    "MaxBackward1": {"self": _shared_among_ties},
    "MinBackward0": {"self": _to_chosen},
    "MinBackward1": {"self": _shared_among_ties},
    "AmaxBackward0": {"self": _shared_among_ties},
    "AminBackward0": {"self": _shared_among_ties},
    "MedianBackward0": {"self": _shared_among_ties},
    "MedianBackward1": {"self": _to_chosen},
    "AminmaxBackward0": {"self": _smallest_and_largest},
    "NanmedianBackward0": {"self": _shared_among_ties},
    **{
        f"{name}Backward{nr}": {"self": _to_chosen}
        for name, nr in (("Nanmedian", 1), ("Kthvalue", 0), ("Mode", 0))
    },
    "SortBackward0": {"self": _CHOSEN_IN_ORDER},
    "SortBackward1": {"self": _CHOSEN_IN_ORDER},
    "TopkBackward0": {"self": _CHOSEN_IN_ORDER},
    "CumsumBackward0": {"self": "grad.flip(dim).cumsum(dim).flip(dim)"},
    "CumprodBackward0": {"self": _running_product},
    "CummaxBackward0": {"self": _SUMMED_TO_CHOSEN},
    "CumminBackward0": {"self": _SUMMED_TO_CHOSEN},
    "LogcumsumexpBackward0": {"self": _running_log_sum},
}
"""Backward class -> forward argument -> derivative."""
