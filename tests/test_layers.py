"""The package's rooms stand in layers: every import points down, and no two import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gradwalk

ROOT = Path(gradwalk.__file__).parent

LAYERS = (
    "wire",
    "bundle",
    "notebook",
    "graph",
    "forward",
    "backward",
    "derivatives",
    "modules",
    "program",
    "reasons",
    "findings",
    "subject",
    "files",
    "widget",
    "comparison",
    "__init__",
    "__main__",
)
"""Rooms (folders, and files of the root) from the lowest to the highest."""


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
    assert sorted({module[0] for module in modules()}) == sorted(LAYERS)


def test_every_import_points_down():
    height = {room: i for i, room in enumerate(LAYERS)}
    upward = [
        f"{'/'.join(module)} imports {'/'.join(target)}"
        for module, path in modules().items()
        for target in imports(module, path)
        if height[target[0]] > height[module[0]]
    ]
    assert not upward, "\n".join(upward)


def test_no_files_import_each_other():
    graph = {module: set(imports(module, path)) - {module} for module, path in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join("/".join(module) for module in error.args[1])
        raise AssertionError(f"These files import each other in a circle: {circle}") from None


def test_private_names_of_torch_stand_in_one_room():
    private = re.compile(
        r"torch\._C\b|torch\.autograd\._|torch\.overrides\._|_python_dispatch"
        r"|\._input_metadata|_forward_cls|_execution_engine|\._sequence_nr|\._cdata|\._use_count"
    )
    found = [
        f"{'/'.join(module)}: {match[0]}"
        for module, path in modules().items()
        if module[0] != "graph"
        for match in private.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)
