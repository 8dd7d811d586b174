"""The findings of a full look at a step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ...checks.finding import Finding
from ...english import list_some, plural
from ...explain.explain_grad import Explanation
from ...schema.findings import Severity
from .look import Look
from .norms import UNREAD, norms_of
from .program import Part, Program, module_line
from .run_finding import RunFinding, run_finding

PATIENCE = 20
"""Steps until it is a warning that no step has reached a parameter."""

_FROM_DIAGNOSE = frozenset(
    {
        "nan", "changed", "dead", "vanishing", "exploding", "unregistered", "softmax-twice",
        "sigmoid-twice", "target", "changed-gradient", "repeated-index", "padding",
    }
)  # fmt: skip
"""Kinds that say the same of every step. The look knows more of the others: it sees the step."""


@dataclass
class Waiting:
    """Parameters without a usable gradient at the look. A later step may give them one."""

    kind: str  # "unused" or "zero"
    parts: dict[int, str]  # names by the id of the tensor
    reasons: dict[int, Explanation | None]
    lines: dict[int, str | None]
    since: int
    are_small: bool  # biases alone, whose zeros may cancel, as in a difference of two results


@dataclass
class Judgement:
    """What one step of an optimizer was given."""

    step: int
    trainable: int = 0
    reached: int = 0
    losses: list[float] = field(default_factory=list)
    passes: int = 0
    findings: list[RunFinding] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)

    def __str__(self) -> str:
        losses = list_some([f"{each:.4g}" for each in self.losses], 3)
        shown = f", loss {losses}" if losses else ""
        return (
            f"step {self.step}: {self.reached} of {plural(self.trainable, 'trainable parameter')} "
            f"have a gradient ({plural(self.passes, 'backward pass', 'backward passes')}{shown})"
        )


def judge(
    program: Program,
    optimizer: torch.optim.Optimizer,
    step: int,
    look: Look,
    *,
    first: int,
    own_passes: bool,
) -> Judgement:
    """Judge what an optimizer is given at a step.

    ``first``: the first pass that is its own. ``own_passes``: whether it runs backward itself.
    """
    held = [part for part in program.of(optimizer) if part.tensor.requires_grad]
    norms = norms_of([part.tensor for part in held])
    passes = look.passes_of_step(first)
    made = Judgement(step, len(held), len(norms), [x for p in passes for x in p.losses])
    made.passes = len(passes)
    add = made.findings.extend
    if not skips_overflow(optimizer):
        add(_not_finite(held, norms, step, look))
    add(_of_diagnose(look, step))
    if not own_passes:
        add(_cleared_at_step(held, norms, step, look))
        add(_cleared_between(held, step, look, first))
    add(_not_held(program, optimizer, step))
    add(_replaced(program, optimizer, norms, step))
    add(_frozen(program, optimizer, step))
    add(_scaled(optimizer, norms, step, look))
    lost = {key for finding in made.findings for key in finding.parameters}
    without = [part for part in held if id(part.tensor) not in norms and part.name not in lost]
    zero = [part for part in held if norms.get(id(part.tensor)) == 0 and part.name not in lost]
    made.waiting = [
        waiting
        for kind, parts in (("unused", without), ("zero", zero))
        if parts and (waiting := _waiting(kind, parts, step, look, first)).parts
    ]
    add(_cut(without, step, look, first, len(held)))
    return made


def judge_without(program: Program, look: Look) -> Judgement:
    """Judge the first pass of a program of which no optimizer has made a step."""
    first = look.passes[0]
    held = [part for key, part in program.parts.items() if key in first.reasons]
    if first.norms:  # other models have no part in it
        reached = [
            model
            for model in program.models.values()
            if any(id(each) in first.norms for each in model.parameters())
        ]
        own = {id(each) for model in reached for each in model.parameters()}
        held = [part for key, part in program.parts.items() if key in own]
    held = [part for part in held if part.tensor.requires_grad]
    keys = {id(part.tensor) for part in held}
    norms = {key: norm for key, norm in first.norms.items() if key in keys}
    made = Judgement(1, len(held), len(norms), first.losses, 1)
    made.findings += [*_not_finite(held, norms, 1, look), *_of_diagnose(look, 1)]
    without = [part for part in held if id(part.tensor) not in norms]
    made.findings += _cut(without, 1, look, 0, len(held))
    return made


def _cut(
    without: Sequence[Part], step: int, look: Look, first: int, total: int
) -> Iterator[RunFinding]:
    """Find parameters that a line of the program cuts off: one finding for each cause."""
    groups: dict[tuple[str, str | None], list[tuple[Part, Explanation]]] = {}
    for part in without:
        reason = look.reason_for(id(part.tensor), first)
        if reason is not None and _is_certain(reason):
            groups.setdefault((str(reason.causes), reason.line), []).append((part, reason))
    for group in groups.values():
        names, reason = [part.name for part, _ in group], group[0][1]
        ran = module_line(group[0][0])
        message = (
            f"{list_some(names, 4)} got no gradient at step {step} "
            f"({len(names)} of {plural(total, 'trainable parameter')}). {reason}"
        )
        line = reason.line or ran
        count = len(names)
        yield run_finding("no-gradient", "warning", step, message, names, line=line, count=count)


def _is_certain(reason: Explanation) -> bool:
    """Whether a reason holds for every step: a line of the program is the cause."""
    return reason.kind == "cut" or not {"no-graph", "no-graph-watched"}.isdisjoint(reason.causes)


def _waiting(kind: str, parts: Sequence[Part], step: int, look: Look, first: int) -> Waiting:
    reasons = {id(part.tensor): look.reason_for(id(part.tensor), first) for part in parts}
    open_ = [
        part
        for part in parts
        if (reason := reasons[id(part.tensor)]) is None or not _is_certain(reason)
    ]
    return Waiting(
        kind,
        {id(part.tensor): part.name for part in open_},
        reasons,
        {id(part.tensor): module_line(part) for part in open_},
        step,
        all(part.tensor.dim() < 2 for part in open_),
    )


def still_waiting(waiting: Waiting, step: int) -> RunFinding:
    """Say that parameters got no usable gradient in all steps since the look."""
    steps = step - waiting.since + 1
    names = list(waiting.parts.values())
    key = next(iter(waiting.parts))
    reason, ran = waiting.reasons.get(key), waiting.lines.get(key)
    what = "only zeros as gradient" if waiting.kind == "zero" else "no gradient"
    often = f"in {plural(steps, 'step')}" if steps > 1 else f"at step {step}"
    because = f" At step {waiting.since}: {reason}" if reason is not None else ""
    line = (reason.line if reason is not None else None) or ran
    message = (
        f"{list_some(names, 4)} got {what} {often} ({plural(len(names), 'parameter')}).{because}"
    )
    if ran is not None and line == ran:
        message += f" The forward of the module around it is at {ran}."
    numbers = {"count": float(len(names)), "steps": float(steps)}
    by_algebra = reason is not None and "derivative" in reason.causes
    is_open = steps < PATIENCE or by_algebra or (waiting.kind == "zero" and waiting.are_small)
    severity: Severity = "info" if is_open else "warning"
    return run_finding(waiting.kind, severity, step, message, names, line=line, **numbers)


def _not_finite(
    held: Sequence[Part], norms: dict[int, float], step: int, look: Look
) -> Iterator[RunFinding]:
    bad = [part for part in held if not math.isfinite(norms.get(id(part.tensor), 0))]
    known = next((each for each in _all(look) if each.kind == "nan"), None)
    losses = [loss for each in look.passes for loss in each.losses]
    if not bad and all(map(math.isfinite, losses)):
        return
    names = [part.name for part in bad]
    what = (
        f"The gradient of {list_some(names, 4)} is NaN or Inf" if bad else "The loss is not finite"
    )
    where = f" {known.message}" if known is not None else ""
    line = known.line if known is not None else None
    message = f"{what} at step {step}, before the step.{where}"
    yield run_finding("nan", "error", step, message, names, line=line, count=len(names))


def _all(look: Look) -> Iterator[Finding]:
    for each in look.passes:
        yield from each.findings


def _of_diagnose(look: Look, step: int) -> Iterator[RunFinding]:
    """What `diagnose` warns of, each once."""
    seen: set[str] = set()
    for finding in _all(look):
        if finding.kind == "nan" or finding.kind not in _FROM_DIAGNOSE:
            continue  # the step says more of NaN
        if finding.severity != "info" and finding.message not in seen:
            seen.add(finding.message)
            about = finding.kind, finding.severity, step, finding.message, ()
            yield run_finding(*about, line=finding.line)


def _cleared_at_step(
    held: Sequence[Part], norms: dict[int, float], step: int, look: Look
) -> Iterator[RunFinding]:
    """Gradients that the last pass gave, and that were gone when the step began."""
    if not look.passes:
        return
    had = look.passes[-1].norms
    names = [p.name for p in held if had.get(id(p.tensor)) and not norms.get(id(p.tensor))]
    if names:
        message = (
            f"The .grad of {list_some(names, 4)} was cleared between backward() and step() of "
            f"step {step} ({plural(len(names), 'parameter')}), so the step did not use it. Call "
            "zero_grad() before backward(), or after step()."
        )
        yield run_finding("cleared", "warning", step, message, names, count=len(names))


def _cleared_between(
    held: Sequence[Part], step: int, look: Look, first: int
) -> Iterator[RunFinding]:
    """Gradients of earlier passes of this step that were cleared before the next pass."""
    own = {id(part.tensor): part.name for part in held}
    passes = look.passes[first:]
    cleared = 0
    for before, after in itertools.pairwise(passes):
        filled = {key for key in own if before.norms.get(key)}
        again = {key for key in own if after.norms.get(key)}
        is_one_step = before.steps_before == after.steps_before
        cleared += is_one_step and bool(filled) and filled <= after.cleared and filled == again
    if cleared:
        message = (
            f"{len(passes)} backward passes ran before step {step}, and the gradients of {cleared} "
            f"of them were cleared before the next one. The step used only what was left, unless "
            "the program kept copies. To accumulate, call zero_grad() once for each step()."
        )
        names = list(own.values())
        yield run_finding("cleared", "warning", step, message, names, cleared=cleared)


def _not_held(
    program: Program, optimizer: torch.optim.Optimizer, step: int
) -> Iterator[RunFinding]:
    """Parameters that get a gradient, and that no optimizer has."""
    beside = [part for part in program.beside(optimizer) if part.tensor.requires_grad]
    norms = norms_of([part.tensor for part in beside])
    found = [part for part in beside if norms.get(id(part.tensor))]
    if not found:
        return
    names, ran = [part.name for part in found], module_line(found[0])
    message = (
        f"{list_some(names, 4)} got a gradient at step {step} ({plural(len(names), 'parameter')}), "
        "but no optimizer holds them, so they stay as they are. Pass them to the optimizer, and "
        "make it after the last change of layers; or freeze them with requires_grad_(False)."
    )
    yield run_finding("optimizer", "warning", step, message, names, line=ran, count=len(names))


def _replaced(
    program: Program, optimizer: torch.optim.Optimizer, norms: dict[int, float], step: int
) -> Iterator[RunFinding]:
    """Tensors that only the optimizer has any more, as of a replaced layer."""
    own = program.of(optimizer)
    if not any(part.module is not None for part in own):
        return
    stale = [
        part
        for part in own
        if part.module is None and part.tensor.requires_grad and id(part.tensor) not in norms
    ]
    if stale:
        names = [part.name for part in stale]
        message = (
            f"{list_some(names, 4)} got no gradient at step {step} and is not a parameter of the "
            "model. A layer that was replaced after the optimizer was made leaves such tensors: "
            "make the optimizer after the last change."
        )
        yield run_finding("optimizer", "warning", step, message, names, count=len(names))


def skips_overflow(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a GradScaler has told a fused optimizer to leave out a step with Inf in it."""
    return getattr(optimizer, "found_inf", None) is not None


def _frozen(program: Program, optimizer: torch.optim.Optimizer, step: int) -> Iterator[RunFinding]:
    frozen = [part for part in program.of(optimizer) if not part.tensor.requires_grad]
    if frozen:
        names, ran = [part.name for part in frozen], module_line(frozen[0])
        message = (
            f"The optimizer holds {list_some(names, 4)} ({plural(len(names), 'parameter')}), whose "
            "requires_grad is False, so its step leaves them as they are. If they should learn, "
            "call requires_grad_()."
        )
        yield run_finding("frozen", "info", step, message, names, line=ran, count=len(names))


def _scaled(
    optimizer: torch.optim.Optimizer, norms: dict[int, float], step: int, look: Look
) -> Iterator[RunFinding]:
    if getattr(optimizer, "grad_scale", None) is not None:
        return  # the optimizer unscales by itself, as fused ones do
    readable = {key: norm for key, norm in norms.items() if norm != UNREAD}
    scale = look.unscaled(readable)
    if scale is not None:
        message = (
            f"The loss was scaled by {scale:g}, and step {step} used gradients that were not "
            "unscaled. Call scaler.step(optimizer) in place of optimizer.step()."
        )
        yield run_finding("scaled", "warning", step, message, scale=scale)
