"""A finding: something that may be wrong, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..result import make, returned_by
from ..schema.findings import FindingKind, FindingModel, Severity
from ..schema.json_values import json_number


@returned_by("diagnose(loss)")
@dataclass(frozen=True)
class Finding:
    """Something about a graph or its gradients that may be wrong.

    Attributes:
        kind: The kind, explained in the reference of findings. "failed" is a part of the search
            itself, and "no-backward" means that no pass is known.
        severity: "error", "warning", or "info" for what is only worth knowing.
        nodes: The nodes it is about, the most important first.
        message: Whole sentences with the numbers that it rests on.
        numbers: These numbers, by what they are.
        module: The path of the module it is about, "encoder.layers.0"; None if it is not known.
        line: The line of the program it is about, "train.py:12"; None if it is not known.
    """

    kind: FindingKind
    severity: Severity
    nodes: list[int]
    message: str
    numbers: dict[str, float] = field(default_factory=dict)
    module: str | None = None
    line: str | None = None


def finding_models(findings: Iterable[Finding]) -> list[FindingModel]:
    """Findings as plain JSON values."""
    return [
        {
            "kind": finding.kind,
            "severity": finding.severity,
            "nodes": finding.nodes,
            "message": finding.message,
            "numbers": [{"name": k, "value": json_number(v)} for k, v in finding.numbers.items()],
            "module": finding.module,
            "line": finding.line,
        }
        for finding in findings
    ]


def findings_from(models: Iterable[FindingModel]) -> list[Finding]:
    """The findings that were made into plain JSON values."""
    found = []
    for model in models:
        numbers = {number["name"]: float(number["value"]) for number in model["numbers"]}
        place = model["module"], model["line"]
        about = model["nodes"], model["message"], numbers, *place
        found.append(make(Finding, model["kind"], model["severity"], *about))
    return found
