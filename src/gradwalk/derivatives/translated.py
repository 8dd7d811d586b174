"""Translate torch's own C++ derivative formulas to Python where possible.

torch's code generator reads C++ such as ``avg_pool3d_backward(grad, self, kernel_size, ...)`` or
``grad * polygamma(n + 1, self)``. It becomes a formula like the rows of the table, if Python can
call every function in it and the node keeps a value for every name. Else gradwalk only shows the
C++. So whole families need no row: pooling, padding, upsampling, the special
functions, in-place twins, kernels of other devices.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import torch

from ..torch_api.signatures import schema_of, signature
from .case import Case

_NAMED = re.compile(r"/\*\s*(\w+)\s*=\s*\*/\s*")  # the name of an argument, before its value

_IN_PYTHON = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"/\*.*?\*/\s*", ""),
        (r"_symint\(", "("),
        (r"\bat::", ""),
        (r"\bstd::sqrt\(|(?<![\w.])sqrt\(", "math.sqrt("),
        (r"\bM_PI\b", "math.pi"),
        (r"\bM_LN2\b", "math.log(2)"),
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

_ZEROS = re.compile(
    r"Tensor\(\)|(at::)?zeros(_like|_symint)?\((\w+|\w+\.sym_sizes\(\), grad\.options\(\))\)"
)


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
    if _ZEROS.fullmatch(text):
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
