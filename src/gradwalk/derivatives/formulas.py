"""The derivative behind each input of an autograd node, as Python that can be read and run."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.nodes import (
    AccumulateGrad,
    NextFunctions,
    custom_function,
    input_names,
    leaf_tensor,
    node_class,
    op_name,
    outputs_metadata,
    saved_names,
)
from ..graph.reading import why_unreadable
from ..graph.saved import read_saved
from ..graph.signatures import signature
from ..wire import FormulaModel
from .case import Case, TensorType
from .table import derivative

_SOURCE_LINES = 40
_LONGEST_NUMBERS = 80


def formulas(node: Node, inputs: Collection[int] | None = None) -> list[FormulaModel]:
    """The derivative for each input of a node that passes a gradient on.

    Args:
        node: An autograd node. Nothing of the user's is run, not even an unpack hook.
        inputs: Of which of its inputs, by number; None for all.

    Returns:
        One entry per next function that is not None, in their order; none for a leaf. Where
        ``source`` is "gradwalk", ``code`` is Python in terms of ``grad`` (``grads`` where the node
        has several outputs), the names under which the node keeps things, ``torch`` and ``math``,
        or the source of a custom Function's backward; where it is "torch", torch's own C++.
        ``numbers`` is None: see `with_numbers`.

    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> formulas((x**2).grad_fn)[0]["code"]
        'grad * (exponent * self ** (exponent - 1))'
    """
    if type(node) is AccumulateGrad:
        return []
    following = node.next_functions
    names = input_names(node, following)
    case = _case(node)
    return [
        _formula(node, case and replace(case, input_nr=nr), nr, names[nr])
        for nr, (child, _) in enumerate(following)
        if child is not None and (inputs is None or nr in inputs)
    ]


def evaluate(
    formula: FormulaModel, node: Node, grads: Sequence[torch.Tensor | None]
) -> torch.Tensor | None:
    """What the code of a formula gives for the gradients that arrive at its node.

    Args:
        formula: One of ``formulas(node)``.
        node: The node it belongs to.
        grads: The gradient of each of the node's outputs; None for each one that was not used.

    Returns:
        The gradient for the formula's input; None where the code is not gradwalk's own, or where
        what it needs was freed, is packed by a hook, or was changed in place, or where a gradient
        arrived that the code does not speak of. No graph is recorded.

    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> y = x**2
        >>> evaluate(formulas(y.grad_fn)[0], y.grad_fn, [torch.ones(())])
        tensor(6.)
    """
    with torch.no_grad():
        done = _run(formula, node, _arrival(node, grads))
    return None if done is None else done.value


def with_numbers(
    formula: FormulaModel, node: Node, grads: Sequence[torch.Tensor | None]
) -> str | None:
    """A formula with the actual numbers put in.

    Args:
        formula: One of ``formulas(node)``.
        node: The node it belongs to.
        grads: The gradient of each of the node's outputs.

    Returns:
        ``"1 * (2 * 3 ** (2 - 1)) = 6"``; only the number where the code computes nothing; None
        where a tensor that occurs has more than one element or is complex, where `evaluate` gives
        None, and where the text would be longer than 80 characters. Left of the equals sign stands
        Python, with the functions of the math module by their bare names.

    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> y = x**2
        >>> with_numbers(formulas(y.grad_fn)[0], y.grad_fn, [torch.ones(())])
        '1 * (2 * 3 ** (2 - 1)) = 6'
    """
    return fill_in([{**formula}], node, grads)[0]["numbers"]


def fill_in(
    found: list[FormulaModel], node: Node, grads: Sequence[torch.Tensor | None]
) -> list[FormulaModel]:
    """Formulas of one node, with what `with_numbers` gives for each as their ``numbers``.

    Args:
        found: What ``formulas(node)`` gave; changed.
        node: The node they belong to.
        grads: The gradient of each of the node's outputs.
    """
    with torch.no_grad():
        arrival = _arrival(node, grads)
        for formula in found:
            formula["numbers"] = _in_words(formula, node, arrival)
    return found


def _in_words(formula: FormulaModel, node: Node, arrival: _Arrival | None) -> str | None:
    done = _run(formula, node, arrival, only_numbers=True)
    if done is None:
        return None
    try:
        left = _in_numbers(done.last, done.names)
        right = _number(done.value)
    except Exception:  # not a real number, or a backend that refuses an operation
        return None
    text = ast.unparse(right)
    if not _is_literal(left):
        text = f"{ast.unparse(left)} = {text}"
    return text if len(text) <= _LONGEST_NUMBERS else None


def _formula(node: Node, case: Case | None, input_nr: int, argument: str | None) -> FormulaModel:
    code = _from_table(node, case, argument)
    note: str | None = None
    own = True
    if code is None:
        if node_class(type(node)).is_function:
            code, note = _of_function(node)
        else:
            code, note = _of_torch(op_name(node), argument)
            own = not code
    return {
        "input_nr": input_nr,
        "argument": argument,
        "code": code,
        "numbers": None,
        "source": "gradwalk" if own else "torch",
        "note": note,
    }


def _from_table(node: Node, case: Case | None, argument: str | None) -> str | None:
    """The code for one input from our own table; None where it has none for this very node."""
    if case is None or argument is None:
        return None
    try:
        code = derivative(op_name(node), argument, case)
    except (KeyError, TypeError, ValueError, IndexError):
        # This torch keeps something else than the row expects.
        return None
    known = {"grad", "grads", "torch", "math", *saved_names(type(node))}
    return code if code is not None and _program(code).names <= known else None


def _of_torch(op: str, argument: str | None) -> tuple[str, str]:
    found = signature(op)
    code = found.formulas.get((argument or "").partition("[")[0], "") if found else ""
    if found and code:
        return code, f"This is torch's own internal formula, in C++, for {found.forward}."
    if op == "CopySlices":
        return "", (
            "An in-place operation on a view: torch runs that operation's own derivative on the "
            "part of the gradient that belongs to the view; the rest passes to the base unchanged."
        )
    if found:
        return "", f"torch does not say which argument this is of {found.forward}."
    return "", f"torch states no formula for {op}: its backward is written by hand in C++."


def _of_function(node: Any) -> tuple[str, str]:
    """The source of a custom Function's backward, as text; it is never called."""
    custom = custom_function(node)
    name = getattr(custom, "__name__", op_name(node).removesuffix("Backward"))
    for method in ("backward", "vjp"):
        written = inspect.getattr_static(custom, method, None)
        written = getattr(written, "__func__", written)
        if getattr(written, "__module__", "") == "torch.autograd.function":
            continue  # the one that only says that it must be overridden
        try:
            lines = textwrap.dedent(inspect.getsource(written)).rstrip().split("\n")
        except (OSError, TypeError, ValueError):
            continue
        if len(lines) > _SOURCE_LINES:
            rest = len(lines) - _SOURCE_LINES + 1
            lines = [*lines[: _SOURCE_LINES - 1], f"    # ... {rest} more lines"]
        return "\n".join(lines), f"The source of {name}.{method}."
    return "", f"{name} is a custom Function; the source of its backward cannot be found."


