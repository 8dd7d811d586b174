"""`GraphWidget`: the autograd graph behind a tensor, drawn in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import traitlets

from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.recorded_pass import find_node, read_max_bytes
from ..bundle import bundle
from ..export import mime
from ..export import pictures as export
from ..export.html import to_html
from ..export.text import size_of
from ..graph.capture import MOST_NODES, read_most
from ..graph.garbage_collector import collector_paused
from ..graph.integers import read_int
from ..graph.names import caller_names
from ..schema import DetailsModel, RunModel, ShareModel, StateModel, StepModel, TransportModel
from ..sources.graph_source import GraphSource
from ..sources.read_source import read_source
from ..sources.snapshot import Snapshot, are_small, read_constants
from ..torch_api.modes import grad_mode_kept
from ..torch_api.saved_tensors import saved_read_once
from .diagnosing import Diagnosing
from .edit_controller import Surgery
from .quiz_controller import QuizzingWidget
from .traits import TRAVELS, Direction, OfPass, OfTensors, masked

if TYPE_CHECKING:
    import networkx as nx


class GraphWidget(Surgery, Diagnosing, QuizzingWidget):
    """The autograd graph behind some tensors: drawn, clickable, and stepping through backward.

    Looking never changes a gradient, the random state or the graph; `backward` and `step` run the
    real backward once and then travel in its time. The widget keeps the graph alive, so `close` it
    when done with a large one.

    Attributes:
        graph: What is drawn, as plain JSON values (see `gradwalk.schema.GraphModel`). Read-only.
        selected: Id of the selected node, or None. Set it, or click a node.
        details: What the panel shows (see `gradwalk.schema.DetailsModel`): of the selected node;
            or,
            while none is and backward is being stepped through, of the node that ran last; else
            None. Up to date whenever it is read. Read-only.
        state: What has been seen of backward (see `gradwalk.schema.StateModel`). Read-only.
        steps: The backward pass that is shown, one dict per node that ran, in the engine's order
            (see `gradwalk.schema.StepModel`). Read-only.
        cursor: After how many of the steps we stand. Set it, or use `step` and its like.
        inner: Where the node that the last of them ran is open: after how many of the calls inside
            of it we stand, in the order in which they ran; 0 after all of the step. Set it, or use
            `step` and its like. What it changes is the picture alone, and no ``.grad``.
        run: What flowed in that pass, in few numbers (see `gradwalk.schema.RunModel`). Read-only.
        transport: Whether the cursor moves ``.grad``, and why not (see
            `gradwalk.schema.TransportModel`). Read-only.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left"; "auto"
            chooses the one that shows most.
        constants: Whether operands that need no grad are drawn, and where gradient was cut. Set it,
            or use the toolbar.
        edits: What is changed about gradients on their way, in order: dicts with ``kind`` ("cut",
            "scale" or "replace"), ``edge`` ((consumer id, input_nr), or the name of a tensor),
            ``value`` and, to compare them, ``name`` and ``off``. Set it, or cut in the picture.
        what_if: What would come of them, as `gradwalk.what_if` tells it (see
            `gradwalk.schema.WhatIfModel`); None without edits. Read-only.
        findings: What `gradwalk.diagnose` found in the pass that is shown (see
            `gradwalk.schema.FindingModel`), once it was asked. Read-only.
        rank: Of several ranks that were loaded, the one that is shown. Set it, or choose it.
        score: While a `quiz` is on, how many answers were right and wrong (see
            `gradwalk.schema.ScoreModel`); else None. Read-only.

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

    # As text: a path would make anywidget keep every widget alive through its file watcher.
    _esm = traitlets.Unicode(bundle("widget.js")).tag(sync=True)
    _css = traitlets.Unicode(bundle("widget.css")).tag(sync=True)

    details: DetailsModel | None = OfTensors(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    state: StateModel = OfPass(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    steps: list[StepModel] = OfPass([], read_only=True).tag(**masked("steps"))  # type: ignore[assignment]
    run: RunModel | None = OfPass(None, read_only=True).tag(**masked("run"))  # type: ignore[assignment]
    transport: TransportModel = OfPass(read_only=True).tag(sync=True)  # type: ignore[assignment]

    _made_as = "graph", "GraphWidget(loss)"
    _recorded: object | None = None  # the pass that `steps`, `run` and `cursor` are of

    def __init__(
        self,
        *outputs: Any,
        names: Mapping[str, Any] | torch.nn.Module | None = None,
        direction: str | None = None,
        max_bytes: int = DEFAULT_BUDGET,
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
            direction: Which way gradients flow in the drawing: "down", "right", "up" or "left";
                "auto" chooses the one that shows most. None is "auto"; for a static graph "up", so
                that its data flows down.
            max_bytes: Bytes of gradients to keep of each backward pass; beyond that only their
                statistics are kept.
            constants: Whether to draw operands that need no grad, and cuts: those that
                `gradwalk.watch` saw, and those that can be inferred. None draws them in graphs of
                up to 200 nodes.
            max_nodes: The most autograd nodes to draw; a graph of more raises a ValueError at once,
                rather than take minutes and gigabytes. None for any number.

        Raises:
            TypeError: An output is of a kind that carries no autograd graph, ``names`` is not a
                mapping or module, ``max_bytes`` or ``max_nodes`` is no whole number, or
                ``constants`` is neither True, False nor None.
            ValueError: No output was given, one does not require grad, ``direction`` is unknown, or
                the graph has more than ``max_nodes`` nodes.
        """
        if direction is not None:
            Direction().validate(self, direction)
        max_bytes = read_max_bytes(max_bytes)
        max_nodes = read_most(max_nodes)
        constants = read_constants(constants)
        self._read_as = {
            "infer": constants or None,
            "max_bytes": max_bytes,
            "max_nodes": max_nodes,
        }
        named = names is not None
        with collector_paused(), saved_read_once():
            found = caller_names(names, "GraphWidget")
            subject = read_source(outputs, found, "GraphWidget", named=named, **self._read_as)
            if constants is None:
                constants = are_small([subject])
            self._show(subject, direction=direction or subject.direction, constants=constants)

    @classmethod
    def _of(cls, subject: GraphSource, **shown: Any) -> GraphWidget:
        """A widget of something that is there already."""
        widget = cls.__new__(cls)
        widget._show(subject, **shown)
        return widget

    def _show(self, subject: GraphSource, **shown: Any) -> None:
        """Show a graph, and what has been seen of backward through it."""
        self._begin(subject, **shown)

    def _follow(self, subject: GraphSource) -> None:
        subject.follow(self._pass_ended)
        subject.read_now()
        self._unshown = True  # all that is sent of it can wait until somebody asks

    def _up_to_date(self) -> GraphSource:
        self._refresh()
        return self._open()

    def _shown(self) -> Snapshot:
        """What is shown now; see `gradwalk.sources.snapshot.TakesSnapshots`."""
        subject = self._up_to_date()
        told = self.direction, self.constants, self.selected, self.findings
        return Snapshot(subject, *told, inner=self.inner)

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
            TypeError: An argument is of the wrong kind.
            ValueError: ``gradient`` is missing or does not fit, or the widget is closed.
            RuntimeError: Tensors that backward needs were freed by an earlier one, or this
                widget's own backward is running.
            Exception: What backward itself raises, with a note where it happened. Every ``.grad``
                is then as it was before.
        """
        self._refuse_closed()
        # After an update without a pass since, the graph is shown once, with what flowed.
        subject = self._open() if self._passed else self._behind
        assert subject is not None
        self._passed = True
        with self._own_pass():
            subject.backward(
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
        subject = self._open()
        if not self._is_call(node):
            find_node(subject.graph, node)
        self._refuse_while_running("run_to()")
        with self._change():
            self._started()
            if subject.recorded is not None:  # None when the widget was closed meanwhile
                self._stand(*self._find(subject, node))

    def to_networkx(self) -> nx.MultiDiGraph:
        """The captured graph, as `gradwalk.capture` gives it.

        Returns:
            A copy; changing it does not change the widget.

        Raises:
            ValueError: The widget is closed.
        """
        return self._open().to_networkx()

    to_svg = export.to_svg
    to_png = export.to_png
    to_pdf = export.to_pdf
    to_html = to_html
    to_json = export.to_json
    to_dot = export.to_dot

    def _summary(self, subject: GraphSource) -> str:
        return size_of(subject.graph)

    def __str__(self) -> str:
        if self._behind is None or self._quiz is not None:  # a quiz is not given away
            return repr(self)
        return mime.text_of(repr(self), self._shown())

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if self._behind is None or self._quiz is not None:
            return found
        return mime.with_fallbacks(found, repr(self), self._shown())

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> int | None:
        value = proposal["value"]
        if value is None:
            return None
        total = len(self._open().drawn)
        instead = f"Give it the id of a node, 0 to {total - 1}, or None."
        node = read_int(value, "selected was given ", instead)
        if not 0 <= node < total:
            raise ValueError(
                f"selected was given {node}, but this graph has nodes 0 to {total - 1} only."
            )
        return node

    def _started(self) -> bool:
        subject = self._open()
        self._refresh(describe=False)
        if subject.recorded is not None:
            return False
        self.backward()
        return True

    def _show_passes(self, subject: GraphSource) -> bool:
        is_other = self._draw(subject)
        is_new = subject.poll() or subject.recorded is not self._recorded or is_other
        if self._is_drawn_otherwise(subject):
            self._drawn_again(subject)  # what is open of it is what the pass ran
        if is_new:
            self._show_pass(subject, is_other=is_other)
        elif subject.recorded is not None:
            run = self._parts.build("what flowed", lambda: subject.run, self.run)
            if run is not self.run:  # a .grad is not what the pass left in it any more
                self.set_trait("run", run)
        else:  # what leaves hold may not be what it was
            state = self._parts.build("what has flowed", subject.state, self.state)
            self.set_trait("state", state)
        transport = self._parts.build("transport", subject.transport, self.transport)
        self.set_trait("transport", transport)
        return is_new

    def _show_pass(self, subject: GraphSource, *, is_other: bool = False) -> None:
        """Show what is new: a pass that has ended, whether or not we go to it; another graph."""
        build = self._parts.build
        self.set_trait("state", build("what has flowed", subject.state, self.state))
        self.set_trait("findings", None)  # they were about another pass
        self.set_trait("_openable", list(subject.openable) or None)
        if self._memory is not None:
            self.set_trait("_memory", build("the memory held", subject.memory, None))
        if is_other or (subject.recorded is not None and subject.recorded is not self._recorded):
            self.set_trait("steps", subject.steps)
            self._inner = [0, 0]
            self.cursor = subject.cursor
            self.set_trait("run", build("what flowed", lambda: subject.run, None))
        self._recorded = subject.recorded

    def _show_flows(self, subject: GraphSource) -> None:
        build = self._parts.build
        self.set_trait("state", build("what has flowed", subject.state, self.state))
        self.set_trait("run", build("what flowed", lambda: subject.run, None))

    def _describe(self, subject: GraphSource) -> None:
        def details() -> DetailsModel | None:
            node = self.selected
            if node is None:
                node = self._running_node  # the panel follows what runs
            if node is None:
                return None
            found = subject.details(node, self._cursor_of(node))
            return self._masked_details(subject, found)

        self.set_trait("details", self._parts.build("the selected node", details, None))
        none: list[ShareModel] = []
        told = self._parts.build(
            "the shares of its gradient", lambda: self._shares_of(subject, self.selected), none
        )
        self.set_trait("_shares", told if self._quiz is None else none)  # nothing is told away

    def _experimented(self) -> GraphSource:
        return self._open()

    def _replace(self, subject: GraphSource) -> None:
        self._experiment = None  # it holds the graph that was shown before
        super()._replace(subject)

    def _draw(self, subject: GraphSource) -> bool:
        is_new = super()._draw(subject)
        if is_new and self.edits and self._update is not None:
            before = self._update["before"]
            if before is None or before == [*range(len(before))]:
                self._on_edits(None)  # the same edges are there
            else:
                self.edits = []
        return is_new

    def _forget(self) -> None:
        self._recorded = None
        self._forget_edits()
        self.set_trait("details", None)
        super()._forget()
