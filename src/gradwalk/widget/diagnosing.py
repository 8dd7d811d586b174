"""What is asked of a shown graph as a whole: what may be wrong with it, what memory it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import traitlets

from ..checks.finding import Finding, finding_models
from ..checks.run_checks import Limits
from ..graph.names import caller_names
from ..schema import FindingModel, MemoryModel
from ..sources.diagnose import judged, read_optimizers
from ..sources.graph_source import GraphSource
from .traits import TRAVELS, OfPass, masked


class Diagnosing(traitlets.HasTraits):
    """What is told of a graph and its pass once somebody asks. Part of `GraphWidget`.

    Attributes:
        findings: What `gradwalk.diagnose` found in the pass that is shown (see
            `gradwalk.schema.FindingModel`), once it was asked. Read-only.
    """

    findings: list[FindingModel] | None = OfPass(None, read_only=True).tag(**masked("findings"))  # type: ignore[assignment]
    _memory: MemoryModel | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]

    def _up_to_date(self) -> GraphSource:
        """What is shown now.

        Raises:
            ValueError: It is closed.
        """
        raise NotImplementedError

    def diagnose(
        self,
        *,
        names: Mapping[str, Any] | torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        vanishing: float = 1e-4,
        exploding: float = 1e4,
        dead: float = 0.9,
        largest: int = 5,
    ) -> list[Finding]:
        """Look for what commonly goes wrong with gradients, and list it under the picture.

        Args:
            names: What the program calls its parameters, as for `gradwalk.diagnose`. By default
                the caller's variables.
            optimizer: What steps after this backward, as for `gradwalk.diagnose`.
            vanishing: As for `gradwalk.diagnose`, as are all that follow.
            exploding: From which factor on a gradient explodes.
            dead: From which share of zeros on a ReLU is dead.
            largest: How many of the nodes that hold most memory to name.

        Returns:
            The findings, the gravest first; `findings` has them as plain values.

        Raises:
            TypeError: ``optimizer`` is none.
            ValueError: A threshold makes no sense, or the widget is closed or shows a static graph.
        """
        optimizers = read_optimizers(optimizer)
        called = caller_names(names, "diagnose")
        limits = Limits(vanishing, exploding, dead, largest)
        subject = self._up_to_date()
        found = judged(
            subject, called, limits, is_explicit=names is not None, optimizers=optimizers
        )
        self.set_trait("findings", finding_models(found))
        return found

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") == "diagnose":
            self.diagnose()
        elif asked.get("kind") == "memory":
            self.set_trait("_memory", self._up_to_date().memory())
        else:
            super()._answer(asked)  # type: ignore[misc]
