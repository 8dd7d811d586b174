"""What gradwalk asks of its notebook: the user's variables, and when a cell has ended."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from types import FrameType, MethodType, SimpleNamespace
from typing import Any


def shell() -> Any | None:
    """The running IPython shell, or None in a plain Python program."""
    ipython = sys.modules.get("IPython")  # not imported yet means not running
    return ipython.get_ipython() if ipython is not None else None


_FRAME_AND_WE = 3  # the frame, a variable here, and the argument of getrefcount


def caller_variables(frame: FrameType) -> dict[str, Any]:
    """The variables a piece of code sees, its own first.

    Args:
        frame: The frame of the code that called gradwalk.

    Returns:
        Name -> value: the frame's locals, then its globals, then the notebook's namespace.
    """
    snapshot = frame.f_locals
    variables = dict(snapshot)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        # A function's locals are handed out as a copy that stays with the frame: left as it is, it
        # would keep alive what the function deletes from now on. It is not ours to clear when the
        # function itself holds it, from a call of locals().
        if sys.getrefcount(snapshot) <= _FRAME_AND_WE:
            snapshot.clear()
    return with_outer(variables, frame)


def with_outer(variables: dict[str, Any], frame: FrameType) -> dict[str, Any]:
    """A frame's own variables, and after them its module's and the notebook's."""
    running = shell()
    for outer in (frame.f_globals, running.user_ns if running is not None else {}):
        for name, value in list(outer.items()):
            variables.setdefault(name, value)
    return variables


def after_each_cell(method: Callable[[], None]) -> Callable[[], None]:
    """Call a bound method after every cell, for as long as its object lives.

    Args:
        method: A bound method; held weakly.

    Returns:
        A function that ends it. Outside IPython nothing is ever called.
    """
    running = shell()
    if running is None:
        return lambda: None
    reference = weakref.WeakMethod(method)

    def call(*_: Any) -> None:
        found = reference()
        if found is not None:
            found()

    running.events.register("post_run_cell", call)

    def end() -> None:
        if call in running.events.callbacks["post_run_cell"]:
            running.events.unregister("post_run_cell", call)

    return end


