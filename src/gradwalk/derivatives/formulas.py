"""Derivative formulas of an autograd node's inputs, as Python to read and run.

A derivative without a row in the tables is translated from torch's own C++, if Python can call
every function in it and the node keeps a value for every name: pooling, padding, upsampling, the
special functions, in-place twins, kernels of other devices. Else gradwalk only shows the C++.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch.autograd.graph import Node

from ..graph.capture import is_plain_shape
from ..schema.details import FormulaModel
from ..torch_api.nodes import (
    NextFunctions,
    input_names,
    is_accumulate_grad,
    is_compiled,
    knows_saved,
    leaf_tensor,
    node_class,
    op_name,
    outputs_metadata,
    saved_names,
)
from ..torch_api.saved_tensors import read_saved, signed
from ..torch_api.signatures import schema_of, signature, states_zeros
from .case import Case, Table, TensorType, call
from .code import compiled
from .layers import LAYERS, LOSSES
from .linear_algebra import LINEAR_ALGEBRA
from .pointwise import COPIES, POINTWISE
from .reductions import REDUCTIONS
from .shapes import INDEXING, SHAPES

_NAMED = re.compile(r"/\*\s*(\w+)\s*=\s*\*/\s*")  # the name of an argument, before its value

_CONSTANTS = {
    "M_PI": "math.pi",
    "M_PI_2": "(math.pi / 2)",
    "M_PI_4": "(math.pi / 4)",
    "M_2_SQRTPI": "(2 / math.sqrt(math.pi))",
    "M_SQRT2": "math.sqrt(2)",
    "M_LN2": "math.log(2)",
    "M_LN10": "math.log(10)",
}
"""The numbers that C++ has names for."""

_IN_PYTHON = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"/\*.*?\*/\s*", ""),
        (r"_symint\(", "("),
        (r"\bat::", ""),
        (r"\bstd::sqrt\(|(?<![\w.])sqrt\(", "math.sqrt("),
        *((rf"\b{name}\b", number) for name, number in _CONSTANTS.items()),
        (r"\btrue\b", "True"),
        (r"\bfalse\b", "False"),
        (r"!(?=\w)", "not "),
        (r"\bTensor\(\)", "None"),
        (r"\{([^{}]*)\}", r"[\1]"),
        (r", \w+\.options\(\)", ""),
        (r"\.scalar_type\(\)", ".dtype"),
        (r"\.mT\(\)", ".mT"),
        (r"(?<=\w)_\(", "("),  # in place, on what was made a moment ago
    )
]

# Python's Tensor has methods that C++'s has not: functorch adds some.
_TENSOR = torch.Tensor.__base__


def translated(op: str, argument: str, case: Case) -> str | None:
    """Return torch's own formula for one input as a Python expression; None if only C++ can say it.

    It may use names that the node does not keep; the caller checks that.

    Example:
        >>> from .case import TensorType
        >>> double = TensorType((3,), torch.float64)
        >>> case = Case({"n": 1}, frozenset(), (double,), (double,), arg_nr=0)
        >>> translated("PolygammaBackward0", "self", case)
        'grad * torch.polygamma(n + 1, self)'
    """
    found = signature(op)
    text = found.formulas.get(argument) if found else None
    if found is None or not text:
        return None
    text = _branch(text, case)
    if states_zeros(text):
        same = case.input.shape == case.output.shape
        grad = "grad" if len(case.outputs) == 1 else "grads[0]"
        return f"torch.zeros_like({grad})" if same else f"{grad}.new_zeros({case.input.shape})"
    # Python wants the arguments with names last; where they are not, their names are left out.
    tree = _parsed(_NAMED.sub(r"\1=", text)) or _parsed(text)
    if tree is None:
        return None
    names = [each.name for each in found.arguments]
    try:
        return ast.unparse(_Translator(case, names, names.index(argument)).visit(tree))
    except _OnlyInCError:
        return None


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(_as_python(text), mode="eval").body
    except SyntaxError:
        return None


def _as_python(text: str) -> str:
    for pattern, replacement in _IN_PYTHON:
        text = pattern.sub(replacement, text)
    return text


def _branch(text: str, case: Case) -> str:
    """Return the branch of C++'s ``condition ? this : that`` for this node, if known."""
    parts = re.fullmatch(r"([\w.:()]+) \? (.+) : (.+)", text)
    if parts is None:
        return text
    condition, yes, no = parts.groups()
    if condition == "grad.defined()" or case.saved.get(condition) is True:
        return yes
    if condition == "GradMode::is_enabled()" or case.saved.get(condition) is False:
        return no
    if condition == "self.is_complex()":
        return yes if case.is_complex else no
    return text


class _OnlyInCError(Exception):
    """A function that Python cannot call."""


