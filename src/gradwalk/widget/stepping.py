"""What the widgets have in common: a cursor over backward, and being brought up to date."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anywidget
import traitlets

from .. import notebook
from ..backward.recorded_pass import read_count, refuse_within_backward
from ..graph.modes import grad_mode_kept
from ..reasons import why
from .traits import Cursor, Direction, OfPass, OfTensors

_T = TypeVar("_T")


class SteppingWidget(anywidget.AnyWidget):
    """A widget that steps through backward. Base of `GraphWidget` and `CompareWidget`.

    Whoever derives from it has a trait ``steps`` and the methods that raise NotImplementedError
    here.

    Attributes:
        selected: What is selected, or None.
        cursor: After how many of the steps we stand.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left".
    """

    selected = traitlets.Any(None, allow_none=True).tag(sync=True)
    cursor = Cursor(0).tag(sync=True)
    direction = Direction("down").tag(sync=True)
    _fault = traitlets.Unicode(None, allow_none=True, read_only=True).tag(sync=True)

    steps: Any

    _soon: notebook.Soon | None = None  # None before the start
    _unshown = False  # whether a pass has ended that is not shown yet
    _lock = threading.RLock()  # until each has its own: one can be closed before it has begun

    def _begin(self, fill: Callable[[], None], **shown: Any) -> None:
        """Open the channel to the browser.

        Args:
            fill: Sets the traits that the browser starts with.
            **shown: More of them, which the browser may change.
        """
        self._lock = threading.RLock()  # never held while the user's own code runs
        self._refreshing = False
        self._running: object | None = None  # there while backward of ours runs
        self._changes = 0
        self._undescribed = False
        self._part_fault: str | None = None
        self._soon = notebook.Soon(self._refresh)
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
            start = 0 if self._started() else self.cursor
            self.cursor = min(start + count, len(self.steps))

    def step_back(self, n: int = 1) -> None:
        """Move ``n`` steps back, at most to the start.

        Args:
            n: How many.

        Raises:
            TypeError: ``n`` is no whole number.
            ValueError: ``n`` is negative.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
        """
        count = read_count(n, "step_back")
        self._refuse_while_running("step_back()")
        self.cursor = max(self.cursor - count, 0)

    def reset(self) -> None:
        """Move to the start: every ``.grad`` as before backward.

        Raises:
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
        """
        self._refuse_while_running("reset()")
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

    def _pass_ended(self) -> None:
        """A pass has ended that the program runs: shown when the program rests, or when asked."""
        self._unshown = True
        observed = any(
            isinstance(self.traits().get(name), (OfPass, OfTensors))
            for name in self._trait_notifiers
        )
        if observed:
            self._refresh()
        elif self._soon is not None:
            self._soon.ask()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Within it several things change: they are described and sent once, at its end."""
        with self.hold_sync():
            with self._lock:
                self._changes += 1
            try:
                yield
            finally:
                with self._lock:
                    self._changes -= 1
                if self._undescribed:
                    self._refresh(describe=False)

    def _describes_now(self, wanted: bool) -> bool:
        """Whether to describe what is selected now, rather than at the end of a `_change`."""
        self._undescribed = self._undescribed or wanted
        if self._changes:
            return False
        due, self._undescribed = self._undescribed, False
        return due

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

    def _part(self, what: str, make: Callable[[], _T], otherwise: _T) -> _T:
        """A part of what is shown; when making it fails, a sentence in ``fault`` says so.

        Args:
            what: The part, to begin a sentence with.
            make: Makes it.
            otherwise: What to show in its place.
        """
        try:
            return make()
        except Exception as error:
            self._part_fault = (
                f"{what} cannot be shown, because making it failed: {why.failure(error)}. "
                "Everything else is as it was."
            )
            return otherwise

    @traitlets.validate("cursor")
    def _check_cursor(self, proposal: Any) -> int:
        with self._lock:
            if not self._refreshing:  # we set it ourselves, where a pass has ended
                self._refuse_while_running("Moving the cursor")
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
    @grad_mode_kept
    def _on_cursor(self, _: Any) -> None:
        with self._lock:
            if self._running is not None:  # what the browser sends is set before it is refused
                self._put_cursor_back()
                return
            try:
                self._go(self.cursor)
            except BaseException:
                self._put_cursor_back()
                raise
            self._refresh()

    def _put_cursor_back(self) -> None:
        """Put the cursor where every ``.grad`` is, and tell the browser."""
        if self.cursor == self._stands_at():
            return
        before, self._refreshing = self._refreshing, True
        try:
            self.cursor = self._stands_at()
        finally:
            self._refreshing = before
        self.send_state("cursor")

    @traitlets.observe("selected")
    @grad_mode_kept
    def _on_selected(self, _: Any) -> None:
        self._refresh()

    @grad_mode_kept
    def _on_message(self, _: Any, content: Any, __: Any) -> None:
        """What the browser asks for."""
        if not isinstance(content, dict):
            return
        try:
            self._answer(content)
        except Exception as error:  # the user's own code, run by a button: shown in the widget
            self.set_trait("_fault", why.failure(error))

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") != "start":
            return
        cursor = asked.get("cursor")
        with self._change():
            if self._started() and cursor is not None:
                self.cursor = min(cursor, len(self.steps))

    def _started(self) -> bool:
        """Run backward if none has been seen yet; whether it did."""
        raise NotImplementedError

    def _go(self, cursor: int) -> None:
        """Make every ``.grad`` that we own what it was at the cursor."""
        raise NotImplementedError

    def _stands_at(self) -> int:
        """After how many steps every ``.grad`` that we own is."""
        raise NotImplementedError

    def _refresh(self, describe: bool = True) -> None:
        """Bring what is shown up to date.

        Args:
            describe: Whether what is selected is described anew, because tensors may have changed;
                otherwise only when a pass has ended.
        """
        raise NotImplementedError

    def _let_go(self) -> None:
        """Let go of every graph."""
        raise NotImplementedError
