"""`DrawingWidget`: a widget that brings its picture up to date when somebody looks.

`DrawingWidget._refresh` is the only method that draws. These call it:

- a trait, when it is read (see `gradwalk.widget.traits`);
- the event loop, when the program rests, and IPython, when a cell has ended;
- the end of a backward pass, where somebody observes a trait or no event loop runs;
- a controller, after a change that it has made.
"""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import anywidget
import traitlets
from IPython.display import display

from ..explain import describe_node as why
from ..export import pictures
from ..graph.guarded import Guarded, could_not
from ..hosts.event_loop import IdleCallback, MainThread, is_heard
from ..hosts.this_host import this_host
from ..lazily import nx
from ..schema.json_values import well_formed
from ..sources.graph_source import Snapshot
from ..torch_api.compiled import refuse_while_compiling
from ..torch_api.modes import grad_mode_kept, unseen
from .controllers import Controller, State, Turn, WidgetSource
from .traits import Constants, Cursor, Direction, OwnNames, reacts

_T = TypeVar("_T", bound=WidgetSource)

_STATE_LOCK = threading.RLock()  # passes end in any thread; held for one assignment


class DrawingWidget(anywidget.AnyWidget, Generic[_T], metaclass=OwnNames):
    """A picture with a cursor over backward. Base of `GraphWidget` and `CompareWidget`.

    A subclass has the traits ``details`` and ``_steps``, and the methods that are abstract here.
    """

    selected = Cursor(None, allow_none=True).tag(sync=True)
    cursor = Cursor(0).tag(sync=True)
    direction = Direction("down").tag(sync=True)
    constants = Constants(True).tag(sync=True)
    _fault = traitlets.Unicode(None, allow_none=True, read_only=True).tag(sync=True)
    _anywidget_id = traitlets.Unicode().tag(sync=True)

    _steps: Any

    _made_as: tuple[str, str]
    """The word for its contents, and an example call: "graph", "GraphWidget(loss)"."""

    # A widget may be closed before `_begin`.
    _lock = threading.RLock()
    _source: _T | None = None  # None before `_begin` and after `close`
    _state = State.CLEAN
    _controllers: Sequence[Controller[Any]] = ()
    _cursors: Any  # the CursorController among them
    _notice: str | None = None  # an error that `_say` shows
    _lists_own_names = False  # set on a whole class: see `OwnNames`
    _is_observed = False  # whether the user has observed a trait

    to_svg, to_png, to_pdf = pictures.to_svg, pictures.to_png, pictures.to_pdf
    to_html, to_json, to_dot = pictures.to_html, pictures.to_json, pictures.to_dot
    embed = pictures.embed

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a widget that shows nothing yet."""
        if args or kwargs:  # traitlets fails with them under Dynamo
            refuse_while_compiling(cls.__name__)
        return super().__new__(cls, *args, **kwargs)

    def _begin(self, source: _T, **shown: Any) -> None:
        """Show something: open the channel to the browser.

        The drawing itself follows when the program rests, or earlier, when somebody asks. Where no
        event loop runs and somebody listens, it follows at once. ``shown``: traits that the browser
        starts with, and may change.
        """
        self._lock = threading.RLock()  # never held while the user's code runs
        self._is_refreshing = False
        self._changes = 0  # how many `_change` blocks are open
        self._parts = Guarded()
        self._stop_cells: Callable[[], None] = lambda: None
        self._idle = IdleCallback(self._show_when_idle)
        self._controllers = self._make_controllers()
        self._source = source
        try:
            self._follow(source)
            super().__init__(**shown)
        except BaseException:
            self._let_go()
            raise
        self._main_thread = MainThread()
        self.on_msg(self._on_message)
        self._stop_cells = this_host().after_each_cell(self._refresh)
        if self._is_stale and not self._idle.ask() and is_heard(self.comm):
            self._refresh()
        for replaced in this_host().replaced_by(self):
            replaced.close()

    def close(self) -> None:
        """Let go of every graph, remove every hook and close the views. Twice is fine.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.close()
            >>> widget
            GraphWidget(closed: make a new one to see the graph, as in GraphWidget(loss))
        """
        self._let_go()
        super().close()

    def __del__(self) -> None:
        """Do nothing: a widget that is not closed lives until Python ends, when parts are gone."""

    def _let_go(self) -> None:
        with self._lock:
            source, self._source = self._source, None
            if source is not None:  # else closed before
                source.close()
                self._stop_cells()
                for controller in self._controllers:
                    controller.close()
                self._forget()
                self.set_trait("selected", None)

    # ---- What is drawn, and when

    @property
    def _is_stale(self) -> bool:
        """Whether a pass or a graph is not in the picture yet."""
        return self._state >= State.PASS_PENDING

    def _mark(self, state: State) -> None:
        """Note what the picture does not show yet."""
        with _STATE_LOCK:
            self._state = max(self._state, state)

    def _take_state(self) -> State:
        with _STATE_LOCK:
            taken, self._state = self._state, State.CLEAN
        return taken

    @grad_mode_kept
    def _refresh(self, describe: bool = True) -> None:
        """Bring the picture up to date, and send what has changed as one message.

        1. Another graph, where one is pending.
        2. New backward passes and steps.
        3. The details of the selected node: after 1 or 2, or on request. Within a `_change` block
           they wait for its end.
        4. The fault, if any.

        Args:
            describe: Whether to describe what is selected although nothing is pending, because the
                program may have changed tensors.
        """
        if self._source is None or self._is_refreshing:
            return
        with self._lock:
            source = self._source
            if source is None or self._is_refreshing or self._is_between_passes():
                return
            self._is_refreshing, pending = True, self._take_state()
            try:
                with self.hold_sync(), unseen():
                    if pending is State.GRAPH_PENDING:
                        self._show_graph(source)
                    is_new = self._show_passes(source, pending is State.GRAPH_PENDING)
                    if is_new or describe or pending >= State.DETAILS_PENDING:
                        if self._changes:
                            self._mark(State.DETAILS_PENDING)
                        else:
                            self._describe(source)
                            fault = self._notice or source.fault or self._parts.first
                            self.set_trait("_fault", fault)
            except BaseException:
                self._mark(max(pending, State.PASS_PENDING))
                raise
            finally:
                self._is_refreshing = False

    def _pass_ended(self) -> None:
        """Show a pass of the program: when the program rests, or at once if somebody observes.

        A trait that is read and the end of a cell show it, too. Without an event loop it is sent at
        once, unless nobody listens.
        """
        self._mark(State.PASS_PENDING)
        if self._is_observed or (not self._idle.ask() and is_heard(self.comm)):
            self._refresh()

    def _show_when_idle(self) -> None:
        """The program rests: show what is pending."""
        try:
            if self._is_stale:
                self._refresh()
        except Exception as error:  # nobody could catch it
            self.set_trait("_fault", could_not("the backward pass", error))

    def _say(self, sentence: str | None) -> None:
        """Show an error in the picture, until the next one or another graph."""
        self._notice = sentence
        self.set_trait("_fault", sentence)

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
                if self._state is State.DETAILS_PENDING:
                    self._refresh(describe=False)

    @contextmanager
    def _as_it_is(self) -> Iterator[None]:
        """Within it reading a trait refreshes nothing: what is sent stays as it is."""
        with self._lock:
            before, self._is_refreshing = self._is_refreshing, True
            try:
                yield
            finally:
                self._is_refreshing = before

    def _open(self) -> _T:
        """Return what is shown; raise ValueError once the widget is closed."""
        self._refuse_closed()
        if self._is_stale:
            self._refresh(describe=False)
        assert self._source is not None
        return self._source

    def _refuse_closed(self) -> None:
        """Raise ValueError once the widget is closed."""
        if self._source is None:
            of, example = self._made_as
            raise ValueError(
                f"This {type(self).__name__} is closed and has let go of its {of}. Make a new one, "
                f"for example {example}."
            )

    def __repr__(self) -> str:
        if self._source is None:
            of, example = self._made_as
            return f"{type(self).__name__}(closed: make a new one to see the {of}, as in {example})"
        return f"{type(self).__name__}({self._summary(self._source)})"

    # ---- The cursor

    @grad_mode_kept
    def step(self, n: int = 1) -> None:
        """Move ``n`` steps on, at most to the end; the first call runs the real backward.

        Args:
            n (int, optional): How many. Default: ``1``.

        Raises:
            TypeError: ``n`` is not a whole number.
            ValueError: ``n`` is negative, or the widget is closed.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
            Exception: What `backward` raises.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.step()
            >>> widget.cursor, x.grad is None
            (1, True)
        """
        self._cursors.step(n)

    def step_back(self, n: int = 1) -> None:
        """Move ``n`` steps back, at most to the start.

        Args:
            n (int, optional): How many. Default: ``1``.

        Raises:
            TypeError: ``n`` is not a whole number.
            ValueError: ``n`` is negative, or the widget is closed.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.backward()
            >>> widget.step_back()
            >>> widget.cursor, x.grad is None
            (1, True)
        """
        self._cursors.step_back(n)

    def reset(self) -> None:
        """Move to the start: every ``.grad`` as before backward.

        Raises:
            ValueError: The widget is closed.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.backward()
            >>> widget.reset()
            >>> widget.cursor, x.grad is None
            (0, True)
        """
        self._cursors.reset()

    # ---- The graph

    @property
    def graph(self) -> nx.MultiDiGraph:
        """A copy of the graph, as `to_networkx` returns it; raises ValueError once closed."""
        return self.to_networkx()

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the captured graph; of a comparison, all graphs laid on top of each other.

        Returns:
            A copy of the graph, as `gradwalk.capture` gives it. A comparison has a node for each
            place in ``members``; nodes and edges have the attributes of the first graph that has
            them, and ``labels``, the graphs that have them.

        Raises:
            ValueError: The widget is closed.

        Example::

            >>> import torch
            >>> from gradwalk import compare
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> graph = compare({"square": x**2, "sine": x.sin()}).to_networkx()
            >>> [(data["op"], data["labels"]) for _, data in graph.nodes(data=True)][:2]
            [('PowBackward0', ['square']), ('AccumulateGrad', ['square', 'sine'])]
        """
        return self._networkx(self._open())

    @grad_mode_kept
    def expand(self, node: int | str) -> None:
        """Show what is inside of a node in its place: a double click on it does the same.

        A node that ``torch.compile`` made (``CompiledFunctionBackward``) opens into a box with the
        calls of its backward program, as it was before the backend fused it. Once a pass was
        recorded, their numbers are known: the program runs once more for that, call by call, unless
        it may run only once. Nothing is compiled.

        A node of a custom ``autograd.Function``, and one of a part checkpointed with
        ``use_reentrant=True``, opens into the operations that its backward ran, with what each
        gave, once this widget's `backward` has run through a graph that was watched.

        A comparison opens the node in each graph where it can be opened.

        Args:
            node (int | str): Its id, in a comparison its place in ``members``; or the name of its
                tensor.

        Raises:
            TypeError: ``node`` is neither an id nor a name.
            ValueError: It has nothing inside that can be shown, and why; or the widget is closed.
            RuntimeError: A backward pass is running.

        Example::

            >>> from gradwalk import GraphWidget
            >>> import torch
            >>> double = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
            >>> widget = GraphWidget(double(torch.ones(3, requires_grad=True)))
            >>> widget.expand(0)
            >>> [node["op"] for node in widget.model["nodes"] if node["kind"] == "call"]
            ['aten.mul.Tensor', 'aten.cos.default', 'aten.mul.Tensor']
        """
        self._turn(node, "expand")

    @grad_mode_kept
    def collapse(self, node: int | str) -> None:
        """Hide what is inside of a node again: a double click on the head of its box.

        Args:
            node (int | str): As for `expand`, or the id of something inside of the node.

        Raises:
            TypeError: ``node`` is neither an id nor a name.
            ValueError: It has nothing inside; or the widget is closed.
            RuntimeError: A backward pass is running.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> double = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
            >>> widget = GraphWidget(double(torch.ones(3, requires_grad=True)))
            >>> widget.expand(0)
            >>> widget.collapse(0)
            >>> len(widget.model["nodes"])
            2
        """
        self._turn(node, "collapse")

    @traitlets.validate("cursor", "selected", "_inner", "rank", "edits")
    def _check_trait(self, proposal: Any) -> Any:
        return self._validated(proposal["trait"].name, proposal["value"])

    @reacts("cursor", "_inner", "rank", "edits")
    @grad_mode_kept
    def _on_trait(self, change: Any) -> None:
        self._react(change["name"])

    @reacts("selected")
    @grad_mode_kept
    def _on_selected(self, _: Any) -> None:
        self._refresh()

    def _validated(self, trait: str, value: Any) -> Any:
        for controller in self._controllers:
            value = controller.validate(trait, value)
        return value

    def _react(self, trait: str) -> None:
        for controller in self._controllers:
            controller.react(trait)

    # ---- The browser

    def _on_message(self, _: Any, content: Any, __: Any) -> None:
        """Do what the browser asks for, in the main thread."""
        if isinstance(content, dict):
            self._main_thread.call(functools.partial(self._take_message, content))

    @grad_mode_kept
    def _take_message(self, content: dict[str, Any]) -> None:
        try:
            self._handle(content)
        except Exception as error:  # of the user's own code, which a button runs
            self.set_trait("_fault", why.failure(error))

    def _handle(self, message: dict[str, Any]) -> None:
        for controller in self._controllers:
            if controller.handle(message):
                return

    def open(self) -> None:
        """Open the channel to the browser (for ipywidgets), before anything is drawn."""
        with self._as_it_is():
            super().open()

    @property
    def model_id(self) -> str | None:
        """The widget's id in the browser (for ipywidgets), which is read to show it."""
        if self._is_stale:
            self._refresh(describe=False)
        return None if self.comm is None else str(self.comm.comm_id)

    def get_state(
        self,
        key: Any = None,
        drop_defaults: bool = False,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return the traits as a page or a notebook saves them (for ipywidgets).

        Args:
            key: A name or several; None for all.
            drop_defaults: Ignored: a page without a kernel does not know the defaults.
        """
        self._refresh()  # once, not at each trait that is read: they go together
        with self._as_it_is():
            # Names are whatever users chose, and messages are UTF-8.
            state: dict[str, Any] = well_formed(super().get_state(key))
            return state

    def send_state(self, key: Any = None) -> None:
        """Send traits to the browser (for ipywidgets).

        Args:
            key: A name or several; None for all.
        """
        if key is None:
            self._refresh()
        with self._as_it_is():
            super().send_state(key)

    def observe(self, handler: Any, names: Any = traitlets.All, type: Any = "change") -> None:  # noqa: A002
        """Call something when traits change (for traitlets).

        From then on a pass is shown as soon as it has ended: an observer reads nothing by itself.

        Args:
            handler: What to call.
            names: Which traits.
            type: Which kind of notification.
        """
        super().observe(handler, names=names, type=type)
        # What ipywidgets declares is about its channel. Our own reactions use `reacts`.
        declared_by = getattr(handler, "this_class", None)
        if declared_by is None or not issubclass(DrawingWidget, declared_by):
            self._is_observed = True

    @traitlets.default("_anywidget_id")
    def _class_id(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}"

    def add_traits(self, **traits: Any) -> None:
        """Add traits to this widget alone (for traitlets).

        anywidget adds its id, which is declared here: else each widget would get a class of its
        own, which takes longer than capturing a graph.

        Args:
            **traits: By name. Those that the class has are left out.
        """
        new = {name: trait for name, trait in traits.items() if not self.has_trait(name)}
        if new:
            super().add_traits(**new)

    if hasattr(anywidget.AnyWidget, "_ipython_display_"):

        def _ipython_display_(self, **kwargs: Any) -> None:
            """Show the widget, and its fallback without a kernel (for ipywidgets 7).

            Releases from 8 on ask for `_repr_mimebundle_` themselves.
            """
            shown: tuple[Any, Any] = self._repr_mimebundle_() or ({}, {})
            data, metadata = shown
            display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
            self._handle_displayed(**kwargs)

    # ---- For subclasses

    @abstractmethod
    def _make_controllers(self) -> Sequence[Controller[Any]]:
        """Return the controllers, in the order in which they get messages and news."""

    def _follow(self, source: _T) -> None:
        """Watch what runs through the graphs, and set the traits that the browser starts with."""

    @abstractmethod
    def _summary(self, source: _T) -> str:
        """Return what it shows, in a few words."""

    @abstractmethod
    def _networkx(self, source: _T) -> nx.MultiDiGraph:
        """Return a copy of the graph."""

    def _turn(self, node: int | str, how: Turn) -> None:
        """Open or close a node."""

    @abstractmethod
    def _graphs_shown(self) -> Mapping[str, Snapshot]:
        """Return the state of each graph that is shown, by its label."""

    @abstractmethod
    def _start(self) -> bool:
        """Run backward if no pass has been seen yet; return whether it did."""

    def _is_between_passes(self) -> bool:
        """Whether only some of the linked passes have run, so that there is nothing to show."""
        return False

    def _show_graph(self, source: _T) -> None:
        """Draw another graph."""

    @abstractmethod
    def _show_passes(self, source: _T, is_other: bool) -> bool:
        """Show new passes and steps, of another graph if it is; return whether anything is new."""

    def _describe(self, source: _T) -> None:
        """Describe what is selected, from the tensors as they are now."""

    def _forget(self) -> None:
        """Clear the traits that describe tensors: the widget closes."""
