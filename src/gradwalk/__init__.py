"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import integrations, results, testing, types
    from .backward.record import record
    from .comparison.compare import compare
    from .comparison.load import load
    from .explain.explain_grad import explain_grad
    from .export.save import save
    from .export.tensorboard import to_tensorboard
    from .export.torchviz_dot import make_dot
    from .features.dependencies.dependencies import dependencies
    from .features.experiments.check import check
    from .features.experiments.contributions import contributions
    from .features.experiments.what_if import what_if
    from .features.failure.failure import last_failure
    from .features.follow.follow import follow
    from .features.held.held import held
    from .features.interact.interact import interact
    from .features.numerics.compare_numerics import compare_numerics
    from .features.plan.plan import plan
    from .sources.diagnose import diagnose
    from .sources.read_source import capture
    from .tracing.watch import watch
    from .widget.graph_widget import GraphWidget

__version__ = "0.1.0"

__all__ = [
    "GraphWidget",
    "capture",
    "check",
    "compare",
    "compare_numerics",
    "contributions",
    "dependencies",
    "diagnose",
    "explain_grad",
    "follow",
    "held",
    "integrations",
    "interact",
    "last_failure",
    "load",
    "make_dot",
    "plan",
    "record",
    "results",
    "save",
    "testing",
    "to_tensorboard",
    "types",
    "watch",
    "what_if",
]

# Imported when first used: a training script that only records needs no widget.
_PLACES = {
    "GraphWidget": "widget.graph_widget",
    "capture": "sources.read_source",
    "check": "features.experiments.check",
    "compare": "comparison.compare",
    "compare_numerics": "features.numerics.compare_numerics",
    "contributions": "features.experiments.contributions",
    "dependencies": "features.dependencies.dependencies",
    "diagnose": "sources.diagnose",
    "explain_grad": "explain.explain_grad",
    "follow": "features.follow.follow",
    "held": "features.held.held",
    "interact": "features.interact.interact",
    "last_failure": "features.failure.failure",
    "load": "comparison.load",
    "make_dot": "export.torchviz_dot",
    "plan": "features.plan.plan",
    "record": "backward.record",
    "save": "export.save",
    "to_tensorboard": "export.tensorboard",
    "watch": "tracing.watch",
    "what_if": "features.experiments.what_if",
    # IPython looks for these two; they are not for programs.
    "load_ipython_extension": "features.cells.extension",
    "unload_ipython_extension": "features.cells.extension",
}
_MODULES = ("integrations", "results", "testing", "types")


def __getattr__(name: str) -> Any:
    if name not in _PLACES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .public import import_public  # noqa: PLC0415  the first import brings nothing else

    found = import_public(f"{__name__}.{name}", _PLACES.get(name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
