"""Run formulas with the numbers of a pass: insert them, and compare the results with torch's."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd.graph import Node

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_run import Step
from ..schema.details import FormulaModel
from ..torch_api.modes import unseen
from ..torch_api.nodes import input_names
from ..torch_api.reading import why_unreadable
from .case import Case
from .code import compiled
from .formulas import case_of, from_table, torchs_text
from .own_backward import passed_by, varied_like

_LONGEST_NUMBERS = 80
_MOST_COMPARED = 2**14  # numbers that one formula takes


def compared(found: list[FormulaModel], node: Node, step: Step) -> list[FormulaModel]:
    """Run the formulas of a node, and compare the results with the gradients of a recorded pass.

    Returns them with ``checked`` set for each that gives the gradient that the node passed on. One
    that gives another is replaced by torch's own text. One stays as it is that cannot run, because
    saved tensors were freed or are large, or that differs by no more than rounding may explain.
    """
    if any(map(_is_lost, step.grad_outputs)):
        return found
    with torch.no_grad(), unseen():
        arrival = _arrival(case_of(node), _tensors(step.grad_outputs))
        return [
            _compared(formula, node, arrival, step.grad_inputs[formula["arg_nr"]])
            for formula in found
        ]


def passed_with(
    node: Node, saved: Mapping[str, torch.Tensor], grads: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None] | None:
    """Run the formulas of a node with copies of the tensors that it saved.

    Returns the gradients that it passes on, one per input; None if a formula is missing or cannot
    run. The node itself does not run, so torch may have freed its saved tensors.
    """
    following = node.next_functions
    if all(grad is None for grad in grads):
        return [None] * len(following)
    case = case_of(node)
    if case is None:
        return None
    case = replace(
        case, saved={**case.saved, **saved}, unreadable=case.unreadable.difference(saved)
    )
    arrival, names = _arrival(case, grads), input_names(node, following)
    passed: list[torch.Tensor | None] = []
    for nr, (child, _) in enumerate(following):
        result = None if child is None else _run_row(nr, names[nr], node, arrival)
        if child is not None and result is None:
            return None
        passed.append(None if result is None else result.value)
    return passed


def reproduces(node: Node, saved: Mapping[str, torch.Tensor], step: Step) -> bool:
    """Return whether `passed_with` gives the gradients that a node passed on in a recorded pass."""
    if any(map(_is_lost, [*step.grad_outputs, *step.grad_inputs])):
        return False
    with torch.no_grad(), unseen():
        passed = passed_with(node, saved, _tensors(step.grad_outputs))
        if passed is None:
            return False
        true = _tensors(step.grad_inputs)
        try:
            return all(
                given is None or _agree(given, each)
                for given, each in zip(passed, true, strict=True)
            )
        except Exception:  # a layout that cannot be compared
            return False


def _tensors(kept: Sequence[KeptGradient | None]) -> list[torch.Tensor | None]:
    return [None if each is None else each.tensor for each in kept]


def _is_lost(kept: KeptGradient | None) -> bool:
    """Return whether a gradient flowed, but its values were not kept or have changed since."""
    return kept is not None and kept.tensor is None


def _compared(
    formula: FormulaModel, node: Node, arrival: _Arrival | None, passed: KeptGradient | None
) -> FormulaModel:
    if formula["source"] != "gradwalk" or arrival is None or _is_lost(passed):
        return formula
    result = _run(formula, node, arrival, fits=_is_small)
    if result is None:
        return formula
    true = None if passed is None else passed.tensor
    try:
        if _agree(result.value, true) or _agrees_alone(formula, node, arrival, result):
            return {**formula, "checked": True}
        largest = max(map(_largest, arrival.grads))
        return formula if _agree(result.value, true, largest) else torchs_text(formula, node)
    except Exception:  # a layout that cannot be compared
        return formula


def _agrees_alone(formula: FormulaModel, node: Node, arrival: _Arrival, result: _Result) -> bool:
    """Compare a formula with the node alone.

    A hook of the node may have changed the recorded gradient. And where the parts of a result
    cancel, its digits are rounding errors: another incoming gradient is tried then.
    """
    nr = formula["arg_nr"]
    passed = passed_by(node, arrival.grads)
    if passed is None:
        return False
    alone = passed[nr]
    if _agree(result.value, alone):
        return True
    if alone is None or not (result.value.isfinite().all() and alone.isfinite().all()):
        return False
    other = replace(arrival, grads=[varied_like(each) for each in arrival.grads])
    found, passed = _run(formula, node, other), passed_by(node, other.grads)
    return found is not None and passed is not None and _agree(found.value, passed[nr])


_LEAST_PRECISION = 1e-6  # torch writes some constants in single precision


def _agree(given: torch.Tensor, true: torch.Tensor | None, among: float = 0.0) -> bool:
    """Return whether two gradients are equal up to rounding, in the shape and dtype of the first.

    The engine sums what a node passes on over broadcast dimensions, and takes its real part. None
    is torch's way to write zeros. ``among``: the size of numbers that may have cancelled.
    """
    given = given.to_dense()
    if true is None:
        true = torch.zeros_like(given)
    if why_unreadable(true) is not None:
        return False
    true = true.to_dense()
    true = true if true.shape == given.shape else true.sum_to_size(given.shape)
    true = true.real if true.is_complex() and not given.is_complex() else true
    rounding = max(torch.finfo(each.dtype).eps for each in (given, true))
    wide = torch.promote_types(torch.float64, true.dtype)
    # Small results of large sums have fewer digits than the sums.
    absolute = rounding**0.75 * _largest(true) + rounding**0.5 * among
    relative = max(rounding**0.5, _LEAST_PRECISION)
    return torch.allclose(
        given.to(wide), true.to(wide), rtol=relative, atol=absolute, equal_nan=True
    )


def _largest(tensor: torch.Tensor) -> float:
    """Return the size of the largest finite number of a tensor."""
    return float(tensor.abs().nan_to_num(0, 0, 0).amax()) if tensor.numel() else 0.0


def fill_in(
    found: list[FormulaModel], node: Node, grads: Sequence[torch.Tensor | None]
) -> list[FormulaModel]:
    """Insert the actual numbers into the formulas of one node.

    Each gets ``numbers``: "1 * (2 * 3 ** (2 - 1)) = 6", or only the value where the code computes
    nothing. It is Python, with the functions of the math module by their bare names. It is None
    where a tensor has several elements or is complex, was freed, packed or changed in place, where
    the code is not gradwalk's own, and for a text of over 80 characters.
    """
    with torch.no_grad():
        arrival = _arrival(case_of(node), grads)
        for formula in found:
            formula["numbers"] = _with_numbers(formula, node, arrival)
    return found


def take_many(found: list[FormulaModel], grads: Sequence[torch.Tensor | None]) -> bool:
    """Return whether all formulas use a gradient of several numbers: `fill_in` fills in none."""
    if not grads or grads[0] is None or _is_number(grads[0]):
        return False
    ours = [each["code"] for each in found if each["source"] == "gradwalk" and each["code"]]
    return all(not compiled(code).names.isdisjoint({"grad", "grads"}) for code in ours)


def _with_numbers(formula: FormulaModel, node: Node, arrival: _Arrival | None) -> str | None:
    if formula["source"] != "gradwalk":
        return None
    result = _run(formula, node, arrival, fits=_is_number)
    if result is None:
        return None
    try:
        left = _in_numbers(result.last, result.names)
        right = _number(result.value)
    except Exception:  # not a real number, or a backend that refuses an operation
        return None
    text = ast.unparse(right)
    if not _is_literal(left):
        text = f"{ast.unparse(left)} = {text}"
    return text if len(text) <= _LONGEST_NUMBERS else None


@dataclass(frozen=True)
class _Result:
    """A program that has run: its value, its last expression and the value of every name."""

    value: torch.Tensor
    last: ast.expr
    names: dict[str, Any]


@dataclass(frozen=True)
class _Arrival:
    case: Case  # the node's saved values, inputs and outputs
    # The gradients of all outputs: zeros for each one of several that was not used.
    grads: list[torch.Tensor]
    first_only: bool  # whether no output but the first received a gradient


def _arrival(case: Case | None, grads: Sequence[torch.Tensor | None]) -> _Arrival | None:
    given = next((grad for grad in grads if grad is not None), None)
    if case is None or given is None:
        return None
    padded = [*grads, *[None] * (len(case.outputs) - len(grads))]
    arrived = [
        torch.zeros((), dtype=like.dtype, device=given.device).expand(like.shape)
        if grad is None
        else grad
        for grad, like in zip(padded, case.outputs, strict=True)
    ]
    return _Arrival(case, arrived, all(grad is None for grad in grads[1:]))


def _anything(_: Any) -> bool:
    return True


def _run(
    formula: FormulaModel,
    node: Node,
    arrival: _Arrival | None,
    *,
    fits: Callable[[list[Any]], bool] = _anything,
) -> _Result | None:
    """Run the code of a formula, if the values that it uses fit."""
    return _run_row(formula["arg_nr"], formula["argument"], node, arrival, fits=fits)


def _run_row(
    arg_nr: int,
    argument: str | None,
    node: Node,
    arrival: _Arrival | None,
    *,
    fits: Callable[[list[Any]], bool] = _anything,
) -> _Result | None:
    """Run the derivative for one input of a node, if the values that it uses fit."""
    if arrival is None:
        return None
    # The code is written anew: a formula text from a file is never executed.
    case = replace(arrival.case, arg_nr=arg_nr)
    code = from_table(node, case, argument)
    if code is None:
        return None
    program = compiled(code)
    grads = arrival.grads
    names = {"torch": torch, "math": math, "grad": grads[0], "grads": grads, **case.saved}
    used = program.names - {"torch", "math"}
    if "grads" not in used and not arrival.first_only:
        return None  # the code speaks of the first output only
    if used & case.unreadable or not all(_is_usable(names[name]) for name in used):
        return None
    if not fits([names[name] for name in used]):
        return None
    try:
        with torch.autocast(grads[0].device.type, enabled=False):
            value, names = program.run(names)
    except Exception:  # any backend may refuse any operation, as for sparse tensors
        return None
    return _Result(value, program.last, names)


def _is_usable(value: Any) -> bool:
    """Return whether every tensor in ``value`` is in memory, and not of a user's class."""
    if isinstance(value, (list, tuple)):
        return all(_is_usable(each) for each in value)
    if not isinstance(value, torch.Tensor):
        return True
    return type(value) in (torch.Tensor, torch.nn.Parameter) and why_unreadable(value) is None


