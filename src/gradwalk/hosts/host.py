"""What gradwalk asks of the program that runs it; the answers of a plain Python program."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

_made: list[weakref.ref[Any]] = []
"""The created widgets, used only where the host does not name its cells."""


ProgressWriter = Callable[["str | None", "float | None"], None]


class Host:
    """A plain Python program, or a notebook that needs nothing special.

    Another host overrides what differs, in a file named after it, and is listed in `this_host`.
    """

    @classmethod
    def running(cls) -> Host | None:
        """Return the host if it runs this program."""
        return cls()

    def variables(self) -> dict[str, Any]:
        """Return the variables of the notebook's cells by name."""
        return {}

    def as_written(self, name: str) -> str:
        """Return a variable's name as the user's code has it."""
        return name

    def progress_writer(self) -> ProgressWriter | None:
        """Return a function that shows a line and a share of 1, and ends with None; None in a pipe.

        This one writes to a terminal.
        """
        stream = sys.stderr
        if stream is None or not stream.isatty():
            return None

        def write(text: str | None, share: float | None) -> None:
            of = "" if share is None else f" ({share:.0%})"
            stream.write("\r\033[K" + ("" if text is None else text + of))
            stream.flush()

        return write

    def after_each_cell(self, method: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Call a bound method, held weakly, after every cell; return a function that stops it."""
        return lambda: None

    def replaced_by(self, widget: Any) -> list[Any]:
        """Return the unreachable widgets that an earlier run of the current cell created.

        ipywidgets keeps every widget until ``close()``. Without this, each run of a cell would keep
        one more graph and its tensors alive. This finds those whose comm the host has closed, as
        marimo does on a cell's next run.
        """
        left = [ref for ref in _made if _is_cut_off(ref) and not self.holds(ref)]
        _made[:] = [ref for ref in _made if ref() is not None and ref not in left]
        _made.append(weakref.ref(widget))
        return [old for ref in left if (old := ref()) is not None]

    def holds(self, widget: weakref.ref[Any]) -> bool:
        """Return whether anything except ipywidgets and the host's history refers to a widget."""
        return any(not self.is_own(holder, widget) for holder in gc.get_referrers(widget()))

    def is_own(self, holder: Any, widget: weakref.ref[Any]) -> bool:  # noqa: ARG002
        """Return whether ipywidgets or the host's history is what refers to a widget."""
        # ipywidgets' own callbacks are bound methods.
        return isinstance(holder, MethodType) or holder is open_widgets()


def _is_cut_off(widget: weakref.ref[Any]) -> bool:
    return getattr(getattr(widget(), "comm", None), "_closed", False) is True


def open_widgets() -> dict[str, Any]:
    """Return ipywidgets' dict of open widgets by id."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    if module is None:  # nothing has made a widget yet
        return {}
    # Newer releases warn about the second name.
    kept: dict[str, Any] = (
        module._instances if hasattr(module, "_instances") else module.Widget.widgets
    )
    return kept
