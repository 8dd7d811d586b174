"""Errors of a planned step: where it failed, in which module, and what to do."""

from __future__ import annotations

import traceback
from typing import TypeVar

from torch import nn

from ...torch_api.fake_tensors import data_dependent
from ...tracing.source_line import is_library, shown_file

_E = TypeVar("_E", bound=Exception)

_LONGEST = 400
_MARK = "_is_of_plan"


def of_plan(error: _E) -> _E:
    """Mark an error whose message already says what to do."""
    vars(error)[_MARK] = True
    return error


def is_of_plan(error: Exception) -> bool:
    """Whether `of_plan` has marked an error."""
    return _MARK in vars(error)


class StepError(RuntimeError):
    """A step that failed.

    Attributes:
        where: The line, its text and the module, as the start of a sentence.
        error: The error that it raised.
        answers: The number of booleans that were assumed before.
    """

    def __init__(self, where: str, error: Exception, do: str = "", answers: int = 0) -> None:
        self.where, self.error, self.answers = where, error, answers
        super().__init__(f"{where}{_said(error)} {do}".strip())


def failed(
    error: Exception, model: nn.Module, answers: int, kind: type[StepError] = StepError
) -> StepError:
    """Return a `StepError` for an error that left a step of a model."""
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if not is_library(line.filename)]
    module = _module_of(error, model)
    if not own:
        return kind(f"In {module}" if module else "A line of torch", error, answers=answers)
    place = f"{shown_file(own[-1].filename)}:{own[-1].lineno}"
    text = f" ({own[-1].line})" if own[-1].line else ""
    return kind(f"{place}{text}{f', in {module}' * bool(module)}", error, answers=answers)


def _module_of(error: Exception, model: nn.Module) -> str:
    """Return the name of the innermost module that ran, or its class if it has no name."""
    names = {id(module): name for name, module in model.named_modules()}
    found = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            found = names.get(id(module)) or type(module).__name__
    return found


def _said(error: Exception) -> str:
    if isinstance(error, data_dependent()):
        operation = getattr(error, "func", None) or "an operation"
        return f" needs the values of a tensor for {operation}, and a plan has none."
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = f"{first[:_LONGEST]}…" if len(first) > _LONGEST else first.rstrip(".")
    kind = type(error).__name__
    return (
        f": {text}."
        if text and isinstance(error, RuntimeError)
        else f": {kind} {text}".rstrip() + "."
    )
