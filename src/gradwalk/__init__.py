"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from .capture import capture
from .compare import compare
from .compare_widget import CompareWidget
from .diagnose import diagnose
from .dot import make_dot
from .explain import explain_grad
from .recording import Recording, record
from .save import save
from .tensorboard import to_tensorboard
from .watch import watch
from .widget import GraphWidget

__all__ = [
    "CompareWidget",
    "GraphWidget",
    "Recording",
    "capture",
    "compare",
    "diagnose",
    "explain_grad",
    "make_dot",
    "record",
    "save",
    "to_tensorboard",
    "watch",
]
