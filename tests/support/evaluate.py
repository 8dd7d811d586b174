"""The value of a derivative formula, and its code with numbers."""

from typing import Any

import torch

from gradwalk.derivatives import evaluation
from gradwalk.derivatives.formulas import case_of


def evaluate(formula, node, grads):
    """The gradient that a formula gives for its input; None where gradwalk would not run it."""
    with torch.no_grad():
        result = evaluation._run(formula, node, evaluation._arrival(case_of(node), grads))
    return None if result is None else result.value


def with_numbers(formula: Any, node, grads):
    """A formula with the actual numbers put in."""
    return evaluation.fill_in([formula.copy()], node, grads)[0]["numbers"]
