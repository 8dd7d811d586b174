"""The findings of a followed run: one table of their kinds, severities and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...english import list_some, plural
from ...result import make
from ...schema.findings import Severity
from .run_finding import RunFinding

_MOST_NAMES = 4


class Sentence(NamedTuple):
    """A kind of finding, its severity, and its text.

    The text may use ``{names}``, ``{count}`` ("2 parameters"), ``{number}``, ``{step}``, and the
    words and numbers that it is given.
    """

    kind: str
    severity: Severity
    text: str


SENTENCES = {
    # A look at a step.
    "cut": Sentence(
        "no-gradient",
        "warning",
        "{names} got no gradient at step {step} ({number} of {total}). {reason}",
    ),
    "gradient": Sentence(
        "nan", "error", "The gradient of {names} is NaN or Inf at step {step}, before the step."
    ),
    "loss": Sentence("nan", "error", "The loss is not finite at step {step}, before the step."),
    "cleared at step": Sentence(
        "cleared",
        "warning",
        "The .grad of {names} was cleared between backward() and step() of step {step} ({count}), "
        "so the step did not use it. Call zero_grad() before backward(), or after step().",
    ),
    "cleared between": Sentence(
        "cleared",
        "warning",
        "{passes} backward passes ran before step {step}, and the gradients of {cleared} of them "
        "were cleared before the next one. The step used only what was left, unless the program "
        "kept copies. To accumulate, call zero_grad() once for each step().",
    ),
    "not held": Sentence(
        "optimizer",
        "warning",
        "{names} got a gradient at step {step} ({count}), but no optimizer holds them, so they "
        "stay as they are. Pass them to the optimizer, and make it after the last change of "
        "layers; or freeze them with requires_grad_(False).",
    ),
    "replaced": Sentence(
        "optimizer",
        "warning",
        "{names} got no gradient at step {step} and is not a parameter of the model. A layer that "
        "was replaced after the optimizer was made leaves such tensors: make the optimizer after "
        "the last change.",
    ),
    "frozen": Sentence(
        "frozen",
        "info",
        "The optimizer holds {names} ({count}), whose requires_grad is False, so its step leaves "
        "them as they are. If they should learn, call requires_grad_().",
    ),
    "scaled": Sentence(
        "scaled",
        "warning",
        "The loss was scaled by {scale:g}, and step {step} used gradients that were not unscaled. "
        "Call scaler.step(optimizer) in place of optimizer.step().",
    ),
    # All steps since the look.
    "unused": Sentence("unused", "warning", "{names} got no gradient {often} ({count}).{because}"),
    "zero": Sentence(
        "zero", "warning", "{names} got only zeros as gradient {often} ({count}).{because}"
    ),
    # The numbers of each step.
    "born": Sentence("nan", "error", "{said} All steps before were finite. {born}"),
    "spike": Sentence(
        "spike",
        "info",
        "The norm of all gradients is {norm:.3g} at step {step}, {times:.3g} times the median of "
        "the steps before. The largest is that of {names} ({largest:.3g}).",
    ),
    # The numbers before and after a step.
    "unchanged": Sentence(
        "unchanged",
        "warning",
        "Step {step} changed none of the compared numbers of {names} ({number} of {total}), "
        "although they have a gradient. {why}",
    ),
    "changed": Sentence(
        "unchanged",
        "info",
        "Step {step} changed {names} ({count}), although .grad is None. It may share its memory "
        "with another parameter.",
    ),
    "wrote": Sentence(
        "nan",
        "error",
        "Step {step} wrote NaN or Inf into {names} ({count}), although the gradients were finite.",
    ),
}


def finding(
    key: str,
    step: int,
    names: Sequence[str] = (),
    *,
    line: str | None = None,
    node: int | None = None,
    severity: Severity | None = None,
    words: Mapping[str, str] | None = None,
    numbers: Mapping[str, float] | None = None,
) -> RunFinding:
    """Make a finding of the table; ``words`` and ``numbers`` fill its sentence."""
    kind, usual, text = SENTENCES[key]
    found = {**({"count": len(names)} if names else {}), **(numbers or {})}
    message = text.format_map(
        {
            **found,
            "step": step,
            "names": list_some(names, _MOST_NAMES),
            "number": len(names),
            **(words or {}),
            "count": plural(len(names), "parameter"),
        }
    )
    given = severity or usual, step, message.strip(), tuple(names), line, found, node
    return make(RunFinding, kind, *given)
