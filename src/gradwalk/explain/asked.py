"""`Asked`: a tensor, and what the graph of a loss and its recorded pass know about it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from ..backward.kept_gradients import KeptGradient
from ..backward.leaf_grads import GradTimeline, Moment
from ..backward.recorded_run import RecordedRun
from ..torch_api.reading import everywhere, why_unreadable
from ..tracing.annotate import Annotated
from .loss_graph import LossGraph
from .reason import Reason, filled, operation


@dataclass(frozen=True)
class Asked:
    """The tensor that was asked about, its name, and the loss that was given with it."""

    tensor: torch.Tensor  # the tensor
    name: str | None  # its name in the user's program; None if unknown
    given: LossGraph | None  # the graph of the loss; None when no loss was given

    @property
    def graph(self) -> LossGraph:
        """The graph of the loss, which was given."""
        assert self.given is not None
        return self.given

    @property
    def captured(self) -> Annotated:
        """The graph of a loss that requires grad."""
        assert self.graph.captured is not None
        return self.graph.captured

    @property
    def run(self) -> RecordedRun | None:
        """The recorded backward pass, if one has ended."""
        return None if self.given is None else self.given.run

    @property
    def within(self) -> str:
        """Its name within a sentence."""
        return self.name or "it"

    @functools.cached_property
    def node(self) -> int | None:
        """The node that made the tensor or accumulates into it; None if the graph has none."""
        return None if self.given is None else self.given.node_of(self.tensor)

    @functools.cached_property
    def inner(self) -> int | None:
        """The custom Function whose own backward pass may reach the tensor."""
        return None if self.given is None else self.given.inner_node_of(self.tensor)

    @property
    def is_in_graph(self) -> bool:
        """Whether gradients can come to it from the loss."""
        return self.node is not None or self.inner is not None

    @property
    def function(self) -> str | None:
        """The nearest custom Function by which gradients come to it; None for none."""
        return None if self.node is None else self.graph.custom_function_before(self.node)

    @functools.cached_property
    def timeline(self) -> GradTimeline | None:
        """The history of its ``.grad``, in a pass that gradwalk ran."""
        run = self.run
        return None if run is None or run.grads is None else run.grads.of_tensor(self.tensor)

    @functools.cached_property
    def came(self) -> KeptGradient | None:
        """The gradient that the recorded pass computed for it."""
        step = None if self.run is None or self.node is None else self.run.steps.get(self.node)
        if step is None:
            return None
        number = 0 if self.tensor.is_leaf else self.tensor.output_nr
        return step.grad_outputs[number] if number < len(step.grad_outputs) else None

    @property
    def is_before_step(self) -> bool:
        """Whether the cursor is before the step that adds to its ``.grad``."""
        return self.timeline is not None and self.timeline.now == 0

    def effect(self) -> str:
        """Classify a ``.grad`` that is set by what the recorded pass did to it.

        Returns a cause: "recorded" (the gradient of this pass), "accumulated" (added to an earlier
        one), "changed" (since the pass), "differs" (from the gradient of a pass that was only
        watched), "unread" (not comparable), "not by pass", "before step", or "stopped, set".
        """
        timeline = self.timeline
        if self.run is not None and self.run.state == "stopped":
            return "stopped, set"
        if timeline is None:
            return self._watched_effect()
        if len(timeline.moments) == 1:
            return "not by pass"
        if not timeline.is_untouched(closely=True):
            return "changed"
        if self.is_before_step:
            return "before step"
        return "recorded" if _is_empty(timeline.moments[0]) else "accumulated"

    def _watched_effect(self) -> str:
        kept, grad = self.came, self.tensor.grad
        if kept is None:
            return "not by pass"
        came = kept.tensor
        if came is None:
            return "changed" if kept.changed else "unread"
        if grad is None or why_unreadable(grad) is not None or why_unreadable(came) is not None:
            return "unread"
        try:
            if came.is_sparse and grad.is_sparse:
                came, grad = came.coalesce(), grad.coalesce()
                if not torch.equal(came.indices(), grad.indices()):
                    return "differs"
                came, grad = came.values(), grad.values()
            return "recorded" if torch.equal(came, grad) else "differs"
        except RuntimeError:  # sparse, on the meta device, ...
            return "unread"

    def operation(self, node: int) -> str:
        """Name an operation of the graph."""
        return operation(self.captured, node)

    def reason(self, cause: str, **words: str) -> Reason:
        """Fill in the sentence of a cause."""
        return filled(
            cause, self.name, "the loss" if self.given is None else self.given.name, words
        )


def _is_empty(before: Moment) -> bool:
    """Whether a ``.grad`` was None or zero before the pass."""
    held = before.norm if before.values is None else before.values
    if before.grad is None or held is None:
        return before.grad is None
    return everywhere(held, lambda part: part == 0) is True