class _NoNumberError(Exception):
    """A value in the code is not one real number."""


_SAME_NUMBER = frozenset({"T", "mT", "mH", "real"})
_ONE_NUMBER_STAYS = frozenset(
    {"sum_to_size", "sum", "expand", "reshape", "unsqueeze", "squeeze"}
    | {"flatten", "transpose", "permute", "to", "conj"}
)
_FUNCTIONS = frozenset(
    {"exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "erf"}
)


def _in_numbers(code: ast.expr, names: dict[str, Any]) -> ast.expr:
    """Return the expression with numbers for names; long notations become their value."""
    match code:
        case ast.BinOp(left, operator, right):
            operator = ast.Mult() if isinstance(operator, ast.MatMult) else operator
            return ast.BinOp(_in_numbers(left, names), operator, _in_numbers(right, names))
        case ast.UnaryOp(ast.USub(), operand):
            return _negative(_in_numbers(operand, names))
        case ast.Compare(left, operators, rights):
            compared = [_in_numbers(right, names) for right in rights]
            return ast.Compare(_in_numbers(left, names), operators, compared)
        case ast.Attribute(value, attribute) if attribute in _SAME_NUMBER:
            return _in_numbers(value, names)
        case ast.Attribute(ast.Name("math"), attribute):
            return ast.Name(attribute)
        case ast.Call(ast.Attribute(ast.Name("math" | "torch"), name), [x]) if name in _FUNCTIONS:
            return ast.Call(ast.Name(name), [_in_numbers(x, names)], [])
        case ast.Call(ast.Attribute(ast.Name("torch"), "where"), [condition, yes, no]):
            return _in_numbers(yes if _value(condition, names) else no, names)
        case ast.Call(ast.Attribute(value, name)) if name in _ONE_NUMBER_STAYS:
            return _in_numbers(value, names)
        case ast.Call(ast.Attribute(value, name), []) if name in _FUNCTIONS:
            return ast.Call(ast.Name(name), [_in_numbers(value, names)], [])
    return _number(_value(code, names))


def _negative(code: ast.expr) -> ast.expr:
    if isinstance(code, ast.UnaryOp):  # nobody writes --2
        return code.operand
    return ast.UnaryOp(ast.USub(), code)


def _value(code: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(code), "<derivative>", "eval"), names)


def _number(value: Any) -> ast.expr:
    """Up to six digits of a number, as a Python expression."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise _NoNumberError
    if math.isnan(value):
        return ast.Name("nan")
    if value < 0:
        return ast.UnaryOp(ast.USub(), _number(-value))
    if math.isinf(value):
        return ast.Name("inf")
    short = float(f"{value:.6g}")
    return ast.Constant(int(short) if short.is_integer() and short < 1e6 else short)


def _is_literal(code: ast.expr) -> bool:
    inner = code.operand if isinstance(code, ast.UnaryOp) else code
    return isinstance(inner, (ast.Constant, ast.Name))


def _is_number(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_number(each) for each in value)
    return not isinstance(value, torch.Tensor) or value.numel() == 1


def _is_small(value: Any) -> bool:
    return _numel(value) <= _MOST_COMPARED


def _numel(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return sum(map(_numel, value))
    return value.numel() if isinstance(value, torch.Tensor) else 1
