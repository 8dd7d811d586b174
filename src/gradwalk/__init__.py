"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from .comparing.compare import compare
from .comparing.compare_widget import CompareWidget
from .diagnosing.diagnose import diagnose
from .explaining.explain import explain_grad
from .exporting.dot import make_dot
from .exporting.save import save
from .exporting.tensorboard import to_tensorboard
from .graph.capture import capture
from .recording.recording import Recording, record
from .static_graph.fx_graph import capture_fx
from .watching.watch import watch
from .widget import GraphWidget

__version__ = "0.1.0"

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
