"""gradwalk: an interactive explorer for PyTorch's autograd graph."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import integrations, testing, types
    from .backward.record import Recording, record
    from .backward.recorded_pass import RecordedStep, StepContribution
    from .checks.finding import Finding
    from .checks.memory import HeldGraph
    from .comparison.compare import compare
    from .comparison.compare_widget import CompareWidget
    from .comparison.load import load
    from .explain.explain_grad import Explanation, explain_grad
    from .export.save import save
    from .export.tensorboard import to_tensorboard
    from .export.torchviz_dot import make_dot
    from .features.dependencies.dependencies import Dependencies, dependencies
    from .features.experiments.check import Check, check
    from .features.experiments.contributions import Contribution, contributions
    from .features.experiments.what_if import WhatIf, what_if
    from .features.failure.failure import Failure, last_failure
    from .features.follow.follow import FollowedRun, follow
    from .features.follow.run_finding import RunFinding
    from .features.held.held import held
    from .features.interact.descent import Descent, Difference
    from .features.interact.interact import Interact, interact
    from .features.numerics.compare_numerics import NumericsComparison, compare_numerics
    from .features.numerics.rows import NumericsRow
    from .features.plan.advice import Advice
    from .features.plan.module_plans import ModulePlan
    from .features.plan.plan import HeldTensor, Place, Plan, plan
    from .sources.diagnose import diagnose
    from .sources.read_source import capture
    from .tracing.failed_call import FailedInput
    from .tracing.watch import watch
    from .widget.graph_node import GraphNode
    from .widget.graph_traits import Measurement, NodeMeasure
    from .widget.graph_widget import GraphWidget

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Check",
    "CompareWidget",
    "Contribution",
    "Dependencies",
    "Descent",
    "Difference",
    "Explanation",
    "FailedInput",
    "Failure",
    "Finding",
    "FollowedRun",
    "GraphNode",
    "GraphWidget",
    "HeldGraph",
    "HeldTensor",
    "Interact",
    "Measurement",
    "ModulePlan",
    "NodeMeasure",
    "NumericsComparison",
    "NumericsRow",
    "Place",
    "Plan",
    "RecordedStep",
    "Recording",
    "RunFinding",
    "StepContribution",
    "WhatIf",
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
    "save",
    "testing",
    "to_tensorboard",
    "types",
    "watch",
    "what_if",
]

# Imported when first used: a training script that only records needs no widget.
_PLACES = {
    name: module
    for module, names in {
        "backward.record": ("Recording", "record"),
        "backward.recorded_pass": ("RecordedStep", "StepContribution"),
        "checks.finding": ("Finding",),
        "checks.memory": ("HeldGraph",),
        "comparison.compare": ("compare",),
        "comparison.compare_widget": ("CompareWidget",),
        "comparison.load": ("load",),
        "explain.explain_grad": ("Explanation", "explain_grad"),
        "export.save": ("save",),
        "export.tensorboard": ("to_tensorboard",),
        "export.torchviz_dot": ("make_dot",),
        # IPython looks for these two; they are not for programs.
        "features.cells.extension": ("load_ipython_extension", "unload_ipython_extension"),
        "features.dependencies.dependencies": ("Dependencies", "dependencies"),
        "features.experiments.check": ("Check", "check"),
        "features.experiments.contributions": ("Contribution", "contributions"),
        "features.experiments.what_if": ("WhatIf", "what_if"),
        "features.failure.failure": ("Failure", "last_failure"),
        "features.follow.follow": ("FollowedRun", "follow"),
        "features.follow.run_finding": ("RunFinding",),
        "features.held.held": ("held",),
        "features.interact.descent": ("Descent", "Difference"),
        "features.interact.interact": ("Interact", "interact"),
        "features.numerics.compare_numerics": ("NumericsComparison", "compare_numerics"),
        "features.numerics.rows": ("NumericsRow",),
        "features.plan.advice": ("Advice",),
        "features.plan.module_plans": ("ModulePlan",),
        "features.plan.plan": ("HeldTensor", "Place", "Plan", "plan"),
        "sources.diagnose": ("diagnose",),
        "sources.read_source": ("capture",),
        "tracing.failed_call": ("FailedInput",),
        "tracing.watch": ("watch",),
        "widget.graph_node": ("GraphNode",),
        "widget.graph_widget": ("GraphWidget",),
        "widget.graph_traits": ("Measurement", "NodeMeasure"),
    }.items()
    for name in names
}


_MODULES = ("integrations", "testing", "types")


def __getattr__(name: str) -> Any:
    if name not in _PLACES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = importlib.import_module(f".{_PLACES.get(name, name)}", __name__)
        if name in _PLACES:
            found = getattr(found, name)
    except Exception as error:
        # One that does not name torch says what is missing: another package, the browser's files.
        if isinstance(error, ImportError) and not str(error.name).startswith("torch"):
            raise
        # Not an AttributeError, of which Python says "cannot import name" and nothing else.
        raise ImportError(_why_not_imported(name, error)) from error
    globals()[name] = found
    return found


def _why_not_imported(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return (
            f"gradwalk.{name} needs torch, which is not installed. gradwalk.load() and "
            "python -m gradwalk make pages and pictures of saved files without it."
        )
    from .torch_api.capability import NEWEST, OLDEST, torch_version  # noqa: PLC0415

    return (
        f"gradwalk.{name} cannot be imported with torch {torch_version()}: {type(error).__name__}: "
        f"{error}. gradwalk {__version__} was tested with torch {OLDEST} to {NEWEST}: install one "
        "of these, or a newer gradwalk. If yours is one of these, please report the error above."
    )


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
