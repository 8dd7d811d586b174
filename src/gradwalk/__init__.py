"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backward.recording import Recording, record
    from .comparison.compare import compare
    from .comparison.compare_widget import CompareWidget
    from .comparison.numerics import NumericsComparison, compare_numerics
    from .files.dot import make_dot
    from .files.save import save
    from .files.tensorboard import to_tensorboard
    from .forward.watch import watch
    from .interact.interact import interact
    from .laboratory.check import Check, check
    from .laboratory.contributions import Contribution, contributions
    from .laboratory.what_if import WhatIf, what_if
    from .reasons.explain import explain_grad
    from .subject.capture import capture
    from .subject.diagnose import diagnose
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
    "Check": "laboratory.check",
    "CompareWidget": "comparison.compare_widget",
    "Contribution": "laboratory.contributions",
    "GraphWidget": "widget.graph_widget",
    "NumericsComparison": "comparison.numerics",
    "Recording": "backward.recording",
    "WhatIf": "laboratory.what_if",
    "capture": "subject.capture",
    "check": "laboratory.check",
    "compare": "comparison.compare",
    "compare_numerics": "comparison.numerics",
    "contributions": "laboratory.contributions",
    "diagnose": "subject.diagnose",
    "explain_grad": "reasons.explain",
    "interact": "interact.interact",
    "load": "widget.load",
    "make_dot": "files.dot",
    "record": "backward.recording",
    "save": "files.save",
    "to_tensorboard": "files.tensorboard",
    "watch": "forward.watch",
    "what_if": "laboratory.what_if",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
