"""What is asked of a shown graph's gradients: what if, and where is this one from."""

from __future__ import annotations

from typing import Any

import torch
import traitlets

from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.recorded_pass import refuse_within_backward
from ..explain import describe_node as why
from ..features.experiments.check import check
from ..features.experiments.edits import read_edit, what_if_model, without_answer
from ..features.experiments.experiment import Experiment
from ..features.experiments.shares import shares
from ..schema import CheckedModel, EditModel, ShareModel, WhatIfModel
from ..sources.graph_source import GraphSource
from ..torch_api.modes import grad_mode_kept, unseen
from .traits import OfPass, masked, reacts


class Surgery(traitlets.HasTraits):
    """The traits with which gradients are changed on their way. Part of `GraphWidget`.

    Attributes:
        edits: What is changed about gradients on their way, in order: a list of dicts with
            ``kind`` ("cut", "scale" or "replace"), ``edge`` ((consumer id, input_nr), or the name
            of a tensor for all edges that flow to it) and ``value`` (the factor, or the numbers).
            Set it, or use the picture; ``edits = edits[:-1]`` takes the last one back. One with
            ``off`` is not made. Those with the same ``name`` are one: as soon as there are two
            names, what each does alone is in ``what_if``, too, whether it is on or off.
        what_if: What comes of them (see `gradwalk.schema.WhatIfModel`); None without edits. No
            ``.grad`` changes, no hook runs, and the forward pass does not run again. Read-only.
    """

    edits: Any = traitlets.Any([]).tag(sync=True)
    what_if: WhatIfModel | None = OfPass(None, read_only=True).tag(
        **masked("what_if", encoded=False)
    )  # type: ignore[assignment]
    _checked: CheckedModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _shares: list[ShareModel] = traitlets.Any([], read_only=True).tag(sync=True)  # type: ignore[assignment]

    _experiment: Experiment | None = None  # of the graph that is shown, once it was asked for

    def _experimented(self) -> GraphSource:
        """What is shown.

        Raises:
            ValueError: It is closed.
        """
        raise NotImplementedError

    @traitlets.validate("edits")
    def _check_edits(self, proposal: Any) -> list[EditModel]:
        given = proposal["value"]
        if not isinstance(given, (list, tuple)):
            raise TypeError(
                f"edits was given {given!r}, of type {type(given).__name__}. Give a list of dicts "
                "such as {'kind': 'cut', 'edge': (2, 0)}."
            )
        return [read_edit(each) for each in given]

    @reacts("edits")
    @grad_mode_kept
    def _on_edits(self, _: Any) -> None:
        model = self._answer_to(self.edits) if self.edits else None
        self.set_trait("what_if", model)

    def _answer_to(self, edits: list[EditModel]) -> WhatIfModel:
        try:
            refuse_within_backward("A what-if")
            subject = self._experimented()
            captured = subject.autograd
            if captured is None:
                return without_answer(
                    "There are no tensors behind this picture (it was opened from a file, or is of "
                    "a static graph), so no gradient can be asked of it."
                )
            with unseen(), torch.no_grad():
                if self._experiment is None or self._experiment.replay.captured is not captured:
                    run = None if subject.recording is None else subject.recording.run
                    seeds = None if run is None else run.seeds
                    self._experiment = Experiment(captured, seeds, max_bytes=DEFAULT_BUDGET)
                experiment = self._experiment
                return what_if_model(experiment, edits, captured.annotations)
        except Exception as error:  # what the user's own backward may raise; shown in the picture
            self._experiment = None
            return without_answer(why.failure(error))

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") != "check":
            super()._answer(asked)  # type: ignore[misc]
            return
        node = int(asked["node"])
        agrees, sentence = False, ""
        try:
            captured = self._experimented().autograd
            if captured is None:
                raise ValueError(
                    "There are no tensors behind this picture (it was opened from a file), so "
                    "nothing can run again."
                )
            known = captured.tensors.get((node, 0))
            gave = None if known is None else known()
            is_its = gave is not None and gave.grad_fn is captured.nodes[node]
            found = check(gave if is_its and gave is not None else captured.nodes[node])
            agrees, sentence = found.agrees, found.sentence
        except Exception as error:  # what somebody's forward may raise; shown in the panel
            sentence = str(error) or type(error).__name__
        model: CheckedModel = {"node": node, "agrees": agrees, "sentence": sentence}
        self.set_trait("_checked", model)

    def _shares_of(self, subject: GraphSource, node: int | None) -> list[ShareModel]:
        """Where the gradient of the selected node came from, in the pass that is shown."""
        recorded, captured = subject.recording, subject.autograd
        if recorded is None or captured is None or node is None or node >= len(captured.nodes):
            return []
        with unseen(), torch.no_grad():
            return shares(recorded, node)

    def _forget_edits(self) -> None:
        """Let go of the graph: it is being closed, or another one is shown."""
        self._experiment = None
        self.set_trait("_checked", None)
        self.edits = []
