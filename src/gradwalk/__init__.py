"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from .backward.recording import Recording, record
from .comparison.compare import compare
from .comparison.compare_widget import CompareWidget
from .files.dot import make_dot
from .files.save import save
from .files.tensorboard import to_tensorboard
from .forward.watch import watch
from .program.fx_graph import capture_fx
from .reasons.explain import explain_grad
from .subject.capture import capture
from .subject.diagnose import diagnose
from .widget.graph_widget import GraphWidget

__all__ = [
    "CompareWidget",
    "GraphWidget",
    "Recording",
    "capture",
    "capture_fx",
    "compare",
    "diagnose",
    "explain_grad",
    "make_dot",
    "record",
    "save",
    "to_tensorboard",
    "watch",
]
