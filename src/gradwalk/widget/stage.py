"""`Stage`: the graph that a widget shows, and the one way in which its picture comes up to date.

`Stage.refresh` is the only method that draws. These call it:

- a trait, when it is read (see `gradwalk.widget.traits`);
- the event loop, when the program rests, and IPython, when a cell has ended;
- the end of a backward pass, where somebody observes a trait or no event loop runs;
- a controller, after a change that it has made.
"""

from __future__ import annotations

import enum
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from ..graph.guarded import Guarded, could_not
from ..hosts.event_loop import IdleCallback, is_heard
from ..torch_api.modes import grad_mode_kept, unseen


class WidgetSource(Protocol):
    """The contents of a widget: a graph, or several with their passes linked."""

    @property
    def fault(self) -> str | None: ...  # noqa: D102
    @property
    def cursor(self) -> int: ...  # noqa: D102
    def seek(self, cursor: int) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


_T = TypeVar("_T", bound=WidgetSource)


class State(enum.IntEnum):
    """The changes that the picture does not show yet. Each value includes the ones before it."""

    CLEAN = 0
    DETAILS_PENDING = 1
    PASS_PENDING = 2
    GRAPH_PENDING = 3


_STATE_LOCK = threading.RLock()  # passes end in any thread; held for one assignment


class Drawing(Protocol):
    """The widget as its stage sees it."""

    comm: Any
    _made_as: tuple[str, str]

    def hold_sync(self) -> AbstractContextManager[None]: ...  # noqa: D102
    def set_trait(self, name: str, value: Any) -> None: ...  # noqa: D102
    def _is_between_passes(self) -> bool: ...
    def _show_graph(self, source: Any) -> None: ...
    def _show_passes(self, source: Any, is_other: bool) -> bool: ...
    def _describe(self, source: Any) -> None: ...
    def _start(self) -> bool: ...


class Stage(Generic[_T]):
    """The graph that a widget shows, with what controllers need. It holds the widget weakly.

    Attributes:
        source: The contents of the widget; None before it is set up and after it is closed.
        lock: Never held while the user's code runs.
        parts: Builds parts of the picture, and knows which failed.
        idle: Asks for a refresh when the program rests.
        is_refreshing: Whether a refresh runs, or reading a trait must not start one.
        is_observed: Whether the user has observed a trait.
    """

    def __init__(self, widget: Drawing) -> None:
        self._widget = weakref.ref(widget)
        self.source: _T | None = None
        self.lock = threading.RLock()
        self.parts = Guarded()
        self.idle = IdleCallback(self._refresh_when_idle)
        self.is_refreshing = False
        self.is_observed = False
        self._state = State.CLEAN
        self._changes = 0  # how many `change` blocks are open
        self._notice: str | None = None  # an error that `say` shows

    @property
    def _drawing(self) -> Drawing:
        widget = self._widget()
        assert widget is not None
        return widget

    @property
    def is_stale(self) -> bool:
        """Whether a pass or a graph is not in the picture yet."""
        return self._state >= State.PASS_PENDING

    def mark(self, state: State) -> None:
        """Note what the picture does not show yet."""
        with _STATE_LOCK:
            self._state = max(self._state, state)

    def _take_state(self) -> State:
        with _STATE_LOCK:
            taken, self._state = self._state, State.CLEAN
        return taken

    def replace(self, source: _T) -> None:
        """Show something else from the next refresh on; an error about the one before goes."""
        self.source = source
        self._notice = None

    @grad_mode_kept
    def refresh(self, describe: bool = True) -> None:
        """Bring the picture up to date, and send what has changed as one message.

        1. Another graph, where one is pending.
        2. New backward passes and steps.
        3. The details of the selected node: after 1 or 2, or on request. Within a `change` block
           they wait for its end.
        4. The fault, if any.

        Args:
            describe: Whether to describe what is selected although nothing is pending, because the
                program may have changed tensors.
        """
        widget = self._widget()
        if widget is None or self.source is None or self.is_refreshing:
            return
        with self.lock:
            source = self.source
            if source is None or self.is_refreshing or widget._is_between_passes():
                return
            self.is_refreshing, pending = True, self._take_state()
            try:
                with widget.hold_sync(), unseen():
                    if pending is State.GRAPH_PENDING:
                        widget._show_graph(source)
                    is_new = widget._show_passes(source, pending is State.GRAPH_PENDING)
                    if is_new or describe or pending >= State.DETAILS_PENDING:
                        if self._changes:
                            self.mark(State.DETAILS_PENDING)
                        else:
                            widget._describe(source)
                            fault = self._notice or source.fault or self.parts.first
                            widget.set_trait("_fault", fault)
            except BaseException:
                self.mark(max(pending, State.PASS_PENDING))
                raise
            finally:
                self.is_refreshing = False

    def pass_ended(self) -> None:
        """Show a pass of the program: when the program rests, or at once if somebody observes.

        A trait that is read and the end of a cell show it, too. Without an event loop it is sent at
        once, unless nobody listens.
        """
        self.mark(State.PASS_PENDING)
        if self.is_observed or (not self.idle.ask() and is_heard(self._drawing.comm)):
            self.refresh()

    def waits_for_idle(self) -> bool:
        """Ask for a refresh when the program rests; return whether what is sent now arrives."""
        return self.idle.wait() or is_heard(self._drawing.comm)

    def _refresh_when_idle(self) -> None:
        try:
            if self.is_stale:
                self.refresh()
        except Exception as error:  # nobody could catch it
            self._drawing.set_trait("_fault", could_not("the backward pass", error))

    def say(self, sentence: str | None) -> None:
        """Show an error in the picture, until the next one or another graph."""
        self._notice = sentence
        self._drawing.set_trait("_fault", sentence)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Within it several things change: they are described and sent once, at its end."""
        with self._drawing.hold_sync():
            with self.lock:
                self._changes += 1
            try:
                yield
            finally:
                with self.lock:
                    self._changes -= 1
                if self._state is State.DETAILS_PENDING:
                    self.refresh(describe=False)

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """Within it reading a trait refreshes nothing: what is sent stays as it is."""
        with self.lock:
            before, self.is_refreshing = self.is_refreshing, True
            try:
                yield
            finally:
                self.is_refreshing = before

    def open(self) -> _T:
        """Return what is shown; raise ValueError once the widget is closed."""
        self.refuse_closed()
        if self.is_stale:
            self.refresh(describe=False)
        assert self.source is not None
        return self.source

    def refuse_closed(self) -> None:
        """Raise ValueError once the widget is closed."""
        if self.source is None:
            widget = self._drawing
            of, example = widget._made_as
            raise ValueError(
                f"This {type(widget).__name__} is closed and has let go of its {of}. Make a new "
                f"one, for example {example}."
            )

    def start(self) -> bool:
        """Run backward if no pass has been seen yet; return whether it did."""
        return self._drawing._start()
