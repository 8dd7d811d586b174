"""Classes of results, for annotations and ``isinstance``; the functions of gradwalk return them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .public import import_public

if TYPE_CHECKING:
    from .backward.record import Recording
    from .backward.recorded_pass import RecordedStep, StepContribution
    from .checks.finding import Finding
    from .checks.memory import HeldGraph
    from .comparison.compare_widget import CompareWidget
    from .explain.explain_grad import Explanation
    from .features.dependencies.dependencies import Dependencies
    from .features.experiments.check import Check
    from .features.experiments.contributions import Contribution
    from .features.experiments.what_if import WhatIf
    from .features.failure.failure import Failure
    from .features.follow.follow import FollowedRun
    from .features.follow.run_finding import RunFinding
    from .features.interact.descent import Descent, Difference
    from .features.interact.interact import Interact
    from .features.numerics.compare_numerics import NumericsComparison
    from .features.numerics.rows import NumericsRow
    from .features.plan.advice import Advice
    from .features.plan.module_plans import ModulePlan
    from .features.plan.plan import HeldTensor, Place, Plan
    from .tracing.failed_call import FailedInput
    from .widget.graph_node import GraphNode
    from .widget.graph_traits import Measurement, NodeMeasure

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
]

_PLACES = {
    "Advice": "features.plan.advice",
    "Check": "features.experiments.check",
    "CompareWidget": "comparison.compare_widget",
    "Contribution": "features.experiments.contributions",
    "Dependencies": "features.dependencies.dependencies",
    "Descent": "features.interact.descent",
    "Difference": "features.interact.descent",
    "Explanation": "explain.explain_grad",
    "FailedInput": "tracing.failed_call",
    "Failure": "features.failure.failure",
    "Finding": "checks.finding",
    "FollowedRun": "features.follow.follow",
    "GraphNode": "widget.graph_node",
    "HeldGraph": "checks.memory",
    "HeldTensor": "features.plan.plan",
    "Interact": "features.interact.interact",
    "Measurement": "widget.graph_traits",
    "ModulePlan": "features.plan.module_plans",
    "NodeMeasure": "widget.graph_traits",
    "NumericsComparison": "features.numerics.compare_numerics",
    "NumericsRow": "features.numerics.rows",
    "Place": "features.plan.plan",
    "Plan": "features.plan.plan",
    "RecordedStep": "backward.recorded_pass",
    "Recording": "backward.record",
    "RunFinding": "features.follow.run_finding",
    "StepContribution": "backward.recorded_pass",
    "WhatIf": "features.experiments.what_if",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = import_public(f"{__name__}.{name}", _PLACES[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
