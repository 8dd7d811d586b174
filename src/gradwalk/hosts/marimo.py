"""marimo, whose cells are compiled to functions."""

from __future__ import annotations

import re
import sys

from .host import Host

_CELL_LOCAL = re.compile(r"_cell_[A-Za-z0-9-]+(_\w*)")
"""marimo's name for a cell's own `_name` among the variables of all cells."""


class Marimo(Host):
    """A marimo notebook."""

    @classmethod
    def running(cls) -> Host | None:
        return cls() if "marimo" in sys.modules else None

    def as_written(self, name: str) -> str:
        local = _CELL_LOCAL.fullmatch(name)
        return name if local is None else local[1]
