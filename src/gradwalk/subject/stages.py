"""The details of every node at every cursor, as plain values that need no live graph."""

from __future__ import annotations

from typing import Any, cast

import torch

from ..backward.recording import Recording
from ..forward.annotate import Annotated
from ..graph.modes import grad_mode_kept
from ..reasons import why
from ..wire import DetailsModel, StageModel
from .details import details
from .model import as_kept


@grad_mode_kept
def stages(captured: Annotated, node: int, recording: Recording | None) -> list[StageModel]:
    """The details of a node through a whole pass.

    Nothing is moved: every ``.grad`` stays what it is now.

    Args:
        captured: The graph.
        node: Which node of it.
        recording: The pass that is shown; None before the first.

    Returns:
        The details at the start, then what changes and where.
    """
    found: list[StageModel] = []
    before: dict[str, Any] = {}
    for cursor in _cursors(captured, node, recording):
        now = cast(dict[str, Any], _at(captured, node, recording, cursor))
        changed = {name: value for name, value in now.items() if before.get(name, ...) != value}
        if changed:
            found.append({"from_step": cursor, "fields": changed})
        before = now
    return found


@grad_mode_kept
def stage_now(captured: Annotated, node: int, recording: Recording | None) -> list[StageModel]:
    """The details of a node as they are at the cursor, said of every cursor."""
    with torch.no_grad():
        return [
            {"from_step": 0, "fields": cast(dict[str, Any], details(captured, node, recording))}
        ]


def details_at(found: list[StageModel], cursor: int) -> DetailsModel:
    """The details of a node when the cursor stands after ``cursor`` steps."""
    fields: dict[str, Any] = {}
    for stage in found:
        if stage["from_step"] <= cursor:
            fields.update(stage["fields"])
    return cast(DetailsModel, fields)


def _cursors(captured: Annotated, node: int, recording: Recording | None) -> list[int]:
    """Where something about a node can change."""
    if recording is None or node >= len(captured.nodes):
        return [0]
    run = recording.run
    numbers = {model["node"]: model for model in recording.models}
    found = {0}
    own = numbers.get(node)
    if own is not None:
        found |= {own["step"], own["step"] + 1}
    found |= {numbers[source]["step"] for source in recording.graph.pred[node] if source in numbers}
    for timeline in run.grads.timelines if run.grads is not None else ():
        if timeline.node == node:
            found |= {moment.step for moment in timeline.moments}
    return sorted(cursor for cursor in found if cursor <= len(run.steps))


def _at(captured: Annotated, node: int, recording: Recording | None, cursor: int) -> DetailsModel:
    """The details of a node as they would be at a cursor."""
    with torch.no_grad():
        if recording is None:
            return details(captured, node, None)
        elsewhere = Recording(captured, recording.run)
        elsewhere.cursor = cursor  # not by go(), which would move every `.grad`
        found = details(captured, node, elsewhere)
        if recording.owned:
            _put_grad(captured, node, elsewhere, found)
        return found


def _put_grad(captured: Annotated, node: int, recording: Recording, found: DetailsModel) -> None:
    """Put in what ``.grad`` is at the cursor of a pass that moves it."""
    run = recording.run
    assert run.grads is not None
    for timeline in run.grads.timelines:
        tensor = timeline.tensor()
        if timeline.node != node or tensor is None:
            continue
        moment = timeline.moments[timeline.at(recording.cursor)]
        missing = moment.grad is None
        if missing != (tensor.grad is None):
            found["explained"] = None  # it is about the `.grad` that is there now
        found["grad"] = None if missing else as_kept(moment).summarise()
        state = recording.state(node)
        found["grad_note"]["grad"] = (
            why.no_grad(captured.graph, node, tensor, run, state) if missing else None
        )
        return
