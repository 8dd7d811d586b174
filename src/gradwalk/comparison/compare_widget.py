"""`CompareWidget`: several graphs side by side, stepped through together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets

from ..bundle import bundle
from ..graph.adjacency import attributes
from ..graph.integers import read_int
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
from ..sources.graph_source import GraphSource
from ..torch_api.modes import grad_mode_kept
from ..widget.controllers import Controller
from ..widget.cursor_controller import CursorController
from ..widget.drawing import DrawingWidget
from ..widget.traits import TRAVELS, OfPass, OfTensors
from .compiled_status import compiled_model
from .difference import difference
from .leaf_table import LeafColumn, rows_shown, table_model
from .linked_passes import LinkedPasses

Places = dict[str, dict[int, int]]
"""Label -> node of that graph -> its place in ``members``."""


class CompareWidget(DrawingWidget[LinkedPasses]):
    """Graphs side by side; `gradwalk.compare` makes it.

    A static graph among them is only looked at: no backward runs through it.

    Looking never changes a gradient, the random state or a graph; `backward` and `step` run the
    real backward of every graph once and then travel in their time, all together. Each graph's
    backward starts from the same ``.grad``, as if it were the only one; a tensor that several
    graphs share has in its ``.grad`` what the first of them gives.

    Attributes:
        difference: The common parts of the graphs and their differences, a plain dict; see
            `gradwalk.comparison.difference.difference`.
        panes: The graphs and their labels (see `PaneModel`). Read-only.
        members: All graphs laid on top of each other: for each node its number in each graph, or
            None. Places in this list identify nodes below. Read-only.
        selected: The selected node, a place in ``members``, or None. Set it, or click a node.
        details: The details of the selected node in each graph (see `DetailsModel`); None for a
            graph without that node. Read-only.
        passes: The backward passes of each graph so far (see `PassModel`). Read-only.
        steps: The backward passes in one order: nodes that they have in common run in the same
            step (see `MergedStepModel`). Read-only.
        cursor: Number of completed steps. Set it, or use `step`, `step_back` and `run_to`.
        table: The leaves side by side (see `LeafTableModel`). Read-only.
        compiled: What became of the operations of one graph in the opened compiled code of another
            (see `CompiledModel`), for each such pair. Read-only.
        errors: How far the numbers of two graphs are apart (see `ErrorsModel`), in
            the widget of `gradwalk.compare_numerics`; else None. Read-only.
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
    steps: list[MergedStepModel] = OfPass([], read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    table: LeafTableModel = OfTensors(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    compiled: list[CompiledModel] = traitlets.List(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    errors: ErrorsModel | None = traitlets.Any(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]

    _made_as = "graphs", "compare([a, b])"

    @grad_mode_kept
    def __init__(
        self,
        subjects: Mapping[str, GraphSource],
        constants: bool = True,
        errors: Callable[[Places], ErrorsModel] | None = None,
    ) -> None:
        """Match the graphs and watch them.

        Args:
            subjects: Label -> graph, as `gradwalk.comparison.inputs.read_graphs` gives them.
            constants: Whether operands that need no grad are drawn, and where gradient was cut.
            errors: Tells how far the numbers of two graphs are apart, when it is known which node
                has which place in ``members``.
        """
        graphs = {label: subject.drawn for label, subject in subjects.items()}
        self.difference = difference(
            graphs, lambda label, node: subjects[label].model["nodes"][node]["namespace"]
        )
        united = [node["nodes"] for node in self.difference["nodes"]]
        self._places: Places = {
            label: {node[label]: i for i, node in enumerate(united) if node[label] is not None}
            for label in subjects
        }
        self._rows = rows_shown(self.difference["leaves"], graphs)
        self._columns = {
            label: LeafColumn(subject, [row["graphs"][label]["node"] for row in self._rows])
            for label, subject in subjects.items()
        }
        self.set_trait("compiled", self._compiled(subjects))
        if errors is not None:
            self.set_trait("errors", errors(self._places))
        passes = LinkedPasses(subjects, self._places)
        self._begin(passes, direction="auto", constants=constants)

    def _make_controllers(self) -> Sequence[Controller[Any]]:
        self._cursors = CursorController(self)
        return [self._cursors]

    def _follow(self, linked: LinkedPasses) -> None:
        for label, subject in linked.subjects.items():
            subject.follow(self._pass_ended, self._columns[label].begin)
        self.set_trait("panes", [self._pane(*each) for each in linked.subjects.items()])
        members = [list(node["nodes"].values()) for node in self.difference["nodes"]]
        self.set_trait("members", members)
        self.set_trait("passes", [_pass(linked, label) for label in linked.subjects])
        self.set_trait("details", [None] * len(linked.subjects))
        self.set_trait("table", self._table_now())

    def _pane(self, label: str, subject: GraphSource) -> PaneModel:
        graph: GraphModel = subject.model
        if not self.compiled:
            return {"label": label, "graph": graph}
        # Draw calls in the boxes of their modules, like the operations.
        drawn = attributes(subject.drawn)
        nodes: list[Any] = [
            {**node, "namespace": drawn[i].get("namespace")} if node["kind"] == "call" else node
            for i, node in enumerate(graph["nodes"])
        ]
        return {"label": label, "graph": {**graph, "nodes": nodes}}

    def _compiled(self, subjects: Mapping[str, GraphSource]) -> list[CompiledModel]:
        found: list[CompiledModel] = []
        reference = self.difference["reference"]
        for label, comparison in self.difference["comparisons"].items():
            compiled = comparison.get("compiled")
            if compiled is not None:
                plain = reference if compiled["in"] == label else label
                both = subjects[plain], subjects[compiled["in"]]
                places = self._places[plain], self._places[compiled["in"]]
                found.append(compiled_model(compiled, *both, places))
        return found

    @grad_mode_kept
    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
    ) -> None:
        """Run the real backward of every graph once, record it, and move to the end.

        Each starts from the same ``.grad``: those at the start of the passes that ran here before,
        if there are any and nothing else has changed one since; else those that are there now.

        Args:
            gradient: What to start from, as for ``Tensor.backward``, in every graph; or a mapping
                from labels to that, for each graph its own.
            retain_graph: Whether the nodes keep their saved tensors, so that backward can run
                again. None keeps them, unless a compiled part of a graph can run only once.
            create_graph: Whether the gradients get a graph of their own.

        Raises:
            TypeError: An argument is of the wrong kind.
            ValueError: ``gradient`` is missing or does not fit, or the widget is closed.
            RuntimeError: Tensors that backward needs were freed by an earlier one, or this
                widget's own backward is running.
            Exception: The error of a graph's backward, with a note where it happened. Every
                ``.grad`` is then as it was before.
        """
        linked = self._open()
        asked = {"retain_graph": retain_graph, "create_graph": create_graph}
        self._run(linked, linked.running, gradient, **asked)

    @grad_mode_kept
    def run_to(self, node: int | str) -> None:
        """Move to where a node has just run; runs the real backward if there was none yet.

        Args:
            node: Its place in ``members``, or the name of its tensor.

        Raises:
            TypeError: ``node`` is neither.
            ValueError: No node is called so, several are, or it did not run.
            RuntimeError: A backward pass is running: a hook asked for it, or another thread.
            Exception: What `backward` raises.
        """
        place = self._read_place(node, "run_to")
        self._cursors.refuse_while_running("run_to()")
        with self._change():
            self._start()
            found = [number for number, step in enumerate(self.steps, 1) if step["node"] == place]
            if not found:
                raise ValueError(
                    f"run_to was given {node!r}, which did not run in any of these backward passes."
                )
            self.cursor = found[-1]

    def _summary(self, linked: LinkedPasses) -> str:
        *first, last = map(repr, linked.subjects)
        common = sum(None not in place for place in self.members)
        return (
            f"{', '.join(first)} and {last}: {common} node{'' if common == 1 else 's'} in common, "
            f"{len(self.members) - common} only in some"
        )

    def _check(self, trait: str, value: Any) -> Any:
        if trait != "selected" or value is None:
            return super()._check(trait, value)
        return self._read_place(value, "selected")

    def _read_place(self, node: Any, caller: str) -> int:
        """A node by its place in ``members`` or by a name."""
        self._open()
        nodes = self.difference["nodes"]
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
        self._refresh(describe=False)
        waiting = [label for label in linked.running if linked.subjects[label].recorded is None]
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
            self._parts.build(
                f"the pass of {label}",
                functools.partial(_pass, linked, label, None if label in news else known),
                known,
            )
            for label, known in zip(linked.subjects, self.passes, strict=True)
        ]
        self.set_trait("passes", passes)
        if news:
            steps: list[MergedStepModel] = [
                {"node": step.node, "passes": list(step.passes)} for step in linked.steps
            ]
            self.set_trait("steps", steps)
        self.cursor = linked.cursor
        return bool(news)

    def _describe(self, linked: LinkedPasses) -> None:
        place = self.selected
        members = [None] * len(linked.subjects) if place is None else self.members[place]
        details: list[DetailsModel | None] = [
            self._parts.build(
                f"the selected node of {label}", functools.partial(_details, subject, node), None
            )
            for (label, subject), node in zip(linked.subjects.items(), members, strict=True)
        ]
        self.set_trait("details", details)
        self.set_trait("table", self._parts.build("the table", self._table_now, self.table))

    def _forget(self) -> None:
        self._columns.clear()
        self.set_trait("details", [None] * len(self.panes))

    def _table_now(self) -> LeafTableModel:
        cells = {label: column.cells() for label, column in self._columns.items()}
        total = len(self.difference["leaves"])
        return table_model(self._rows, total, cells, self._places)


def _details(subject: GraphSource, node: int | None) -> DetailsModel | None:
    return None if node is None else subject.details(node)


def _pass(linked: LinkedPasses, label: str, known: PassModel | None = None) -> PassModel:
    """One of the passes; of one that is known already, whether travelling moves ``.grad`` now."""
    if known is not None:
        return {**known, "transport": linked.transport(label)}
    subject = linked.subjects[label]
    return {
        "state": subject.state(),
        "steps": subject.steps,
        "run": subject.run,
        "transport": linked.transport(label),
    }
