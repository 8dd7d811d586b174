"""Find where gradients became zero in a recorded pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..graph.capture import Capture
from ..torch_api.reading import everywhere
from .kept_gradients import KeptGradient, norms
from .recorded_run import RecordedRun


@dataclass(frozen=True)
class FirstZero:
    """Where a gradient became zero.

    Attributes:
        node: The node that got a gradient that is not zero and passed on only zeros. For "hook" and
            "sum": the node that received zeros.
        how: "passed" in the first case. "hook" if one edge carried a gradient and zeros arrived:
            only a hook can be in between. "sum" if the gradients of several edges sum to zero.
        towards: For "passed", the node that received the zeros.
        sender: For "hook", the node that sent the gradient.
        norm: The 2-norm of the node's incoming gradient, or of the first one sent; None if unknown.
    """

    node: int
    how: Literal["passed", "hook", "sum"]
    towards: int | None = None
    sender: int | None = None
    norm: float | None = None


def first_zeros(
    captured: Capture, run: RecordedRun, targets: Iterable[int]
) -> dict[int, FirstZero]:
    """Find where the gradients of nodes that received only zeros became zero.

    Args:
        captured: The graph.
        run: A pass.
        targets: The nodes.

    Returns:
        For each target, the nearest origin to the outputs on one path; none if the pass started
        with zeros or the gradients cannot be read.
    """
    seen = _Seen(captured, run)
    order = list(targets)
    above: dict[int, list[int]] = {node: [] for node in order}
    births: dict[int, FirstZero] = {}
    for node in order:  # grows while we walk, towards the outputs
        birth, senders = seen.first_zero_at(node)
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
    """The gradients of a pass, edge by edge."""

    def __init__(self, captured: Capture, run: RecordedRun) -> None:
        self._before = captured.predecessors
        self._steps = run.steps
        self._begun = {node for node, _ in captured.roots}
        every = [kept for step in run.steps.values() for kept in _of(step.grad_outputs)]
        every += [kept for step in run.steps.values() for kept in _of(step.grad_inputs)]
        self._norms: Mapping[int, float | None] = {
            id(kept): norm for kept, norm in zip(every, norms(every), strict=True)
        }

    def first_zero_at(self, node: int) -> tuple[FirstZero | None, list[int]]:
        """Return the origin of zeros at a node; else the nodes that sent it zeros."""
        senders: list[int] = []
        sent: dict[int, list[tuple[int, float | None]]] = {}  # by output: sender and norm
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
                return FirstZero(node, "sum", norm=norm), []
            return FirstZero(node, "hook", sender=source, norm=norm), []
        senders = list(dict.fromkeys(senders))
        for source in senders:
            came = _of(self._steps[source].grad_outputs)
            if not all(map(self._is_zero, came)):
                known = [norm for kept in came if (norm := self._norms[id(kept)])]
                norm = max(known, default=None)
                return FirstZero(source, "passed", towards=node, norm=norm), []
        return None, senders

    def _is_zero(self, kept: KeptGradient) -> bool:
        """Return whether a gradient is zero: the norm of tiny numbers underflows before them."""
        norm = self._norms[id(kept)]
        if norm is None or norm != 0:
            return False
        return is_zero(kept)


def is_zero(kept: KeptGradient | None) -> bool:
    """Return whether a gradient with zero norm is all zeros or empty."""
    if kept is None:
        return False
    if kept.tensor is not None:
        empty = not kept.tensor.numel()
        return empty or everywhere(kept.tensor, lambda part: part == 0) is True
    summary = kept.summarise()
    return summary["min"] == 0 and summary["max"] == 0


def _of(gradients: Iterable[KeptGradient | None]) -> list[KeptGradient]:
    return [kept for kept in gradients if kept is not None]
