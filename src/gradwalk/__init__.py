"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from .backward.recording import Recording, record
from .comparison.compare import compare
from .comparison.compare_widget import CompareWidget
from .files.dot import make_dot
from .files.save import save
from .files.tensorboard import to_tensorboard
from .forward.watch import watch
from .reasons.explain import explain_grad
from .subject.capture import capture
from .subject.diagnose import diagnose
from .widget.graph_widget import GraphWidget
from .widget.load import load

__version__ = "0.1.0"

__all__ = [
    "CompareWidget",
    "GraphWidget",
    "Recording",
    "capture",
    "compare",
    "diagnose",
    "explain_grad",
    "load",
    "make_dot",
    "record",
    "save",
    "to_tensorboard",
    "watch",
]