def open_widgets() -> dict[str, Any]:
    """Where ipywidgets keeps every widget until it is closed, by its id."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    if module is None:  # nothing has made a widget yet
        return {}
    # Asking a release that has the first for the second would warn.
    kept: dict[str, Any] = (
        module._instances if hasattr(module, "_instances") else module.Widget.widgets
    )
    return kept


class IdleCallback:
    """Calls a bound method when the program next rests, however often it was asked to meanwhile.

    The method runs in the event loop that ran when this was made, as in a notebook's kernel: after
    the cell that is running, or at once when none is.
    """

    def __init__(self, method: Callable[[], None], longest: float = 1.0) -> None:
        """Call nothing yet.

        Args:
            method: A bound method; held weakly.
            longest: After so many seconds the next request calls it itself, so that a cell that
                runs for long is followed.
        """
        self._method = weakref.WeakMethod(method)
        self._longest = longest
        self._waiting = False  # whether the loop has been asked and has not called yet
        self._last = 0.0
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def ask(self) -> bool:
        """Have it called, from whatever thread.

        Returns:
            Whether it will be, or just was: a loop that has ended, and a program that has none,
            call nothing.
        """
        waited = self._waiting
        if not self.wait():
            return False
        now = time.monotonic()
        if not waited:
            self._last = now
        elif now - self._last > self._longest:
            self._last = now
            self._call()
        return True

    def wait(self) -> bool:
        """Have it called when the program rests, and not before.

        Returns:
            Whether it will be.
        """
        if self._loop is None or not self._loop.is_running():
            return False
        if not self._waiting:
            self._waiting = True
            try:
                self._loop.call_soon_threadsafe(_rest, weakref.ref(self))
            except RuntimeError:  # it has been closed meanwhile
                self._waiting = False
                return False
        return True

    def _call(self) -> None:
        method = self._method()
        if method is not None:
            method()


def _rest(asked: weakref.ref[IdleCallback]) -> None:
    soon = asked()
    if soon is not None:
        soon._waiting = False  # first, for whoever asks from now on
        soon._call()


def is_heard(channel: Any | None) -> bool:
    """Whether anything listens at the other end of a widget's channel.

    Args:
        channel: What ipywidgets calls a comm; None of a widget that is closed.

    Returns:
        False in a plain Python program, where all that is sent is dropped.
    """
    dropping = getattr(sys.modules.get("comm"), "DummyComm", None)
    return channel is not None and type(channel) is not dropping


_MANY = 10

_MANY_MADE = (
    f"This cell has made {_MANY} gradwalk widgets that are still open. Each keeps its graph, with "
    "the tensors that it saved, in memory and in the page until close() is called, also when no "
    "variable holds it any more. In a loop call widget.close() before the next one is made, or "
    "make one for the iteration that you want to see. gradwalk.record(loss) needs no widget, and "
    "capture(loss) is the graph alone."
)

# By notebook cell, the widgets it made, each with the number of the execution that made it.
_made_in: dict[str, list[tuple[int, weakref.ref[Any]]]] = {}


def replaced_by(widget: Any) -> list[Any]:
    """Widgets that an earlier run of the running cell made and that nobody can reach any more.

    ipywidgets keeps every widget until ``close()``, and IPython every result in ``Out``. Without
    this, each re-run of a cell would keep one more graph, and its tensors, alive.

    Args:
        widget: The widget just made in the running cell.

    Returns:
        Those that only ipywidgets and IPython's history of results still hold. They are taken out
        of the history; the caller closes them.
    """
    running, cell = shell(), _running_cell()
    if running is None:
        return _left_behind(widget)
    if cell is None:
        return []
    now = running.execution_count
    # Weak references only: a widget in a variable or a container of ours would count as held.
    made = [(run, ref) for run, ref in _made_in.get(cell, []) if ref() is not None]
    replaced = [ref for run, ref in made if run != now and not _is_held(running, ref)]
    kept = [(run, ref) for run, ref in made if ref not in replaced]
    _made_in[cell] = kept = [*kept, (now, weakref.ref(widget))]
    if sum(run == now and _is_open(ref) for run, ref in kept) == _MANY:
        warnings.warn(_MANY_MADE, stacklevel=2)
    found = [old for ref in replaced if (old := ref()) is not None]
    for old in found:
        _forget_result(running, old)
    return found


# Where there is no IPython: the widgets that were made.
_made: list[weakref.ref[Any]] = []


def _left_behind(widget: Any) -> list[Any]:
    """Widgets whose channel the host has closed, as marimo does when their cell runs again."""
    left = [ref for ref in _made if _is_cut_off(ref) and not _is_held(None, ref)]
    _made[:] = [ref for ref in _made if ref() is not None and ref not in left]
    _made.append(weakref.ref(widget))
    return [old for ref in left if (old := ref()) is not None]


def _is_open(widget: weakref.ref[Any]) -> bool:
    return getattr(widget(), "comm", None) is not None


def _is_cut_off(widget: weakref.ref[Any]) -> bool:
    return getattr(getattr(widget(), "comm", None), "_closed", False) is True


def _running_cell() -> str | None:
    parent: dict[str, Any] = getattr(shell(), "get_parent", dict)() or {}
    cell = parent.get("metadata", {}).get("cellId")
    return cell if isinstance(cell, str) else None


def _history(running: Any | None) -> list[tuple[dict[Any, Any], str]]:
    """Where IPython keeps the results of cells: namespaces, and a pattern of the names it uses."""
    if running is None:
        return []
    names = r"_{1,3}|_\d+"
    return [
        (running.user_ns, names),
        (running.user_ns_hidden, names),
        (running.user_ns.get("_oh", {}), r"\d+"),
        (vars(running.displayhook), names),
        (vars(running.last_execution_result or SimpleNamespace()), "result"),
    ]


def _is_held(running: Any | None, widget: weakref.ref[Any]) -> bool:
    """Whether anything but ipywidgets and IPython's history of results refers to a widget."""
    return any(not _is_known(running, holder, widget) for holder in gc.get_referrers(widget()))


def _is_known(running: Any | None, holder: Any, widget: weakref.ref[Any]) -> bool:
    # Some versions of Python count what is in an object's dict as held by the object itself.
    owners = (
        open_widgets(),
        getattr(running, "displayhook", None),
        getattr(running, "last_execution_result", None),
    )
    if isinstance(holder, MethodType) or any(holder is owner for owner in owners):
        return True  # ipywidgets' own callbacks are bound methods
    return any(
        all(re.fullmatch(pattern, str(name)) for name, v in space.items() if v is widget())
        for space, pattern in _history(running)
        if space is holder
    )


def _forget_result(running: Any, widget: Any) -> None:
    for space, pattern in _history(running):
        for name in [name for name, value in space.items() if value is widget]:
            if re.fullmatch(pattern, str(name)):
                space[name] = None
