"""Findings and memory: what the user asks of the graph as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..checks.finding import Finding, finding_models
from ..checks.run_checks import Limits
from ..graph.names import Names, caller_names
from ..sources.diagnose import judged
from ..sources.graph_source import GraphSource
from .controllers import Controller
from .graph_traits import GraphTraits


class DiagnosisController(Controller[GraphTraits]):
    """Looks for what may be wrong with the gradients, and adds up the memory."""

    def diagnose(
        self,
        called: Names,
        limits: Limits | None = None,
        *,
        is_explicit: bool = False,
        optimizers: Sequence[torch.optim.Optimizer] = (),
    ) -> list[Finding]:
        """List the findings under the picture, and return them; see `GraphWidget.diagnose`."""
        found = judged(
            self._up_to_date(),
            called,
            limits or Limits(),
            is_explicit=is_explicit,
            optimizers=optimizers,
        )
        self.widget.set_trait("_findings", finding_models(found))
        return found

    def handle(self, message: dict[str, Any]) -> bool:
        """Diagnose, or add up the memory."""
        kind = message.get("kind")
        if kind == "diagnose":
            self.diagnose(caller_names(None, "diagnose", 1))  # a notebook's variables
        elif kind == "memory":
            self.widget.set_trait("_memory", self._up_to_date().memory())
        else:
            return False
        return True

    def on_pass(self, source: GraphSource) -> None:
        """Forget the findings, which were about another pass; add up the memory again."""
        widget = self.widget
        widget.set_trait("_findings", None)
        if widget._memory is not None:
            memory = widget._parts.build("the memory held", source.memory, None)
            widget.set_trait("_memory", memory)

    def _up_to_date(self) -> GraphSource:
        self.widget._refresh()
        return self.widget._open()
