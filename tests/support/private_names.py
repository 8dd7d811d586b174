"""The private names of torch that gradwalk's sources read."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

import gradwalk

ROOT = Path(gradwalk.__file__).parent

DECLARING = {"capability", "is_loaded", "named", "optional"}
"""The functions of torch_api that take private names."""

_READING = {
    "attrgetter",
    "delattr",
    "find_spec",
    "getattr",
    "hasattr",
    "import_module",
    "methodcaller",
    "setattr",
}

OF_OTHERS = {
    "_closed",
    "_current_frames",
    "_getframe",
    "_handle_displayed",
    "_initializing",
    "_instances",
    "_kwarg",
    "_make",
    "_pred",
    "_registry",
    "_replace",
    "_should_skip_dynamo",
    "_succ",
}
"""Private names of Python, ipywidgets and networkx that gradwalk reads."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its path from the package's root, without type-only code."""
    found = {}
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = [ast.Pass()]
        found[path.relative_to(ROOT).as_posix()] = tree
    return found


def _calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
            yield node


def _texts(call: ast.Call) -> Iterator[str]:
    """The texts that a call is given, with the beginning of each f-string."""
    for each in call.args:
        first = [*getattr(each, "values", ()), each][0]
        value = getattr(first, "value", None)
        if isinstance(value, str):
            yield value


@functools.cache
def declared() -> list[str]:
    """The private names that torch_api declares, in the form of `gradwalk.torch_api.capability`."""
    return sorted(
        {
            name
            for path, tree in trees().items()
            if path.startswith("torch_api/")
            for call in _calls(tree, DECLARING)
            for name in _texts(call)
        }
    )


@functools.cache
def ours() -> set[str]:
    """The names that gradwalk itself defines."""
    return set[str]().union(*map(defined_in, trees().values()))


def defined_in(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.update(alias.name for alias in node.names)
    return found


@functools.cache
def _on_torch() -> set[str]:
    """The private attributes of torch's objects: gradwalk may use the same names for its own."""
    product = torch.ones(1, requires_grad=True) * 2
    objects = (
        product,
        product.grad_fn,
        product.untyped_storage(),
        torch.autograd.function.BackwardCFunction,
        torch.fx.Graph(),
        torch.nn.RNN(1, 1),
        torch.ops.aten.add.Tensor,
    )
    return {name for each in objects for name in dir(each) if is_private(name)}


def _chain(node: ast.Attribute) -> list[str]:
    """The names of `a._b.c`; "" stands for anything that is no name."""
    names = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        names.append(at.attr)
        at = at.value
    return [*([at.id] if isinstance(at, ast.Name) else [""]), *names][:1] + names[::-1]


def undeclared(sources: Mapping[str, ast.AST]) -> list[str]:
    """The uses of private names that are neither gradwalk's, nor of others, nor declared."""
    known = {name.partition(".")[2].rstrip("()*") for name in declared()}
    found = []
    for path, tree in sources.items():
        on_torch = known | (_on_torch() - defined_in(tree))
        for name in _read(tree):
            parts = name.split(".")
            private = [part for part in parts[len(parts) > 1 :] if is_private(part)]
            if not private:  # of a variable
                continue
            is_of_torch = parts[0] in ("torch", "torchgen") or private[-1] in on_torch
            if parts[:2] == ["torch", "ops"]:  # an operator, which has no other name
                continue
            if parts[0] in ("self", "cls") and private == [parts[1]]:
                continue
            if is_of_torch or not set(private) <= ours() | OF_OTHERS:
                found.append(f"{path}: {name}")
    return sorted(found)


def _read(tree: ast.AST) -> Iterator[str]:
    """The dotted names with a private part that a module reads."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            names.append(".".join(_chain(node)))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    for call in _calls(tree, _READING):
        names += _texts(call)
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            names.append(str(node.slice.value))  # vars(module)["_parameters"]
        elif isinstance(node, ast.Constant) and str(node.value).startswith("torch."):
            names.append(str(node.value))  # sys.modules.get("torch._dynamo")
    skipped = {text for call in _calls(tree, DECLARING) for text in _texts(call)}
    yield from (
        name
        for name in names
        if name not in skipped
        and all(part.isidentifier() for part in name.split(".") if part)
        and any(map(is_private, name.split(".")))
    )
