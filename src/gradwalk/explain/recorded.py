"""Compare a tensor's ``.grad`` with the recorded backward pass."""

from __future__ import annotations

import torch

from ..backward.grad_timeline import GradTimeline, Moment
from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_run import RecordedRun
from ..torch_api.reading import everywhere, why_unreadable


def effect_on(run: RecordedRun, node: int | None, tensor: torch.Tensor) -> str:
    """Classify a ``.grad`` that is set by what a recorded pass did to it.

    Args:
        run: The pass, which has ended.
        node: The node that accumulates into the tensor or made it; None if the graph has none.
        tensor: The tensor.

    Returns:
        A cause: "recorded" (the gradient of this pass), "accumulated" (added to an earlier one),
        "changed" (since the pass), "differs" (from the gradient of a pass that was only watched),
        "unread" (not comparable), "not by pass", "before step", or "stopped, set".
    """
    timeline = timeline_of(run, tensor)
    if timeline is None:
        return "stopped, set" if run.state == "stopped" else _watched_effect(run, node, tensor)
    if run.state == "stopped":
        return "stopped, set"
    if len(timeline.moments) == 1:
        return "not by pass"
    if not timeline.is_untouched(closely=True):
        return "changed"
    if timeline.now == 0:
        return "before step"
    return "recorded" if _is_empty(timeline.moments[0]) else "accumulated"


def timeline_of(run: RecordedRun, tensor: torch.Tensor) -> GradTimeline | None:
    """Find the history of a tensor's ``.grad`` in a pass that gradwalk ran."""
    if run.grads is None:
        return None
    timelines = (*run.grads.timelines, *run.grads.inner)
    return next((each for each in timelines if each.tensor() is tensor), None)


def arrived(run: RecordedRun, node: int | None, tensor: torch.Tensor) -> KeptGradient | None:
    """Return the gradient that a recorded pass computed for a tensor."""
    step = run.steps.get(-1 if node is None else node)
    if step is None:
        return None
    number = 0 if tensor.is_leaf else tensor.output_nr
    return step.grad_outputs[number] if number < len(step.grad_outputs) else None


def _watched_effect(run: RecordedRun, node: int | None, tensor: torch.Tensor) -> str:
    kept = arrived(run, node, tensor)
    if kept is None:
        return "not by pass"
    grad, came = tensor.grad, kept.tensor
    if came is None:
        return "changed" if kept.changed else "unread"
    if grad is None or why_unreadable(grad) is not None or why_unreadable(came) is not None:
        return "unread"
    try:
        return "recorded" if torch.equal(came, grad) else "differs"
    except RuntimeError:  # sparse, on the meta device, ...
        return "unread"


def _is_empty(before: Moment) -> bool:
    """Whether a ``.grad`` was None or zero before the pass."""
    held = before.norm if before.values is None else before.values
    if before.grad is None or held is None:
        return before.grad is None
    return everywhere(held, lambda part: part == 0) is True
