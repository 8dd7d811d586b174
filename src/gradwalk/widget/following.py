"""A widget of something that changes by itself: it is told, and brings its picture up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import anywidget
import traitlets
from IPython.display import display

from .. import notebook
from ..explain import describe_node as why
from ..graph.guarded import Guarded, could_not
from ..schema.surrogates import well_formed
from ..torch_api.compiled import refuse_while_compiling
from ..torch_api.modes import grad_mode_kept, unseen
from .traits import Constants, Direction


class Followed(Protocol):
    """What a widget shows: passes run through it, whoever starts them.

    Attributes:
        fault: A sentence when watching went wrong, or None.
    """

    @property
    def fault(self) -> str | None: ...  # noqa: D102  described above

    def close(self) -> None:
        """Remove every hook, and let go of what was recorded."""


_T = TypeVar("_T", bound=Followed)


class FollowingWidget(anywidget.AnyWidget, Generic[_T]):
    """A widget that is up to date whenever it is read, and when the program rests.

    Whoever derives from it has the trait ``details`` and the methods that raise NotImplementedError
    here.

    Attributes:
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left"; "auto"
            chooses the one that shows most.
        constants: Whether operands that need no grad are drawn, and where gradient was cut.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a widget that shows nothing yet."""
        if args or kwargs:  # traitlets fails with them under Dynamo
            refuse_while_compiling(cls.__name__)
        return super().__new__(cls, *args, **kwargs)

    direction = Direction("down").tag(sync=True)
    constants = Constants(True).tag(sync=True)
    _fault = traitlets.Unicode(None, allow_none=True, read_only=True).tag(sync=True)
    _anywidget_id = traitlets.Unicode().tag(sync=True)

    _made_as: tuple[str, str]
    """What it shows, and how to make one: "graph", "GraphWidget(loss)"."""

    _said: str | None = None  # what somebody who works with the widget has to say is wrong
    _unshown = False  # whether a pass has ended that is not shown yet
    _observed = False  # whether anyone ever asked to be told when a trait changes

    _lock = threading.RLock()  # until each has its own: one can be closed before it has begun
    _behind: _T | None = None  # what is shown; None before it has begun and once it is closed

    def _begin(self, behind: _T, **shown: Any) -> None:
        """Show something: open the channel to the browser.

        What is still to be worked out goes after it: when the program rests, or earlier, when
        somebody asks. Where nothing would call us back and somebody listens, at once.

        Args:
            behind: What to show.
            **shown: Traits that the browser starts with, and may change.
        """
        self._lock = threading.RLock()  # never held while the user's own code runs
        self._refreshing = False
        self._changes = 0
        self._undescribed = False
        self._parts = Guarded()
        self._stop_refreshing: Callable[[], None] = lambda: None
        self._soon = notebook.IdleCallback(self._show_soon)
        self._behind = behind
        try:
            self._follow(behind)
            super().__init__(**shown)
        except BaseException:
            self._let_go()
            raise
        self.on_msg(self._on_message)
        self._stop_refreshing = notebook.after_each_cell(self._refresh)
        if self._unshown and not self._soon.ask() and notebook.is_heard(self.comm):
            self._refresh()
        for replaced in notebook.replaced_by(self):
            replaced.close()

    def close(self) -> None:
        """Let go of every graph, remove every hook and take the views away. Twice is fine."""
        self._let_go()
        super().close()

    def open(self) -> None:
        """Open the channel to the browser (for ipywidgets), as soon as the widget is there."""
        with self._as_it_is():
            super().open()

    @property
    def model_id(self) -> str | None:
        """What the browser calls it (for ipywidgets): whoever asks is about to show it."""
        if self._unshown:
            self._refresh(describe=False)
        return None if self.comm is None else str(self.comm.comm_id)

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
        if self._unshown:  # before the first is read: they go together
            self._refresh(describe=False)
        # Names are whatever users chose, and messages are UTF-8.
        state: dict[str, Any] = well_formed(super().get_state(key))
        return state

    def send_state(self, key: Any = None) -> None:
        """Send traits to the browser (for ipywidgets).

        Args:
            key: Which, a name or several; None for all.
        """
        if key is None:
            self._refresh()
        with self._as_it_is():
            super().send_state(key)

    @contextmanager
    def _as_it_is(self) -> Iterator[None]:
        """Within it to read a trait brings nothing up to date: what is sent stays as it is."""
        with self._lock:
            before, self._refreshing = self._refreshing, True
            try:
                yield
            finally:
                self._refreshing = before

    def observe(self, handler: Any, names: Any = traitlets.All, type: Any = "change") -> None:  # noqa: A002
        """Have something called when traits change (for traitlets).

        From then on a pass is shown as soon as it has ended: what waits to be told asks for
        nothing by itself.

        Args:
            handler: What to call.
            names: Which traits.
            type: Which kind of notification.
        """
        super().observe(handler, names=names, type=type)
        # What a class below this one declares is ipywidgets' own, and about its channel. Our own
        # reactions do not come this way: see `reacts`.
        declared_by = getattr(handler, "this_class", None)
        if declared_by is None or not issubclass(FollowingWidget, declared_by):
            self._observed = True

    @traitlets.default("_anywidget_id")
    def _class_id(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}"

    def add_traits(self, **traits: Any) -> None:
        """Add traits to this widget alone (for traitlets).

        anywidget does so for its id, which is declared here: each widget would get a class of its
        own, which takes longer than capturing a graph.

        Args:
            **traits: By name. Those that the class has are left out.
        """
        new = {name: trait for name, trait in traits.items() if not self.has_trait(name)}
        if new:
            super().add_traits(**new)

    if hasattr(anywidget.AnyWidget, "_ipython_display_"):

        def _ipython_display_(self, **kwargs: Any) -> None:
            """Show the widget, and what stands in for it without a kernel (for ipywidgets 7).

            Releases from 8 on have no such method: they ask for the same by themselves.
            """
            shown: tuple[Any, Any] = self._repr_mimebundle_() or ({}, {})
            data, metadata = shown
            display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
            self._handle_displayed(**kwargs)

    def _pass_ended(self) -> None:
        """The program has run a pass. Shown when the program rests; at once if somebody is told.

        Whoever reads a trait is shown it then, and a cell at its end. Without a loop that calls us
        back, somebody may wait for what we send, unless it is known to be dropped.
        """
        self._unshown = True
        if self._observed or (not self._soon.ask() and notebook.is_heard(self.comm)):
            self._refresh()

    def _show_soon(self) -> None:
        """The program rests: show the pass that has ended."""
        try:
            if self._unshown:
                self._refresh()
        except Exception as error:  # nobody is there who could be told otherwise
            self.set_trait("_fault", could_not("the backward pass", error))

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
        raise NotImplementedError

    def _open(self) -> _T:
        """What is shown.

        Raises:
            ValueError: It is closed.
        """
        self._refuse_closed()
        if self._unshown:
            self._refresh(describe=False)
        assert self._behind is not None
        return self._behind

    def _refuse_closed(self) -> None:
        """Raise once it is closed.

        Raises:
            ValueError: It is so.
        """
        if self._behind is None:
            of, example = self._made_as
            raise ValueError(
                f"This {type(self).__name__} is closed and has let go of its {of}. Make a new one, "
                f"for example {example}."
            )

    def __repr__(self) -> str:
        if self._behind is None:
            of, example = self._made_as
            return f"{type(self).__name__}(closed: make a new one to see the {of}, as in {example})"
        return f"{type(self).__name__}({self._summary(self._behind)})"

    @grad_mode_kept
    def _refresh(self, describe: bool = True) -> None:
        """Bring what is shown up to date.

        Args:
            describe: Whether what is selected is described anew, because tensors may have changed;
                otherwise only when a pass has ended.
        """
        if self._behind is None or self._refreshing:
            return
        with self._lock:
            behind = self._behind
            if behind is None or self._refreshing or self._is_nowhere():
                return
            self._refreshing, self._unshown = True, False
            try:
                with self.hold_sync(), unseen():  # what changed goes out as one message
                    is_new = self._show_passes(behind)
                    if self._describes_now(describe or is_new):
                        self._describe(behind)
                        self.set_trait("_fault", self._said or behind.fault or self._parts.first)
            except BaseException:
                self._unshown = True
                raise
            finally:
                self._refreshing = False

    def _let_go(self) -> None:
        """Let go of every graph."""
        with self._lock:
            behind, self._behind = self._behind, None
            if behind is not None:  # else closed before
                behind.close()
                self._stop_refreshing()
                self._forget()

    def _follow(self, behind: _T) -> None:
        """Watch what runs through the graphs, and set the traits that the browser starts with."""
        raise NotImplementedError

    def _summary(self, behind: _T) -> str:
        """What it shows, in a few words."""
        raise NotImplementedError

    def _is_nowhere(self) -> bool:
        """Whether the cursor is nowhere for a moment, so that there is nothing to show."""
        return False

    def _show_passes(self, behind: _T) -> bool:
        """Take note of passes that have ended; whether there is a new one."""
        raise NotImplementedError

    def _describe(self, behind: _T) -> None:
        """Bring up to date what tells of tensors."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Tell of no tensor any more: it is being closed."""
        raise NotImplementedError
