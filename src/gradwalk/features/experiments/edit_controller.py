"""Edits of gradients, checks of a backward and shares of a gradient, in the widget."""

from __future__ import annotations

from typing import Any

import torch

from ...backward.kept_gradients import DEFAULT_BUDGET
from ...backward.recorded_pass import refuse_within_backward
from ...explain import describe_node as why
from ...schema.updates import CheckedModel
from ...schema.what_if import EditModel, ShareModel, WhatIfModel
from ...sources.graph_source import GraphSource
from ...torch_api.modes import unseen
from ...widget.controllers import Controller
from ...widget.graph_traits import GraphTraits
from .check import check
from .edits import read_edit, what_if_model, without_answer
from .experiment import Experiment
from .shares import shares


class EditController(Controller[GraphTraits]):
    """Compute the effect of edits, and the shares of the selected node's gradient."""

    _experiment: Experiment | None = None  # on the graph that is shown, once it is needed

    def check(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``edits``, checked as far as it can be without the graph."""
        if trait != "edits":
            return value
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"edits was given {value!r}, of type {type(value).__name__}. Give a list of dicts "
                "such as {'kind': 'cut', 'edge': (2, 0)}."
            )
        return [read_edit(each) for each in value]

    def react(self, trait: str) -> None:
        """Compute the effect of the edits."""
        if trait == "edits":
            edits = self.widget.edits
            self.widget.set_trait("what_if", self._answer_to(edits) if edits else None)

    def _answer_to(self, edits: list[EditModel]) -> WhatIfModel:
        try:
            refuse_within_backward("A what-if")
            source = self.widget._open()
            captured = source.autograd
            if captured is None:
                return without_answer(
                    "This graph has no tensors (it comes from a file or from a static graph), so "
                    "no gradient can be computed."
                )
            with unseen(), torch.no_grad():
                if self._experiment is None or self._experiment.replay.captured is not captured:
                    run = None if source.recording is None else source.recording.run
                    seeds = None if run is None else run.seeds
                    self._experiment = Experiment(captured, seeds, max_bytes=DEFAULT_BUDGET)
                return what_if_model(self._experiment, edits, captured.annotations)
        except Exception as error:  # of the user's own backward; shown in the picture
            self._experiment = None
            return without_answer(why.failure(error))

    def handle(self, message: dict[str, Any]) -> bool:
        """Check the custom backward of a node."""
        if message.get("kind") != "check":
            return False
        node = int(message["node"])
        agrees, sentence = False, ""
        try:
            captured = self.widget._open().autograd
            if captured is None:
                raise ValueError(
                    "This graph has no tensors (it comes from a file), so nothing can run again."
                )
            known = captured.tensors.get((node, 0))
            gave = None if known is None else known()
            is_its = gave is not None and gave.grad_fn is captured.nodes[node]
            found = check(gave if is_its and gave is not None else captured.nodes[node])
            agrees, sentence = found.agrees, found.sentence
        except Exception as error:  # of the user's own forward; shown in the panel
            sentence = str(error) or type(error).__name__
        model: CheckedModel = {"node": node, "agrees": agrees, "sentence": sentence}
        self.widget.set_trait("_checked", model)
        return True

    def describe(self, source: GraphSource) -> None:
        """Show the shares of the selected node's gradient, in the pass that is shown."""
        widget = self.widget
        none: list[ShareModel] = []
        found = widget._parts.build(
            "the shares of its gradient", lambda: _shares_of(source, widget.selected), none
        )
        widget.set_trait("_shares", widget._masked("_shares", found))

    def on_graph(self, source: GraphSource) -> None:  # noqa: ARG002
        """Apply the edits to the new graph if it has the same edges; else drop them."""
        update = self.widget._update
        if self.widget.edits and update is not None:
            before = update["before"]
            if before is None or before == [*range(len(before))]:
                self.react("edits")
            else:
                self.widget.edits = []

    def let_go(self) -> None:
        """Release the graph."""
        self._experiment = None

    def close(self) -> None:
        """Release the graph, and drop its edits and checks."""
        self.let_go()
        self.widget.set_trait("_checked", None)
        self.widget.edits = []


def _shares_of(source: GraphSource, node: int | None) -> list[ShareModel]:
    recorded, captured = source.recording, source.autograd
    if recorded is None or captured is None or node is None or node >= len(captured.nodes):
        return []
    with unseen(), torch.no_grad():
        return shares(recorded, node)