class _Translator(ast.NodeTransformer):
    """Functions and methods of C++'s torch by their Python names."""

    def __init__(self, case: Case, arguments: list[str], place: int) -> None:
        self.case = case
        self.arguments = arguments
        self.place = place

    def visit_Call(self, call: ast.Call) -> ast.expr:
        if isinstance(call.func, ast.Attribute):
            return self._method(call, call.func)
        assert isinstance(call.func, ast.Name)
        self.generic_visit(call)
        return self._function(call, call.func.id)

    def visit_Attribute(self, attribute: ast.Attribute) -> ast.expr:
        if not hasattr(_TENSOR, attribute.attr) and attribute.attr not in {"pi", "sqrt"}:
            raise _OnlyInCError
        self.generic_visit(attribute)
        return attribute

    def _method(self, call: ast.Call, method: ast.Attribute) -> ast.expr:
        match method, call.args:
            case ast.Attribute(ast.Name(name), "sym_sizes" | "sizes"), []:
                if self._keeps(f"{name}_sym_sizes"):
                    return ast.Name(f"{name}_sym_sizes")
                return ast.Attribute(ast.Name(name), "shape")
            case ast.Attribute(ast.Name(name), "sym_size" | "size"), [dim]:
                number = ast.unparse(dim)
                kept = f"{name}_sym_argsize_{number.replace('-', 'minus_')}"
                if self._keeps(kept):
                    return ast.Name(kept)
                return ast.parse(f"{name}.shape[{number}]", mode="eval").body
            case ast.Attribute(ast.Name("math"), _), _:
                return call
            case ast.Attribute(ast.Name(name) as kept_number, "conj"), []:
                if isinstance(self.case.saved.get(name), (int, float, complex)):
                    return ast.Call(ast.Attribute(kept_number, "conjugate"), [], [])
        self.generic_visit(call)
        if not callable(getattr(_TENSOR, method.attr, len)):
            return method  # a method in C++ that is a property in Python, such as dtype
        return call

    def _keeps(self, name: str) -> bool:
        return name in self.case.saved or name in self.case.unreadable

    def _mask(self, given: ast.expr) -> ast.expr:
        """Return the output mask of a function with several gradients: only this input's."""
        if not (isinstance(given, ast.Name) and given.id == "grad_input_mask"):
            return given
        mask = [number == self.place for number in range(len(self.arguments))]
        return ast.List([ast.Constant(each) for each in mask])

    def _function(self, call: ast.Call, name: str) -> ast.expr:
        if name == "maybe_multiply":
            return ast.BinOp(call.args[0], ast.Mult(), call.args[1])
        if name == "masked_fill_inplace_if_safe":
            masked, *rest = call.args
            return ast.Call(ast.Attribute(masked, "masked_fill"), rest, [])
        if name == "scalar_tensor" and ast.unparse(call.args[0]) == "0.0":
            return ast.Constant(0)
        in_torch = f"special.{name[8:]}" if name.startswith("special_") else name
        if not name.startswith("_") and callable(_found(torch, in_torch)):
            return ast.Call(_dotted(f"torch.{in_torch}"), call.args, call.keywords)
        operator = _found(torch.ops.aten, f"{name}.default")
        if operator is None or schema_of(operator).is_mutable:
            raise _OnlyInCError
        declared = schema_of(operator).arguments
        if len(declared) < len(call.args):
            raise _OnlyInCError
        args: list[ast.expr] = []
        keywords = call.keywords
        for given, wanted in zip(map(self._mask, call.args), declared, strict=False):
            if wanted.kwarg_only:
                keywords = [*keywords, ast.keyword(wanted.name, given)]
            else:
                args.append(given)
        made: ast.expr = ast.Call(_dotted(f"torch.ops.aten.{name}"), args, keywords)
        if len(schema_of(operator).returns) > 1:
            made = ast.Subscript(made, ast.Constant(self.place))
        return made


def _found(where: Any, path: str) -> Any:
    for name in path.split("."):
        where = getattr(where, name, None)
    return where


def _dotted(path: str) -> ast.expr:
    return ast.parse(path, mode="eval").body


DERIVATIVES: Table = {
    **POINTWISE,
    **REDUCTIONS,
    **LOSSES,
    **SHAPES,
    **INDEXING,
    **LAYERS,
    **LINEAR_ALGEBRA,
}
"""Backward class -> forward argument -> derivative."""

_FACTORS = ("alpha", "beta", "value", "scale", "input_scale")


