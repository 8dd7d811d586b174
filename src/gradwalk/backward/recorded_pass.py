"""A recorded backward pass: its steps, the contributions to each gradient, and a cursor."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.autograd.graph import Node

from ..graph.adjacency import attributes, predecessors
from ..graph.arguments import find_node, read_int
from ..graph.capture import Capture
from ..lazily import nx
from ..result import make, returned_by
from ..schema.backward import MarkModel, StepModel
from ..schema.values import NodeState
from ..torch_api.engine import is_within_pass
from ..torch_api.modes import unseen
from ..torch_api.reading import is_plain, why_unreadable
from .failures import marks
from .kept_gradients import KeptGradient
from .recorded_run import RecordedRun


@returned_by("record(loss)")
@dataclass(frozen=True)
class StepContribution:
    """One consumer's contribution to a node's incoming gradient.

    Attributes:
        step: The consumer's step, from 1; 0 for the gradient that backward started from.
        consumer: The id of the consumer; None for the gradient that backward started from.
        arg_nr: The consumer's argument position; None without a consumer.
        output_nr: The output number of the receiving node.
        grad: The contribution; None if the consumer passed None, or its values were not kept.
        total: The sum of the contributions so far to this output, in the engine's order.
    """

    step: int
    consumer: int | None
    arg_nr: int | None
    output_nr: int
    grad: torch.Tensor | None
    total: torch.Tensor | None


@returned_by("record(loss)")
@dataclass(frozen=True)
class RecordedStep:
    """One node's backward.

    Attributes:
        step: Its place in the engine's order, from 1.
        node: The node's id in the graph.
        op: The Node's class name, "MulBackward0".
        name: The name of the tensor, or None.
        accumulated: The name of the ``.grad`` that it changed, "x.grad"; None for none.
        ready: The number of steps after which all its gradients had arrived.
        grad_outputs: The incoming gradients, one per output of the node; detached.
        grad_inputs: The outgoing gradients, one per entry of ``next_functions``; detached.
        contributions: The contributions to the incoming gradients.

    A gradient is None where torch passed None. It is also None where its values are not known,
    because the pass exceeded the budget or the tensor was changed in place since; ``kept`` says so.
    """

    step: int
    node: int
    op: str
    name: str | None
    accumulated: str | None
    ready: int
    grad_outputs: list[torch.Tensor | None]
    grad_inputs: list[torch.Tensor | None]
    contributions: list[StepContribution]
    kept: bool


def saved_steps(models: Iterable[StepModel]) -> list[RecordedStep]:
    """Return the steps of a saved run, without gradients."""
    return [
        make(RecordedStep, **model, grad_outputs=[], grad_inputs=[], contributions=[], kept=False)
        for model in models
    ]


def _accumulated(data: dict[str, Any], run: RecordedRun, node: int) -> str | None:
    timeline = run.grads.changed_by(node) if run.grads is not None else None
    grew = timeline is not None or (
        data["kind"] == "leaf" and run.steps[node].grad_outputs != [None]
    )
    if not grew:
        return None
    return f"{data['name']}.grad" if data["name"] else f"the .grad of node {node}"


def contributions(
    graph: nx.MultiDiGraph, run: RecordedRun, node: int, largest: float = math.inf
) -> Iterator[StepContribution]:
    """Yield the contributions to a node's gradient in the order in which the engine summed them.

    First the gradient that backward started from, if the node is an output; then each consumer's.
    Without hooks the last total is bitwise the node's incoming gradient. Gradients of more than
    ``largest`` bytes are not summed: their total is None.
    """
    totals: dict[int, torch.Tensor | None] = {}
    unknown: set[int] = set()  # outputs with a contribution whose values were not kept
    for step, consumer, arg_nr, output_nr, kept in _arrivals(graph, run, node):
        grad, total = _tensor(kept), totals.get(output_nr)
        if kept is not None and (grad is None or why_unreadable(grad) is not None):
            unknown.add(output_nr)
        if output_nr in unknown:
            total = None
        elif grad is not None:
            total = grad if total is None else _sum(total, grad, largest)
            if total is None:
                unknown.add(output_nr)
        totals[output_nr] = total
        yield make(StepContribution, step, consumer, arg_nr, output_nr, grad, total)


Arrival = tuple[int, int | None, int | None, int, KeptGradient | None]


def _arrivals(graph: nx.MultiDiGraph, run: RecordedRun, node: int) -> Iterator[Arrival]:
    numbers = run.numbers
    for output_nr, seed in seeds(graph, run, node):
        yield 0, None, None, output_nr, KeptGradient(seed)
    edges = [
        (numbers[source], edge["arg_nr"], source, edge["output_nr"])
        for source, _, edge in graph.in_edges(node, data=True)
        if source in numbers
    ]
    for number, arg_nr, source, output_nr in sorted(edges):
        yield number, source, arg_nr, output_nr, run.steps[source].grad_inputs[arg_nr]


def seeds(
    graph: nx.MultiDiGraph, run: RecordedRun, node: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the gradients that backward started from at one node: (output_nr, gradient).

    For a pass that was only watched it is known if nothing else consumes the output.
    """
    roots = graph.graph["roots"]
    if run.seeds is not None:
        for (root, output_nr), seed in zip(roots, run.seeds, strict=True):
            if root == node:
                yield output_nr, seed
    elif node in run.steps and not graph.pred[node]:
        arrived = run.steps[node].grad_outputs
        for root, output_nr in dict.fromkeys(roots):
            kept = arrived[output_nr] if output_nr < len(arrived) else None
            if root == node and kept is not None and kept.tensor is not None:
                yield output_nr, kept.tensor


def _sum(before: torch.Tensor, grad: torch.Tensor, largest: float) -> torch.Tensor | None:
    with torch.no_grad():
        if not (is_plain(before) and is_plain(grad) and before.shape == grad.shape):
            return grad + before if before.is_sparse else before + grad
        # Both repeat the same numbers: add them once.
        shape = grad.shape
        for dim, strides in enumerate(zip(before.stride(), grad.stride(), strict=True)):
            if strides == (0, 0) and shape[dim] > 1:
                before, grad = before.narrow(dim, 0, 1), grad.narrow(dim, 0, 1)
        if grad.numel() * grad.itemsize > largest:
            return None
        return (before + grad).expand(shape)


def _tensor(kept: KeptGradient | None) -> torch.Tensor | None:
    return None if kept is None else kept.tensor


class RecordedPass:
    """One recorded backward pass, and a cursor over its steps.

    A pass that gradwalk ran owns the ``.grad`` of the graph's leaves (and of intermediate tensors
    that retain theirs): with the cursor at k, each is what the engine had after k steps, bit for
    bit. Seeking changes no ``.grad`` if the pass was only watched, or if something else has changed
    one since.
    """

    def __init__(self, captured: Capture, run: RecordedRun) -> None:
        """Start at the end of a run that is over; at its start if it stopped with an error."""
        self.captured = captured
        self.run = run
        # The number of completed steps; `seek` moves it.
        self.cursor = 0 if run.grads is not None and run.state == "stopped" else run.total

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The captured graph, as `gradwalk.capture` gives it."""
        return self.captured.graph

    @property
    def last_run(self) -> RecordedRun:
        """The pass, for `gradwalk.backward.recorded_pass.source_of`."""
        return self.run

    @property
    def owned(self) -> bool:
        """Whether moving the cursor moves ``.grad``."""
        return self.run.grads is not None and self.run.grads.fixed is None

    @property
    def note(self) -> str | None:
        """What to say about this pass: who ran it, which ``.grad`` it added to."""
        return describe_run(self.run)

    @functools.cached_property
    def marks(self) -> list[MarkModel]:
        """The nodes where something went wrong, each with a sentence."""
        return marks(self.captured, self.run)

    @functools.cached_property
    def models(self) -> list[StepModel]:
        """The steps as plain JSON values, without gradients."""
        numbers = self.run.numbers
        nodes, takers = attributes(self.graph), predecessors(self.graph)
        return [
            {
                "step": number,
                "node": node,
                "op": nodes[node]["op"],
                "name": nodes[node]["name"],
                "accumulated": _accumulated(nodes[node], self.run, node),
                "ready": max([numbers.get(source, 0) for source in takers[node]], default=0),
            }
            for node, number in numbers.items()
        ]

    @functools.cached_property
    def steps(self) -> list[RecordedStep]:
        """The steps with their gradients."""
        return [
            make(
                RecordedStep,
                **model,
                grad_outputs=[_tensor(kept) for kept in step.grad_outputs],
                grad_inputs=[_tensor(kept) for kept in step.grad_inputs],
                contributions=list(contributions(self.graph, self.run, step.node)),
                kept=all(
                    k is None or k.tensor is not None for k in step.grad_outputs + step.grad_inputs
                ),
            )
            for model, step in zip(self.models, self.run.steps.values(), strict=True)
        ]

    def state(self, node: int) -> NodeState:
        """Return a node's state at the cursor, such as "waiting" or "done"."""
        number = self.run.numbers.get(node)
        if number is None:
            return "not reached"
        if self.cursor >= number:
            return "running" if self.cursor == number else "done"
        return "ready" if self.cursor >= self.models[number - 1]["ready"] else "waiting"

    def at_cursor(self, cursor: int) -> RecordedPass:
        """Return a copy with another cursor, which moves no ``.grad``."""
        _ = self.models  # computed once, not for every cursor
        other = copy.copy(self)
        other.cursor = cursor
        return other

    def seek(self, cursor: int) -> None:
        """Move the cursor, and every ``.grad`` that the pass owns; ValueError beyond its steps."""
        total = self.run.total
        if not 0 <= cursor <= total:
            raise ValueError(
                f"cursor was given {cursor}, but this backward pass has {total} steps: give a "
                f"number from 0 to {total}."
            )
        if self.run.grads is not None:
            with unseen():
                self.run.grads.go(cursor)
        self.cursor = cursor

    def find(self, node: int | str) -> int:
        """Return the step after which a node, given by its id or its tensor's name, has run."""
        found = find_node(self.graph, node)
        if found in self.run.numbers:
            return self.run.numbers[found]
        raise ValueError(
            f"run_to was given {node!r}, which did not run in this backward pass"
            + (": it stopped with an error before." if self.run.state == "stopped" else ".")
        )


def describe_run(run: RecordedRun) -> str | None:
    """Describe a backward pass for the bar: who ran it, which ``.grad`` it added to."""
    if run.grads is None:
        return (
            "Your program ran this backward pass, so stepping shows the recorded gradients and "
            "leaves every .grad unchanged."
        )
    if run.grads.fixed is not None:
        return (
            f"{run.grads.fixed}, so stepping shows the recorded gradients and leaves every .grad "
            "unchanged."
        )
    sentences = []
    if run.state == "stopped":
        sentences.append("This backward pass stopped, so every .grad was put back.")
    held = [t.name for t in run.grads.timelines if t.moments[0].grad is not None]
    if held:
        sentences.append(
            f"{_were(held)} not empty before this pass: backward adds to what is there. "
            "Start from nothing with zero_grad(), or by setting .grad to None."
        )
    if run.seeds is not None and any(seed.numel() > 1 for seed in run.seeds):
        sentences.append(
            "It started from the gradient= you gave: the weights with which the output's numbers "
            "count, so each .grad is the gradient of their weighted sum."
        )
    if run.once and run.state == "done":
        sentences.append(
            "Compiled code in this graph overwrites what it saved, so this pass has freed the "
            "saved tensors, and backward cannot run again without a new forward pass."
        )
    with_graph = next(
        (
            t.name
            for t in run.grads.timelines
            if (grad := t.moments[-1].grad) is not None and grad.requires_grad
        ),
        None,
    )
    if with_graph is not None:
        sentences.append(
            "create_graph=True gave each gradient a graph of its own: see it with "
            f"GraphWidget({with_graph}.grad)."
        )
    return " ".join(sentences) or None


def _were(names: list[str]) -> str:
    """Return "x.grad was" for one tensor, a plural for several."""
    more = len(names) - 1
    return f"{names[0]}.grad and {more} more were" if more else f"{names[0]}.grad was"


def refuse_within_backward(what: str) -> None:
    """Raise RuntimeError if a hook of a backward pass runs and asked for ``what``."""
    if is_within_pass():
        raise RuntimeError(
            f"{what} was asked for by a hook while a backward pass runs, "
            "which is still adding to every .grad. Do it after that pass: in the hook, only "
            "remember that it is to be done."
        )


def read_count(n: Any, caller: str) -> int:
    """Check and return a number of steps."""
    count = read_int(n, f"{caller}() was given ", "Give a number of steps.")
    if count < 0:
        other = "step_back" if caller == "step" else "step"
        raise ValueError(
            f"{caller}() was given {count}. Give a number of steps from 0, or call {other}()."
        )
    return count


def read_max_bytes(max_bytes: Any) -> int:
    """Check and return a number of bytes to keep."""
    instead = "Give a whole number of bytes, such as 256 * 2**20."
    count = read_int(max_bytes, "max_bytes was given ", instead)
    if count < 0:
        raise ValueError(f"max_bytes was given {count}. Give a number of bytes from 0.")
    return count


class PassSource(Protocol):
    """A graph whose backward passes are recorded."""

    @property
    def captured(self) -> Capture:
        """The graph."""

    @property
    def last_run(self) -> RecordedRun | None:
        """The latest backward pass; None before the first."""


_sources: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def announce(source: PassSource) -> None:
    """Make a source findable for as long as it lives."""
    _sources[next(_numbers)] = source


def source_of(outputs: Sequence[tuple[Node, int]]) -> PassSource | None:
    """Find the latest source of the graph of some outputs, preferably with a recorded pass."""
    sources: list[PassSource] = [source for _, source in sorted(_sources.items(), reverse=True)]
    same = [source for source in sources if _outputs(source.captured) == list(outputs)]
    return next((each for each in same if each.last_run is not None), same[0] if same else None)


def passes_before(run: RecordedRun) -> list[PassSource]:
    """Return the living sources that were shown before the pass, the latest first."""
    order = sorted(_sources.items(), reverse=True)
    own = next((number for number, source in order if source.last_run is run), -1)
    return [source for number, source in order if number < own and source.last_run is not None]


def known_pass(captured: Capture) -> RecordedPass | None:
    """Return the latest pass that is known of a graph, at its cursor; None for none."""
    source = source_of(_outputs(captured))
    run = None if source is None else source.last_run
    if run is None or run.state == "running":
        return None
    shown = source if isinstance(source, RecordedPass) else getattr(source, "recording", None)
    is_it = isinstance(shown, RecordedPass) and shown.run is run
    return shown if is_it else RecordedPass(captured, run)


def _outputs(captured: Capture) -> list[tuple[Node, int]]:
    return [(captured.nodes[node], number) for node, number in captured.roots]
