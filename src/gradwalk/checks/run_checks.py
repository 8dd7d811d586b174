"""Judge a graph and its gradients: the findings, each with the numbers behind it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch

from ..backward.recorded_run import RecordedRun
from ..explain.explain_grad import place_in
from ..graph.arguments import read_int
from ..graph.guarded import could_not
from ..graph.labels import in_bytes
from ..plugins import Hook
from ..result import make, replaced
from ..schema.findings import FindingKind, Severity
from ..torch_api.capability import lost_sentences
from ..torch_api.modes import grad_mode_kept, unseen
from ..torch_api.reading import fake_mode_of
from ..torch_api.saved_tensors import is_freed
from .alike import alike_findings
from .axes import axis_findings
from .context import CheckContext
from .counting import counting_findings
from .cuts_inside import cuts_before_leaves, cuts_inside
from .depth import arriving_norms, layers_of, nearest_of, small_gates, worst_declines
from .finding import Finding
from .losses import loss_findings, loss_input_findings
from .memory import saved_memory
from .not_finite import not_finite
from .operations import operation_findings
from .parameters import parameter_findings, unregistered_findings
from .recomputed import recomputed_findings
from .shared import shared_findings
from .steps import step_findings
from .terms import term_findings
from .unused import unused_findings
from .updates import update_findings
from .wrong_numbers import number_findings
from .zero import dead_units, zero_findings

MORE_CHECKS: Hook[Callable[[CheckContext], Iterable[Finding]]] = Hook()  # what features find

_MOST_NODES = 100  # of one finding
_LEAST_TOLD = 2**20  # bytes held for backward


@dataclass(frozen=True)
class Limits:
    """The thresholds of findings, as `diagnose` describes them; raises for what is out of range."""

    vanishing: float = 1e-4
    exploding: float = 1e4
    dead: float = 0.9
    largest: int = 5

    def __post_init__(self) -> None:
        for name, (is_fit, what) in _FIT.items():
            given = getattr(self, name)
            if not isinstance(given, Real):
                raise TypeError(
                    f"{name} was given {given!r}, of type {type(given).__name__}. Give a number, "
                    f"such as {getattr(Limits, name):g}."
                )
            if not is_fit(given):
                raise ValueError(f"{name} was given {given}, but it is {what}.")
        read_int(self.largest, "largest was given ", "Give a number of nodes.")
        if self.largest < 0:
            raise ValueError(f"largest was given {self.largest}. Give a number of nodes from 0.")


_FIT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "vanishing": (
        lambda given: 0 < given < 1,
        "the share of a gradient that is left: give a number between 0 and 1, such as 1e-4",
    ),
    "exploding": (
        lambda given: given > 1,
        "the factor by which a gradient grows: give a number above 1, such as 1e4",
    ),
    "dead": (
        lambda given: 0 < given <= 1,
        "the share of units that are zero: give a number above 0 and up to 1",
    ),
}


@grad_mode_kept
def run_checks(context: CheckContext, limits: Limits) -> list[Finding]:
    """Find what may be wrong, as `diagnose` returns it."""
    parts: list[Callable[[CheckContext], Iterable[Finding]]] = [
        not_finite,
        _no_backward,
        functools.partial(_depth, limits=limits),
        functools.partial(_dead, dead=limits.dead),
        parameter_findings,
        unregistered_findings,
        zero_findings,
        cuts_inside,
        cuts_before_leaves,
        loss_findings,
        loss_input_findings,
        term_findings,
        operation_findings,
        number_findings,
        update_findings,
        shared_findings,
        counting_findings,
        axis_findings,
        step_findings,
        recomputed_findings,
        alike_findings,
        unused_findings,
        functools.partial(_memory, largest=limits.largest),
        *MORE_CHECKS,
        _unknown,  # the last, when the others have found what is missing
    ]
    with torch.no_grad(), unseen():
        found = [_placed(finding, context) for part in parts for finding in _guarded(part, context)]
    gravity = ("error", "warning", "info")
    return sorted(found, key=lambda finding: gravity.index(finding.severity))


def _placed(finding: Finding, context: CheckContext) -> Finding:
    """Add the line that the message names, else a node's line, and the module that it names."""
    nodes, words = finding.nodes[:_MOST_NODES], re.sub("`[^`]*`", "", finding.message)
    named = re.search(r"\(node (\d+)[ )]", words)  # the place in the message
    places = [*([int(named[1])] if named else []), *nodes]
    lines = {node: str(context.line(node) or "") for node in places}
    line = place_in(finding.message) or next(filter(None, lines.values()), None)
    fit = (context.module_of(node) for node in places if lines[node] in ("", line))
    module = next((m for m in fit if m and re.search(rf"\b{re.escape(m)}\b", words)), None)
    return replaced(finding, nodes=nodes, module=module, line=line)


def _guarded(
    part: Callable[[CheckContext], Iterable[Finding]], context: CheckContext
) -> Iterator[Finding]:
    """Yield the findings of a part until it fails: a tensor may be of any class."""
    try:
        yield from part(context)
    except Exception as error:
        yield make(Finding, "failed", "info", [], could_not("a part of the diagnosis", error))


def _unknown(_: CheckContext) -> Iterator[Finding]:
    """What this torch does not tell."""
    for each in lost_sentences():
        yield make(Finding, "failed", "info", [], each)


