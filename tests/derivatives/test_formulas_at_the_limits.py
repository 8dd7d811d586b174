"""Formulas with NaN, infinities and zeros in what arrives and in what was saved."""

from __future__ import annotations

import math

import formula_programs
import operator_programs
import pytest
import torch
from engine import operations_behind
from evaluate import evaluate
from test_formulas_of_operators import torchs

from gradwalk.derivatives.formulas import formulas
from gradwalk.derivatives.pointwise import POINTWISE
from gradwalk.torch_api.nodes import op_name

LIMITS = torch.tensor([math.nan, math.inf, -math.inf, 0, 1, -2.5, 0.5], dtype=torch.float64)

# At NaN, torch's vectorised kernels and its plain ones pass on different things in one tensor.
HARD = ("Softshrink", "Hardshrink", "Hardtanh", "Hardsigmoid", "Hardswish", "Elu", "Celu")
UNDECIDED = {f"{name}Backward{nr}" for name in HARD for nr in (0, 1)}


def limits(shape, start):
    """A tensor of all of them in turn."""
    places = (torch.arange(math.prod(shape)) + start) % len(LIMITS)
    return LIMITS[places].reshape(shape)


def programs_of(name):
    return {**formula_programs.PROGRAMS, **operator_programs.MORE_PROGRAMS}[name]


SAID_BY_TORCH = (
    *(
        "Sign",
        "Round",
        "Floor",
        "Ceil",
        "Trunc",
        "Zero",
        "Fmod",
        "Remainder",
        "Sqrt",
        "Exp",
        "Exp2",
    ),
    *("Expm1", "Hypot", "Logaddexp", "Sin", "Sinh", "Cosh", "Abs", "Where", "MaskedFill"),
)
BY_NUMBER = {*POINTWISE, *(f"{name}Backward0" for name in SAID_BY_TORCH), "LerpBackward1"}


def is_decided(node):
    real = not any(each.dtype.is_complex for each in node._input_metadata)
    return real and op_name(node) in BY_NUMBER and op_name(node) not in UNDECIDED


def compare(node, start):
    like = node._input_metadata
    grads = [limits(tuple(each.shape), start).to(each.dtype) for each in like]
    true = list(torchs(node, grads))
    for formula in formulas(node):
        if formula["source"] == "gradwalk":
            value, expected = evaluate(formula, node, grads), true[formula["arg_nr"]]
            torch.testing.assert_close(
                value,
                expected,
                equal_nan=True,
                msg=lambda text, code=formula["code"]: f"{code}\n{text}",
            )


@pytest.mark.parametrize(
    "name", [*formula_programs.PROGRAMS, "asinh", "degrees", "direction", "threshold"]
)
def test_what_torch_gives_at_the_limits(name, monkeypatch):
    starts = iter(range(0, 10**6, 3))

    def leaf(*shape, dtype=torch.float64):
        if dtype.is_complex:
            return torch.randn(shape, dtype=dtype, requires_grad=True)
        return limits(shape, next(starts)).to(dtype).requires_grad_()

    for room in (formula_programs, operator_programs):
        for maker in ("r", "p", "whole"):
            monkeypatch.setattr(room, maker, leaf)
    try:
        outputs = programs_of(name)()
    except RuntimeError:  # torch refuses the value
        return
    for node in filter(is_decided, operations_behind(*outputs)):
        for start in range(3):
            compare(node, start)
