"""Find the running line of the user's program: the innermost one outside torch and gradwalk.

Also the branch of a program that a line is under.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

_GENERATED_BY_TORCH = "<eval_with_key>"  # torch.fx compiles its graphs under this name
_LIBRARIES = (
    *(
        f"{folder}{separator}"
        for folder in (Path(torch.__file__).parent, Path(__file__).parents[1])
        for separator in ("/", "\\")
    ),
    _GENERATED_BY_TORCH,
)
_INSTALLED = ("site-packages", "dist-packages")
NO_FILE = "<string>"
"""The file name of code run from a string; Python 3.13 shows lines of ``python -c`` for any."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's program."""

    file: str  # the file, or the notebook's name for a cell
    line: int  # the line number, from 1
    text: str  # the line without indentation; empty if Python does not know it
    function: str  # the enclosing function, "<module>" at the top level
    # The first and last column of the running call in ``text``, in bytes of UTF-8; None if it is
    # not known or takes several lines. It is not compared.
    span: tuple[int, int] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{shown_file(self.file)}:{self.line}"


_MOST_CODE = 4096  # code objects whose lines are remembered

# By id: equal code of two files compares as equal. Held, so that no id is used twice.
_positions: dict[int, tuple[CodeType, list[Any]]] = {}
_lines: dict[tuple[int, int], SourceLine] = {}  # by the id of the code, and the instruction


def here() -> SourceLine | None:
    """Return the innermost running line of the user in this thread."""
    return line_at(sys._getframe(1))


def line_at(frame: FrameType | None) -> SourceLine | None:
    """Return the innermost line of the user in ``frame`` or its callers."""
    while frame is not None:  # this runs for every frame below every operation
        code = frame.f_code
        if code.co_filename not in _libraries:
            found = _lines.get((id(code), frame.f_lasti))
            if found is not None:
                return found
            if not is_library(code.co_filename):
                return line_of(code, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return None


def own_line() -> SourceLine | None:
    """Return the innermost running line outside installed libraries."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_installed(frame.f_code.co_filename):
        frame = frame.f_back
    return line_at(frame)


def line_of(code: CodeType, instruction: int, line: int) -> SourceLine:
    """Return the line of one instruction. Its text is read once, when it runs."""
    file = code.co_filename
    held = _positions.get(id(code))
    if held is None:
        if len(_positions) >= _MOST_CODE:
            _positions.clear()
            _lines.clear()
        linecache.checkcache(file)  # the file may have changed since Python last read it
        # Python 3.10 does not have them.
        held = _positions[id(code)] = code, [*getattr(code, "co_positions", tuple)()]
    text = "" if file == NO_FILE else linecache.getline(file, line)
    indentation = len(text) - len(text.lstrip())
    span = _span(held[1], instruction, line, indentation) if text else None
    found = SourceLine(file, line, text.strip(), code.co_name, span)
    _lines[id(code), instruction] = found
    return found


def _span(
    positions: Sequence[Any], instruction: int, line: int, indentation: int
) -> tuple[int, int] | None:
    """The columns of an instruction's expression, if it is in one line."""
    at = instruction // 2
    first, last, start, end = positions[at] if at < len(positions) else (None,) * 4
    if first != line or last != line or start is None or end is None:
        return None
    return start - indentation, end - indentation


_libraries: set[str] = set()  # the files that `is_library` returned True for


def is_library(file: str) -> bool:
    """Return whether a file belongs to torch or to gradwalk."""
    if not file.startswith(_LIBRARIES):
        return False
    if len(_libraries) >= _MOST_CODE:
        _libraries.clear()
    _libraries.add(file)
    return True


@functools.lru_cache(4096)
def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed library, including torch."""
    return is_library(file) or any(f"{s}{place}{s}" in file for place in _INSTALLED for s in "/\\")


def shown_file(file: str) -> str:
    """Return a file's name for display: "Cell In[3]" for a cell of the running notebook.

    Other files get their path in the project, from the working folder or a folder of ``sys.path``.
    The folders above it are private.
    """
    ipython = sys.modules.get("IPython")  # not imported yet means not running
    shell = ipython.get_ipython() if ipython is not None else None
    label = getattr(getattr(shell, "compile", None), "format_code_name", None)
    cell = label(file) if label is not None else None
    if cell:
        return " ".join(cell)
    try:
        working = os.getcwd()  # noqa: PTH109  runs for every line; a Path takes ten times as long
    except OSError:  # it was removed
        working = ""
    return _in_project(file, working, tuple(sys.path))


@functools.lru_cache(4096)
def _in_project(file: str, working: str, found_in: tuple[str, ...]) -> str:
    """Return a path relative to the project; a file outside any project keeps its name alone."""
    if not Path(file).is_absolute():
        return file
    home = str(Path("~").expanduser())
    folders = [] if is_installed(file) else [working]
    for folder in [*folders, *sorted(filter(None, found_in), key=len, reverse=True), working]:
        inside = folder.rstrip("/\\")
        if inside and file.startswith((f"{inside}/", f"{inside}\\")):
            is_too_high = f"{home}/".startswith(f"{inside}/") and inside != home
            if not is_too_high:
                return file[len(inside) + 1 :]
    return Path(file).name


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Branches:
    """Finds the branches of lines; each file is read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, int]] = {}

    def of(self, where: SourceLine) -> SourceLine | None:
        """Return the line of the innermost condition, within its function, that a line is under."""
        if where.file not in self._known:
            lines = [] if where.file == NO_FILE else linecache.getlines(where.file)
            self._known[where.file] = branches_in("".join(lines))
        line = self._known[where.file].get(where.line)
        if line is None:
            return None
        text = linecache.getline(where.file, line).strip()
        return SourceLine(where.file, line, text, where.function)


def branches_in(program: str) -> dict[int, int]:
    """Map each line under a branch to the line of its condition; empty for an invalid program."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    spans = [span for node in ast.walk(tree) for span in _spans(node)]
    spans.sort(key=lambda span: span[0] - span[1])  # stable: inner spans come later
    found: dict[int, int | None] = {}
    for start, end, condition in spans:
        found.update(dict.fromkeys(range(start, end + 1), condition))
    return {line: condition for line, condition in found.items() if condition is not None}


def _spans(node: ast.AST) -> Iterator[tuple[int, int, int | None]]:
    """Yield first and last line of each body of a node, and its condition's; None in a function."""
    if isinstance(node, _SCOPES):
        yield node.body[0].lineno, _last(node), None
    elif isinstance(node, (ast.If, ast.While)):
        for body in filter(None, (node.body, node.orelse)):
            yield body[0].lineno, _last(body[-1]), node.test.lineno
    elif isinstance(node, ast.IfExp):
        for each in (node.body, node.orelse):
            yield each.lineno, _last(each), node.test.lineno
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield case.body[0].lineno, _last(case.body[-1]), node.subject.lineno


def _last(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno
