"""Find where backward went wrong: the node that raised, the first NaN, the first zeros."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch.autograd.graph import Node

from ..english import join_words
from ..graph.adjacency import distances
from ..graph.capture import Capture
from ..graph.labels import described
from ..lazily import nx
from ..schema.backward import MarkModel
from ..torch_api.capability import is_there
from ..torch_api.nodes import leaf_tensor, sequence_nr
from ..torch_api.reading import everywhere, finite, has_hooks, knows_hooks
from ..torch_api.saved_tensors import read_saved
from ..torch_api.summary import summarise
from .kept_gradients import KeptGradient, norms
from .recorded_run import RecordedRun


def failed_node(graph: nx.MultiDiGraph, nodes: list[Node], run: RecordedRun) -> int | None:
    """Return the node that was about to run when a run stopped; None if none was ready.

    Among nodes whose gradients have all arrived, the engine runs leaves first, then the highest
    sequence number.
    """
    roots = [node for node, _ in graph.graph["roots"]]
    if run.seeds is None:  # only watched: it may have started from some of the outputs
        roots = list(run.steps)[:1]
    within = distances(graph.succ, roots)
    ready = [
        node
        for node in within
        if node not in run.steps
        and all(source in run.steps for source in graph.pred[node] if source in within)
    ]

    if len(ready) > 1 and not (knows_hooks() and is_there(sequence_nr)):
        return None

    def priority(node: int) -> tuple[bool, bool, int, int]:
        leaf = leaf_tensor(nodes[node])
        if leaf is None:
            return False, False, sequence_nr(nodes[node]), -node
        return True, has_hooks(leaf), 0, -node  # leaves raise only in their hooks

    return max(ready, key=priority, default=None)


def stopped_at(graph: nx.MultiDiGraph, run: RecordedRun, failed: int | None) -> str:
    """Describe where a run stopped."""
    if failed is None:
        return f"Backward stopped after {run.total} steps."
    return f"Backward stopped at {described(graph, failed)}."


def _error_note(graph: nx.MultiDiGraph, run: RecordedRun, failed: int | None) -> str:
    """Describe where a run stopped and why."""
    why = f"was {run.error.rstrip('.')}" if run.error else "is the one your cell shows"
    return f"{stopped_at(graph, run, failed)} The error {why}."


def first_nan(captured: Capture, run: RecordedRun) -> tuple[int, str] | None:
    """Return the first node that made NaN or Inf from finite gradients, and a sentence; or None."""
    steps = list(run.steps.values())
    passed = [kept for step in steps for kept in step.grad_inputs]
    are_odd = [norm is not None and not math.isfinite(norm) for norm in norms(passed)]
    if not any(are_odd):
        return None
    suspicious = iter(are_odd)
    for step in steps:
        flags = [next(suspicious) for _ in step.grad_inputs]
        bad = [
            kept
            for kept, flag in zip(step.grad_inputs, flags, strict=True)
            if flag and kept is not None and not is_finite(kept)
        ]
        if bad and all(kept is None or is_finite(kept) for kept in step.grad_outputs):
            return step.node, _birth_note(captured, step.node, bad[0])
    return None


def is_finite(kept: KeptGradient) -> bool:
    """Return whether a gradient is free of NaN and Inf."""
    found = None if kept.tensor is None else everywhere(kept.tensor, finite)
    if found is None:
        summary = kept.summarise()
        found = not summary["nan"] and not summary["inf"]
    return found


def _birth_note(captured: Capture, node: int, kept: KeptGradient) -> str:
    summary = kept.summarise()
    counts = [(summary["nan"], "NaN"), (summary["inf"], "Inf")]
    made = join_words(f"{count} {what}" for count, what in counts if count)
    among = f" among its {summary['numel']} elements" if summary["numel"] > 1 else ""
    note = (
        f"{'NaN' if summary['nan'] else 'Inf'} is born here: the gradient that came to "
        f"{described(captured.graph, node)} was finite, what it passed on has {made}{among}."
    )
    odd = [_odd(saved.name, saved.value) for saved in read_saved(captured.nodes[node])]
    return " ".join([note, *filter(None, odd)])


def _odd(name: str, value: object) -> str | None:
    """Describe a possible cause: zeros, NaN or Inf in a saved tensor."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    if not (value.is_floating_point() or value.is_complex()):
        return None
    summary = summarise(value)
    counts = [(summary["nan"], "NaN"), (summary["inf"], "Inf"), (summary["zeros"], "zero")]
    parts = [f"{count} {what}" for count, what in counts if count]
    if not parts:
        return None
    where = f"Among the {value.numel()} elements of" if value.numel() > 1 else "In"
    return f"{where} its saved {name}: {', '.join(parts)}."


def marks(captured: Capture, run: RecordedRun) -> list[MarkModel]:
    """Return the nodes where a pass went wrong, each with a sentence."""
    found: list[MarkModel] = []
    failed = run.failed
    if failed is None and run.state == "stopped" and run.grads is None:
        failed = failed_node(captured.graph, captured.nodes, run)
    if failed is not None:
        note = _error_note(captured.graph, run, failed)
        found.append({"node": failed, "kind": "error", "note": note})
    birth = first_nan(captured, run)
    if birth is not None:
        found.append({"node": birth[0], "kind": "nan", "note": birth[1]})
    return found


@dataclass(frozen=True)
class FirstZero:
    """Where a gradient became zero."""

    # The node that got a gradient that is not zero and passed on only zeros. For "hook" and "sum":
    # the node that received zeros.
    node: int
    # "passed" in the first case. "hook" if one edge carried a gradient and zeros arrived: only a
    # hook can be in between. "sum" if the gradients of several edges sum to zero.
    how: Literal["passed", "hook", "sum"]
    towards: int | None = None  # for "passed", the node that received the zeros
    sender: int | None = None  # for "hook", the node that sent the gradient
    # The 2-norm of the node's incoming gradient, or of the first one sent; None if unknown.
    norm: float | None = None


def first_zeros(
    captured: Capture, run: RecordedRun, targets: Iterable[int]
) -> dict[int, FirstZero]:
    """Find where the gradients of nodes that received only zeros became zero."""
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
                kept = step.grad_inputs[edge["arg_nr"]]
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
