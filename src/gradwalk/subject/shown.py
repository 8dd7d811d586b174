"""What a widget shows of a static graph."""

from __future__ import annotations

from typing import Any

from ..graph.outputs import Program
from ..program.static_capture import capture_static
from ..wire import GraphModel
from .model import MOST_SHOWN, graph_model, modules_model
from .static_follower import StaticFollower


def shown_static(
    program: Program, names: Any, direction: str | None, constants: bool | None
) -> tuple[StaticFollower, GraphModel, dict[str, Any]]:
    """What a widget shows of a static graph.

    Args:
        program: What ``torch.export.export`` or ``torch.fx.symbolic_trace`` returned.
        names: What the user passed as ``names=``; a static graph takes none.
        direction: Which way gradients would flow in the drawing; None is up, so that data flows
            down.
        constants: Whether buffers and constants are drawn; None draws them in small graphs.

    Returns:
        What stands in for a follower, the wire model, and the traits ``direction`` and
        ``constants``.

    Raises:
        TypeError: There are names.
    """
    if names is not None:
        raise TypeError(
            "GraphWidget() was given names along with a static graph, which has names of its own. "
            "Leave them out."
        )
    captured = capture_static(program)
    if constants is None:
        constants = len(captured.drawn) <= MOST_SHOWN
    shown = {"direction": direction or "up", "constants": constants}
    model = graph_model(captured.drawn, modules=modules_model(captured.modules))
    return StaticFollower(captured), model, shown
