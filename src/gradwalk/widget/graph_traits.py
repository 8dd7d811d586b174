"""The traits of `GraphWidget`, by the names that the browser uses, and the methods of features."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import traitlets

from ..amounts import Bytes
from ..checks.finding import Finding
from ..checks.memory import HeldGraph
from ..graph.names import caller_names
from ..result import returned_by
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel
from ..schema.findings import FindingModel, MemoryModel
from ..schema.graph import DtypesModel, GraphModel, OverlayModel
from ..schema.updates import (
    BoxModel,
    CheckedModel,
    DifferenceModel,
    NumberInputModel,
    QuizModel,
    ScoreModel,
    UpdateModel,
)
from ..schema.values import Values
from ..schema.what_if import ShareModel, WhatIfModel
from ..sources.graph_source import GraphSource
from ..torch_api.modes import grad_mode_kept
from ..types import ByNode
from .drawing import DrawingWidget
from .traits import TRAVELS, Cursor, OfPass, OfTensors, masked


@returned_by("GraphWidget(loss).measure()")
@dataclass(frozen=True)
class NodeMeasure:
    """What one node took.

    Attributes:
        node: Its id.
        op: Its class.
        module: Its module, "layers.0"; "" outside of any or if unknown.
        bytes: Bytes that it holds for backward, and nothing else does.
        seconds: Its time in backward, with what the engine does after it; the mean of the three
            fastest of seven passes. A recomputation is in the node that asks for it first.
    """

    node: int
    op: str
    module: str
    bytes: Bytes
    seconds: float

    def __str__(self) -> str:
        place = f" in {self.module}" if self.module else ""
        return f"{1e3 * self.seconds:.3f} ms, {self.bytes}: {self.op} (node {self.node}){place}"


@returned_by("GraphWidget(loss).measure()")
@dataclass(frozen=True)
class Measurement:
    """The bytes and the time of each node, measured.

    Attributes:
        nodes: One entry for each node that ran, the slowest first.
        wall: Seconds of the whole backward pass, the mean of the same three.
        bytes: Bytes that the graph holds for backward.
    """

    nodes: tuple[NodeMeasure, ...]
    wall: float
    bytes: Bytes

    def __str__(self) -> str:
        most = 10
        lines = [f"backward {1e3 * self.wall:.3f} ms, {self.bytes} held", *self.nodes[:most]]
        return "\n".join(map(str, lines))


class GraphTraits(DrawingWidget[GraphSource, list[Finding]]):
    """The traits of `GraphWidget`, and the methods that the controllers of features answer."""

    # The graph, and its place in a loop.
    model: GraphModel = OfPass(read_only=True).tag(**masked("model"))  # type: ignore[assignment]
    _dtypes: DtypesModel | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _overlays: list[OverlayModel] | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _openable: list[int] | None = OfPass(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _box: BoxModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _values: list[Values | None] | None = traitlets.Any(None, read_only=True).tag(
        **masked("_values")
    )  # type: ignore[assignment]
    _update: UpdateModel | None = OfPass(None, read_only=True).tag(**masked("_update"))  # type: ignore[assignment]

    # Backward.
    details: DetailsModel | None = OfTensors(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    state: StateModel = OfPass(read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _steps: list[StepModel] = OfPass([], read_only=True).tag(**masked("_steps"))  # type: ignore[assignment]
    run: RunModel | None = OfPass(None, read_only=True).tag(**masked("run"))  # type: ignore[assignment]
    transport: TransportModel = OfPass(read_only=True).tag(sync=True)  # type: ignore[assignment]
    _inner: list[int] = traitlets.Any([0, 0]).tag(sync=True)  # type: ignore[assignment]

    # Answers about the graph as a whole.
    _findings: list[FindingModel] | None = OfPass(None, read_only=True).tag(**masked("_findings"))  # type: ignore[assignment]
    _memory: MemoryModel | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]

    # Files of several ranks.
    rank = Cursor(None).tag(sync=True)
    _ranks: list[int] = traitlets.Any([], read_only=True).tag(sync=True)  # type: ignore[assignment]

    # Experiments.
    edits: Any = traitlets.Any([]).tag(sync=True)
    effect: WhatIfModel | None = OfPass(None, read_only=True).tag(**masked("effect", encoded=False))  # type: ignore[assignment]
    _checked: CheckedModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _shares: list[ShareModel] = traitlets.Any([], read_only=True).tag(sync=True)  # type: ignore[assignment]
    _edits_blocked: str | None = OfPass(None, read_only=True).tag(sync=True)  # type: ignore[assignment]

    # Numbers that are set in the picture, by `gradwalk.interact`.
    _number_inputs: list[NumberInputModel] | None = traitlets.Any(None, read_only=True).tag(  # type: ignore[assignment]
        sync=True
    )
    _differences: list[DifferenceModel] | None = traitlets.Any(None, read_only=True).tag(  # type: ignore[assignment]
        **masked("_differences", encoded=False)
    )

    # The quiz.
    score: ScoreModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _quiz: QuizModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]

    def _masked(self, trait: str, value: Any) -> Any:
        """Return what may be shown of the value of a trait."""
        for controller in self._controllers:
            value = controller.mask(trait, value)
        return value

    # ---- What features answer

    def _feature(self, name: str) -> Any:
        for each in self._controllers:
            if each.name == name:
                return each
        raise RuntimeError(f"This gradwalk has no {name}: the folder features/{name} is missing.")

    def overlay(self, values: ByNode[float], *, label: str, unit: str = "") -> None:
        """Colour the picture by numbers of your own.

        They become a meaning of the colours, with a legend, also in pages, pictures and files. A
        box shows the number of its module; without one, the largest of the numbers inside. A node
        without a number has that of its innermost module. Numbers by name stay after `update`.

        Args:
            values (ByNode[float]): Numbers by the id of a node, the name of a tensor,
                or the name of a module. An empty dict removes what the label shows.
            label (str): The text in the choice of colours. A label that is in use replaces its
                numbers.
            unit (str, optional): The unit to write after the numbers. "s", "FLOP" and "B" get
                prefixes, as in "2 ms" or "3 MiB". Default: ``""``.

        Raises:
            TypeError: ``values`` is not a dict of numbers, or a text was expected.
            ValueError: A node, tensor or module is not in this graph, or the widget is closed.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
            >>> widget = GraphWidget(model(torch.ones(2, 4)).sum(), names=model)
            >>> fisher = {"0.weight": 0.7, "1.weight": 0.2}
            >>> widget.overlay(fisher, label="Fisher")
        """
        self._feature("overlay").overlay(values, label, unit)

    @grad_mode_kept
    def measure(self) -> Measurement:
        """Measure the time and the bytes of each node of this graph.

        It runs backward eight times with ``torch.autograd.grad``, and changes no ``.grad``. The
        program's hooks on tensors and nodes run each time. On an accelerator it waits for each
        node; that was not tried on a GPU. The picture then shows the times as colours.

        Returns:
            A `Measurement`: ``nodes``, the slowest first, ``wall`` in seconds, ``bytes``.

        Raises:
            ValueError: The graph is of a file or of fake tensors, or the widget is closed.
            RuntimeError: Tensors that backward needs were freed.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> w = torch.ones(100, 100, requires_grad=True)
            >>> sorted(each.op for each in GraphWidget((w @ w).sum()).measure().nodes)
            ['MmBackward0', 'SumBackward0']
        """
        measured: Measurement = self._feature("measure").measure()
        return measured

    def grows(self, *, stacklevel: int = 1) -> list[HeldGraph]:
        """Find which graphs of earlier updates are still alive, and through what.

        Args:
            stacklevel (int, optional): As for `GraphWidget`. Default: ``1``.

        Returns:
            One entry for all graphs that one list, dict or object holds. Empty if no earlier graph
            is alive.

        Raises:
            ValueError: The widget is closed.

        Example::

            >>> from gradwalk import GraphWidget
            >>> import torch
            >>> w, losses = torch.tensor(3.0, requires_grad=True), []
            >>> widget = GraphWidget(w**2)
            >>> for _ in range(3):
            ...     loss = (w - 1) ** 2
            ...     widget.update(loss)
            ...     loss.backward()
            ...     losses.append(loss)
            >>> [graph.graphs for graph in widget.grows()]
            [2]
        """
        self._stage.refuse_closed()
        names = caller_names(None, "grows", stacklevel)
        found: list[HeldGraph] = self._feature("held").grows(names)
        return found

    def quiz(self, what: str | None = "grad", nodes: Iterable[int | str] | None = None) -> None:
        """Hide numbers, for the reader to predict; or the order in which backward runs.

        The picture, the panel, the bar and the text for screen readers no longer show them. The
        reader types them at the nodes, or clicks the nodes in the engine's order. A wrong answer
        brings a hint: first the local derivative, then the chain rule. `score` says how many are
        right. Numbers are accepted as ``-24``, ``-2.4e1`` or ``1/3``, as exactly as the dtype has
        them, or rounded to three digits or more.

        Args:
            what (str | None, optional): "grad", "value" or "order"; None ends the quiz. For the
                first and the last the real backward is run, if there was none yet. Default:
                ``"grad"``.
            nodes (Iterable[int | str], optional): Which nodes, by id or name; None for all that
                have one known number.

        Raises:
            ValueError: ``what`` is nothing that can be asked, or a node has no such number.
            Exception: What `backward` raises.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.quiz("grad", nodes=["x"])
            >>> widget.answer("x", "3"), widget.answer("x", "6")
            (False, True)
            >>> widget.score
            {'right': 1, 'wrong': 1, 'revealed': 0, 'of': 1}
        """
        self._feature("quiz").start(what, nodes)

    def answer(self, node: int | str, text: str | float | None = None) -> bool:
        """Answer a question of the quiz, as the reader does in the picture.

        Args:
            node (int | str): Which node, by id or name.
            text (str | float, optional): The number, as it would be typed; left out where the order
                is asked. None where the order is asked.

        Returns:
            Whether it is right.

        Raises:
            ValueError: No quiz is on, or it asks nothing about the node.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.quiz("grad", nodes=["x"])
            >>> widget.answer("x", "6")
            True
        """
        is_right: bool = self._feature("quiz").answer(node, text)
        return is_right

    def reveal(self, node: int | str | None = None) -> None:
        """Give up a question of the quiz, or all.

        Args:
            node (int | str, optional): Which node, by id or name; None for all that are open.

        Raises:
            ValueError: No quiz is on, or it asks nothing about the node.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.quiz("grad", nodes=["x"])
            >>> widget.reveal()
            >>> widget.score["revealed"]
            1
        """
        self._feature("quiz").reveal(node)
