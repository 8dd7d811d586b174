"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from .capture import capture
from .widget import GraphWidget

__all__ = ["GraphWidget", "capture"]
