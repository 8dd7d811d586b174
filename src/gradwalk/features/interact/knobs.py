"""The numbers that the reader sets in the picture, at the nodes of their leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...widget.controllers import Controller
from ...widget.graph_widget import GraphWidget


class Knobs(Controller[GraphWidget]):
    """Pass the numbers that the reader sets to a function."""

    def __init__(
        self, widget: GraphWidget, turned: Callable[[int, tuple[int, ...], float], None]
    ) -> None:
        """Begin.

        Args:
            widget: The widget.
            turned: Called with the node, the index of the number in it, and the number.
        """
        super().__init__(widget)
        self._turned = turned

    def handle(self, message: dict[str, Any]) -> bool:
        """Set the number of a message."""
        if message.get("kind") != "turn":
            return False
        at = tuple(map(int, message.get("at", ())))
        self._turned(int(message["node"]), at, float(message["value"]))
        return True
