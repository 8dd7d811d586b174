"""`DrawingWidget`: a widget that brings its picture up to date when somebody looks.

Its `Stage` has the graph, and draws; the widget has the traits, and the channel to the browser.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import anywidget
import torch
import traitlets
from IPython.display import display

from ..checks.run_checks import Limits
from ..explain import describe_node as why
from ..export import pictures
from ..graph.names import caller_names
from ..hosts.event_loop import MainThread, is_heard
from ..hosts.this_host import this_host
from ..lazily import nx
from ..schema.json_values import well_formed
from ..sources.diagnose import read_optimizers
from ..sources.graph_source import DiagnosisRequest, Snapshot
from ..torch_api.compiled import refuse_while_compiling
from ..torch_api.modes import grad_mode_kept
from ..types import TensorNames
from .controllers import Controller, Turn
from .stage import Stage, WidgetSource
from .traits import Constants, Cursor, Direction, OwnNames, reacts

_T = TypeVar("_T", bound=WidgetSource)
_F = TypeVar("_F")  # what `diagnose` returns


class DrawingWidget(anywidget.AnyWidget, Generic[_T, _F], metaclass=OwnNames):
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

    _stage: Stage[_T]
    _controllers: Sequence[Controller[Any]] = ()
    _cursors: Any  # the CursorController among them
    _lists_own_names = False  # set on a whole class: see `OwnNames`

    to_svg, to_png, to_pdf = pictures.to_svg, pictures.to_png, pictures.to_pdf
    to_html, to_json, to_dot = pictures.to_html, pictures.to_json, pictures.to_dot
    embed = pictures.embed

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a widget that shows nothing yet."""
        if args or kwargs:  # traitlets fails with them under Dynamo
            refuse_while_compiling(cls.__name__)
        return super().__new__(cls, *args, **kwargs)

    def setup_instance(self, *args: Any, **kwargs: Any) -> None:
        """Begin with the stage (for traitlets): a user's class may observe traits from the start.

        Args:
            *args: As traitlets gives them.
            **kwargs: Likewise.
        """
        self._stage = Stage(self)
        super().setup_instance(*args, **kwargs)

    def _begin(self, source: _T, **shown: Any) -> None:
        """Show something: open the channel to the browser.

        The drawing itself follows when the program rests, or earlier, when somebody asks. Where no
        event loop runs and somebody listens, it follows at once. ``shown``: traits that the browser
        starts with, and may change.
        """
        stage = self._stage
        self._stop_cells: Callable[[], None] = lambda: None
        self._controllers = self._make_controllers()
        stage.source = source
        try:
            self._follow(source)
            super().__init__(**shown)
        except BaseException:
            self._let_go()
            raise
        self._main_thread = MainThread()
        self.on_msg(self._on_message)
        self._stop_cells = this_host().after_each_cell(stage.refresh)
        if stage.is_stale and not stage.idle.ask() and is_heard(self.comm):
            stage.refresh()
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
        stage = self._stage
        with stage.lock:
            source, stage.source = stage.source, None
            if source is not None:  # else closed before
                source.close()
                self._stop_cells()
                for controller in self._controllers:
                    controller.close()
                self._forget()
                self.set_trait("selected", None)

    @property
    def _source(self) -> _T | None:
        """The contents of the widget; None before `_begin` and after `close`."""
        return self._stage.source

    def _open(self) -> _T:
        """Return what is shown; raise ValueError once the widget is closed."""
        return self._stage.open()

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

    @grad_mode_kept
    def run_to(self, node: int | str) -> None:
        """Move to where a node has just run; runs the real backward if there was none yet.

        Args:
            node (int | str): Its id, in a comparison its place in ``members``; or the name of its
                tensor.

        Raises:
            TypeError: ``node`` is neither.
            ValueError: No node is called so, several are, or it did not run in this pass.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
            Exception: What `backward` raises.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.run_to("x")
            >>> x.grad
            tensor(6.)
        """
        self._run_to(node)

    # ---- The graph

    def diagnose(
        self,
        *,
        names: TensorNames | None = None,
        optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        vanishing: float = 1e-4,
        exploding: float = 1e4,
        dead: float = 0.9,
        largest: int = 5,
        stacklevel: int = 1,
    ) -> _F:
        """Find common problems of gradients. A `GraphWidget` lists them under the picture, too.

        Args:
            names (TensorNames, optional): As for `gradwalk.diagnose`; None likewise.
            optimizer (torch.optim.Optimizer | Iterable[torch.optim.Optimizer], optional): Likewise.
                None for no check of it.
            vanishing (float, optional): Likewise. Default: ``1e-4``.
            exploding (float, optional): Likewise. Default: ``1e4``.
            dead (float, optional): Likewise. Default: ``0.9``.
            largest (int, optional): Likewise. Default: ``5``.
            stacklevel (int, optional): Likewise. Default: ``1``.

        Returns:
            The findings, the most severe first. A comparison returns a dict: the label of each
            graph, and its findings.

        Raises:
            TypeError: ``optimizer`` is not an optimizer, or a threshold is not a number.
            ValueError: A threshold is out of range, the widget is closed, or a graph is static.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget, compare
            >>> x = torch.zeros(3, requires_grad=True)
            >>> widget = GraphWidget(x.sqrt().sum())
            >>> widget.backward()
            >>> [finding.kind for finding in widget.diagnose()]
            ['nan']
            >>> y = torch.zeros(3, requires_grad=True)
            >>> both = compare({"root": y.sqrt().sum(), "square": y.square().sum()})
            >>> both.backward()
            >>> {label: [each.kind for each in found] for label, found in both.diagnose().items()}
            {'root': ['nan'], 'square': ['zero']}
        """
        request = DiagnosisRequest(
            caller_names(names, "diagnose", stacklevel),
            Limits(vanishing, exploding, dead, largest),
            names is not None,
            read_optimizers(optimizer),
        )
        return self._diagnosed(request)

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
        self._stage.refresh()

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
        with self._stage.as_it_is():
            super().open()

    @property
    def model_id(self) -> str | None:
        """The widget's id in the browser (for ipywidgets), which is read to show it."""
        if self._stage.is_stale:
            self._stage.refresh(describe=False)
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
        self._stage.refresh()  # once, not at each trait that is read: they go together
        with self._stage.as_it_is():
            # Names are whatever users chose, and messages are UTF-8.
            state: dict[str, Any] = well_formed(super().get_state(key))
            return state

    def send_state(self, key: Any = None) -> None:
        """Send traits to the browser (for ipywidgets).

        Args:
            key: A name or several; None for all.
        """
        if key is None:
            self._stage.refresh()
        with self._stage.as_it_is():
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
            self._stage.is_observed = True

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

    @abstractmethod
    def _diagnosed(self, request: DiagnosisRequest) -> _F:
        """Return the findings of each graph."""

    @abstractmethod
    def _run_to(self, node: int | str) -> None:
        """Move to where a node has just run."""

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
