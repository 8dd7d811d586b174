"""The engine of `follow` and ``gradwalk run``: it sees each step, and looks at some of them."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ...english import list_some, plural
from ...graph.capture import as_text
from ...schema.findings import Severity
from ...torch_api.modes import is_watched, unseen
from ...torch_api.reading import in_short
from ...tracing.watch import is_watching
from .again import Birth, CannotRunAgainError, run_again
from .judge import PATIENCE, Judgement, Waiting, judge, judge_without, skips_overflow, still_waiting
from .look import MOST_PASSES, Look
from .norms import UNREAD
from .program import Program, held_by
from .run_finding import RunFinding, run_finding
from .statistics import Change, Row, Sample, Statistics
from .tape import Tape

_MOST_ALONE = 2  # passes of a look at a program without an optimizer
_LAST_COMPARED = 50  # steps with a learning rate of 0, after which changes are not compared
_NARROW = (torch.bfloat16, torch.float16)


@dataclass
class _Steps:
    """The state of one optimizer."""

    optimizer: torch.optim.Optimizer
    statistics: Statistics
    count: int = 0  # of its steps that have ended
    first_pass: int = 0  # of the look that is its own
    judged: bool = False  # by the running look
    waiting: list[Waiting] = field(default_factory=list)
    sample: Sample | None = None
    is_compared: bool = False  # the gradients with what a step changed
    has_spiked: bool = False
    due: list[tuple[Row, bool]] = field(default_factory=list)  # to run again; whether NaN is in it


class Engine:
    """Follows the optimizers of this thread from `begin` to `close`."""

    def __init__(
        self,
        read: Callable[[], Program],
        say: Callable[[RunFinding | Judgement | str], None],
        *,
        at: int = 1,
        only: Sequence[torch.optim.Optimizer] = (),
        keep: _Keep | None = None,
        keeps_look: bool = True,
    ) -> None:
        """Prepare to look at step ``at``.

        ``read``: names what the run trains. ``say``: is given each finding when it is made, and
        the judgement of each look. ``keep``: is given the outputs of a pass, the names of models,
        the step and the node in question; of the looked step only if ``keeps_look``. ``only``:
        follow no other optimizers.
        """
        self.judgements: list[Judgement] = []
        self.steps: dict[int, _Steps] = {}
        self._read, self._say, self._at = read, say, at
        self._keep, self._keeps_look = keep, keeps_look
        self._tape = Tape(self._tape_failed)
        self._only = {id(each) for each in only}
        self._look: Look | None = None
        self._has_looked = False
        self._is_spoiled = False  # NaN or Inf was reported: what comes after it follows from it
        self._running: torch.optim.Optimizer | None = None
        self._place = os.getpid(), threading.get_ident()
        self._handles: list[Any] = []
        self._has_failed = False

    def begin(self) -> None:
        """Follow from now on."""
        self._handles = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]
        self._tape.begin()
        if self._at == 1:
            with self._guarded():
                self._begin_look()
        else:
            self._tape.resume(1)

    def close(self, error: BaseException | None = None) -> None:
        """Follow no longer, and say what only the end shows; ``error``: what ends the program."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._tape.end()
        if self._place != (os.getpid(), threading.get_ident()):
            return
        if not self._has_failed:
            with self._guarded():
                self._conclude()
        with self._guarded():
            self._end_look(error)

    @property
    def is_open(self) -> bool:
        """Whether it still follows."""
        return bool(self._handles)

    def failed(self, error: Exception, *, within_pass: bool = False) -> None:
        """Say once that a part of the look failed; the training goes on."""
        if not self._has_failed:
            self._has_failed = True
            self._say(f"the look failed and has ended. {in_short(error)}")
        if within_pass and self._look is not None:
            self._end_in_forward(self._look)
        else:
            self._end_look()

    def _tape_failed(self, error: Exception) -> None:
        self._say(f"a step that goes wrong will not be run again. {in_short(error)}")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with unseen():
                yield
        except Exception as error:
            self.failed(error)

    def _is_other(self, optimizer: torch.optim.Optimizer) -> bool:
        if self._place != (os.getpid(), threading.get_ident()):
            return True  # a worker, or a thread of its own
        return bool(self._only) and id(optimizer) not in self._only

    def _before(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if torch.compiler.is_compiling() or self._is_other(optimizer):
            return
        if self._running is not None:
            return  # a step within a step
        self._running = optimizer
        self._tape.pause()
        steps = self._steps_of(optimizer)
        has_closure = _has_closure(args, kwargs)
        with self._guarded():
            if steps.judged or self._has_failed:
                self._end_look()  # all other optimizers have had their turn
            if not has_closure:  # with one, backward runs within the step
                self._at_step(steps, own_passes=False)
            is_new = not steps.is_compared and 0 < steps.count < _LAST_COMPARED
            if is_new or steps.statistics.samples_at(steps.count + 1):
                steps.sample = Sample(optimizer)
        self._run_due(steps, has_closure)

    def _after(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if torch.compiler.is_compiling() or self._running is not optimizer:
            return
        self._running = None
        steps = self._steps_of(optimizer)
        if _has_closure(args, kwargs):
            with self._guarded():
                self._at_step(steps, own_passes=True)
            self._run_due(steps, True)
        with self._guarded():
            steps.count += 1
            self._compare(steps)
            look = self._look
            if look is not None:
                look.steps += 1
                steps.first_pass = len(look.passes)
                if len(self._only or self._read().optimizers) <= 1:
                    self._end_look()
            elif not self._has_looked and steps.count + 1 >= self._at:
                self._begin_look()
            if self._look is None and self._handles:
                self._tape.resume(len(self.steps))

    def _steps_of(self, optimizer: torch.optim.Optimizer) -> _Steps:
        found = self.steps.get(id(optimizer))
        if found is None or found.optimizer is not optimizer:
            found = self.steps[id(optimizer)] = _Steps(optimizer, Statistics(optimizer))
        return found

    def _begin_look(self) -> None:
        self._has_looked = True
        self._look = Look(self._read, partial(self.failed, within_pass=True), self._passed)
        self._look.begin()

    def _end_look(self, error: BaseException | None = None) -> None:
        look, self._look = self._look, None
        if look is not None:
            look.end(error)
        for steps in self.steps.values():
            steps.judged, steps.first_pass = False, 0

    def _passed(
        self, outputs: Sequence[torch.Tensor], names: Mapping[str, Any], number: int
    ) -> None:
        """Keep a pass of the look; let a look end that no step will end."""
        if self._keep is not None and self._keeps_look and number == 1 and self._look is not None:
            counts = [each.count for each in self.steps.values() if not each.judged]
            about = [f.nodes for f in self._look.passes[-1].findings if f.severity != "info"]
            node = next((nodes[0] for nodes in about if nodes), None)
            self._keep(outputs, names, max(counts, default=0) + 1, node)
        is_alone = not self.steps and number > _MOST_ALONE and not self._read().optimizers
        if (is_alone or number >= MOST_PASSES) and self._look is not None:
            self._end_in_forward(self._look)

    def _end_in_forward(self, look: Look) -> None:
        """End a look in the next forward pass: within backward, torch has set its mode aside."""

        def end(*_: object) -> None:
            handle.remove()
            with self._guarded():
                if self._look is look:
                    if not self._has_failed:
                        self._conclude()
                    self._end_look()

        handle = register_module_forward_pre_hook(end)

    def _at_step(self, steps: _Steps, *, own_passes: bool) -> None:
        """Look at what a step is given."""
        step, statistics = steps.count + 1, steps.statistics
        if self._look is not None and not steps.judged:
            program = self._read()
            statistics.names = [program.parts[id(each)].name for each in held_by(steps.optimizer)]
            made = judge(
                program,
                steps.optimizer,
                step,
                self._look,
                first=steps.first_pass,
                own_passes=own_passes,
            )
            steps.judged, steps.waiting = True, made.waiting
            self._judged(made)
            self._is_spoiled |= any(each.kind == "nan" for each in made.findings)
        tensors = list(held_by(steps.optimizer))
        losses = self._losses(steps)
        for row in statistics.take(step, tensors, losses):
            self._watch_row(steps, row)
        self._watch_waiting(steps, tensors)

    def _losses(self, steps: _Steps) -> list[torch.Tensor]:
        """The losses of the step's last pass, as far as it was seen."""
        if self._look is not None:
            passes = self._look.passes_of_step(steps.first_pass) if self._look.passes else []
            return [torch.tensor(loss) for loss in passes[-1].losses] if passes else []
        return self._tape.passes[-1].losses if self._tape.passes else []

    def _judged(self, made: Judgement) -> None:
        self.judgements.append(made)
        self._say(made)
        for finding in made.findings:
            self._say(finding)

    def _watch_row(self, steps: _Steps, row: Row) -> None:
        """Find NaN and spikes in the numbers of a step."""
        statistics = steps.statistics
        is_odd = not all(map(math.isfinite, (*row.losses, *row.norms.values())))
        if is_odd and not self._is_spoiled and not skips_overflow(steps.optimizer):
            self._is_spoiled = True
            steps.due.append((row, True))
        times = statistics.spike(row)
        if times is None:
            return
        if not steps.has_spiked:
            steps.has_spiked = True
            steps.due.append((row, False))
        largest = max(row.norms, key=lambda i: row.norms[i])
        message = (
            f"The norm of all gradients is {row.total:.3g} at step {row.step}, {times:.3g} "
            f"times the median of the steps before. The largest is that of "
            f"{statistics.name(largest)} ({row.norms[largest]:.3g})."
        )
        names = [statistics.name(largest)]
        self._say(run_finding("spike", "info", row.step, message, names, times=times))

    def _run_due(self, steps: _Steps, has_closure: bool) -> None:
        """Run the step again that went wrong, and say where NaN was born."""
        due, steps.due = steps.due, []
        for row, is_odd in due:
            try:
                born = self._again(steps, row, is_odd, has_closure)
            except CannotRunAgainError as error:
                born = Birth(
                    f"The step could not be run again: {error}. Run the program once more, with "
                    f"the same seed, and look at step {row.step} (--at {row.step}, or at=)."
                )
            except Exception as error:  # the training goes on
                born = Birth(f"Running the step again failed. {in_short(error)}")
            if is_odd:
                with self._guarded():
                    self._say(_born(steps, row, born))

    def _again(self, steps: _Steps, row: Row, is_odd: bool, has_closure: bool) -> Birth:
        if has_closure:
            raise CannotRunAgainError("its optimizer runs backward within the step")
        if row.step != steps.count + 1:
            raise CannotRunAgainError(
                f"it was seen after step {steps.count}, as the device was not waited for"
            )
        if is_watched() and not is_watching():
            raise CannotRunAgainError("a mode of the program would see it")
        program = self._read()
        keep = self._keep
        if keep is None:
            return run_again(self._tape, program, None, is_odd=is_odd)

        def kept(outputs: Sequence[torch.Tensor], names: Mapping[str, Any], node: Any) -> None:
            keep(outputs, names, row.step, node)

        return run_again(self._tape, program, kept, is_odd=is_odd)

    def _watch_waiting(self, steps: _Steps, tensors: Sequence[torch.Tensor]) -> None:
        """Forget parameters that have a usable gradient by now; report the others in time."""
        if not steps.waiting:
            return
        last = steps.statistics.rows[-1] if steps.statistics.rows else None
        for waiting in steps.waiting:
            for i, tensor in enumerate(tensors):
                if id(tensor) not in waiting.parts:
                    continue
                norm = last.norms.get(i) if last is not None else UNREAD
                if tensor.grad is not None and (waiting.kind == "unused" or norm != 0):
                    del waiting.parts[id(tensor)]
        steps.waiting = [each for each in steps.waiting if each.parts]
        if steps.waiting and steps.count + 1 - steps.waiting[0].since >= PATIENCE - 1:
            self._say_waiting(steps, steps.count + 1)

    def _say_waiting(self, steps: _Steps, step: int) -> None:
        for waiting in steps.waiting:
            self._say(still_waiting(waiting, step))
        steps.waiting = []

    def _compare(self, steps: _Steps) -> None:
        """Compare the numbers before and after the step that has just ended."""
        sample, steps.sample = steps.sample, None
        if sample is None:
            return
        changes = sample.changes()
        row = steps.statistics.rows[-1] if steps.statistics.rows else None
        if row is not None and row.step == steps.count:
            row.ratios = {c.place: c.moved / c.size for c in changes if c.size}
        moving = [change for change in changes if not change.is_paused]  # a warm-up begins with 0
        may_skip = skips_overflow(steps.optimizer)
        if moving and steps.count > 1 and not steps.is_compared and not may_skip:
            steps.is_compared = True
            for finding in _of_changes(moving, steps):
                if finding.kind != "nan" or not self._is_spoiled:
                    self._is_spoiled |= finding.kind == "nan"
                    self._say(finding)

    def _conclude(self) -> None:
        """Say what only the end shows: who waited until now, and that no step came."""
        for steps in self.steps.values():
            for row in steps.statistics.flush():
                self._watch_row(steps, row)
            self._say_waiting(steps, steps.count)
        if self._look is not None and self._look.passes and not self.steps:
            self._judged(judge_without(self._read(), self._look))


_Keep = Callable[[Sequence[torch.Tensor], Mapping[str, Any], int, "int | None"], None]


def _born(steps: _Steps, row: Row, born: Birth) -> RunFinding:
    """Say that a step has NaN or Inf, and where it was born."""
    names = [steps.statistics.name(i) for i, n in row.norms.items() if not math.isfinite(n)]
    is_before = row.step == steps.count + 1
    when = "before the step writes it into the weights" if is_before else "and the steps after it"
    odd = ["NaN" if math.isnan(x) else "Inf" for x in row.losses if not math.isfinite(x)]
    said = [f"The loss is {odd[0]} at step {row.step}."] if odd else []
    if names:
        said.append(
            f"The gradient of {list_some(names, 4)} is NaN or Inf at step {row.step} "
            f"({len(names)} of {plural(steps.statistics.count, 'parameter')}), {when}."
        )
    message = " ".join([*said, "All steps before were finite.", born.sentence])
    count = len(names)
    where: dict[str, Any] = {"line": born.line, "node": born.node}
    return run_finding("nan", "error", row.step, message, names, count=count, **where)


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a step runs backward itself. ``args`` begins with the optimizer."""
    given = [*args[1:], kwargs.get("closure")]
    return any(callable(each) for each in given)


def _of_changes(changes: Sequence[Change], steps: _Steps) -> Iterator[RunFinding]:
    """Compare gradients with what the step did to the sampled numbers."""
    name, step = steps.statistics.name, steps.count
    still = [each for each in changes if each.has_grad and not each.moved]
    for is_rounded in (False, True):
        group = [each for each in still if (each.dtype in _NARROW or each.rounds) == is_rounded]
        if not group:
            continue
        names, kind = [name(each.place) for each in group], as_text(group[0].dtype)
        why = (
            f"An update that is small beside a number of {kind} rounds away."
            if is_rounded
            else "Look at the optimizer: its learning rate, and what its step() does."
        )
        if group[0].dtype in _NARROW:
            why += " Keep the weights in float32, with autocast, or raise the learning rate."
        message = (
            f"Step {step} changed none of the compared numbers of {list_some(names, 4)} "
            f"({len(names)} of {plural(len(changes), 'parameter')}), although they have a "
            f"gradient. {why}"
        )
        is_narrow = group[0].dtype in _NARROW and 2 * len(group) > len(changes)
        severity: Severity = "warning" if is_narrow or not is_rounded else "info"
        yield run_finding("unchanged", severity, step, message, names, count=len(names))
    moved = [name(each.place) for each in changes if each.is_without and each.moved]
    if moved:
        message = (
            f"Step {step} changed {list_some(moved, 4)} ({plural(len(moved), 'parameter')}), "
            "although .grad is None. It may share its memory with another parameter."
        )
        yield run_finding("unchanged", "info", step, message, moved, count=len(moved))
    odd = [name(each.place) for each in changes if not math.isfinite(each.moved)]
    if odd:
        message = (
            f"Step {step} wrote NaN or Inf into {list_some(odd, 4)} "
            f"({plural(len(odd), 'parameter')}), although the gradients were finite."
        )
        yield run_finding("nan", "error", step, message, odd, count=len(odd))
