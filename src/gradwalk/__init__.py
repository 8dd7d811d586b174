"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from .capture import capture
from .dot import make_dot
from .recording import Recording, record
from .tensorboard import to_tensorboard
from .watch import watch
from .widget import GraphWidget

__all__ = [
    "GraphWidget",
    "Recording",
    "capture",
    "make_dot",
    "record",
    "to_tensorboard",
    "watch",
]
