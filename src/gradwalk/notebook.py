"""Access to the notebook: the user's variables, cells and their widgets."""

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
    """Return the running IPython shell; None in a plain Python program."""
    ipython = sys.modules.get("IPython")  # not imported yet means not running
    return ipython.get_ipython() if ipython is not None else None


_FRAME_AND_WE = 3  # the frame, a variable here, and the argument of getrefcount


def caller_variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables that a piece of code sees, its own first.

    Args:
        frame: The frame of the code that called gradwalk.

    Returns:
        Name -> value: the frame's locals, then its globals, then the notebook's namespace.
    """
    snapshot = frame.f_locals
    variables = dict(snapshot)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        # f_locals is a copy that the frame keeps: it would keep alive what the function deletes
        # later. Do not clear it if the function itself has it, from a call of locals().
        if sys.getrefcount(snapshot) <= _FRAME_AND_WE:
            snapshot.clear()
    return with_outer(variables, frame)


def with_outer(variables: dict[str, Any], frame: FrameType) -> dict[str, Any]:
    """Add a frame's globals and the notebook's variables to its own."""
    running = shell()
    for outer in (frame.f_globals, running.user_ns if running is not None else {}):
        for name, value in list(outer.items()):
            variables.setdefault(name, value)
    return variables


def after_each_cell(method: Callable[[], None]) -> Callable[[], None]:
    """Call a bound method after every cell, as long as its object lives.

    Args:
        method: A bound method; held weakly.

    Returns:
        A function that stops the calls. Outside IPython there are none.
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
    """Return ipywidgets' dict of open widgets by id."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    if module is None:  # nothing has made a widget yet
        return {}
    # Newer releases warn about the second name.
    kept: dict[str, Any] = (
        module._instances if hasattr(module, "_instances") else module.Widget.widgets
    )
    return kept


class IdleCallback:
    """Calls a bound method once when the event loop is next idle, however often it was requested.

    It uses the event loop that was running at its creation. In a notebook's kernel the method runs
    after the current cell, or at once when none is running.
    """

    def __init__(self, method: Callable[[], None], longest: float = 1.0) -> None:
        """Store the method.

        Args:
            method: A bound method; held weakly.
            longest: After this many seconds the next request calls the method directly, so that
                it also runs during a long cell.
        """
        self._method = weakref.WeakMethod(method)
        self._longest = longest
        self._waiting = False  # whether a call is scheduled
        self._last = 0.0
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def ask(self) -> bool:
        """Request a call, from any thread.

        Returns:
            Whether it will be called or just was; False without a running event loop.
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
        """Request a call when the event loop is idle, and not before.

        Returns:
            Whether it will be called.
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
        soon._waiting = False  # first, so that the method can request another call
        soon._call()


def is_heard(channel: Any | None) -> bool:
    """Whether a widget's comm has a front end.

    Args:
        channel: The comm; None for a closed widget.

    Returns:
        False in a plain Python program, where messages are dropped.
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

# By notebook cell, the widgets it created, each with its execution count.
_made_in: dict[str, list[tuple[int, weakref.ref[Any]]]] = {}


def replaced_by(widget: Any) -> list[Any]:
    """Return the unreachable widgets that an earlier run of the current cell created.

    ipywidgets keeps every widget until ``close()``, and IPython every result in ``Out``. Without
    this, each run of a cell would keep one more graph and its tensors alive.

    Args:
        widget: The widget just created in the current cell.

    Returns:
        The widgets that only ipywidgets and IPython's history refer to. They are removed from the
        history; the caller closes them.
    """
    running, cell = shell(), _running_cell()
    if running is None:
        return _left_behind(widget)
    if cell is None:
        return []
    now = running.execution_count
    # Weak references only: a reference of our own would count as held.
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


# The created widgets, used only without IPython.
_made: list[weakref.ref[Any]] = []


def _left_behind(widget: Any) -> list[Any]:
    """Return the widgets whose comm the host has closed, as marimo does on a cell's next run."""
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
    """Return the namespaces with IPython's results of cells, each with a pattern of the names."""
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
    """Whether anything except ipywidgets and IPython's history refers to a widget."""
    return any(not _is_known(running, holder, widget) for holder in gc.get_referrers(widget()))


def _is_known(running: Any | None, holder: Any, widget: weakref.ref[Any]) -> bool:
    # Some versions of Python report an object's dict as the object itself.
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
