"""The code of a derivative: compiled once, run with the values of its names."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Compiled:
    """Code ready to be run: all lines but the last, the last one, and the names it needs."""

    steps: CodeType
    result: CodeType
    last: ast.expr
    names: frozenset[str]

    def run(self, known: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the value, and that of every name, for the names that are known."""
        # No builtin can be named by the code, but torch itself imports some of its modules only
        # when they are needed, from C++, and looks for the import where Python code would.
        names = {**known, "__builtins__": {"__import__": __import__}}
        exec(self.steps, names)
        return eval(self.result, names), names


@functools.lru_cache(maxsize=1024)
def compiled(code: str) -> Compiled:
    """Return a formula's code, ready to run, and the names it uses."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    names = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)]
    stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return Compiled(
        compile(tree, "<derivative>", "exec"),
        compile(ast.Expression(last.value), "<derivative>", "eval"),
        last.value,
        frozenset(each.id for each in names) - stored,
    )
