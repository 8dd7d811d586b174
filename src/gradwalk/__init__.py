"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backward.record import Recording, record
    from .comparison.compare import compare
    from .comparison.compare_widget import CompareWidget
    from .explain.explain_grad import explain_grad
    from .export.save import save
    from .export.tensorboard import to_tensorboard
    from .export.torchviz_dot import make_dot
    from .features.experiments.check import Check, check
    from .features.experiments.contributions import Contribution, contributions
    from .features.experiments.what_if import WhatIf, what_if
    from .features.interact.interact import interact
    from .features.numerics.compare_numerics import NumericsComparison, compare_numerics
    from .sources.capture_graph import capture
    from .sources.diagnose import diagnose
    from .tracing.watch import watch
    from .widget.graph_widget import GraphWidget
    from .widget.load import load

__version__ = "0.1.0"

__all__ = [
    "Check",
    "CompareWidget",
    "Contribution",
    "GraphWidget",
    "NumericsComparison",
    "Recording",
    "WhatIf",
    "capture",
    "check",
    "compare",
    "compare_numerics",
    "contributions",
    "diagnose",
    "explain_grad",
    "interact",
    "load",
    "make_dot",
    "record",
    "save",
    "to_tensorboard",
    "watch",
    "what_if",
]

# Imported when first used: a training script that only records needs no widget.
_PLACES = {
    "Check": "features.experiments.check",
    "CompareWidget": "comparison.compare_widget",
    "Contribution": "features.experiments.contributions",
    "GraphWidget": "widget.graph_widget",
    "NumericsComparison": "features.numerics.compare_numerics",
    "Recording": "backward.record",
    "WhatIf": "features.experiments.what_if",
    "capture": "sources.capture_graph",
    "check": "features.experiments.check",
    "compare": "comparison.compare",
    "compare_numerics": "features.numerics.compare_numerics",
    "contributions": "features.experiments.contributions",
    "diagnose": "sources.diagnose",
    "explain_grad": "explain.explain_grad",
    "interact": "features.interact.interact",
    "load": "widget.load",
    "make_dot": "export.torchviz_dot",
    "record": "backward.record",
    "save": "export.save",
    "to_tensorboard": "export.tensorboard",
    "watch": "tracing.watch",
    "what_if": "features.experiments.what_if",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
