"""The traits of `GraphWidget`, in the names that the browser knows them by."""

from __future__ import annotations

from typing import Any

import traitlets

from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel
from ..schema.findings import FindingModel, MemoryModel
from ..schema.graph import DtypesModel, GraphModel, OverlayModel
from ..schema.updates import (
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
from .drawing import DrawingWidget
from .traits import TRAVELS, Cursor, OfPass, OfTensors, masked, reacts


class GraphTraits(DrawingWidget[GraphSource]):
    """The traits of `GraphWidget`. Its controllers see the widget as this.

    See `GraphWidget` for those without an underscore, and `WidgetTraits` for all.
    """

    # The graph, and its place in a loop.
    model: GraphModel = OfPass(read_only=True).tag(**masked("model"))  # type: ignore[assignment]
    _dtypes: DtypesModel | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _overlays: list[OverlayModel] | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _openable: list[int] | None = OfPass(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
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

    @traitlets.validate("_inner", "rank", "edits")
    def _check_trait(self, proposal: Any) -> Any:
        return self._validated(proposal["trait"].name, proposal["value"])

    @reacts("_inner", "rank", "edits")
    @grad_mode_kept
    def _on_trait(self, change: Any) -> None:
        self._react(change["name"])

    def _masked(self, trait: str, value: Any) -> Any:
        """Return what may be shown of the value of a trait."""
        for controller in self._controllers:
            value = controller.mask(trait, value)
        return value
