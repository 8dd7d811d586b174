"""A finding about a training run, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...result import returned_by
from ...schema.findings import Severity
from ...schema.json_values import json_number
from .ranks import line_of


@returned_by("follow(model, optimizer)")
@dataclass(frozen=True)
class RunFinding:
    """Something that may be wrong with a training run.

    Attributes:
        kind: The kind: "no-gradient", "unused", "zero", "nan", "optimizer", "frozen", "cleared",
            "scaled", "unchanged", "spike", "no-step", or a kind of `gradwalk.diagnose`.
        severity: "error", "warning", or "info" for what is only worth knowing.
        step: The number of the optimizer's step, from 1.
        message: Whole sentences with the numbers that it rests on.
        parameters: The names of the parameters it is about.
        line: A line of the program, as "model.py:31"; None if none is known.
        numbers: The numbers, by what they are.
        node: The node of the step's graph where NaN or Inf was born; None if none is known.
    """

    kind: str
    severity: Severity
    step: int
    message: str
    parameters: tuple[str, ...] = ()
    line: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    node: int | None = None

    def __str__(self) -> str:
        return line_of(vars(self))

    def _as_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        numbers = {name: json_number(value) for name, value in self.numbers.items()}
        return {**vars(self), "parameters": list(self.parameters), "numbers": numbers}