def _no_backward(context: CheckContext) -> Iterator[Finding]:
    if context.run is not None:
        return
    if context.recording is not None:
        message = "No step of the backward pass was seen, so the size of gradients is unknown."
    elif any(map(is_freed, context.captured.nodes)):
        message = (
            "A backward has freed saved tensors of this graph, but it was not recorded, so the "
            "size of gradients is unknown. Compute the output anew, with backward() in the block "
            "of gradwalk.watch()."
        )
    else:
        message = (
            "No backward pass has been seen, so the size of gradients is unknown: call backward() "
            "on the GraphWidget, or on the loss under gradwalk.watch() or while the widget is "
            "shown, or pass gradwalk.record(loss)."
        )
    yield make(Finding, "no-backward", "info", [], message)


def _depth(context: CheckContext, limits: Limits) -> Iterator[Finding]:
    graph, run = context.captured.graph, context.run
    if run is None:
        return
    gates = small_gates(context.captured)
    for change in worst_declines(graph, run, limits.vanishing, limits.exploding):
        grows = change.ratio > 1
        threshold = limits.exploding if grows else limits.vanishing
        near, far = change.near, change.far
        gate = None if grows or not gates else nearest_of(graph, far, gates)
        by_design = ""
        if gate is not None:
            by_design = (
                f" In between {context.place(gate)} multiplies by a parameter of small numbers, "
                "as a layer scale is at the start."
            )
        message = (
            f"The gradient {'explodes' if grows else 'vanishes'}: its norm "
            f"{'grows' if grows else 'falls'} from {change.near_norm:.3g} at "
            f"{context.place(near)} to {change.far_norm:.3g} at "
            f"{context.place(far, named=context.line(near))}. That is "
            f"{change.ratio:.3g} times as much, {'above' if grows else 'below'} {threshold:.3g}."
            f"{_steepest(context, run, far, near)}"
            f"{by_design}"
        )
        norms = {"norm": change.far_norm, "norm at the start": change.near_norm}
        kind: FindingKind = "exploding" if grows else "vanishing"
        severity: Severity = "warning" if gate is None else "info"
        yield make(Finding, kind, severity, [far, near], message, {"ratio": change.ratio, **norms})


_MOST_OF_IT = 0.8  # of a change, on a logarithmic scale


def _steepest(context: CheckContext, run: RecordedRun, far: int, near: int) -> str:
    """The fewest layers in a row over which most of a change happens, by their modules."""
    graph = context.captured.graph
    layers, arriving = layers_of(graph), arriving_norms(run)
    passed, node = [far], far
    while node != near:  # towards the output, where operations have higher numbers
        users = [user for user in graph.pred[node] if user != node]
        if not users:
            return ""
        node = min(users, key=lambda user: graph.nodes[user]["sequence_nr"])
        if node in layers and 0 < arriving.get(node, 0) < math.inf and context.namespaces.get(node):
            passed.append(node)
    logs = [math.log(arriving[each]) for each in passed]
    enough = _MOST_OF_IT * abs(logs[-1] - logs[0])
    end, best = 0, (0, len(passed) - 1)
    for start in range(len(passed)):
        while end < len(passed) and abs(logs[end] - logs[start]) < enough:
            end += 1
        if end == len(passed):
            break
        best = min(best, (start, end), key=lambda pair: pair[1] - pair[0])
    start, end = best
    first, last = context.module(passed[start]), context.module(passed[end])
    if end - start < 2 or first == last:
        return ""
    return f" Most of this happens over {end - start + 1} layers, from {last} to {first}."


def _dead(context: CheckContext, dead: float) -> Iterator[Finding]:
    for node, zero, units in dead_units(context.captured, context.run):
        share = zero / units
        if share < dead:
            continue
        kept = node in context.loss.margins
        margins = " Its result is only summed, as in a hinge loss whose margins are all kept."
        message = (
            f"{_some(zero, units)} of the ReLU in {context.place(node)} "
            f"{'is' if units == 1 else 'are'} zero for every example of this batch ({share:.0%}). "
            f"No gradient passes {'it' if units == 1 else 'them'}.{margins if kept else ''}"
        )
        numbers: dict[str, float] = {"share": share, "dead units": zero, "units": units}
        nodes = [node]
        severity: Severity = "info" if kept else "error" if zero == units else "warning"
        yield make(Finding, "dead", severity, nodes, message, numbers)


def _some(zero: int, units: int) -> str:
    if units == 1:
        return "The only unit"
    return f"{'All' if zero == units else zero} of the {units} units"


def _memory(context: CheckContext, largest: int) -> Iterator[Finding]:
    memory = saved_memory(context.captured)
    nodes = sorted(memory.nodes, key=lambda node: -memory.nodes[node])[:largest]
    if not nodes or memory.total < _LEAST_TOLD:
        return
    held = [f"{context.words(i)} {in_bytes(memory.nodes[i])}" for i in nodes]
    unknown = f" {memory.unknown} more saved tensors are of unknown size." if memory.unknown else ""
    is_fake = fake_mode_of(leaf for _, leaf in context.captured.leaves()) is not None
    holds = "With real tensors, the graph would hold" if is_fake else "The graph holds"
    message = (
        f"{holds} {in_bytes(memory.total)} for backward. Most of it: {', '.join(held)}." + unknown
    )
    numbers: dict[str, float] = {
        "total": memory.total,
        **{str(node): memory.nodes[node] for node in nodes},
    }
    yield make(Finding, "memory", "info", nodes, message, numbers)
