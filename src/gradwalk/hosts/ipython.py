"""IPython: Jupyter, VS Code, Colab, and IPython in a terminal."""

from __future__ import annotations

import html
import re
import sys
import warnings
import weakref
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

from .host import Host, ProgressWriter

_SHELL = "IPython.core.interactiveshell"  # its `run_code` runs each statement of a cell

_MANY = 10

_MANY_MADE = (
    f"This cell has made {_MANY} gradwalk widgets that are still open. Each keeps its graph, with "
    "the tensors that it saved, in memory and in the page until close() is called, also when no "
    "variable holds it any more. In a loop call widget.close() before the next one is made, or "
    "make one for the iteration that you want to see. gradwalk.record(loss) needs no widget, and "
    "capture(loss) is the graph alone."
)

_made_in: dict[str, list[tuple[int, weakref.ref[Any]]]] = {}
"""By notebook cell, the widgets it created, each with its execution count."""


def shell() -> Any | None:
    """Return the running IPython shell; None in a plain Python program."""
    ipython = sys.modules.get("IPython")  # not imported yet means not running
    return ipython.get_ipython() if ipython is not None else None


def runs_cell() -> bool:
    """Return whether this thread is running the code of a cell, which called this."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "run_code" and frame.f_globals["__name__"] == _SHELL:
            return True
        frame = frame.f_back
    return False


class IPython(Host):
    """A running IPython shell, which keeps the results of cells in its history."""

    def __init__(self, running: Any) -> None:
        self._shell = running

    @classmethod
    def running(cls) -> Host | None:
        found = shell()
        return None if found is None else cls(found)

    def variables(self) -> dict[str, Any]:
        names: dict[str, Any] = self._shell.user_ns
        return names

    def progress_writer(self) -> ProgressWriter | None:
        if not hasattr(self._shell, "kernel"):
            return super().progress_writer()
        if not runs_cell():
            return None
        from IPython import display  # noqa: PLC0415  only a notebook has it

        untyped: Any = display
        shown: list[Any] = []

        def write(text: str | None, share: float | None) -> None:
            value = "" if share is None else f' value="{share:.4f}"'
            bar = "" if text is None else f"<progress{value}></progress> {html.escape(text)}"
            if shown:
                shown[0].update(untyped.HTML(bar))
            else:
                shown.append(untyped.display(untyped.HTML(bar), display_id=True))

        return write

    def after_each_cell(self, method: Callable[[], None]) -> Callable[[], None]:
        reference, events = weakref.WeakMethod(method), self._shell.events

        def call(*_: Any) -> None:
            found = reference()
            if found is not None:
                found()

        events.register("post_run_cell", call)

        def end() -> None:
            if call in events.callbacks["post_run_cell"]:
                events.unregister("post_run_cell", call)

        return end

    def replaced_by(self, widget: Any) -> list[Any]:
        cell = self._running_cell()
        if cell is None:
            return []
        now = self._shell.execution_count
        # Weak references only: a reference of our own would count as held.
        made = [(run, ref) for run, ref in _made_in.get(cell, []) if ref() is not None]
        replaced = [ref for run, ref in made if run != now and not self.holds(ref)]
        kept = [(run, ref) for run, ref in made if ref not in replaced]
        _made_in[cell] = kept = [*kept, (now, weakref.ref(widget))]
        if sum(run == now and _is_open(ref) for run, ref in kept) == _MANY:
            warnings.warn(_MANY_MADE, stacklevel=2)
        found = [old for ref in replaced if (old := ref()) is not None]
        for old in found:
            self._forget_result(old)
        return found

    def is_own(self, holder: Any, widget: weakref.ref[Any]) -> bool:
        # Some versions of Python report an object's dict as the object itself.
        owners = (self._shell.displayhook, self._shell.last_execution_result)
        if super().is_own(holder, widget) or any(holder is owner for owner in owners):
            return True
        return any(
            all(re.fullmatch(pattern, str(name)) for name, v in space.items() if v is widget())
            for space, pattern in self._history()
            if space is holder
        )

    def _running_cell(self) -> str | None:
        parent: dict[str, Any] = getattr(self._shell, "get_parent", dict)() or {}
        cell = parent.get("metadata", {}).get("cellId")
        return cell if isinstance(cell, str) else None

    def _history(self) -> list[tuple[dict[Any, Any], str]]:
        """The namespaces with the results of cells, each with a pattern of the names."""
        running, names = self._shell, r"_{1,3}|_\d+"
        return [
            (running.user_ns, names),
            (running.user_ns_hidden, names),
            (running.user_ns.get("_oh", {}), r"\d+"),
            (vars(running.displayhook), names),
            (vars(running.last_execution_result or SimpleNamespace()), "result"),
        ]

    def _forget_result(self, widget: Any) -> None:
        for space, pattern in self._history():
            for name in [name for name, value in space.items() if value is widget]:
                if re.fullmatch(pattern, str(name)):
                    space[name] = None


def _is_open(widget: weakref.ref[Any]) -> bool:
    return getattr(widget(), "comm", None) is not None
