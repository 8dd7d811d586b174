"""Read the expressions in the code of a forward, in the order in which Python evaluates them.

Which of them name what stands below the module, and which call functions: torch's are steps, the
methods of the module and the user's own functions are read in the place of their call.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import textwrap
import types
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from .code_steps import ANYTHING, Branch, Step, Test

# ruff: noqa: D102  (each on_... reads what its name says, as in ast.NodeVisitor)


DEEPEST = 5  # how many functions are read that call each other

MOST_STEPS = 2_000  # how many steps a class may have

OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**",
    ast.Mod: "%", ast.FloorDiv: "//",
}  # fmt: skip
_COMPARISONS = {ast.Is: "==", ast.Eq: "==", ast.IsNot: "!=", ast.NotEq: "!=", ast.Gt: ">"}
_ASKING = ("isinstance", "hasattr", "len", "print", "getattr", "range", "enumerate", "zip")
_ASSERTING = ("_assert", "_check")
_ITEMS = ("items", "values", "children", "named_children", "_modules")
_NAMED = ("items", "named_children")


@dataclass
class ReadClass:
    """The state that the functions of one class share while they are read."""

    cls: type
    steps: int = 0
    conditions: int = 0

    def number(self) -> int:
        """A number for one more condition or loop."""
        self.conditions += 1
        return self.conditions


@dataclass
class Expressions:
    """A function being read: where in it we are, and which of its names stand for modules."""

    shared: ReadClass  # the state shared with the other functions of the class
    function: Any  # the function
    owner: type | None = None  # the class of a method
    callers: tuple[str, ...] = ()  # the names of the functions around it
    # What its variables name below the module.
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    loops: tuple[int, ...] = ()  # the loops that we are in, outermost first
    branches: tuple[Branch, ...] = ()  # the conditions that we are under, outermost first
    steps: list[Step] = field(default_factory=list)  # the steps read so far
    _self: str | None = None
    _locals: set[str] = field(default_factory=set)
    _globals: dict[str, Any] = field(default_factory=dict)

    @abstractmethod
    def read(self) -> list[Step]:
        """Read its statements, which hold the expressions."""

    def _add(
        self, name: str | None, *, refs: Sequence[str] = (), given: Sequence[str] = ()
    ) -> None:
        self.shared.steps += 1
        if self.shared.steps > MOST_STEPS:
            raise ValueError
        self.steps.append(Step(name, tuple(refs), tuple(given), self.loops, self.branches))

    def _visit(self, node: ast.AST | None) -> None:
        method = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if method is not None:
            method(node)
        elif node is not None and not isinstance(
            node,
            (
                ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Raise,
                ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr,
            ),
        ):  # fmt: skip
            for child in ast.iter_child_nodes(node):
                self._visit(child)

    def _bind(self, target: ast.AST, refs: tuple[str, ...] | None) -> None:
        for each in ast.walk(target):
            if isinstance(each, ast.Name) and each.id != self._self:
                self.known.pop(each.id, None)
                if refs:
                    self.known[each.id] = refs

    def _bind_items(self, target: ast.expr, taken: ast.expr) -> None:
        """Bind the variables of a loop, each to its own modules where these are known."""
        called = taken.func if isinstance(taken, ast.Call) else None
        given = taken.args if isinstance(taken, ast.Call) else []
        variables = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        if len(variables) == 2 and _name_of(called) in _NAMED:
            self._bind(variables[0], None)
            self._bind(variables[1], self._items(taken))
        elif len(variables) == 2 and _name_of(called) == "enumerate" and given:
            self._bind(variables[0], None)
            self._bind_items(variables[1], given[0])
        elif len(variables) == len(given) and _name_of(called) == "zip":
            for variable, each in zip(variables, given, strict=True):
                self._bind_items(variable, each)
        else:
            self._bind(target, self._items(taken))

    @contextlib.contextmanager
    def _loop(self) -> Iterator[None]:
        before = self.loops
        self.loops = (*before, self.shared.number())
        yield
        self.loops = before

    def _condition(self, node: ast.expr) -> Test | None:
        if self._refs(node) is None:
            self._visit(node)
        return self._test(node)

    def _test(self, node: ast.expr) -> Test | None:
        """Return a condition, as far as the module's attributes decide it; None for others."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._test(node.operand)
            return None if inner is None else ("not", inner)
        if isinstance(node, ast.BoolOp):
            kind = "and" if isinstance(node.op, ast.And) else "or"
            return kind, tuple(self._test(each) for each in node.values)
        if isinstance(node, ast.Compare):
            refs, other = self._refs(node.left), node.comparators[0]
            sign = _COMPARISONS.get(type(node.ops[0]))
            if refs and len(node.ops) == 1 and sign and isinstance(other, ast.Constant):
                return sign, refs[0], other.value
            return None
        refs = self._refs(node)
        return ("true", refs[0]) if refs and refs[0] and len(refs) == 1 else None

    def _refs(self, node: ast.AST) -> tuple[str, ...] | None:
        """Return the names below the module that an expression means; None for others."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            inner = self._refs(node.value)
            return inner and tuple(f"{each}.{node.attr}".removeprefix(".") for each in inner)
        if isinstance(node, ast.Subscript):
            return _any_of(self._refs(node.value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            return self._got(node) if node.func.id == "getattr" else None
        if isinstance(node, ast.IfExp):
            return (*(self._refs(node.body) or ()), *(self._refs(node.orelse) or ())) or None
        return None

    def _got(self, node: ast.Call) -> tuple[str, ...] | None:
        """Return the names below the module that a ``getattr`` call means."""
        inner, name = self._refs(node.args[0]), node.args[1] if len(node.args) > 1 else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return inner and tuple(f"{each}.{name.value}".removeprefix(".") for each in inner)
        return _any_of(inner)

    def _items(self, node: ast.AST) -> tuple[str, ...] | None:
        """Return the names below the module that a loop iterates over."""
        found = [
            ref.removesuffix(ref.rpartition(".")[2]).removesuffix(".")
            if ref.rpartition(".")[2] in _ITEMS
            else ref
            for each in _names_among(node)
            for ref in self._refs(each) or ()
        ]
        longest = [
            ref
            for ref in dict.fromkeys(found)
            if not any(other != ref and f"{other}.".startswith(f"{ref}.") for other in found if ref)
            and (ref or set(found) == {""})
        ]
        return _any_of(tuple(longest)) if longest else None

    def _mentioned(self, nodes: Iterable[ast.AST]) -> tuple[str, ...]:
        named = (each for node in nodes for each in _names_among(node))
        return tuple(dict.fromkeys(ref for each in named for ref in self._refs(each) or () if ref))

    def on_binop(self, node: ast.BinOp) -> None:
        self._visit(node.left)
        self._visit(node.right)
        sides = [node.left, node.right]
        if not any(isinstance(each, (ast.Tuple, ast.List, ast.JoinedStr)) for each in sides):
            name = OPERATORS.get(type(node.op), ANYTHING)
            self._add(name, given=self._mentioned(sides))

    def on_unaryop(self, node: ast.UnaryOp) -> None:
        self._visit(node.operand)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._add("neg", given=self._mentioned([node.operand]))

    def _visit_unnamed(self, nodes: Iterable[ast.expr]) -> None:
        for each in nodes:
            if self._refs(each) is None:  # asking about a module runs nothing
                self._visit(each)

    def on_compare(self, node: ast.Compare) -> None:
        self._visit_unnamed([node.left, *node.comparators])

    def on_ifexp(self, node: ast.IfExp) -> None:
        test = self._condition(node.test)
        number, before = self.shared.number(), self.branches
        for side, part in ((True, node.body), (False, node.orelse)):
            self.branches = (*before, Branch(number, side, False, test))
            self._visit(part)
        self.branches = before

    def _comprehension(self, node: Any) -> None:
        for each in node.generators:
            self._visit_unnamed([each.iter])
            self._bind_items(each.target, each.iter)
        with self._loop():
            for each in node.generators:
                for test in each.ifs:
                    self._visit(test)
            for part in [node.elt] if hasattr(node, "elt") else [node.key, node.value]:
                self._visit(part)

    on_listcomp = on_generatorexp = on_setcomp = on_dictcomp = _comprehension

    def on_subscript(self, node: ast.Subscript) -> None:
        refs = self._refs(node)
        if refs is None:
            self._visit(node.value)
        self._visit(node.slice)
        taken = node.value.func if isinstance(node.value, ast.Call) else node.value
        if _name_of(taken) not in ("shape", "size"):
            self._add("getitem", refs=refs or (), given=self._mentioned([node.value]))

    def on_attribute(self, node: ast.Attribute) -> None:
        refs = self._refs(node)
        if refs is not None:
            self._add(None, refs=refs, given=refs)
            return
        self._visit(node.value)
        if node.attr in ("T", "mT", "H", "mH"):
            self._add(node.attr)

    def on_name(self, node: ast.Name) -> None:
        if node.id in self.known and node.id != self._self:
            self._add(None, refs=self.known[node.id], given=self.known[node.id])

    def on_call(self, node: ast.Call) -> None:
        called = node.func
        values = [*node.args, *(each.value for each in node.keywords)]
        if _name_of(called) in _ASSERTING:  # as of the statement
            return
        if isinstance(called, ast.Name) and called.id in _ASKING:
            self._visit_unnamed(values)
            return
        refs = self._refs(called)
        is_super = isinstance(called, ast.Attribute) and _is_super(called.value)
        if refs is None and isinstance(called, ast.Attribute) and not is_super:
            if not isinstance(called.value, ast.Name):
                self._visit(called.value)
        elif refs is None and not isinstance(called, (ast.Name, ast.Attribute)):
            self._visit(called)
        for each in values:
            self._visit(each)
        on = [called.value] if isinstance(called, ast.Attribute) else []
        given = self._mentioned([*values, *on])
        if refs is not None:
            self._call_below(refs, values, given)
        elif is_super:
            assert isinstance(called, ast.Attribute)
            self._inline(self._inherited(called.attr), self.shared.cls, values, given)
        else:
            ending = "_" if any(each.arg == "inplace" for each in node.keywords) else ""
            self._call_other(called, ending, values, given)

    def _inherited(self, name: str) -> Any:
        """Return the attribute that ``super()`` finds in this method; None without one."""
        mro = self.shared.cls.__mro__
        own = [any(each is self.function for each in vars(cls).values()) for cls in mro]
        at = own.index(True) if True in own else len(mro)
        return next((vars(cls)[name] for cls in mro[at + 1 :] if name in vars(cls)), None)

    def _call_below(self, refs: tuple[str, ...], values: list[Any], given: Sequence[str]) -> None:
        ref = refs[0]
        method = inspect.getattr_static(self.shared.cls, ref, None) if "." not in ref else None
        if isinstance(method, staticmethod):
            self._inline(method.__func__, None, values, given)
        elif callable(method):
            if not hasattr(nn.Module, ref):
                self._inline(method, self.shared.cls, values, given)
        elif not ref.endswith("_"):  # a buffer that is changed in place makes no node
            self._add(None, refs=refs, given=given)

    def _call_other(
        self, called: ast.expr, ending: str, values: list[Any], given: Sequence[str]
    ) -> None:
        names: list[str] = []
        at = called
        while isinstance(at, ast.Attribute):
            names.insert(0, at.attr)
            at = at.value
        if not isinstance(at, ast.Name) or at.id in self._locals:
            self._add((names[-1] if names else ANYTHING) + (ending if names else ""), given=given)
            return
        if at.id not in self._globals and names:
            self._add(names[-1] + ending, given=given)
            return
        found = self._globals.get(at.id, getattr(builtins, at.id, None))
        for name in names:
            is_open = isinstance(found, (types.ModuleType, type))
            found = getattr(found, name, None) if is_open else None
        name = [at.id, *names][-2] if names and names[-1] == "apply" else [at.id, *names][-1]
        inner = inspect.unwrap(found) if callable(found) else found
        if any(found is each for each in (sum, max, min, abs, pow)):
            self._add("+" if found is sum else name, given=given)
        elif isinstance(found, type) or (found is not None and vars(builtins).get(name) is found):
            return
        elif isinstance(inner, types.FunctionType) and not _is_torchs(inner):
            self._inline(found, None, values, given)
        else:
            self._add(name + ending, given=given)

    def _inline(
        self, function: Any, owner: type | None, values: list[Any], given: Sequence[str]
    ) -> None:
        """Read a function in the place of its call."""
        if function is None:
            return
        name = getattr(function, "__qualname__", ANYTHING)
        inner = inspect.unwrap(function) if callable(function) else None
        if len(self.callers) >= DEEPEST or name in self.callers or inner is None:
            self._add(ANYTHING, given=given)
            return
        code = getattr(inner, "__code__", None)
        names = () if code is None else code.co_varnames[owner is not None : code.co_argcount]
        known = {
            name: refs
            for name, value in zip(names, values, strict=False)
            if (refs := self._refs(value)) is not None
        }
        callers = (*self.callers, name)
        now = known, self.loops, self.branches
        try:
            read = type(self)(self.shared, inner, owner, callers, *now).read()
        except Exception:  # there may be no source, and objects of the user may raise anything
            self._add(ANYTHING, given=given)
            return
        if given and not any(step.given for step in read):
            read = [replace(step, given=tuple(given)) for step in read]
        self.steps += read


def _any_of(refs: tuple[str, ...] | None) -> tuple[str, ...] | None:
    every = (ref if ref.endswith("*") else f"{ref}.*".removeprefix(".") for ref in refs or ())
    return refs and tuple(every)


def _name_of(node: ast.AST | None) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def _names_among(node: ast.AST) -> Iterator[ast.AST]:
    return (each for each in ast.walk(node) if isinstance(each, (ast.Attribute, ast.Name)))


def _is_torchs(function: types.FunctionType) -> bool:
    return function.__module__.partition(".")[0] == "torch"


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "super"


_LEAVING = (ast.Raise, ast.Continue, ast.Break)

_Read = dict[tuple[str, bool], tuple[Step, ...] | None]
_steps: weakref.WeakKeyDictionary[type, _Read] = weakref.WeakKeyDictionary()
_trees: weakref.WeakKeyDictionary[types.FunctionType, ast.FunctionDef] = weakref.WeakKeyDictionary()


def steps_of(
    cls: type[nn.Module], method: str = "forward", *, within: bool = False
) -> tuple[Step, ...] | None:
    """Read the steps of a class's forward, or another method, in the order of its text.

    Returns its steps, with the steps of the methods and user functions that it calls. None if
    Python does not have its source.
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
        self._outer = len(self.branches)
        self._block(tree.body)
        return self.steps

    @property
    def _leaving(self) -> tuple[type[ast.stmt], ...]:
        """Statements after which nothing more runs; a called function returns to its caller."""
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
        number, before = self.shared.number(), self.branches
        for side, body in ((True, node.body), (False, node.orelse)):
            leaves = bool(body) and isinstance(body[-1], self._leaving)
            self.branches = (*before, Branch(number, side, leaves, test))
            self._block(body)
        self.branches = before
        if isinstance(node.body[-1], (ast.Return, ast.Raise)) and len(before) == self._outer:
            self.branches = (*before, Branch(number, False, False, test))  # all that follows
