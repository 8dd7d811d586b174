"""Backward programs that torch's compile cache has packed: the text of the calls, read, never run.

The cache keeps a program as the Python that torch wrote for it, and would run that to trace it
anew. It says one call a line, so the graph can be read off it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
"""What torch writes as signs."""

_PLAIN = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "slice": slice}


def unpacked(pack: Any) -> GraphModule:
    """The program that a packed one is, read off its text; shapes, modules and lines are not there.

    Args:
        pack: The function of a cached compile that would unpack it.

    Raises:
        ValueError: It is not written as it is expected to be.
    """
    body = pack.__self__.args[0]
    function = ast.parse(body["_code"].strip()).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise ValueError("it is no function")
    root = torch.nn.Module()
    for kept in ("_parameters", "_buffers", "_modules"):
        root.__dict__[kept] = dict(body[kept])
    root.__dict__.update({name: held for name, held in body.items() if name.startswith("_tensor_")})
    return GraphModule(root, _Reader(function).graph)


class _Reader:
    """Reads the statements of a program, in order."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.graph = Graph()
        self._values: dict[str, Any] = {}
        for argument in function.args.args[1:]:
            self._values[argument.arg] = self.graph.placeholder(argument.arg)
        for statement in function.body:
            self._read(statement)

    def _read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Return):
            self.graph.output(() if statement.value is None else self._value(statement.value))
            return
        if isinstance(statement, ast.Expr):
            self._value(statement.value)
            return
        if not isinstance(statement, ast.Assign):
            raise ValueError(f"it has a line of another kind: {ast.unparse(statement)}")
        if isinstance(statement.value, ast.Constant) and statement.value.value is None:
            return  # `relu = None`: what is not needed again is let go of
        (target,) = statement.targets
        if not isinstance(target, ast.Name):
            raise ValueError(f"it assigns to something else: {ast.unparse(statement)}")
        self._values[target.id] = self._value(statement.value, target.id)

    def _value(self, said: ast.expr, name: str | None = None) -> Any:
        if isinstance(said, ast.Constant):
            return said.value
        if isinstance(said, ast.Name):
            return self._named(said.id)
        if isinstance(said, (ast.List, ast.Tuple)):
            found = [self._value(each) for each in said.elts]
            return found if isinstance(said, ast.List) else tuple(found)
        if isinstance(said, ast.Attribute):
            return self._attribute(said, name)
        if isinstance(said, ast.Call):
            return self._call(said, name)
        return self._sign(said, name)

    def _named(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "torch":
            return torch
        if name == "device":
            return torch.device
        raise ValueError(f"it names {name!r}, which is not known")

    def _attribute(self, said: ast.Attribute, name: str | None) -> Any:
        written = ast.unparse(said)
        if written.startswith("self."):
            return self.graph.create_node("get_attr", written.removeprefix("self."), name=name)
        if not written.startswith("torch."):
            raise ValueError(f"it reads {written}")
        return getattr(self._value(said.value), said.attr)

    def _call(self, said: ast.Call, name: str | None) -> Any:
        args = tuple(self._value(each) for each in said.args)
        kwargs = {str(each.arg): self._value(each.value) for each in said.keywords}
        if isinstance(said.func, ast.Attribute) and isinstance(said.func.value, ast.Name):
            of = self._values.get(said.func.value.id)
            if isinstance(of, Node):
                return self.graph.create_node("call_method", said.func.attr, (of, *args), kwargs)
        called = self._value(said.func)
        if called in (torch.device, slice):
            return called(*args, **kwargs)
        if not ast.unparse(said.func).startswith("torch."):
            raise ValueError(f"it calls {ast.unparse(said.func)}")
        return self.graph.create_node("call_function", called, args, kwargs, name=name)

    def _sign(self, said: ast.expr, name: str | None) -> Any:
        if isinstance(said, ast.Subscript):
            function, given = operator.getitem, [said.value, said.slice]
        elif isinstance(said, ast.BinOp):
            function, given = _OPERATORS[type(said.op)], [said.left, said.right]
        elif isinstance(said, ast.UnaryOp):
            function, given = _OPERATORS[type(said.op)], [said.operand]
        elif isinstance(said, ast.Compare) and len(said.ops) == 1:
            function, given = _OPERATORS[type(said.ops[0])], [said.left, *said.comparators]
        else:
            raise ValueError(f"it says {ast.unparse(said)}")
        values = tuple(self._value(each) for each in given)
        if not any(isinstance(each, Node) for each in values):
            return function(*values)
        return self.graph.create_node("call_function", function, values, name=name)
