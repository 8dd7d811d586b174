"""`GraphWidget`: the autograd graph behind a tensor, drawn in a notebook.

The widget has one controller for each concern. A message of the browser goes to the first that
handles it; another graph, a pass and a change of a trait go to all of them, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets

from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.recorded_pass import RecordedStep, read_max_bytes, saved_steps
from ..backward.run_backward import IF_POSSIBLE
from ..checks.finding import Finding, findings_from
from ..export import mime
from ..export.disk import bundle
from ..export.text import size_of
from ..graph.adjacency import collector_paused
from ..graph.arguments import MOST_NODES, find_node, read_id, read_most
from ..graph.names import caller_names
from ..lazily import nx
from ..plugins import Hook
from ..schema.details import DetailsModel
from ..sources.graph_source import (
    DiagnosisRequest,
    GraphSource,
    Snapshot,
    are_small,
    read_constants,
)
from ..sources.read_source import read_source
from ..torch_api.modes import grad_mode_kept
from ..types import Gradient, Inputs, Outputs, Program, RetainGraph, TensorNames
from .controllers import Controller, Turn
from .graph_controllers import (
    CursorController,
    DiagnosisController,
    OpenController,
    PassController,
    RankController,
    UpdateController,
)
from .graph_node import GraphNode, read_node
from .graph_traits import GraphTraits
from .inner_steps import InnerController
from .overlay_controller import OverlayController
from .stage import State
from .traits import Direction

CONTROLLERS: Hook[Callable[[GraphTraits], Controller[Any]]] = Hook()
"""What makes the controllers of features."""


class GraphWidget(GraphTraits):
    """The autograd graph of some tensors: drawn, clickable, with a cursor over backward.

    Looking never changes a gradient, the random state or the graph. `backward` and `step` run the
    real backward once; afterwards the cursor moves over what was recorded. The widget keeps the
    graph alive, so `close` it when done with a large one. `node` reads a node. ``model``,
    ``details``, ``state``, ``run``, ``transport``, ``effect`` and ``score`` are plain JSON for the
    front end, and provisional: their fields may change.

    Attributes:
        graph: The captured graph as networkx, a copy.
        model: The drawn graph, as plain JSON values. Read-only.
        selected: Id of the selected node, or None. Set it, call `select`, or click a node.
        details: The contents of the panel, for the selected node. If none is selected and the
            cursor is within the pass: for the node that ran last. Else None. Computed when it is
            read. Read-only.
        state: The backward passes so far. Read-only.
        steps: The backward pass that is shown, one `RecordedStep` per node that ran, in the
            engine's order. Read-only.
        cursor: Number of completed steps. Set it, or use `step`, `step_back` and `run_to`.
        inner: If the node of the last step is open, the number of completed calls inside of it; 0
            after all of the step. Set it, or use `step`. It changes the picture, and no ``.grad``.
        run: What flowed in that pass, in few numbers. Read-only.
        transport: Whether the cursor moves ``.grad``, and why not. Read-only.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left"; "auto"
            chooses the one that shows most.
        constants: Whether operands that need no grad are drawn, and where gradient was cut. Set it,
            or use the toolbar.
        edits: Changes of gradients on their way, in order: dicts with ``kind`` ("cut", "scale" or
            "replace"), ``edge`` ((consumer id, arg_nr), or the name of a tensor for all edges
            that flow to it) and ``value`` (the factor, or the numbers). An edit with ``off`` is not
            made. Edits with the same ``name`` belong together; with two names or more
            ``effect`` compares them. No ``.grad`` changes and no hook runs. Set it, or cut in the
            picture.
        effect: How the edits would change the gradients, as from `gradwalk.what_if`; None without
            edits. Read-only.
        findings: The findings of the last `diagnose` of the pass that is shown, each a `Finding`.
            Read-only.
        rank: The rank that is shown, of several that were loaded. Set it, or choose it.
        score: While a `quiz` is on, how many answers were right and wrong; else None. Read-only.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> h = w * 2
        >>> widget = GraphWidget(h)
        >>> widget
        GraphWidget(2 nodes, 1 edge, 1 leaf)
        >>> h.backward()
        >>> widget.node("w").grad
        tensor([2.])
        >>> widget.close()
    """

    # As text: a path would make anywidget keep every widget alive through its file watcher.
    _esm = traitlets.Unicode(bundle("widget.js")).tag(sync=True)
    _css = traitlets.Unicode(bundle("widget.css")).tag(sync=True)

    _made_as = "graph", "GraphWidget(loss)"
    _read_as: Mapping[str, Any] = {}  # the options of the constructor, for the next graphs

    def __init__(
        self,
        *outputs: Outputs | Program,
        names: TensorNames | None = None,
        direction: str | None = None,
        max_bytes: int = DEFAULT_BUDGET,
        constants: bool | None = None,
        max_nodes: int | None = MOST_NODES,
        stacklevel: int = 1,
    ) -> None:
        """Capture the graph and watch it.

        Args:
            *outputs (Outputs | Program): Tensors that require grad, gradient edges or autograd
                nodes, any number, also in lists, tuples and dicts (named by key). Or one static
                graph: what ``torch.export.export`` or ``torch.fx.symbolic_trace`` returned.
            names (TensorNames, optional): What to call tensors: a mapping from names to tensors or
                modules, or one module. By default names are looked up among the caller's variables,
                their items and attributes, and the closures of functions.
            direction (str, optional): Which way gradients flow in the drawing: "down", "right",
                "up" or "left"; "auto" chooses the one that shows most. None is "auto"; for a static
                graph "up", so that its data flows down.
            max_bytes (int, optional): Bytes of gradients to keep of each backward pass; beyond that
                only their statistics are kept. Default: ``2**28``, 256 MiB.
            constants (bool, optional): Whether to draw operands that need no grad, and cuts: those
                that `gradwalk.watch` saw, and those that can be inferred. None draws them in graphs
                of up to 200 nodes.
            max_nodes (int | None, optional): The most autograd nodes to draw; a graph of more
                raises a ValueError at once, rather than take minutes and gigabytes. None for any
                number. Default: ``200_000``.
            stacklevel (int, optional): The frame whose variables give names, as for
                ``warnings.warn``: 1 is the caller, and a function that wraps this one passes 2.
                Default: ``1``.

        Raises:
            TypeError: An output is of a kind that carries no autograd graph, ``names`` is not a
                mapping or module, ``max_bytes`` or ``max_nodes`` is not a whole number, or
                ``constants`` is neither True, False nor None.
            ValueError: No output was given, one does not require grad, ``direction`` is unknown, or
                the graph has more than ``max_nodes`` nodes.
        """
        if direction is not None:
            Direction().validate(self, direction)
        max_bytes = read_max_bytes(max_bytes)
        max_nodes = read_most(max_nodes)
        constants = read_constants(constants)
        self._read_as = {"infer": constants or None, "max_bytes": max_bytes, "max_nodes": max_nodes}
        named = names is not None
        with collector_paused():
            found = caller_names(names, "GraphWidget", stacklevel)
            source = read_source(outputs, found, "GraphWidget", named=named, **self._read_as)
            if constants is None:
                constants = are_small([source])
            self._begin(source, direction=direction or source.direction, constants=constants)

    @classmethod
    def _of(cls, source: GraphSource, **shown: Any) -> GraphWidget:
        """Make a widget of something that has been read already."""
        widget: GraphWidget = cls.__new__(cls)
        widget._begin(source, **shown)
        return widget

    def _make_controllers(self) -> Sequence[Controller[Any]]:
        self._inside = InnerController(self)
        self._cursors = CursorController(self, self._inside.move)
        self._updates = UpdateController(self)
        self._passes = PassController(self)
        self._nodes = OpenController(self, self._cursors, self._updates)
        self._diagnosis = DiagnosisController(self)
        return [
            self._inside,
            self._cursors,
            self._updates,
            self._passes,
            self._nodes,
            self._diagnosis,
            OverlayController(self),
            RankController(self, self._updates),
            *(make(self) for make in CONTROLLERS),
        ]

    def _follow(self, source: GraphSource) -> None:
        source.follow(self._updates.pass_ended)
        for controller in self._controllers:
            controller.on_source(source)
        source.read_now()
        self._stage.mark(State.GRAPH_PENDING)  # drawn as soon as somebody asks

    @grad_mode_kept
    def backward(
        self,
        gradient: Gradient | None = None,
        retain_graph: RetainGraph = IF_POSSIBLE,
        create_graph: bool = False,
        inputs: Inputs | None = None,
    ) -> None:
        """Run the real backward once, record it, and move the cursor to its end.

        Every ``.grad`` is then as after ``loss.backward()``. While nothing else changes a
        ``.grad``, moving the cursor moves them with it.

        Args:
            gradient (Gradient, optional): As for `gradwalk.record`; None for outputs of one number.
            retain_graph (RetainGraph, optional): Likewise. Default: ``"if_possible"``.
            create_graph (bool, optional): Likewise. Default: ``False``.
            inputs (Inputs, optional): The tensors to accumulate into; None for every leaf.

        Raises:
            TypeError: An argument is of the wrong kind.
            ValueError: ``gradient`` is missing or does not fit, or the widget is closed.
            RuntimeError: Tensors that backward needs were freed by an earlier one, or this
                widget's own backward is running.
            Exception: What backward itself raises, with a note where it happened. Every ``.grad``
                is then as it was before.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.backward(gradient=torch.ones(2))
            >>> x.grad
            tensor([6., 8.])
        """
        self._stage.refuse_closed()
        # After an update without a pass since, the graph is drawn once, with what flowed.
        source = self._open() if self._updates.has_run else self._source
        assert source is not None
        self._updates.has_run = True
        with self._cursors.own_pass():
            source.backward(
                gradient=gradient,
                retain_graph=retain_graph,
                create_graph=create_graph,
                inputs=inputs,
            )

    def select(self, name: int | str | None) -> None:
        """Select a node or the box of a module, as a click does.

        Args:
            name (int | str | None): The id of a node, the name of its tensor or of a module, or the
                words that the picture or a finding has for it. None selects nothing.

        Raises:
            TypeError: ``name`` is neither an id nor a name.
            ValueError: No node and no module is called so, or several are.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.select("x")
            >>> widget.selected
            1
        """
        self._nodes.select(name)

    @grad_mode_kept
    def node(self, name: int | str) -> GraphNode:
        """Read one node: its tensors, its gradients at the cursor, its module and line.

        Args:
            name (int | str): Its id, the name of its tensor, or the words that the picture or a
                finding has for it, such as "MulBackward0 (node 3)".

        Returns:
            A `GraphNode`.

        Raises:
            TypeError: ``name`` is neither an id nor a name.
            ValueError: No node is called so, or several are.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.backward()
            >>> widget.node("x").grad, widget.node("PowBackward0").value
            (tensor(6.), tensor(9.))
        """
        source = self._open()
        self._stage.refresh(describe=False)
        found = source.details(find_node(source.drawn, name))
        shown = self._masked("details", found)
        return read_node(source, shown, is_hidden=shown is not found)

    @property
    def steps(self) -> list[RecordedStep]:
        """The steps of the pass that is shown, in the engine's order; empty before any pass.

        A pass that was read from a file has no gradients as tensors.
        """
        models, source = self._steps, self._source
        recording = None if source is None else source.recording
        return saved_steps(models) if recording is None else recording.steps

    @property
    def findings(self) -> list[Finding] | None:
        """The findings of the last `diagnose` of the pass that is shown; None before."""
        models = self._findings
        return None if models is None else findings_from(models)

    @property
    def inner(self) -> int:
        """Number of calls that have run inside of the node of the last step; 0 after all.

        Raises:
            TypeError: It is set to something else than a whole number.
            ValueError: It is set to more calls than there are: a node that is not open has none.
            RuntimeError: It is set while a backward pass is running.
        """
        return self._inside.inner

    @inner.setter
    def inner(self, given: int) -> None:
        self._stage.refuse_closed()
        self._cursors.refuse_while_running("Moving within a step")
        self._inside.set_inner(given)

    def update(
        self, *outputs: Outputs | Program, names: TensorNames | None = None, stacklevel: int = 1
    ) -> None:
        """Show another graph in the same picture, as of the next iteration of a training loop.

        Nodes that both have, by structure and names, keep their places, as do the camera, the
        selection and folded boxes; new and removed nodes fade. Where only numbers changed
        nothing moves, and only numbers travel. The graph before is let go of, with its hooks.

        Call it between the forward pass and ``loss.backward()``, which the picture then follows.
        While a loop runs, at most 30 updates a second are drawn; each is there as soon as it is
        asked for, and the last when the program rests.

        Args:
            *outputs (Outputs | Program): The next graph: tensors that require grad, gradient edges
                or autograd nodes, any number, also in lists, tuples and dicts. Or one static graph.
            names (TensorNames, optional): As for `GraphWidget`; None for the caller's variables.
            stacklevel (int, optional): As for `GraphWidget`. Default: ``1``.

        Raises:
            TypeError: As for `GraphWidget`. The picture stays as it is then.
            ValueError: As for `GraphWidget`, or the widget is closed.
            RuntimeError: This widget's own backward is running.

        Example::

            >>> from gradwalk import GraphWidget
            >>> import torch
            >>> w = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(w**2)
            >>> for _ in range(2):
            ...     loss = (w - 1) ** 2
            ...     widget.update(loss)
            ...     loss.backward()
            >>> widget
            GraphWidget(3 nodes, 2 edges, 1 leaf)
        """
        self._stage.refuse_closed()
        self._cursors.refuse_while_running("update()")
        found = caller_names(names, "update", stacklevel)
        source = read_source(outputs, found, "update", named=names is not None, **self._read_as)
        self._updates.replace(source)

    # ---- What `DrawingWidget` asks for

    def _run_to(self, node: int | str) -> None:
        source = self._open()
        if not self._inside.is_call(node):
            find_node(source.graph, node)
        self._cursors.refuse_while_running("run_to()")
        with self._stage.change():
            self._start()
            if source.recorded is not None:  # None when the widget was closed meanwhile
                self._inside.run_to(source, node)

    def _diagnosed(self, request: DiagnosisRequest) -> list[Finding]:
        return self._diagnosis.diagnose(request)

    def _networkx(self, source: GraphSource) -> nx.MultiDiGraph:
        return source.to_networkx()

    def _turn(self, node: int | str, how: Turn) -> None:
        self._nodes.turn(node, how)

    def _summary(self, source: GraphSource) -> str:
        return size_of(source.graph)

    def __str__(self) -> str:
        if self._source is None or self._quiz is not None:  # a quiz is not given away
            return repr(self)
        return mime.text_of(repr(self), self._shown())

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if self._source is None or self._quiz is not None:
            return found
        return mime.with_fallbacks(found, repr(self), self._shown())

    def _graphs_shown(self) -> dict[str, Snapshot]:
        return {"": self._shown()}

    def _shown(self) -> Snapshot:
        """Return what is shown now; see `gradwalk.sources.graph_source.TakesSnapshots`."""
        self._stage.refresh()
        seen = self.direction, self.constants, self.selected, self._findings
        return Snapshot(self._open(), *seen, inner=self.inner)

    def _validated(self, trait: str, value: Any) -> Any:
        if trait != "selected" or value is None:
            return super()._validated(trait, value)
        total = len(self._open().drawn)
        instead = f"Give it the id of a node, 0 to {total - 1}, or None."
        return read_id(value, "selected was given ", total, instead)

    def _start(self) -> bool:
        source = self._open()
        self._stage.refresh(describe=False)
        if source.recorded is not None:
            return False
        self.backward()
        return True

    def _show_graph(self, source: GraphSource) -> None:
        self._updates.draw(source)
        for controller in self._controllers:
            controller.on_graph(source)

    def _show_passes(self, source: GraphSource, is_other: bool) -> bool:
        is_new = self._passes.is_new(source) or is_other
        is_reopened = self._updates.is_drawn_otherwise(source)
        if is_reopened:  # what is open of it is what the pass ran
            self._updates.draw_again(source)
        if is_new:
            for controller in self._controllers:
                controller.on_pass(source)
            self._passes.show(source, is_other)
        else:
            self._passes.show_changes(source)
        self._passes.show_transport(source)
        return is_new or is_reopened

    def _describe(self, source: GraphSource) -> None:
        def details() -> DetailsModel | None:
            node = self.selected
            if node is None:
                node = self._inside.running_node  # the panel follows what runs
            if node is None:
                return None
            found = source.details(node, self._inside.cursor_of(node))
            masked: DetailsModel = self._masked("details", found)
            return masked

        self.set_trait("details", self._stage.parts.build("the selected node", details, None))
        self._passes.show_lost(source)
        for controller in self._controllers:
            controller.describe(source)

    def _forget(self) -> None:
        self.set_trait("details", None)

    def _should_send_property(self, key: str, value: Any) -> bool:
        """Whether a change of a trait is sent to the browser (for ipywidgets)."""
        if key == "model" and not self._updates.sends_graph:
            return False
        return bool(super()._should_send_property(key, value))


GraphWidget._lists_own_names = True
