"""What the code of a module's forward does, step by step, as far as its text tells.

Nothing runs: the source of ``forward``, of the methods that it calls and of the user's own
functions is read once per class, in the order in which Python evaluates it.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
import types
import weakref
from collections.abc import Iterable

from torch import nn

from .code_expressions import OPERATORS, Expressions, ReadClass
from .code_steps import ANYTHING, Arm, Step

_LEAVING = (ast.Raise, ast.Continue, ast.Break)

_Read = dict[tuple[str, bool], tuple[Step, ...] | None]
_steps: weakref.WeakKeyDictionary[type, _Read] = weakref.WeakKeyDictionary()
_trees: weakref.WeakKeyDictionary[types.FunctionType, ast.FunctionDef] = weakref.WeakKeyDictionary()


def steps_of(
    cls: type[nn.Module], method: str = "forward", *, within: bool = False
) -> tuple[Step, ...] | None:
    """What the forward of a class does, or another method, in the order of its text.

    Args:
        cls: A class of modules.
        method: The name of the method.
        within: Whether it is read as a part of what calls it, which goes on after it.

    Returns:
        Its steps; those of the methods and the user's functions that it calls stand in their place.
        None where Python does not have its text.

    Example::

        >>> [(step.name, step.given) for step in steps_of(nn.Linear) if step.name]
        [('linear', ('weight', 'bias'))]
    """
    read, key = _steps.setdefault(cls, {}), (method, within)
    if key not in read:
        callers = (f"{cls.__qualname__}.{method}",) if within else ()
        try:
            function = inspect.getattr_static(cls, method)
            read[key] = tuple(_Function(ReadClass(cls), function, cls, callers).read())
        except Exception:  # there may be no source, and objects of the user may raise anything
            read[key] = None
    return read[key]


def _tree(function: types.FunctionType) -> ast.FunctionDef:
    if function not in _trees:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        if not isinstance(tree, ast.FunctionDef) or tree.name != function.__name__:
            raise TypeError
        _trees[function] = tree
    return _trees[function]


class _Function(Expressions):
    """One function being read, statement by statement."""

    def read(self) -> list[Step]:
        """Read all of its body."""
        function = inspect.unwrap(self.function)
        if not isinstance(function, types.FunctionType):
            raise TypeError
        self.function, tree = function, _tree(function)
        arguments = tree.args.posonlyargs + tree.args.args
        self._self = arguments[0].arg if self.owner is not None and arguments else None
        if self._self:
            self.known[self._self] = ("",)
        code = function.__code__
        self._locals = {*code.co_varnames, *code.co_cellvars}
        self._globals = dict(function.__globals__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):
                self._globals[name] = cell.cell_contents
        self._outer = len(self.arms)
        self._block(tree.body)
        return self.steps

    @property
    def _leaving(self) -> tuple[type[ast.stmt], ...]:
        """After what nothing more runs; a function that returns to forward goes on there."""
        return _LEAVING if self.callers else (ast.Return, *_LEAVING)

    def _block(self, body: Iterable[ast.stmt]) -> None:
        for each in body:
            self._visit(each)

    def on_assign(self, node: ast.Assign) -> None:
        refs = self._refs(node.value)
        if refs is None or isinstance(node.value, ast.Subscript):
            self._visit(node.value)
        for target in node.targets:
            self._bind(target, refs)
            self._store(target)

    def on_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.on_assign(ast.Assign(targets=[node.target], value=node.value))

    def on_augassign(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        name = OPERATORS.get(type(node.op), ANYTHING)
        self._add(f"{name}=", given=self._mentioned([node.value]))
        if isinstance(node.target, ast.Subscript):
            self._add("getitem")
            self._add("setitem")

    def _store(self, target: ast.AST) -> None:
        if isinstance(target, ast.Subscript):
            self._add("setitem")
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._add("unpack")
            for each in target.elts:
                self._store(each)

    def on_for(self, node: ast.For) -> None:
        self._visit_unnamed([node.iter])  # to go through modules runs none
        with self._loop():
            self._bind_items(node.target, node.iter)
            self._block(node.body)
        self._block(node.orelse)

    def on_while(self, node: ast.While) -> None:
        with self._loop():
            self._visit(node.test)
            self._block(node.body)

    def on_if(self, node: ast.If) -> None:
        test = self._condition(node.test)
        number, before = self.of.number(), self.arms
        for side, body in ((True, node.body), (False, node.orelse)):
            leaves = bool(body) and isinstance(body[-1], self._leaving)
            self.arms = (*before, Arm(number, side, leaves, test))
            self._block(body)
        self.arms = before
        if isinstance(node.body[-1], (ast.Return, ast.Raise)) and len(before) == self._outer:
            self.arms = (*before, Arm(number, False, False, test))  # all that follows
