"""Find the branch of a program that a line is under."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

from .source_line import NO_FILE, SourceLine

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Branches:
    """Finds the branches of lines; each file is read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, int]] = {}

    def of(self, where: SourceLine) -> SourceLine | None:
        """Return the innermost branch, within its function, that a line is under.

        Args:
            where: A line of the program.

        Returns:
            The line of its condition; None if there is none or the program cannot be read.
        """
        if where.file not in self._known:
            lines = [] if where.file == NO_FILE else linecache.getlines(where.file)
            self._known[where.file] = branches_in("".join(lines))
        line = self._known[where.file].get(where.line)
        if line is None:
            return None
        text = linecache.getline(where.file, line).strip()
        return SourceLine(where.file, line, text, where.function)


def branches_in(program: str) -> dict[int, int]:
    r"""Map each line under a branch to the line of the branch's condition.

    Args:
        program: The program's text.

    Returns:
        An empty dict if the text is not a valid program.

    Example::

        >>> branches_in("def f(x, deep):\n    if deep:\n        x = g(x)\n    return x")
        {3: 2}
        >>> branches_in("y = f(x) if deep else x")
        {1: 1}
    """
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
    """Yield first and last line of each body of a node, and the line of its condition.

    A function starts anew: branches around its definition do not count when it runs.
    """
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
