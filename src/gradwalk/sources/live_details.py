"""The details of a live graph's nodes at any cursor, and the cursors at which they change."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from ..backward.grad_timeline import Moment
from ..backward.recorded_pass import RecordedPass
from ..explain import describe_node as why
from ..graph.guarded import could_not
from ..panel.blank import blank_details
from ..panel.details import details
from ..panel.details_reader import DetailsReader
from ..schema.details import DetailsModel
from ..torch_api.modes import grad_mode_kept, unseen
from ..tracing.values import Drawn
from .distributed_leaves import BucketOf, DistributedLeaves
from .graph_model import as_kept
from .inner_details import inside_details
from .live_drawing import LiveDrawing
from .open_nodes import Opening


class LiveDetails:
    """The details of every node of a live graph."""

    def __init__(self, opening: Opening, picture: LiveDrawing, shared: DistributedLeaves) -> None:
        """Look at nothing yet.

        Args:
            opening: The graph, and which of its nodes are open.
            picture: The drawing of the graph.
            shared: The leaves that several processes have together, or several modules.
        """
        self._opening = opening
        self._picture = picture
        self._shared = shared

    def looking(self, shown: RecordedPass | None) -> Callable[[int, int | None], DetailsModel]:
        """Return a function from node and cursor to details, which reads shared parts once.

        If a part raises, a sentence says so.

        Args:
            shown: The shown pass.
        """
        looking = DetailsReader(self._opening.captured, None if shown is None else shown.run)
        return functools.partial(self._looked_at, looking, shown, self._shared.buckets())

    @grad_mode_kept
    def _looked_at(
        self,
        looking: DetailsReader,
        shown: RecordedPass | None,
        bucket_of: BucketOf,
        node: int,
        cursor: int | None,
    ) -> DetailsModel:
        # A click can be handled on another thread, in whatever grad mode that thread is in.
        with unseen(), torch.no_grad():
            try:
                drawn = self._picture.values
                found = _details_at(looking, shown, self._opening, node, cursor, values=drawn)
                run = None if shown is None else shown.run
                self._shared.put(found, node, run, looking.summaries.of, bucket_of)
            except Exception as error:  # the picture and the other nodes still work
                sentence = could_not("details", error)
                found = blank_details(self._opening.captured.drawn, node, sentence, sentence)
        self._picture.add_to(found, node)
        return found


def _details_at(
    looking: DetailsReader,
    shown: RecordedPass | None,
    opening: Opening,
    node: int,
    cursor: int | None,
    *,
    values: Drawn,
) -> DetailsModel:
    """Return the contents of the panel for a node.

    Args:
        looking: The graph, and the parts of it that have been read.
        shown: The shown pass.
        opening: The contents of open nodes.
        node: The node's id in the current drawing.
        cursor: Number of completed steps of the pass; None for the current cursor.
        values: The small values, as they are drawn.
    """
    told: _Told | None = None
    if shown is not None and cursor is not None:
        shown = shown.at_cursor(cursor)
        told = _told_at(shown, node) if shown.owned else None
    place = opening.places.get(node)
    if place is not None:
        return inside_details(opening, node, place, shown, looking.summaries.of)
    found = details(looking, node, shown, values, without_grad=told is not None)
    found["about"] += opening.about(node)
    if shown is not None and told is not None:
        _put_grad(looking, node, shown, found, told)
    return found


_Told = tuple[torch.Tensor, Moment]


def _told_at(recording: RecordedPass, node: int) -> _Told | None:
    """A tensor of a node, and its ``.grad`` at the cursor of a pass that moves it."""
    assert recording.run.grads is not None
    for timeline in recording.run.grads.of(node):
        tensor = timeline.tensor()
        if tensor is not None:
            return tensor, timeline.moments[timeline.at(recording.cursor)]
    return None


def _put_grad(
    looking: DetailsReader, node: int, recording: RecordedPass, found: DetailsModel, told: _Told
) -> None:
    """Add ``.grad`` at the cursor."""
    tensor, moment = told
    missing = moment.grad is None
    if missing != (tensor.grad is None):
        found["explained"] = None  # it explains the current `.grad`
    found["grad"] = None if missing else as_kept(moment).summarise(looking.summaries.of)
    graph, run = looking.captured.graph, recording.run
    found["grad_note"]["grad"] = (
        why.no_grad(graph, node, tensor, run, recording.state(node)) if missing else None
    )


def cursors_of_changes(recording: RecordedPass | None, opening: Opening, node: int) -> list[int]:
    """List the cursors at which a node runs, gets a gradient or changes its ``.grad``.

    Args:
        recording: The shown pass.
        opening: The insides of open nodes; these change with the node around them.
        node: Its id in the current drawing.
    """
    place = opening.places.get(node)
    node = node if place is None else place.inside.node
    if recording is None or node >= len(opening.captured.nodes):
        return [0]
    run = recording.run
    found = {0}
    own = run.numbers.get(node)
    if own is not None:
        found |= {own, own + 1}
    takers = opening.captured.predecessors[node]
    found |= {run.numbers[source] for source in takers if source in run.numbers}
    for timeline in run.grads.of(node) if run.grads is not None else ():
        found |= {moment.step for moment in timeline.moments}
    return sorted(cursor for cursor in found if cursor <= run.total)
