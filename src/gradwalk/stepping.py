"""What the widgets have in common: a cursor over backward, and being brought up to date."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from . import notebook
from .explaining import why
from .recording.recording import read_count
from .traits import Cursor, Direction, bundle


class SteppingWidget(anywidget.AnyWidget):
    """A widget that steps through backward. Base of `GraphWidget` and `CompareWidget`.

    Whoever derives from it has a trait ``steps`` and the methods that raise NotImplementedError
    here.

    Attributes:
        selected: What is selected, or None.
        cursor: After how many of the steps we stand.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left".
        fault: A sentence when something went wrong that the browser should show, or None.
    """

    # As text: a path would make anywidget keep every widget alive through its file watcher.
    _esm = traitlets.Unicode(bundle("widget.js")).tag(sync=True)
    _css = traitlets.Unicode(bundle("widget.css")).tag(sync=True)

    selected = traitlets.Any(None, allow_none=True).tag(sync=True)
    cursor = Cursor(0).tag(sync=True)
    direction = Direction("down").tag(sync=True)
    fault = traitlets.Unicode(None, allow_none=True, read_only=True).tag(sync=True)

    steps: Any

    def _begin(self, fill: Callable[[], None], **shown: Any) -> None:
        """Open the channel to the browser.

        Args:
            fill: Sets the traits that the browser starts with.
            **shown: More of them, which the browser may change.
        """
        self._lock = threading.RLock()
        self._refreshing = False
        try:
            fill()
            super().__init__(**shown)
        except BaseException:
            self._let_go()
            raise
        self.on_msg(self._on_message)
        self._stop_refreshing = notebook.after_each_cell(self._refresh)
        for replaced in notebook.replaced_by(self):
            replaced.close()

    def step(self, n: int = 1) -> None:
        """Move ``n`` steps on, at most to the end; the first call runs the real backward.

        Args:
            n: How many.

        Raises:
            TypeError: ``n`` is no whole number.
            ValueError: ``n`` is negative.
            Exception: What `backward` raises.
        """
        count = read_count(n, "step")
        with self.hold_sync():  # the picture goes there at once, not by way of the end
            start = 0 if self._started() else self.cursor
            self.cursor = min(start + count, len(self.steps))

    def step_back(self, n: int = 1) -> None:
        """Move ``n`` steps back, at most to the start.

        Args:
            n: How many.

        Raises:
            TypeError: ``n`` is no whole number.
            ValueError: ``n`` is negative.
        """
        self.cursor = max(self.cursor - read_count(n, "step_back"), 0)

    def reset(self) -> None:
        """Move to the start: every ``.grad`` as before backward."""
        self.cursor = 0

    def close(self) -> None:
        """Let go of every graph, remove every hook and take the views away. Twice is fine."""
        self._let_go()
        super().close()

    def get_state(
        self,
        key: Any = None,
        drop_defaults: bool = False,  # noqa: ARG002
    ) -> dict[str, Any]:
        """The traits as they are saved into a page or a notebook (for ipywidgets).

        Args:
            key: Which, a name or several; None for all.
            drop_defaults: Ignored: in a page without a kernel nobody knows the defaults.
        """
        state: dict[str, Any] = super().get_state(key)
        return state

    def send_state(self, key: Any = None) -> None:
        """Send traits to the browser (for ipywidgets).

        Args:
            key: Which, a name or several; None for all.
        """
        if key is None:
            self._refresh()
        with self._lock:
            # Reading a trait refreshes it, which would change what is just being sent.
            before, self._refreshing = self._refreshing, True
            try:
                super().send_state(key)
            finally:
                self._refreshing = before

    @traitlets.validate("cursor")
    def _check_cursor(self, proposal: Any) -> int:
        value, total = proposal["value"], len(self.steps)
        try:
            cursor = operator.index(value)
        except TypeError:
            raise TypeError(
                f"cursor was given {value!r}, of type {type(value).__name__}. Give it a number of "
                f"steps, 0 to {total}."
            ) from None
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

    @traitlets.observe("cursor")
    def _on_cursor(self, _: Any) -> None:
        with self._lock:
            self._go(self.cursor)
            self._refresh()

    @traitlets.observe("selected")
    def _on_selected(self, _: Any) -> None:
        self._refresh()

    def _on_message(self, _: Any, content: Any, __: Any) -> None:
        """What the browser asks for."""
        if not isinstance(content, dict):
            return
        try:
            self._answer(content)
        except Exception as error:  # the user's own code, run by a button: shown in the widget
            self.set_trait("fault", why.failure(error))

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") != "start":
            return
        cursor = asked.get("cursor")
        with self.hold_sync():
            if self._started() and cursor is not None:
                self.cursor = min(cursor, len(self.steps))

    def _started(self) -> bool:
        """Run backward if none has been seen yet; whether it did."""
        raise NotImplementedError

    def _go(self, cursor: int) -> None:
        """Make every ``.grad`` that we own what it was at the cursor."""
        raise NotImplementedError

    def _refresh(self) -> None:
        """Bring everything that may have changed up to date with the tensors as they are now."""
        raise NotImplementedError

    def _let_go(self) -> None:
        """Let go of every graph."""
        raise NotImplementedError
