"""A full look at one step: what its backward passes gave to each parameter, and why not."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...checks.finding import Finding
from ...explain.causes import reason_of
from ...explain.explain_grad import Explanation
from ...explain.loss_graph import LossGraph, read_loss
from ...graph.names import read_names
from ...sources.diagnose import diagnose
from ...torch_api.engine import is_within_pass
from ...torch_api.modes import grad_mode_kept, lowest_mode, top_mode, unseen
from ...tracing.around_backward import Budget
from ...tracing.watch import watch
from .norms import norms_of
from .program import Part, Program, living

MOST_PASSES = 256
"""Backward passes of one look. The others are not seen."""

_MOST_ASKED = 8  # passes that are asked for reasons
_CLOSE = 1e-3


@dataclass
class Pass:
    """What one backward pass of the step gave."""

    losses: list[float]
    norms: dict[int, float]  # by the id of a tensor, of all that have a gradient afterwards
    cleared: set[int]  # had a gradient after the pass before, and none when this one began
    scale: float | None = None  # by which a GradScaler scaled the loss
    reasons: dict[int, Explanation] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    steps_before: int = 0  # of any optimizer, since the look began


class Look:
    """Watches the program from one step to the next, and notes its backward passes."""

    def __init__(
        self, read: Callable[[], Program], failed: Callable[[Exception], None], passed: _Passed
    ) -> None:
        """``passed``: is given the outputs of a pass and its number, while their graph lives."""
        self.passes: list[Pass] = []
        self.steps = 0  # of any optimizer, since it began
        self._read, self._failed, self._passed = read, failed, passed
        self._block = watch()
        self._mode: TorchFunctionMode | None = None
        self._is_open = False

    def begin(self) -> None:
        """Watch the program from now on."""
        with lowest_mode(None):
            before = top_mode()
            self._block.__enter__()
            after = top_mode()
        self._mode = None if after is before else after
        self._is_open, _running.look = True, self

    def end(self, error: BaseException | None = None) -> None:
        """Watch no longer; ``error``: what ends the program. Calling it again does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        if _running.look is self:
            _running.look = None
        with lowest_mode(self._mode):
            traceback = error.__traceback__ if error is not None else None
            self._block.__exit__(type(error) if error is not None else None, error, traceback)

    def before_pass(self) -> set[int]:
        """Return what lost its gradient since the pass before."""
        if not self.passes:
            return set()
        had = self.passes[-1].norms
        now = norms_of(self._tensors(had))
        return {key for key, norm in had.items() if norm and not now.get(key)}

    @grad_mode_kept
    def after_pass(self, outputs: Sequence[torch.Tensor], cleared: set[int]) -> None:
        """Note what a pass gave, and why it gave nothing to some parameters."""
        program = self._read()
        parts = program.parts
        found = Pass(
            [float(each.detach()) for each in outputs if each.numel() == 1],
            norms_of([part.tensor for part in parts.values()]),
            cleared,
            steps_before=self.steps,
        )
        self.passes.append(found)
        number = len(self.passes)
        if number > _MOST_ASKED:
            self._passed(outputs, {}, number)
            return
        names = read_names(dict(_by_prefix(program)), "follow")
        graph = read_loss(tuple(outputs), names)
        for key, part in parts.items():
            if part.tensor.requires_grad and not found.norms.get(key):
                found.reasons[key] = _explained(part, graph)
        found.findings = diagnose(
            *outputs, names=dict(_by_prefix(program)), optimizer=program.optimizers
        )
        found.scale = _scale_of(graph)
        self._passed(outputs, dict(_by_prefix(program)), number)

    @grad_mode_kept
    def without_graph(self, outputs: Sequence[torch.Tensor]) -> None:
        """Note why a loss has no graph, for which torch raises."""
        program = self._read()
        graph = read_loss(tuple(outputs), read_names(dict(_by_prefix(program)), "follow"))
        parts = {k: part for k, part in program.parts.items() if part.tensor.requires_grad}
        found = Pass([], {}, set(), steps_before=self.steps)
        found.reasons = {key: _explained(part, graph) for key, part in parts.items()}
        self.passes.append(found)

    def _tensors(self, keys: Mapping[int, float]) -> list[torch.Tensor]:
        parts = self._read().parts
        return [parts[key].tensor for key in keys if key in parts]

    def passes_of_step(self, first: int) -> list[Pass]:
        """Return the passes since the latest step, else those from ``first`` on."""
        of_step = [each for each in self.passes if each.steps_before == self.steps]
        return of_step or self.passes[first:] or self.passes

    def reason_for(self, key: int, first: int) -> Explanation | None:
        """Return why a tensor has no usable gradient: what says most of the step's passes."""
        passes = self.passes_of_step(first)
        found = [each.reasons[key] for each in passes if key in each.reasons]
        return min(found, key=lambda each: _SAYS.get(each.kind, len(_SAYS)), default=None)

    def unscaled(self, norms: Mapping[int, float]) -> float | None:
        """Return the scale of the loss if gradients are still scaled by it at the step."""
        last = self.passes[-1] if self.passes else None
        if last is None or last.scale is None:
            return None
        common = [(last.norms[key], norm) for key, norm in norms.items() if last.norms.get(key)]
        is_same = common and all(math.isclose(a, b, rel_tol=_CLOSE) for a, b in common)
        return last.scale if is_same else None


_Passed = Callable[[Sequence[torch.Tensor], Mapping[str, Any], int], None]

_SAYS = {kind: i for i, kind in enumerate(("nan", "cut", "zero", "unused", "unknown"))}


class _Running(threading.local):
    """The look of this thread."""

    look: Look | None = None


_running = _Running()


@contextmanager
def around(outputs: Sequence[torch.Tensor], _: Budget) -> Iterator[None]:
    """Let the running look see a backward pass that the program starts."""
    look = None if is_within_pass() else _running.look
    if look is not None and len(look.passes) >= MOST_PASSES:
        look = None
    cleared: set[int] = set()
    if look is not None:
        try:
            with unseen(), torch.no_grad():
                cleared = look.before_pass()
        except Exception as error:
            look._failed(error)  # within the mode of the watch, which cannot end here
    try:
        yield
    except RuntimeError:
        if look is not None and not any(each.requires_grad for each in outputs):
            _guarded(look, lambda: look.without_graph(outputs))
        raise
    if look is not None:
        _guarded(look, lambda: look.after_pass(outputs, cleared))


def _guarded(look: Look, work: Callable[[], None]) -> None:
    """Let a part of a look fail: the training goes on in any case."""
    try:
        with unseen():
            work()
    except Exception as error:
        look._failed(error)


def _by_prefix(program: Program) -> Iterator[tuple[str, Any]]:
    """Name models as the findings do: one alone has no name."""
    for prefix, model in program.models.items():
        yield prefix.rstrip("."), model


def _explained(part: Part, graph: LossGraph) -> Explanation:
    with torch.no_grad():
        reason = reason_of(part.tensor, part.name, graph)
    return Explanation._because(reason, part.name, graph.node_of(part.tensor))


def _scale_of(graph: LossGraph) -> float | None:
    """Return the factor by which a GradScaler scaled the loss; None without one."""
    if graph.captured is None or len(graph.captured.roots) != 1:
        return None
    ((node, _),) = graph.captured.roots
    if graph.captured.graph.nodes[node]["op"] != "MulBackward0":
        return None
    scales = [float(each.get_scale()) for each in living(torch.amp.GradScaler) if each.is_enabled()]
    return next((scale for scale in scales if scale != 1), None)
