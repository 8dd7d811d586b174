"""The engine of `follow` and ``gradwalk run``: it sees each step, and looks at some of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ...torch_api.modes import is_watched
from ...torch_api.reading import in_short
from ...tracing.watch import is_watching
from .again import Birth, CannotRunAgainError, run_again
from .guard import Guard
from .judge import PATIENCE, Judgement, Waiting, judge, judge_without, skips_overflow, still_waiting
from .look import MOST_PASSES, Look
from .norms import UNREAD
from .program import Program, held_by
from .run_finding import RunFinding
from .statistics import Row, Sample, Statistics
from .tape import Tape
from .triggers import TRIGGERS, Seen, Trigger

_MOST_ALONE = 2  # passes of a look at a program without an optimizer
_LAST_COMPARED = 50  # steps with a learning rate of 0, after which changes are not compared

Keep = Callable[[Sequence[torch.Tensor], Mapping[str, Any], int, "int | None"], None]
"""Is given the outputs of a pass, the names of models, the step, and the node in question."""


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
    due: list[tuple[Trigger, Seen]] = field(default_factory=list)  # to say when all was read


class Engine:
    """Follows the optimizers of this thread from `begin` to `close`."""

    def __init__(
        self,
        read: Callable[[], Program],
        say: Callable[[RunFinding | Judgement | str], None],
        *,
        at: int = 1,
        only: Sequence[torch.optim.Optimizer] = (),
        keep: Keep | None = None,
        keeps_look: bool = True,
    ) -> None:
        """Prepare to look at step ``at``.

        ``read``: names what the run trains. ``say``: is given each finding when it is made, and
        the judgement of each look. ``keep``: is given each pass that goes wrong, and with
        ``keeps_look`` the first of the look. ``only``: follow no other optimizers.
        """
        self.judgements: list[Judgement] = []
        self.steps: dict[int, _Steps] = {}
        self._read, self._say, self._at = read, say, at
        self._keep, self._keeps_look = keep, keeps_look
        self._only = {id(each) for each in only}
        self._tape = Tape(self._tape_failed)
        self._look: Look | None = None
        self._has_looked = False
        self._ran_again: set[str] = set()  # triggers
        self._is_spoiled = False  # NaN was reported, and later ones may follow from it
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
        with self._guarded():
            if self._at == 1:
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

    def _guarded(self) -> Guard:
        return Guard(self.failed)

    def _is_other(self, optimizer: torch.optim.Optimizer) -> bool:
        if self._place != (os.getpid(), threading.get_ident()):
            return True  # a worker, or a thread of its own
        return bool(self._only) and id(optimizer) not in self._only

    # ---- Steps

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
        with self._guarded():
            if steps.judged or self._has_failed:
                self._end_look()  # all other optimizers have had their turn
            if not _has_closure(args, kwargs):  # with one, backward runs within the step
                self._at_step(steps)
            is_new = not steps.is_compared and 0 < steps.count < _LAST_COMPARED
            if is_new or steps.statistics.samples_at(steps.count + 1):
                steps.sample = Sample(optimizer)
        self._tell_due(steps)

    def _after(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if torch.compiler.is_compiling() or self._running is not optimizer:
            return
        self._running = None
        steps = self._steps_of(optimizer)
        if _has_closure(args, kwargs):
            with self._guarded():
                self._at_step(steps, "its optimizer runs backward within the step")
            self._tell_due(steps)
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

    def _at_step(self, steps: _Steps, cannot: str = "") -> None:
        """Look at what a step is given; ``cannot``: why it cannot be run again."""
        step, statistics, look = steps.count + 1, steps.statistics, self._look
        if look is not None and not steps.judged:
            program = self._read()
            statistics.names = [program.parts[id(each)].name for each in held_by(steps.optimizer)]
            first, own = steps.first_pass, bool(cannot)
            made = judge(program, steps.optimizer, step, look, first=first, own_passes=own)
            steps.judged, steps.waiting = True, made.waiting
            self._judged(made)
            self._is_spoiled |= any(each.kind == "nan" for each in made.findings)
        tensors = held_by(steps.optimizer)
        for row in statistics.take(step, tensors, self._losses(steps)):
            self._watch_row(steps, row, cannot)
        self._watch_waiting(steps, tensors)

    def _losses(self, steps: _Steps) -> list[torch.Tensor]:
        """Return the losses of the step's last pass, as far as it was seen."""
        if self._look is None:
            return self._tape.passes[-1].losses if self._tape.passes else []
        passes = self._look.passes_of_step(steps.first_pass)
        return [torch.tensor(loss) for loss in passes[-1].losses] if passes else []

    # ---- Looks

    def _begin_look(self) -> None:
        self._has_looked = True
        self._tape.pause()
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
        """Keep the first pass of the look; let a look end that no step will end."""
        look = self._look
        if self._keep is not None and self._keeps_look and number == 1 and look is not None:
            counts = [each.count for each in self.steps.values() if not each.judged]
            about = [f.nodes for f in look.passes[-1].findings if f.severity != "info"]
            node = next((nodes[0] for nodes in about if nodes), None)
            self._keep(outputs, names, max(counts, default=0) + 1, node)
        is_alone = not self.steps and number > _MOST_ALONE and not self._read().optimizers
        if (is_alone or number >= MOST_PASSES) and look is not None:
            self._end_in_forward(look)

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

    def _judged(self, made: Judgement) -> None:
        self.judgements.append(made)
        self._say(made)
        for each in made.findings:
            self._say(each)

    # ---- Triggers

    def _watch_row(self, steps: _Steps, row: Row, cannot: str = "") -> None:
        """Ask the triggers for the numbers of a step."""
        seen = Seen(steps.statistics, steps.count, row)
        for trigger in TRIGGERS:
            if trigger.needs == "row" and trigger.fires(seen) and not self._follows(trigger, steps):
                self._is_spoiled |= trigger.name == "nan"
                if cannot:
                    seen.birth = Birth(f"The step could not be run again: {cannot}.")
                steps.due.append((trigger, seen))

    def _follows(self, trigger: Trigger, steps: _Steps) -> bool:
        """Whether NaN is what follows from an earlier one, or what a GradScaler leaves out."""
        is_skipped = self._is_spoiled or skips_overflow(steps.optimizer)
        return trigger.name == "nan" and is_skipped

    def _tell_due(self, steps: _Steps) -> None:
        """Say what the triggers found; run the step again whose first it is."""
        due, steps.due = steps.due, []
        for trigger, seen in due:
            if trigger.runs_again and trigger.name not in self._ran_again:
                self._ran_again.add(trigger.name)
                if seen.birth is None:
                    seen.birth = self._again(seen, is_odd=trigger.name == "nan")
            with self._guarded():
                for each in trigger.says(seen):
                    self._say(each)

    def _again(self, seen: Seen, *, is_odd: bool) -> Birth:
        """Run a step again, outside of `_guarded`: the watch must see it."""
        step = seen.row.step
        keep = None if self._keep is None else partial(_keep_step, self._keep, step)
        try:
            if step != seen.count + 1:
                raise CannotRunAgainError("the device was not waited for, and the weights changed")
            if is_watched() and not is_watching():
                raise CannotRunAgainError("a mode of the program would see it")
            return run_again(self._tape, self._read(), keep, is_odd=is_odd)
        except CannotRunAgainError as error:
            return Birth(
                f"The step could not be run again: {error}. Run the program once more, with the "
                f"same seed, and look at step {step} (--at {step}, or at=)."
            )
        except Exception as error:  # the training goes on
            return Birth(f"Running the step again failed. {in_short(error)}")

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
        if row is None or row.step != steps.count:
            row = Row(steps.count, {}, [])
        row.ratios = {c.place: c.moved / c.size for c in changes if c.size}
        moving = [change for change in changes if not change.is_paused]  # a warm-up begins with 0
        if steps.is_compared or not moving or steps.count < 2 or skips_overflow(steps.optimizer):
            return
        steps.is_compared = True
        seen = Seen(steps.statistics, steps.count, row, moving)
        for trigger in TRIGGERS:
            if trigger.needs == "changes" and not self._follows(trigger, steps):
                for each in trigger.says(seen):
                    self._is_spoiled |= each.kind == "nan"
                    self._say(each)

    def _conclude(self) -> None:
        """Say what only the end shows: who waited until now, and that no step came."""
        for steps in self.steps.values():
            for row in steps.statistics.flush():
                self._watch_row(steps, row, "it was seen after the training had ended")
            self._tell_due(steps)
            self._say_waiting(steps, steps.count)
        if self._look is not None and self._look.passes and not self.steps:
            self._judged(judge_without(self._read(), self._look))


def _keep_step(
    keep: Keep,
    step: int,
    outputs: Sequence[torch.Tensor],
    names: Mapping[str, Any],
    node: int | None,
) -> None:
    keep(outputs, names, step, node)


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a step runs backward itself. ``args`` begins with the optimizer."""
    given = [*args[1:], kwargs.get("closure")]
    return any(callable(each) for each in given)
