"""Expand and collapse: what is inside of a node, shown in its place."""

from __future__ import annotations

from typing import Any, Literal

from ..graph.adjacency import collector_paused
from ..graph.integers import read_int
from ..sources.graph_source import GraphSource
from ..torch_api.modes import unseen
from .controllers import Controller
from .cursor_controller import CursorController
from .drawing import State
from .graph_traits import GraphTraits
from .update_controller import UpdateController


class OpenController(Controller[GraphTraits]):
    """Expands and collapses nodes."""

    def __init__(
        self, widget: GraphTraits, cursors: CursorController, updates: UpdateController
    ) -> None:
        super().__init__(widget)
        self._cursors = cursors
        self._updates = updates

    def turn(self, node: Any, how: Literal["expand", "collapse"]) -> None:
        """Expand or collapse a node; see `GraphWidget.expand`."""
        widget = self.widget
        widget._refuse_closed()
        self._cursors.refuse_while_running(f"{how}()")
        node = read_int(node, f"{how}() was given ", "Give the id of a node.")
        source = widget._open()
        with widget._lock, widget._change():
            widget._refresh(describe=False)
            before = len(source.drawn)
            with collector_paused(), unseen():
                source.expand(node) if how == "expand" else source.collapse(node)
                if len(source.drawn) != before:
                    self._updates.draw_again(source)
                    widget._mark(State.DETAILS_PENDING)

    def handle(self, message: dict[str, Any]) -> bool:
        """Expand or collapse the node of a message."""
        if message.get("kind") not in ("expand", "collapse"):
            return False
        self.turn(message["node"], message["kind"])
        return True

    def on_pass(self, source: GraphSource) -> None:
        """Say which nodes can be opened: a pass may have recorded what is inside of them."""
        self.widget.set_trait("_openable", list(source.openable) or None)
