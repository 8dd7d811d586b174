"""Add the quiz's controller to `GraphWidget`."""

from __future__ import annotations

from ...widget.graph_widget import CONTROLLERS
from .quiz import QuizController

CONTROLLERS.add(QuizController)
