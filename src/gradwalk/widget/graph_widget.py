"""`GraphWidget`: the autograd graph behind a tensor, drawn in a notebook."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from typing import Any

import networkx as nx
import torch
import traitlets

from .. import notebook
from ..backward.kept import DEFAULT_BUDGET
from ..backward.recording import Recording, find_node, read_budget
from ..files import export, mime
from ..files.html import to_html
from ..files.save import Opener
from ..forward.annotate import MOST_INFERRED, annotate
from ..graph.capture import MOST_NODES, Capture, capture_nodes, read_most
from ..graph.collector import collector_paused
from ..graph.modes import grad_mode_kept, unseen
from ..graph.names import Names, names_among, read_names
from ..graph.outputs import read_outputs
from ..modules.module_classes import classes_of_modules
from ..modules.namespaces import inferred_namespaces
from ..program.kinds import only_program
from ..subject.diagnose import diagnose
from ..subject.follower import Follower
from ..subject.model import MOST_SHOWN, dtypes_model, graph_model, modules_model, run_model
from ..subject.shown import shown_static
from ..subject.static_follower import StaticFollower
from ..wire import (
    DetailsModel,
    DtypesModel,
    FindingModel,
    GraphModel,
    MemoryModel,
    RunModel,
    StateModel,
    StepModel,
    TransportModel,
)
from .stepping import SteppingWidget
from .traits import TRAVELS, Direction, Fresh


class GraphWidget(SteppingWidget):
    """The autograd graph behind some tensors: drawn, clickable, and stepping through backward.

    Looking never changes a gradient, the random state or the graph; `backward` and `step` run the
    real backward once and then travel in its time. The widget keeps the graph alive, so `close` it
    when done with a large one.

    Attributes:
        graph: What is drawn, as plain JSON values (see `gradwalk.wire.GraphModel`). Read-only.
        selected: Id of the selected node, or None. Set it, or click a node.
        details: What the panel shows of the selected node (see `gradwalk.wire.DetailsModel`), or
            None. Up to date whenever it is read. Read-only.
        state: What has been seen of backward (see `gradwalk.wire.StateModel`). Read-only.
        steps: The backward pass that is shown, one dict per node that ran, in the engine's order
            (see `gradwalk.wire.StepModel`). Read-only.
        cursor: After how many of the steps we stand. Set it, or use `step` and its like.
        run: What flowed in that pass, in few numbers (see `gradwalk.wire.RunModel`). Read-only.
        transport: Whether the cursor moves ``.grad``, and why not (see
            `gradwalk.wire.TransportModel`). Read-only.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left".
        constants: Whether operands that need no grad are drawn, and where gradient was cut. Set it,
            or use the toolbar.
        dtypes: The dtype of every node (see `gradwalk.wire.DtypesModel`). Read-only.
        memory: The bytes held for backward (see `gradwalk.wire.MemoryModel`), once the browser has
            asked for them. Read-only.
        findings: What `gradwalk.diagnose` found in the pass that is shown (see
            `gradwalk.wire.FindingModel`), once it was asked. Read-only.
        fault: A sentence when something went wrong that the browser should show, or None.

    Example::

        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> h = w * 2
        >>> widget = GraphWidget(h)
        >>> widget
        GraphWidget(2 nodes, 1 edge, 1 leaf)
        >>> h.backward()
        >>> widget.selected = 1
        >>> widget.details["name"], widget.details["grad"]["values"]
        ('w', [2.0])
        >>> widget.close()

    Step by step::

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> widget = GraphWidget(x**2 + x)
        >>> widget.step(2)
        >>> [step["op"] for step in widget.steps[: widget.cursor]], x.grad
        (['AddBackward0', 'PowBackward0'], None)
        >>> widget.run_to("x")
        >>> x.grad
        tensor(7.)
    """

    graph: GraphModel = traitlets.Dict(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    details: DetailsModel | None = Fresh(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    state: StateModel = Fresh(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    steps: list[StepModel] = Fresh([], read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    run: RunModel | None = Fresh(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    transport: TransportModel = Fresh(read_only=True).tag(sync=True)  # type: ignore[assignment]
    constants = traitlets.Bool(True).tag(sync=True)
    dtypes: DtypesModel | None = traitlets.Any(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    memory: MemoryModel | None = traitlets.Any(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    findings: list[FindingModel] | None = traitlets.Any(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]

    _follower: Follower | StaticFollower | None = None  # None before the start and once closed
    _shown: Recording | None = None  # the one that `steps`, `run` and `cursor` are of

    def __init__(
        self,
        *outputs: Any,
        names: Mapping[str, Any] | torch.nn.Module | None = None,
        direction: str | None = None,
        budget: int = DEFAULT_BUDGET,
        constants: bool | None = None,
        max_nodes: int | None = MOST_NODES,
    ) -> None:
        """Capture the graph and watch it.

        Args:
            *outputs: Tensors that require grad, ``GradientEdge``s or autograd ``Node``s, any
                number, also in lists, tuples and dicts (named by key). Or one static graph: what
                ``torch.export.export`` or ``torch.fx.symbolic_trace`` returned.
            names: What to call tensors: a mapping from names to tensors or modules, or one module.
                By default names are looked up among the caller's variables.
            direction: Which way gradients flow in the drawing: "down", "right", "up" or "left".
                None is down; for a static graph up, so that its data flows down.
            budget: Bytes of gradients to keep of each backward pass; beyond that only their
                statistics are kept.
            constants: Whether to draw operands that need no grad, and cuts: those that
                `gradwalk.watch` saw, and those that can be inferred. None draws them in graphs of
                up to 200 nodes.
            max_nodes: The most autograd nodes to draw; a graph of more raises a ValueError at once,
                rather than take minutes and gigabytes. None for any number.

        Raises:
            TypeError: An output is of a kind that carries no autograd graph, ``names`` is not a
                mapping or module, ``budget`` or ``max_nodes`` is no whole number, or ``constants``
                is neither True, False nor None.
            ValueError: No output was given, one does not require grad, ``direction`` is unknown, or
                the graph has more than ``max_nodes`` nodes.
        """
        if direction is not None:
            Direction().validate(self, direction)
        budget = read_budget(budget)
        max_nodes = read_most(max_nodes)
        if constants not in (True, False, None):
            raise TypeError(
                f"constants was given {constants!r}. Give it True to draw operands that need no "
                "grad, False to leave them out, or None to draw them in small graphs only."
            )
        program = only_program(outputs)
        if program is not None:
            follower, model, shown = shown_static(program, names, direction, constants)
            self._show(follower, model, **shown)
            return
        given = read_outputs(outputs, "GraphWidget")
        if names is None:
            found = names_among(notebook.caller_variables(sys._getframe(1)))
        else:
            found = read_names(names, "GraphWidget")
        with collector_paused(), unseen():
            plain = capture_nodes(given, found, max_nodes)
            self._show_captured(plain, found, direction, constants, budget)

    @grad_mode_kept
    def _show_captured(
        self,
        plain: Capture,
        found: Names,
        direction: str | None,
        constants: bool | None,
        budget: int,
    ) -> None:
        """Show the graph behind some tensors."""
        infer = bool(constants) or len(plain.graph) <= MOST_INFERRED
        captured = annotate(plain, found, infer=infer)
        graph = captured.drawn
        if constants is None:
            constants = len(graph) <= MOST_SHOWN

        namespaces = inferred_namespaces(captured, found)
        modules = modules_model(classes_of_modules(captured, found, namespaces))
        self._show(
            Follower(captured, self._refresh, budget, namespaces=namespaces),
            graph_model(graph, namespaces, modules),
            direction=direction or "down",
            constants=constants,
        )

    def _show(self, follower: Follower | StaticFollower, graph: GraphModel, **shown: Any) -> None:
        """Show a graph, and what its follower has seen."""
        self._follower = follower

        def fill() -> None:
            self.set_trait("graph", graph)
            self.set_trait("dtypes", dtypes_model(follower.captured.drawn))
            self.set_trait("state", follower.state())
            self.set_trait("transport", follower.transport())

        self._begin(fill, **shown)

    @grad_mode_kept
    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Run the real backward once, record it, and stand at its end.

        Every ``.grad`` is then as after ``loss.backward()``. While nothing else changes a
        ``.grad``, moving the cursor moves them with it.

        Args:
            gradient: What to start from, as for ``Tensor.backward``: a tensor of the output's
                shape, or a list of them, one per output. None for outputs of one number.
            retain_graph: Whether the nodes keep their saved tensors, so that backward can run
                again. None keeps them, unless a compiled part of the graph can run only once.
            create_graph: Whether the gradients get a graph of their own.
            inputs: The tensors to accumulate into; None for every leaf.

        Raises:
            TypeError: ``gradient`` or ``inputs`` is of the wrong kind.
            ValueError: ``gradient`` is missing or does not fit, or the widget is closed.
            RuntimeError: Tensors that backward needs were freed by an earlier one, or this
                widget's own backward is running.
            Exception: What backward itself raises, with a note where it happened. Every ``.grad``
                is then as it was before.
        """
        follower = self._open()
        with self._own_pass():
            follower.backward(
                gradient=gradient,
                retain_graph=retain_graph,
                create_graph=create_graph,
                inputs=inputs,
            )

    @grad_mode_kept
    def run_to(self, node: int | str) -> None:
        """Move to where a node has just run; runs the real backward if there was none yet.

        Args:
            node: Its id, or the name of its tensor.

        Raises:
            TypeError: ``node`` is neither.
            ValueError: No node is called so, several are, or it did not run in this pass.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
            Exception: What `backward` raises.
        """
        follower = self._open()
        find_node(follower.captured.graph, node)
        self._refuse_while_running("run_to()")
        with self.hold_sync():
            self._started()
            if follower.recording is not None:  # None when the widget was closed meanwhile
                self.cursor = follower.recording.find(node)

    def to_networkx(self) -> nx.MultiDiGraph:
        """The captured graph, as `gradwalk.capture` gives it.

        Returns:
            A copy; changing it does not change the widget.

        Raises:
            ValueError: The widget is closed.
        """
        return self._open().captured.watched()

    to_svg = export.to_svg
    to_png = export.to_png
    to_pdf = export.to_pdf
    to_html = to_html
    to_json = export.to_json
    to_dot = export.to_dot
    open = Opener()

    def __repr__(self) -> str:
        if self._follower is None:
            return "GraphWidget(closed: make a new one to see the graph, as in GraphWidget(loss))"
        graph = self._follower.captured.graph
        leaves = sum(kind == "leaf" for _, kind in graph.nodes(data="kind"))
        counts = [(len(graph), "node"), (graph.number_of_edges(), "edge"), (leaves, "leaf")]
        if graph.graph.get("static"):
            counts[2] = leaves, "input"
            return f"GraphWidget(static graph: {', '.join(_counted(*count) for count in counts)})"
        return f"GraphWidget({', '.join(_counted(*count) for count in counts)})"

    def __str__(self) -> str:
        return mime.text_of(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return mime.with_fallbacks(self, super()._repr_mimebundle_(**kwargs))

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> int | None:
        value = proposal["value"]
        if value is None:
            return None
        total = len(self._open().captured.drawn)
        try:
            node = operator.index(value)
        except TypeError:
            raise TypeError(
                f"selected was given {value!r}, of type {type(value).__name__}. Give it the id of "
                f"a node, 0 to {total - 1}, or None."
            ) from None
        if not 0 <= node < total:
            raise ValueError(
                f"selected was given {node}, but this graph has nodes 0 to {total - 1} only."
            )
        return node

    def _started(self) -> bool:
        follower = self._open()
        self._refresh()
        if follower.recording is not None:
            return False
        self.backward()
        return True

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") == "diagnose":
            diagnose(self)
        elif asked.get("kind") == "memory":
            self.set_trait("memory", self._open().memory())
        else:
            super()._answer(asked)

    def _go(self, cursor: int) -> None:
        recording = None if self._follower is None else self._follower.recording
        if recording is not None and recording.cursor != cursor:
            recording.travel(cursor)

    def _stands_at(self) -> int:
        recording = None if self._follower is None else self._follower.recording
        return 0 if recording is None else recording.cursor

    def _open(self) -> Follower | StaticFollower:
        if self._follower is None:
            raise ValueError(
                "This GraphWidget is closed and has let go of its graph. Make a new one, for "
                "example GraphWidget(loss)."
            )
        return self._follower

    def _let_go(self) -> None:
        if self._follower is None:
            return
        with self._lock:
            follower, self._follower, self._shown = self._follower, None, None
            if follower is not None:  # else closed while we waited
                follower.close()
                getattr(self, "_stop_refreshing", lambda: None)()
                self.set_trait("details", None)
                self.set_trait("selected", None)

    @grad_mode_kept
    def _refresh(self) -> None:
        if self._refreshing:
            return
        with self._lock:
            follower = self._follower
            if follower is None:
                return
            self._refreshing = True
            self._part_fault = None
            try:
                with self.hold_sync(), unseen():  # what changed goes out as one message
                    self._refresh_run(follower)
                    details = self._part(
                        f"Node {self.selected}", lambda: follower.describe(self.selected), None
                    )
                    self.set_trait("details", details)
                    self.set_trait("fault", follower.observer.fault or self._part_fault)
            finally:
                self._refreshing = False

    def _refresh_run(self, follower: Follower | StaticFollower) -> None:
        if follower.notice() or follower.recording is not self._shown:
            self._show_pass(follower)
        transport = self._part("What stepping does", follower.transport, self.transport)
        self.set_trait("transport", transport)

    def _show_pass(self, follower: Follower | StaticFollower) -> None:
        """Show what is new: a pass that has ended, whether or not we go to it."""
        self.set_trait("state", self._part("What has flowed", follower.state, self.state))
        self.set_trait("findings", None)  # they were about another pass
        if self.memory is not None:
            self.set_trait("memory", self._part("The memory held", follower.memory, None))
        recording = follower.recording
        if recording is not None and recording is not self._shown:
            self.set_trait("steps", recording.models)
            self.cursor = recording.cursor
            run = self._part("What flowed", lambda: run_model(recording), None)
            self.set_trait("run", run)
        self._shown = recording


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {'leaves' if noun == 'leaf' else noun + 's'}"
