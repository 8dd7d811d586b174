"""`CompareWidget`: several graphs side by side, stepped through together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets

from ..backward.recorded_pass import RecordedStep
from ..backward.run_backward import IF_POSSIBLE
from ..checks.finding import Finding
from ..export.disk import bundle
from ..graph.adjacency import attributes
from ..graph.arguments import read_int
from ..graph.names import Names, caller_names
from ..lazily import nx
from ..schema.comparison import (
    CompiledModel,
    ErrorsModel,
    LeafTableModel,
    MergedStepModel,
    PaneModel,
    PassModel,
)
from ..schema.details import DetailsModel
from ..schema.graph import GraphModel
from ..sources.diagnose import judged
from ..sources.graph_source import DiagnosisRequest, GraphSource, Snapshot
from ..torch_api.modes import grad_mode_kept
from ..types import CompareNames, Gradient, Graphs, RetainGraph
from ..widget.controllers import Controller, Turn
from ..widget.drawing import DrawingWidget
from ..widget.graph_controllers import CursorController
from ..widget.stage import State
from ..widget.traits import TRAVELS, OfPass, OfTensors
from .difference import compiled_model, difference, united_graph
from .inputs import read_graphs
from .leaf_table import LeafColumn, rows_shown, table_model
from .linked_passes import LinkedPasses

MemberPlaces = dict[str, dict[int, int]]  # label -> node of that graph -> its place in ``members``


class CompareWidget(DrawingWidget[LinkedPasses, dict[str, list[Finding]]]):
    """Graphs side by side; `gradwalk.compare` makes it.

    A static graph among them is only looked at: no backward runs through it.

    Looking never changes a gradient, the random state or a graph; `backward` and `step` run the
    real backward of every graph once and then travel in their time, all together. Each graph's
    backward starts from the same ``.grad``, as if it were the only one; a tensor that several
    graphs share has in its ``.grad`` what the first of them gives.

    ``model``, ``panes``, ``details``, ``passes``, ``table``, ``compiled`` and ``errors`` are plain
    JSON for the front end, and provisional: their fields may change.

    Attributes:
        graph: All graphs laid on top of each other, as networkx: node and edge attributes are those
            of the first graph that has them, and ``labels`` lists the graphs that do. A copy.
        model: The graphs laid on top of each other, as plain JSON values: ``labels``, the
            ``reference``, the ``comparisons`` with it, ``nodes``, ``edges`` and ``leaves``.
        panes: The graphs and their labels. Read-only.
        members: All graphs laid on top of each other: for each node its number in each graph, or
            None. Places in this list identify nodes below. Read-only.
        selected: The selected node, a place in ``members``, or None. Set it, or click a node.
        details: The details of the selected node in each graph; None for a graph without that node.
            Read-only.
        passes: The backward passes of each graph so far. Read-only.
        steps: The backward passes in one order, one `RecordedStep` each: nodes that they have in
            common run in the same step. ``node`` and ``consumer`` are places in ``members``; the
            gradients belong to the first graph that runs the step. Read-only.
        cursor: Number of completed steps. Set it, or use `step`, `step_back` and `run_to`.
        table: The leaves side by side. Read-only.
        compiled: What became of the operations of one graph in the opened compiled code of another,
            for each such pair. Read-only.
        errors: How far the numbers of two graphs are apart, in the widget of
            `gradwalk.compare_numerics`; else None. Read-only.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left"; "auto"
            chooses the one that shows small graphs largest.
        constants: Whether operands that need no grad are drawn, and where gradient was cut. Set it,
            or use the toolbar.
    """

    # As text: a path would make anywidget keep every widget alive through its file watcher.
    _esm = traitlets.Unicode(bundle("comparison.js")).tag(sync=True)
    _css = traitlets.Unicode(bundle("comparison.css")).tag(sync=True)

    panes: list[PaneModel] = traitlets.List(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    members: list[list[int | None]] = traitlets.List(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    details: list[DetailsModel | None] = OfTensors([], read_only=True).tag(sync=True)  # type: ignore[assignment]
    passes: list[PassModel] = OfPass([], read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _steps: list[MergedStepModel] = OfPass([], read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    table: LeafTableModel = OfTensors(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    compiled: list[CompiledModel] = traitlets.List(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    errors: ErrorsModel | None = traitlets.Any(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]

    _made_as = "graphs", "compare([a, b])"

    model: dict[str, Any]
    _places: MemberPlaces
    _rows: list[dict[str, Any]]
    _columns: dict[str, LeafColumn]

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refuse: `gradwalk.compare` makes it."""
        raise TypeError("CompareWidget() makes nothing. Call compare({'a': loss_a, 'b': loss_b}).")

    @classmethod
    @grad_mode_kept
    def _of(
        cls,
        sources: Mapping[str, GraphSource],
        constants: bool = True,
        errors: Callable[[MemberPlaces], ErrorsModel] | None = None,
        direction: str = "auto",
    ) -> CompareWidget:
        """Match the graphs and watch them.

        ``sources``: label -> graph, as `gradwalk.comparison.inputs.read_graphs` gives them.
        ``errors``: returns how far the numbers of two graphs are apart, when it is known which node
        has which place in ``members``.
        """
        widget: CompareWidget = cls.__new__(cls)
        widget._arrange(sources)
        if errors is not None:
            widget.set_trait("errors", errors(widget._places))
        widget._columns = widget._columns_of(sources)
        passes = LinkedPasses(sources, widget._places)
        widget._begin(passes, direction=direction, constants=constants)
        return widget

    def _arrange(self, sources: Mapping[str, GraphSource]) -> None:
        """Lay the graphs on top of each other."""
        graphs = {label: source.drawn for label, source in sources.items()}
        self.model = difference(
            graphs, lambda label, node: sources[label].model["nodes"][node]["namespace"]
        )
        united = [node["nodes"] for node in self.model["nodes"]]
        self._places = {
            label: {node[label]: i for i, node in enumerate(united) if node[label] is not None}
            for label in sources
        }
        self._rows = rows_shown(self.model["leaves"], graphs)
        self.set_trait("compiled", self._compiled(sources))

    def _columns_of(self, sources: Mapping[str, GraphSource]) -> dict[str, LeafColumn]:
        return {
            label: LeafColumn(source, [row["graphs"][label]["node"] for row in self._rows])
            for label, source in sources.items()
        }

    def update(
        self,
        *graphs: Graphs,
        names: CompareNames | None = None,
        stacklevel: int = 1,
    ) -> None:
        """Show other graphs in place of these, as of the next iteration of a training loop.

        The graphs before are let go of, with their hooks, and the picture is drawn again.

        Args:
            *graphs (Graphs): Two to four graphs, as for `gradwalk.compare`.
            names (CompareNames, optional): What to call tensors, as for `gradwalk.compare`; None,
                the default, for the caller's variables.
            stacklevel (int, optional): The frame whose variables give names: 1, the default, is the
                caller.

        Raises:
            TypeError: A graph or ``names`` is of the wrong kind. The picture stays as it is.
            ValueError: There are fewer than two graphs or more than four, a tensor does not require
                grad, or the widget is closed.
            RuntimeError: This widget's own backward is running.

        Example::

            >>> import torch
            >>> from gradwalk import compare
            >>> w = torch.tensor(4.0, requires_grad=True)
            >>> widget = compare({"square": w**2, "double": w * 2})
            >>> widget.update({"square": w**2, "cube": w**3, "sine": w.sin()})
            >>> widget
            CompareWidget('square', 'cube' and 'sine': 1 node in common, 2 only in some)
        """
        before = self._open()
        self._cursors.refuse_while_running("update()")
        given = graphs[0] if len(graphs) == 1 else graphs
        found = Names() if names is not None else caller_names(None, "compare", stacklevel)
        sources = read_graphs(given, names, found, self.constants)
        with self._stage.change(), self._stage.lock:
            self._arrange(sources)
            self.set_trait("errors", None)
            self._columns = self._columns_of(sources)
            self._show_anew(LinkedPasses(sources, self._places), is_other=True)
            before.close()

    def _turn(self, node: int | str, how: Turn) -> None:
        linked = self._open()
        self._cursors.refuse_while_running(f"{how}()")
        members = self.members[self._read_place(node, how)]
        turned, errors = 0, []
        with self._stage.change(), self._stage.lock:
            for source, own in zip(linked.sources.values(), members, strict=True):
                if own is not None:
                    try:
                        getattr(source, how)(own)
                        turned += 1
                    except ValueError as error:
                        errors.append(error)
            if not turned:
                raise errors[0]
            self._arrange(linked.sources)
            self._show_anew(LinkedPasses(linked.sources, self._places), is_other=False)

    def _show_anew(self, linked: LinkedPasses, *, is_other: bool) -> None:
        """Show graphs that have been arranged."""
        with self._stage.as_it_is():
            self._stage.source = linked
            self.selected = None
            self.cursor = 0  # where the new passes begin, too
            self.set_trait("_steps", [])
            if is_other:
                self._follow(linked)
            else:
                self._show_panes(linked)
        self._stage.mark(State.PASS_PENDING)
        self._stage.refresh()

    def _diagnosed(self, request: DiagnosisRequest) -> dict[str, list[Finding]]:
        linked = self._open()
        return {label: judged(source, request) for label, source in linked.sources.items()}

    def _graphs_shown(self) -> dict[str, Snapshot]:
        self._stage.refresh()
        sources = self._open().sources
        best = next(iter(sources.values())).direction
        direction = best if self.direction == "auto" else self.direction
        chosen = [None] * len(sources) if self.selected is None else self.members[self.selected]
        return {
            label: Snapshot(source, direction, self.constants, node)
            for (label, source), node in zip(sources.items(), chosen, strict=True)
        }

    def _networkx(self, linked: LinkedPasses) -> nx.MultiDiGraph:
        drawn = {label: source.drawn for label, source in linked.sources.items()}
        return united_graph(drawn, self._places)

    @property
    def steps(self) -> list[RecordedStep]:
        """The backward passes in one order; see the attributes of this class."""
        _, linked = self._steps, self._source  # the first brings the passes up to date
        return [] if linked is None else linked.recorded_steps()

    def _make_controllers(self) -> Sequence[Controller[Any]]:
        self._cursors = CursorController(self)
        return [self._cursors]

    def _follow(self, linked: LinkedPasses) -> None:
        for label, source in linked.sources.items():
            source.follow(self._stage.pass_ended, self._columns[label].begin)
        self._show_panes(linked)

    def _show_panes(self, linked: LinkedPasses) -> None:
        members = [list(node["nodes"].values()) for node in self.model["nodes"]]
        self.set_trait("members", members)
        self.set_trait("passes", [_pass(linked, label) for label in linked.sources])
        self.set_trait("details", [None] * len(linked.sources))
        self.set_trait("table", self._table_now())
        self.set_trait("panes", [self._pane(*each) for each in linked.sources.items()])

    def _pane(self, label: str, source: GraphSource) -> PaneModel:
        graph: GraphModel = source.model
        if not self.compiled:
            return {"label": label, "graph": graph}
        # Draw calls in the boxes of their modules, like the operations.
        drawn = attributes(source.drawn)
        nodes: list[Any] = [
            {**node, "namespace": drawn[i].get("namespace")} if node["kind"] == "call" else node
            for i, node in enumerate(graph["nodes"])
        ]
        return {"label": label, "graph": {**graph, "nodes": nodes}}

    def _compiled(self, sources: Mapping[str, GraphSource]) -> list[CompiledModel]:
        found: list[CompiledModel] = []
        reference = self.model["reference"]
        for label, comparison in self.model["comparisons"].items():
            compiled = comparison.get("compiled")
            if compiled is not None:
                plain = reference if compiled["in"] == label else label
                both = sources[plain], sources[compiled["in"]]
                places = self._places[plain], self._places[compiled["in"]]
                found.append(compiled_model(compiled, *both, places))
        return found

    @grad_mode_kept
    def backward(
        self,
        gradient: Gradient | Mapping[str, Gradient] | None = None,
        retain_graph: RetainGraph = IF_POSSIBLE,
        create_graph: bool = False,
    ) -> None:
        """Run the real backward of every graph once, record it, and move to the end.

        Each starts from the same ``.grad``: those at the start of the passes that ran here before,
        if there are any and nothing else has changed one since; else those that are there now.

        Args:
            gradient (Gradient | Mapping[str, Gradient], optional): What to start from, as for
                ``Tensor.backward``, in every graph; or a mapping from labels to that, for each
                graph its own. None for outputs of one number.
            retain_graph (RetainGraph, optional): As for `gradwalk.record`. Default:
                ``"if_possible"``.
            create_graph (bool, optional): Likewise. Default: ``False``.

        Raises:
            TypeError: An argument is of the wrong kind.
            ValueError: ``gradient`` is missing or does not fit, or the widget is closed.
            RuntimeError: Tensors that backward needs were freed by an earlier one, or this
                widget's own backward is running.
            Exception: The error of a graph's backward, with a note where it happened. Every
                ``.grad`` is then as it was before.

        Example::

            >>> import torch
            >>> from gradwalk import compare
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = compare({"square": x**2, "sine": x.sin()})
            >>> widget.backward()
            >>> [step.op for step in widget.steps]
            ['PowBackward0', 'SinBackward0', 'AccumulateGrad']
        """
        linked = self._open()
        asked = {"retain_graph": retain_graph, "create_graph": create_graph}
        self._run(linked, linked.running, gradient, **asked)

    def _run_to(self, node: int | str) -> None:
        place = self._read_place(node, "run_to")
        self._cursors.refuse_while_running("run_to()")
        with self._stage.change():
            self._start()
            found = [number for number, step in enumerate(self._steps, 1) if step["node"] == place]
            if not found:
                raise ValueError(
                    f"run_to was given {node!r}, which did not run in any of these backward passes."
                )
            self.cursor = found[-1]

    def _summary(self, linked: LinkedPasses) -> str:
        *first, last = map(repr, linked.sources)
        common = sum(None not in place for place in self.members)
        return (
            f"{', '.join(first)} and {last}: {common} node{'' if common == 1 else 's'} in common, "
            f"{len(self.members) - common} only in some"
        )

    def _validated(self, trait: str, value: Any) -> Any:
        if trait != "selected" or value is None:
            return super()._validated(trait, value)
        return self._read_place(value, "selected")

    def _read_place(self, node: Any, caller: str) -> int:
        """A node by its place in ``members`` or by a name."""
        self._open()
        nodes = self.model["nodes"]
        if isinstance(node, str):
            # A leaf of one graph may be drawn in another as where a cut began: the leaf is meant.
            called = [data for data in nodes if data["name"] == node]
            taking_part = [data for data in called if data["kind"] in ("op", "leaf")]
            found: list[int] = [data["id"] for data in taking_part or called]
            if len(found) == 1:
                return found[0]
            raise ValueError(
                f"{caller} was given {node!r}, and {len(found) or 'no'} nodes are called so. Give "
                f"the name of one tensor, or a place in members, 0 to {len(nodes) - 1}."
            )
        instead = f"Give a place in members, 0 to {len(nodes) - 1}, or the name of a tensor."
        place = read_int(node, f"{caller} was given ", instead)
        if not 0 <= place < len(nodes):
            raise ValueError(
                f"{caller} was given {place}, but members has places 0 to {len(nodes) - 1} only."
            )
        return place

    def _start(self) -> bool:
        linked = self._open()
        self._stage.refresh(describe=False)
        waiting = [label for label in linked.running if linked.sources[label].recorded is None]
        if waiting:
            self._run(linked, waiting, None)
        return bool(waiting)

    def _run(self, linked: LinkedPasses, labels: list[str], gradient: Any, **asked: Any) -> None:
        with self._cursors.own_pass():
            linked.run(labels, gradient, **asked)

    def _is_between_passes(self) -> bool:
        return bool(self._cursors.is_running)  # the passes run one after another

    def _show_passes(self, linked: LinkedPasses, is_other: bool) -> bool:  # noqa: ARG002
        news = linked.take_news()
        passes: list[PassModel] = [
            self._stage.parts.build(
                f"the pass of {label}",
                functools.partial(_pass, linked, label, None if label in news else known),
                known,
            )
            for label, known in zip(linked.sources, self.passes, strict=True)
        ]
        self.set_trait("passes", passes)
        if news:
            merged: list[MergedStepModel] = [
                {"node": step.node, "passes": list(step.passes)} for step in linked.steps
            ]
            self.set_trait("_steps", merged)
        self.cursor = linked.cursor
        return bool(news)

    def _describe(self, linked: LinkedPasses) -> None:
        place = self.selected
        members = [None] * len(linked.sources) if place is None else self.members[place]
        details: list[DetailsModel | None] = [
            self._stage.parts.build(
                f"the selected node of {label}", functools.partial(_details, source, node), None
            )
            for (label, source), node in zip(linked.sources.items(), members, strict=True)
        ]
        self.set_trait("details", details)
        self.set_trait("table", self._stage.parts.build("the table", self._table_now, self.table))

    def _forget(self) -> None:
        self._columns.clear()
        self.set_trait("details", [None] * len(self.panes))

    def _table_now(self) -> LeafTableModel:
        cells = {label: column.cells() for label, column in self._columns.items()}
        total = len(self.model["leaves"])
        return table_model(self._rows, total, cells, self._places)


CompareWidget._lists_own_names = True


def _details(source: GraphSource, node: int | None) -> DetailsModel | None:
    return None if node is None else source.details(node)


def _pass(linked: LinkedPasses, label: str, known: PassModel | None = None) -> PassModel:
    """One of the passes; of one that is known already, whether travelling moves ``.grad`` now."""
    if known is not None:
        return {**known, "transport": linked.transport(label)}
    source = linked.sources[label]
    return {
        "state": source.state(),
        "steps": source.steps,
        "run": source.run,
        "transport": linked.transport(label),
    }
