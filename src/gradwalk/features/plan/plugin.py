"""Add `GraphWidget.measure` to the widget."""

from __future__ import annotations

from ...widget.graph_widget import CONTROLLERS
from .measure import MeasureController

CONTROLLERS.add(MeasureController)
