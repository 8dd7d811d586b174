"""What the widgets have in common: a cursor over backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import traitlets

from ..backward.recorded_pass import read_count, refuse_within_backward
from ..graph.integers import read_int
from ..torch_api.modes import grad_mode_kept
from .following import Followed, FollowingWidget
from .traits import Cursor, Selected, reacts


class Travelled(Followed, Protocol):
    """What a widget steps through: one graph's backward, or that of several as one.

    Attributes:
        cursor: After how many of the steps every ``.grad`` is.
    """

    @property
    def cursor(self) -> int: ...  # noqa: D102  described above

    def seek(self, cursor: int) -> None:
        """Stand after so many steps; every ``.grad`` that is owned moves along."""


_T = TypeVar("_T", bound=Travelled)


class SteppingWidget(FollowingWidget[_T]):
    """A widget that steps through backward. Base of `GraphWidget` and `CompareWidget`.

    Whoever derives from it has the trait ``steps`` as well, and says how backward starts.

    Attributes:
        selected: What is selected, or None.
        cursor: After how many of the steps we stand.
    """

    selected = Selected(None, allow_none=True).tag(sync=True)
    cursor = Cursor(0).tag(sync=True)

    steps: Any

    _running: object | None = None  # there while backward of ours runs

    @grad_mode_kept
    def step(self, n: int = 1) -> None:
        """Move ``n`` steps on, at most to the end; the first call runs the real backward.

        Args:
            n: How many.

        Raises:
            TypeError: ``n`` is no whole number.
            ValueError: ``n`` is negative.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
            Exception: What `backward` raises.
        """
        count = read_count(n, "step")
        self._refuse_while_running("step()")
        with self._change():  # the picture goes there at once, not by way of the end
            self._move(count, from_start=self._started())

    def step_back(self, n: int = 1) -> None:
        """Move ``n`` steps back, at most to the start.

        Args:
            n: How many.

        Raises:
            TypeError: ``n`` is no whole number.
            ValueError: ``n`` is negative, or the widget is closed.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
        """
        count = read_count(n, "step_back")
        self._open()
        self._refuse_while_running("step_back()")
        self._move(-count)

    def _move(self, by: int, *, from_start: bool = False) -> None:
        """Move by so many steps, at most to an end.

        Args:
            by: How many; below 0 to go back.
            from_start: Whether from the start, rather than from where we stand.
        """
        start = 0 if from_start else self.cursor
        self.cursor = max(0, min(start + by, len(self.steps)))

    def reset(self) -> None:
        """Move to the start: every ``.grad`` as before backward.

        Raises:
            ValueError: The widget is closed.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
        """
        self._open()
        self._refuse_while_running("reset()")
        self.cursor = 0

    @contextmanager
    def _own_pass(self) -> Iterator[None]:
        """Within it backward runs, and with it whatever hooks the user has: nothing may move."""
        mine = object()
        try:
            with self._lock:
                self._refuse_while_running("backward()", within_others=True)
                self._running = mine
            yield
        finally:
            if self._running is mine:
                self._running = None
                self._refresh()

    def _refuse_while_running(self, what: str, *, within_others: bool = False) -> None:
        """Raise while a backward pass of ours runs, or when a hook of any pass asks.

        Args:
            what: What was asked for: "step()".
            within_others: Whether hooks of other passes may ask for it.

        Raises:
            RuntimeError: It is so.
        """
        if self._running is not None:
            raise RuntimeError(
                f"{what} was asked for while this widget's own backward pass runs, by one of its "
                "hooks or by another thread. Do it after that pass: in a hook, only remember that "
                "it is to be done."
            )
        if not within_others:
            refuse_within_backward(what)

    @traitlets.validate("cursor")
    def _check_cursor(self, proposal: Any) -> int:
        with self._lock:
            if not self._refreshing:  # we set it ourselves, where a pass has ended
                self._refuse_while_running("Moving the cursor")
        value, total = proposal["value"], len(self.steps)
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

    @reacts("cursor")
    @grad_mode_kept
    def _on_cursor(self, _: Any) -> None:
        with self._lock:
            if self._running is not None:  # what the browser sends is set before it is refused
                self._put_cursor_back()
                return
            try:
                if self._behind is not None and self._behind.cursor != self.cursor:
                    self._behind.seek(self.cursor)
            except BaseException:
                self._put_cursor_back()
                raise
            self._refresh()

    def _put_cursor_back(self) -> None:
        """Put the cursor where every ``.grad`` is, and tell the browser."""
        stands_at = 0 if self._behind is None else self._behind.cursor
        if self.cursor == stands_at:
            return
        before, self._refreshing = self._refreshing, True
        try:
            self.cursor = stands_at
        finally:
            self._refreshing = before
        self.send_state("cursor")

    @reacts("selected")
    @grad_mode_kept
    def _on_selected(self, _: Any) -> None:
        self._refresh()

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") != "start":
            return
        cursor = asked.get("cursor")
        with self._change():
            if self._started() and cursor is not None:
                self._move(cursor, from_start=True)

    def _started(self) -> bool:
        """Run backward if none has been seen yet; whether it did."""
        raise NotImplementedError

    def _forget(self) -> None:
        self.set_trait("selected", None)
