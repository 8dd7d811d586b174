"""Read the user's outputs as a source to show."""

from __future__ import annotations

from typing import Any

from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.record import Recording
from ..graph.capture import capture_nodes
from ..graph.garbage_collector import collector_paused
from ..graph.names import Names
from ..graph.outputs import read_given
from ..static.capture_static import capture_static
from ..torch_api.modes import grad_mode_kept, unseen
from ..tracing.annotate import MOST_INFERRED, annotate
from .graph_source import GraphSource
from .live_graph import LiveGraph
from .static_graph import StaticGraph


@grad_mode_kept
def read_source(
    given: tuple[Any, ...],
    called: Names,
    caller: str,
    *,
    named: bool = False,
    infer: bool | None = None,
    max_bytes: int = DEFAULT_BUDGET,
    max_nodes: int | None = None,
) -> GraphSource:
    """Capture what was given.

    Args:
        given: As for `gradwalk.GraphWidget`; or one `Recording`.
        called: The user's names for tensors and modules.
        caller: The public name to use in messages.
        named: Whether the user gave the names.
        infer: Whether to infer constants and cuts that nobody watched; None does so in graphs of up
            to 2,000 nodes.
        max_bytes: The most bytes of gradients to keep for each pass.
        max_nodes: The most autograd nodes; None for any number.

    Returns:
        The graph, not followed yet; a recording's with its pass.

    Raises:
        TypeError: An output carries no graph, is given beside a static graph, or names are given
            with a static graph.
        ValueError: No output was given, one does not require grad, or there are too many nodes.
    """
    recording = given[0] if len(given) == 1 and isinstance(given[0], Recording) else None
    with collector_paused(), unseen():
        if recording is not None:
            plain = recording._pass.captured
        else:
            asked = read_given(given, caller)
            if not isinstance(asked, list):
                if named:
                    raise TypeError(
                        f"{caller}() was given names along with a static graph, which has names of "
                        "its own. Leave them out."
                    )
                return StaticGraph(capture_static(asked))
            plain = capture_nodes(asked, called, max_nodes)
        if infer is None:
            infer = len(plain.nodes) <= MOST_INFERRED
        captured = annotate(plain, called, infer=infer)
        subject = LiveGraph(captured, called, max_bytes)
    subject.recording = None if recording is None else recording._pass
    return subject
