"""The findings of a full look at a step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from ...english import list_some, plural
from ...explain.explain_grad import Explanation
from ...result import make, replaced
from ...schema.findings import Severity
from .look import Look
from .norms import UNREAD, norms_of
from .program import Part, Program, module_line
from .run_finding import RunFinding
from .sentences import finding

PATIENCE = 20
"""Steps until it is a warning that no step has reached a parameter."""

_FROM_DIAGNOSE = frozenset(
    {
        "changed", "dead", "vanishing", "exploding", "unregistered", "softmax-twice",
        "sigmoid-twice", "target", "changed-gradient", "repeated-index", "padding",
    }
)  # fmt: skip
"""Kinds that say the same of every step. The look knows more of the others: it sees the step."""


@dataclass
class Waiting:
    """Parameters without a usable gradient at the look. A later step may give them one."""

    kind: str  # "unused" or "zero"
    parts: dict[int, tuple[Part, Explanation | None]]  # by the id of the tensor
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


@dataclass
class Case:
    """A look, and the step of an optimizer that it is of."""

    step: int
    look: Look
    first: int  # the first pass that is its own
    held: Sequence[Part]  # trainable
    norms: Mapping[int, float]  # by the id of a tensor
    program: Program
    optimizer: torch.optim.Optimizer | None = None

    def where(self, holds: Callable[[Part], bool]) -> list[Part]:
        """Return the held parts of which something is true."""
        return [part for part in self.held if holds(part)]


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
    case = Case(step, look, first, held, norms, program, optimizer)
    passes = look.passes_of_step(first)
    losses = [loss for each in passes for loss in each.losses]
    made = Judgement(step, len(held), len(norms), losses, len(passes))
    for check in _CHECKS:
        is_skipped = (own_passes and check in _OF_PASSES) or (
            check is _not_finite and skips_overflow(optimizer)
        )
        made.findings += () if is_skipped else check(case)
    lost = {name for each in made.findings for name in each.parameters}
    without = case.where(lambda part: id(part.tensor) not in norms and part.name not in lost)
    zero = case.where(lambda part: norms.get(id(part.tensor)) == 0 and part.name not in lost)
    for kind, parts in (("unused", without), ("zero", zero)):
        waiting = _waiting(kind, parts, case)
        made.waiting += [waiting] if waiting is not None else []
    made.findings += _cut(without, case)
    return made


def judge_without(program: Program, look: Look) -> Judgement:
    """Judge the first pass of a program of which no optimizer has made a step."""
    first = look.passes[0]
    held = [part for key, part in program.parts.items() if key in first.reasons]
    if first.norms:  # other models have no part in it
        of_models = [[id(each) for each in m.parameters()] for m in program.models.values()]
        own = {key for keys in of_models if any(k in first.norms for k in keys) for key in keys}
        held = [part for key, part in program.parts.items() if key in own]
    held = [part for part in held if part.tensor.requires_grad]
    keys = {id(part.tensor) for part in held}
    norms = {key: norm for key, norm in first.norms.items() if key in keys}
    case = Case(1, look, 0, held, norms, program)
    without = case.where(lambda part: id(part.tensor) not in norms)
    findings = [*_not_finite(case), *_of_diagnose(case), *_cut(without, case)]
    return Judgement(1, len(held), len(norms), first.losses, 1, findings)


def _names(parts: Sequence[Part]) -> list[str]:
    return [part.name for part in parts]


def _cut(without: Sequence[Part], case: Case) -> Iterator[RunFinding]:
    """Find parameters that a line of the program cuts off: one finding for each cause."""
    groups: dict[tuple[str, str | None], list[tuple[Part, Explanation]]] = {}
    for part in without:
        reason = case.look.reason_for(id(part.tensor), case.first)
        if reason is not None and _is_certain(reason):
            groups.setdefault((str(reason.causes), reason.line), []).append((part, reason))
    for group in groups.values():
        part, reason = group[0]
        words = {"total": plural(len(case.held), "trainable parameter"), "reason": str(reason)}
        names, line = [each.name for each, _ in group], reason.line or module_line(part)
        yield finding("cut", case.step, names, line=line, words=words)


def _is_certain(reason: Explanation) -> bool:
    """Whether a reason holds for every step: a line of the program is the cause."""
    return reason.kind == "cut" or not {"no-graph", "no-graph-watched"}.isdisjoint(reason.causes)


def _waiting(kind: str, parts: Sequence[Part], case: Case) -> Waiting | None:
    known = [(part, case.look.reason_for(id(part.tensor), case.first)) for part in parts]
    known = [(part, reason) for part, reason in known if reason is None or not _is_certain(reason)]
    if not known:
        return None
    are_small = all(part.tensor.dim() < 2 for part, _ in known)
    return Waiting(kind, {id(each[0].tensor): each for each in known}, case.step, are_small)


def still_waiting(waiting: Waiting, step: int) -> RunFinding:
    """Say that parameters got no usable gradient in all steps since the look."""
    steps = step - waiting.since + 1
    part, reason = next(iter(waiting.parts.values()))
    ran = module_line(part)
    because = f" At step {waiting.since}: {reason}" if reason is not None else ""
    line = (reason.line if reason is not None else None) or ran
    if ran is not None and line == ran:
        because += f" The forward of the module around it is at {ran}."
    often = f"in {plural(steps, 'step')}" if steps > 1 else f"at step {step}"
    words = {"often": often, "because": because}
    by_algebra = reason is not None and "derivative" in reason.causes
    is_open = steps < PATIENCE or by_algebra or (waiting.kind == "zero" and waiting.are_small)
    names = _names([part for part, _ in waiting.parts.values()])
    severity: Severity | None = "info" if is_open else None
    numbers = {"steps": float(steps)}
    return finding(
        waiting.kind, step, names, line=line, severity=severity, words=words, numbers=numbers
    )


def _not_finite(case: Case) -> Iterator[RunFinding]:
    bad = case.where(lambda part: not math.isfinite(case.norms.get(id(part.tensor), 0)))
    passes = case.look.passes
    if not bad and all(math.isfinite(loss) for each in passes for loss in each.losses):
        return
    known = next((f for each in passes for f in each.findings if f.kind == "nan"), None)
    line = known.line if known is not None else None
    node = known.nodes[0] if known is not None and known.nodes else None
    found = finding("gradient" if bad else "loss", case.step, _names(bad), line=line, node=node)
    yield found if known is None else replaced(found, message=f"{found.message} {known.message}")


def _of_diagnose(case: Case) -> Iterator[RunFinding]:
    """What `diagnose` warns of, each once."""
    every = [each for one in case.look.passes for each in one.findings]
    for each in {each.message: each for each in reversed(every)}.values():
        if each.kind in _FROM_DIAGNOSE and each.severity != "info":
            about = each.kind, each.severity, case.step, each.message, (), each.line
            yield make(RunFinding, *about)


def _cleared_at_step(case: Case) -> Iterator[RunFinding]:
    """Gradients that the last pass gave, and that were gone when the step began."""
    had = case.look.passes[-1].norms if case.look.passes else {}
    gone = case.where(lambda p: bool(had.get(id(p.tensor)) and not case.norms.get(id(p.tensor))))
    if gone:
        yield finding("cleared at step", case.step, _names(gone))


def _cleared_between(case: Case) -> Iterator[RunFinding]:
    """Gradients of earlier passes of this step that were cleared before the next pass."""
    own, passes = {id(part.tensor) for part in case.held}, case.look.passes[case.first :]
    cleared = 0
    for before, after in itertools.pairwise(passes):
        filled = {key for key in own if before.norms.get(key)}
        again = {key for key in own if after.norms.get(key)}
        is_one_step = before.steps_before == after.steps_before
        cleared += is_one_step and bool(filled) and filled <= after.cleared and filled == again
    if cleared:
        numbers = {"passes": len(passes), "cleared": cleared}
        yield finding("cleared between", case.step, _names(case.held), numbers=numbers)


def _not_held(case: Case) -> Iterator[RunFinding]:
    """Parameters that get a gradient, and that no optimizer has."""
    assert case.optimizer is not None
    beside = [part for part in case.program.beside(case.optimizer) if part.tensor.requires_grad]
    norms = norms_of([part.tensor for part in beside])
    found = [part for part in beside if norms.get(id(part.tensor))]
    if found:
        yield finding("not held", case.step, _names(found), line=module_line(found[0]))


def _replaced(case: Case) -> Iterator[RunFinding]:
    """Tensors that only the optimizer has any more, as of a replaced layer."""
    stale = case.where(lambda part: part.module is None and id(part.tensor) not in case.norms)
    assert case.optimizer is not None
    if stale and any(part.module is not None for part in case.program.of(case.optimizer)):
        yield finding("replaced", case.step, _names(stale))


def _frozen(case: Case) -> Iterator[RunFinding]:
    assert case.optimizer is not None
    frozen = [p for p in case.program.of(case.optimizer) if not p.tensor.requires_grad]
    if frozen:
        yield finding("frozen", case.step, _names(frozen), line=module_line(frozen[0]))


def _scaled(case: Case) -> Iterator[RunFinding]:
    if getattr(case.optimizer, "grad_scale", None) is not None:
        return  # the optimizer unscales by itself, as fused ones do
    readable = {key: norm for key, norm in case.norms.items() if norm != UNREAD}
    scale = case.look.unscaled(readable)
    if scale is not None:
        yield finding("scaled", case.step, numbers={"scale": scale})


_CHECKS: tuple[Callable[[Case], Iterator[RunFinding]], ...] = (
    _not_finite,
    _of_diagnose,
    _cleared_at_step,
    _cleared_between,
    _not_held,
    _replaced,
    _frozen,
    _scaled,
)
_OF_PASSES = (_cleared_at_step, _cleared_between)  # not where the step itself runs backward


def skips_overflow(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a GradScaler has told a fused optimizer to leave out a step with Inf in it."""
    return getattr(optimizer, "found_inf", None) is not None