def derivative(op: str, argument: str, case: Case) -> str | None:
    """Return the derivative for one input of one node, as Python code; None without a formula.

    Returns lines of Python in terms of ``grad`` (``grads`` where the node has several outputs) and
    the names of what the node saved, the last line an expression. ``argument``: the forward
    argument, ``"other"`` or ``"tensors[1]"``.
    """
    row = DERIVATIVES.get(op.removesuffix("_copy"), {}).get(argument.partition("[")[0])
    code = row(case) if callable(row) else row
    of_torch = code is None
    if code is None:
        code = translated(op, argument, case)
    if code is None:
        return None
    if not case.is_complex:
        code = code.replace(".conj()", "").replace(".conjugate()", "")
    for name in _FACTORS:
        value = case.saved.get(name)
        if isinstance(value, (int, float)) and value == 1:
            code = re.sub(rf" [*/] {name}(\.conjugate\(\))?(?!\w)", "", code)
            code = code.replace("(grad).", "grad.")  # nothing is left to hold together
    by_number = of_torch or op in POINTWISE
    given, wanted = case.output.dtype, case.input.dtype
    to_real = given.is_complex and wanted.is_floating_point
    if to_real and (by_number or op in REDUCTIONS):
        code, given = call(code, "real"), given.to_real()
    if by_number:
        code = case.reduced(code)
    if given != wanted and (given.is_complex == wanted.is_complex or op in COPIES):
        code = call(code, f"to({wanted})")
    return code


# torch has too few operations for these layouts in Python.
_COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


def formulas(node: Node, inputs: Collection[int] | None = None) -> list[FormulaModel]:
    """Return the derivative for each input of a node that passes a gradient on.

    Nothing of the user's is run, not even an unpack hook. Leaves, compiled code and custom
    Functions have none.

    Returns one entry per input. If ``source`` is "gradwalk", ``code`` is Python in terms of
    ``grad`` (``grads`` for several outputs), saved values, ``torch`` and ``math``; if it is
    "torch", torch's own C++. `fill_in` fills in ``numbers``, and `compared` sets ``checked``.
    ``inputs``: the numbers of the inputs; None for all.
    """
    if is_accumulate_grad(node) or is_compiled(node) or node_class(type(node)).is_function:
        return []
    following = node.next_functions
    names = input_names(node, following)
    case = case_of(node)
    return [
        _formula(node, case and replace(case, arg_nr=nr), nr, names[nr])
        for nr, (child, _) in enumerate(following)
        if child is not None and (inputs is None or nr in inputs)
    ]


def _formula(node: Node, case: Case | None, arg_nr: int, argument: str | None) -> FormulaModel:
    code = from_table(node, case, argument)
    formula: FormulaModel = {
        "arg_nr": arg_nr,
        "argument": argument,
        "code": code or "",
        "numbers": None,
        "source": "gradwalk",
        "checked": False,
        "note": None,
    }
    return formula if code else torchs_text(formula, node)


def torchs_text(formula: FormulaModel, node: Node) -> FormulaModel:
    """Return a formula with torch's text instead of Python, or with a note where it has none."""
    code, note = _of_torch(op_name(node), formula["argument"])
    source: Literal["gradwalk", "torch"] = "torch" if code else "gradwalk"
    return {**formula, "code": code, "numbers": None, "source": source, "note": note}


def from_table(node: Node, case: Case | None, argument: str | None) -> str | None:
    """Return one input's code from gradwalk's table; None if it has none for this node."""
    if case is None or argument is None:
        return None
    try:
        code = derivative(op_name(node), argument, case)
    except (KeyError, TypeError, ValueError, IndexError):
        # This torch keeps something else than the row expects.
        return None
    known = {"grad", "grads", "torch", "math", *saved_names(type(node))}
    return code if code is not None and compiled(code).names <= known else None


def _of_torch(op: str, argument: str | None) -> tuple[str, str]:
    found = signature(op)
    code = found.formulas.get((argument or "").partition("[")[0], "") if found else ""
    if found and code.startswith("not_implemented("):
        return "", f"torch has no derivative of {found.forward}: its backward raises an error."
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


def case_of(node: Node) -> Case | None:
    """Read a node of torch's own; None if the table does not cover it."""
    if node_class(type(node)).is_function or not knows_saved():
        return None
    saved, unreadable = saved_values(node)
    if any(getattr(each, "layout", None) in _COMPRESSED for each in saved.values()):
        return None
    try:
        outputs = tuple(_tensor_type(each) for each in outputs_metadata(node))
        inputs = tuple(_input_types(node.next_functions))
    except Exception:  # a nested tensor has no one shape, a traced one no numbers for it
        return None
    return Case(saved, unreadable, outputs, inputs, arg_nr=0) if outputs else None


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
    shape = tuple(like.shape)
    if not is_plain_shape(shape):  # int() of a symbol would make torch fix its size
        raise ValueError("its sizes are symbols")
    return TensorType(shape, like.dtype)


def saved_values(node: Node) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return a node's saved values by name, and the names of unusable ones."""
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
    """Return dimensions as given: torch shows -1 as the largest unsigned number."""
    if isinstance(value, (tuple, list)):
        return tuple(_signed(each) for each in value)
    return signed(value)