def _case(node: Node) -> Case | None:
    """What is known of a node of torch's own; None where the table cannot speak of it."""
    if node_class(type(node)).is_function:
        return None
    saved, unreadable = _read(node)
    try:
        outputs = tuple(_tensor_type(each) for each in outputs_metadata(node))
        inputs = tuple(_input_types(node.next_functions))
    except Exception:  # a nested tensor has no one shape, a traced one no numbers for it
        return None
    return Case(saved, unreadable, outputs, inputs, input_nr=0) if outputs else None


def _input_types(following: NextFunctions) -> Iterable[TensorType | None]:
    described: dict[Node, Any] = {}  # torch describes all outputs of a node at once
    for child, output_nr in following:
        if child is None:
            yield None
        elif (leaf := leaf_tensor(child)) is not None:
            yield _tensor_type(leaf)
        else:
            if child not in described:
                described[child] = outputs_metadata(child)
            yield _tensor_type(described[child][output_nr])


def _tensor_type(like: Any) -> TensorType:
    return TensorType(tuple(int(size) for size in like.shape), like.dtype)


def _read(node: Node) -> tuple[Mapping[str, Any], frozenset[str]]:
    """What a node keeps, by name, and the names of what cannot or must not be used."""
    values: dict[str, Any] = dict.fromkeys(saved_names(type(node)))
    unreadable: set[str] = set()
    for saved in read_saved(node):
        name, bracket, position = saved.name.partition("[")
        if saved.note is not None:  # freed, packed or changed in place
            unreadable.add(name)
        elif not bracket:
            values[name] = _signed(saved.value)
        else:
            # An index that is absent, as in x[:, i], is a None in between.
            if values[name] is None:
                values[name] = []
            values[name] += [None] * (int(position[:-1]) - len(values[name]))
            values[name].append(saved.value)
    return {k: v for k, v in values.items() if k not in unreadable}, frozenset(unreadable)


