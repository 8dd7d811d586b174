"""The cursor over backward: it moves every ``.grad`` that the pass owns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..backward.recorded_pass import read_count, refuse_within_backward
from ..graph.integers import read_int
from .controllers import Controller
from .drawing import DrawingWidget


class CursorController(Controller[DrawingWidget[Any]]):
    """Moves the cursor, and runs the real backward once."""

    def __init__(
        self, widget: DrawingWidget[Any], move: Callable[[int, bool], None] | None = None
    ) -> None:
        super().__init__(widget)
        self._move = move or self.move_cursor
        self._running: object | None = None  # names the pass

    @property
    def is_running(self) -> bool:
        """Whether the widget's own backward is running."""
        return self._running is not None

    def step(self, n: int) -> None:
        """Move on; see `DrawingWidget.step`."""
        count = read_count(n, "step")
        self.refuse_while_running("step()")
        widget = self.widget
        with widget._change():  # the picture goes there directly, not through the end
            self._move(count, widget._start())

    def step_back(self, n: int) -> None:
        """Move back; see `DrawingWidget.step_back`."""
        count = read_count(n, "step_back")
        self.widget._open()
        self.refuse_while_running("step_back()")
        self._move(-count, False)

    def reset(self) -> None:
        """Move to the start."""
        self.widget._open()
        self.refuse_while_running("reset()")
        self.widget.cursor = 0

    def move_cursor(self, by: int, from_start: bool) -> None:
        """Move by a number of steps, at most to an end."""
        widget = self.widget
        start = 0 if from_start else widget.cursor
        widget.cursor = max(0, min(start + by, len(widget._steps)))

    def handle(self, message: dict[str, Any]) -> bool:
        """Start backward, and go to a cursor where that was the first to start it."""
        if message.get("kind") != "start":
            return False
        cursor = message.get("cursor")
        widget = self.widget
        with widget._change():
            if widget._start() and cursor is not None:
                self._move(cursor, True)
        return True

    @contextmanager
    def own_pass(self) -> Iterator[None]:
        """Within it backward runs, with the user's hooks, and nothing else may move the cursor."""
        mine, widget = object(), self.widget
        try:
            with widget._lock:
                self.refuse_while_running("backward()", within_others=True)
                self._running = mine
            yield
        finally:
            if self._running is mine:
                self._running = None
                widget._refresh()

    def refuse_while_running(self, what: str, *, within_others: bool = False) -> None:
        """Raise while the widget's own backward runs, or when a hook of any pass asks."""
        if self.is_running:
            raise RuntimeError(
                f"{what} was asked for while this widget's own backward pass runs, by one of its "
                "hooks or by another thread. Do it after that pass: in a hook, only remember that "
                "it is to be done."
            )
        if not within_others:
            refuse_within_backward(what)

    def validate(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``cursor``, checked."""
        if trait != "cursor":
            return value
        widget = self.widget
        with widget._lock:
            if not widget._is_refreshing:  # else the end of a pass moves it
                self.refuse_while_running("Moving the cursor")
        total = len(widget._steps)
        cursor = read_int(value, "cursor was given ", f"Give it a number of steps, 0 to {total}.")
        if not 0 <= cursor <= total:
            raise ValueError(
                f"cursor was given {cursor}, but "
                + (
                    f"backward has {total} steps here: give a number from 0 to {total}."
                    if total
                    else "no backward pass has been seen yet: call step() or backward() first."
                )
            )
        return cursor

    def react(self, trait: str) -> None:
        """Move every ``.grad`` to the cursor."""
        if trait != "cursor":
            return
        widget = self.widget
        with widget._lock:
            if self.is_running:  # the browser sets a trait before it learns of the refusal
                self._put_back()
                return
            source = widget._source
            try:
                if source is not None and source.cursor != widget.cursor:
                    source.seek(widget.cursor)
            except BaseException:
                self._put_back()
                raise
            widget._refresh()

    def _put_back(self) -> None:
        """Put the cursor where every ``.grad`` is, and send it."""
        widget = self.widget
        is_at = 0 if widget._source is None else widget._source.cursor
        if widget.cursor == is_at:
            return
        with widget._as_it_is():
            widget.cursor = is_at
        widget.send_state("cursor")
