"""What experiments add to the core: a controller of `GraphWidget`, for its edits and checks."""

from __future__ import annotations

from ...widget.graph_widget import CONTROLLERS
from .edit_controller import EditController

CONTROLLERS.add(EditController)
