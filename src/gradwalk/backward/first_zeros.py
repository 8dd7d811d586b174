"""Where, in a pass, gradients became zero everywhere: measured, not inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..graph.capture import Capture
from ..torch_api.reading import everywhere
from .kept_gradients import KeptGradient, norms
from .recorded_run import RecordedRun


@dataclass(frozen=True)
class ZeroBirth:
    """Where a gradient became zero.

    Attributes:
        node: The node that passed on nothing but zeros, although what came to it was not zero; or,
            where zeros arrived although something else was sent, the node that it was sent to.
        how: "passed" in the first case. In the other "hook", of what a single edge brought: only a
            hook can stand between; or "sum", of several, whose sum is zero.
        towards: Of "passed", the node that it was passed on to.
        sender: Of "hook", the node that sent it.
        norm: The 2-norm of what came to the node in the first case, else of what was sent by the
            one edge or the first; None where it is not known.
    """

    node: int
    how: Literal["passed", "hook", "sum"]
    towards: int | None = None
    sender: int | None = None
    norm: float | None = None


def zero_births(
    captured: Capture, run: RecordedRun, targets: Iterable[int]
) -> dict[int, ZeroBirth]:
    """Where the gradients of nodes to which nothing but zeros came became zero.

    Args:
        captured: The graph.
        run: A pass.
        targets: The nodes.

    Returns:
        By target, the birth nearest to the outputs by one of the ways to it; none where the pass
        began with zeros, or what flowed cannot be looked at.
    """
    seen = _Seen(captured, run)
    order = list(targets)
    above: dict[int, list[int]] = {node: [] for node in order}
    births: dict[int, ZeroBirth] = {}
    for node in order:  # grows while we walk, towards the outputs
        birth, senders = seen.birth_at(node)
        if birth is not None:
            births[node] = birth
            continue
        for sender in senders:
            above[node].append(sender)
            if sender not in above:
                above[sender] = []
                order.append(sender)
    below: dict[int, list[int]] = {}
    for node, senders in above.items():
        for sender in senders:
            below.setdefault(sender, []).append(node)
    found = dict(births)
    waiting = [node for node in run.steps if node in births]  # in the engine's order
    for node in waiting:  # grows while we walk, back to the targets
        for each in below.get(node, ()):
            if each not in found:
                found[each] = found[node]
                waiting.append(each)
    return {node: found[node] for node in above if node in found}


class _Seen:
    """What flowed, edge by edge."""

    def __init__(self, captured: Capture, run: RecordedRun) -> None:
        self._before = captured.predecessors
        self._steps = run.steps
        self._begun = {node for node, _ in captured.roots}
        every = [kept for step in run.steps.values() for kept in _of(step.grad_outputs)]
        every += [kept for step in run.steps.values() for kept in _of(step.grad_inputs)]
        self._norms: Mapping[int, float | None] = {
            id(kept): norm for kept, norm in zip(every, norms(every), strict=True)
        }

    def birth_at(self, node: int) -> tuple[ZeroBirth | None, list[int]]:
        """The birth at a node to which zeros came; else those that sent it zeros."""
        senders: list[int] = []
        sent: dict[int, list[tuple[int, float | None]]] = {}  # by output: from whom, how much
        for source, edges in self._before[node].items():
            step = self._steps.get(source)
            if step is None:
                continue
            for edge in edges.values():
                kept = step.grad_inputs[edge["input_nr"]]
                if kept is None:
                    continue
                if self._is_zero(kept):
                    senders.append(source)
                else:
                    one = source, self._norms[id(kept)]
                    sent.setdefault(edge["output_nr"], []).append(one)
        for several in sent.values():
            source, norm = several[0]
            if several[1:] or node in self._begun:
                return ZeroBirth(node, "sum", norm=norm), []
            return ZeroBirth(node, "hook", sender=source, norm=norm), []
        senders = list(dict.fromkeys(senders))
        for source in senders:
            came = _of(self._steps[source].grad_outputs)
            if not all(map(self._is_zero, came)):
                known = [norm for kept in came if (norm := self._norms[id(kept)])]
                norm = max(known, default=None)
                return ZeroBirth(source, "passed", towards=node, norm=norm), []
        return None, senders

    def _is_zero(self, kept: KeptGradient) -> bool:
        """Whether a gradient is zero itself: tiny squares vanish from its norm before it does."""
        norm = self._norms[id(kept)]
        if norm is None or norm != 0:
            return False
        return is_zero(kept)


def is_zero(kept: KeptGradient | None) -> bool:
    """Whether a gradient whose norm is zero is so itself, or has no number."""
    if kept is None:
        return False
    if kept.tensor is not None:
        empty = not kept.tensor.numel()
        return empty or everywhere(kept.tensor, lambda part: part == 0) is True
    summary = kept.summarise()
    return summary["min"] == 0 and summary["max"] == 0


def _of(gradients: Iterable[KeptGradient | None]) -> list[KeptGradient]:
    return [kept for kept in gradients if kept is not None]