def _signed(value: Any) -> Any:
    """Dimensions as they were given: torch shows -1 as the largest unsigned number."""
    if isinstance(value, (tuple, list)):
        return tuple(_signed(each) for each in value)
    return value - 2**64 if type(value) is int and value >= 2**63 else value


@dataclass(frozen=True)
class _Program:
    """Code ready to be run: all lines but the last, the last one, and the names it needs."""

    steps: CodeType
    result: CodeType
    last: ast.expr
    names: frozenset[str]


@functools.lru_cache(maxsize=1024)
def _program(code: str) -> _Program:
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    names = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)]
    stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return _Program(
        compile(tree, "<derivative>", "exec"),
        compile(ast.Expression(last.value), "<derivative>", "eval"),
        last.value,
        frozenset(each.id for each in names) - stored,
    )


@dataclass(frozen=True)
class _Done:
    """A program that has run: its value, its last expression and what every name stood for."""

    value: torch.Tensor
    last: ast.expr
    names: dict[str, Any]
    used: frozenset[str]


@dataclass(frozen=True)
class _Arrival:
    """A node whose turn has come.

    Attributes:
        case: What is known of it.
        grads: The gradients of all outputs: zeros for those of several that were not used.
        first_only: Whether nothing came to any but the first output.
    """

    case: Case
    grads: list[torch.Tensor]
    first_only: bool


def _arrival(node: Node, grads: Sequence[torch.Tensor | None]) -> _Arrival | None:
    case = _case(node)
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


def _run(
    formula: FormulaModel, node: Node, arrival: _Arrival | None, *, only_numbers: bool = False
) -> _Done | None:
    """Run the code of a formula; ``only_numbers``: if all that it needs is one number each."""
    if arrival is None:
        return None
    # The code is written anew: text that came from elsewhere is never executed.
    case = replace(arrival.case, input_nr=formula["input_nr"])
    code = _from_table(node, case, formula["argument"])
    if code is None:
        return None
    program = _program(code)
    grads = arrival.grads
    names = {"torch": torch, "math": math, "grad": grads[0], "grads": grads, **case.saved}
    used = program.names - {"torch", "math"}
    if "grads" not in used and not arrival.first_only:
        return None  # the code speaks of the first output only
    if used & case.unreadable or not all(_is_usable(names[name]) for name in used):
        return None
    if only_numbers and not all(_is_number(names[name]) for name in used):
        return None
    # No builtin can be named by the code, but torch itself imports some of its modules only when
    # they are needed, from C++, and looks for the import where Python code would.
    names["__builtins__"] = {"__import__": __import__}
    try:
        with torch.autocast(grads[0].device.type, enabled=False):
            exec(program.steps, names)
            value = eval(program.result, names)
    except Exception:  # any backend may refuse any operation, as for sparse tensors
        return None
    return _Done(value, program.last, names, used)


def _is_usable(value: Any) -> bool:
    """Whether every tensor in ``value`` is in memory, and of no class with methods of a user's."""
    if isinstance(value, (list, tuple)):
        return all(_is_usable(each) for each in value)
    if not isinstance(value, torch.Tensor):
        return True
    return type(value) in (torch.Tensor, torch.nn.Parameter) and why_unreadable(value) is None


class _NoNumberError(Exception):
    """Something that occurs in the code is not one real number."""


_SAME_NUMBER = frozenset({"T", "mT", "mH", "real"})
_ONE_NUMBER_STAYS = frozenset(
    {"sum_to_size", "sum", "expand", "reshape", "unsqueeze", "squeeze"}
    | {"flatten", "transpose", "permute", "to", "conj"}
)
_FUNCTIONS = frozenset(
    {"exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "erf"}
)


def _in_numbers(code: ast.expr, names: dict[str, Any]) -> ast.expr:
    """The expression with numbers for names; what has no short notation becomes its value."""
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
