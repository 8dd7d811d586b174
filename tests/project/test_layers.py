"""The package's rooms stand in layers: every import points down, and no two import each other."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gradwalk

pytestmark = pytest.mark.one_python

ROOT = Path(gradwalk.__file__).parent

LAYERS = (
    "lazily",
    "english",
    "amounts",
    "result",
    "types",
    "schema",
    "plugins",
    "hosts",
    "torch_api",
    "public",
    "graph",
    "tracing",
    "backward",
    "derivatives",
    "matching",
    "static",
    "explain",
    "checks",
    "panel",
    "sources",
    "export",
    "testing",
    "widget",
    "comparison",
    "features/checkpoints",
    "features/module_inference",
    "features/compiled",
    "features/experiments",
    "features/dependencies",
    "features/failure",
    "features/held",
    "features/ranks",
    "features/repeats",
    "features/quiz",
    "features/live",
    "features/interact",
    "features/numerics",
    "features/plan",
    "features/watched_backward",
    "features/cells",
    "features/follow",
    "features",
    "results",
    "integrations",
    "__init__",
    "__main__",
)
"""Rooms (folders, features, and files of the root) from the lowest to the highest."""


def room(module: tuple[str, ...]) -> str:
    return "/".join(module[:2]) if module[0] == "features" and len(module) > 2 else module[0]


@functools.cache
def modules() -> dict[tuple[str, ...], Path]:
    """Every module of the package by its path, "graph/capture.py" as ("graph", "capture")."""
    return {path.relative_to(ROOT).with_suffix("").parts: path for path in ROOT.rglob("*.py")}


def imports(module: tuple[str, ...], path: Path) -> Iterator[tuple[str, ...]]:
    """What a module imports of the package: lazily, and for its types alone, included."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "gradwalk"]
            assert not names, f"{path} imports {names} absolutely: write it relative to the file"
        if not isinstance(node, ast.ImportFrom):
            continue
        named = tuple(node.module.split(".")) if node.module else ()
        if node.level:
            named = (*module[: len(module) - node.level], *named)
        elif named[:1] == ("gradwalk",):
            named = named[1:]
        else:
            continue
        for alias in node.names:
            inner = (*named, alias.name)
            yield next(each for each in (inner, named, (*named, "__init__")) if each in known)


def test_every_room_is_a_layer():
    assert sorted({room(module) for module in modules()}) == sorted(LAYERS)


def test_every_import_points_down():
    height = {name: i for i, name in enumerate(LAYERS)}
    upward = [
        f"{'/'.join(module)} imports {'/'.join(target)}"
        for module, path in modules().items()
        for target in imports(module, path)
        if height[room(target)] > height[room(module)]
    ]
    assert not upward, "\n".join(upward)


def test_no_files_import_each_other():
    graph = {module: set(imports(module, path)) - {module} for module, path in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join("/".join(module) for module in error.args[1])
        raise AssertionError(f"These files import each other in a circle: {circle}") from None


def test_only_hooks_reach_features():
    """The core imports no feature."""
    found = {
        ("/".join(module), room(target))
        for module, path in modules().items()
        if module[0] not in ("features", "results", "integrations", "__init__", "__main__")
        for target in imports(module, path)
        if target[0] == "features"
    }
    assert not found
