"""A backward pass as a list of steps: order, readiness, and the contributions of consumers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..graph.adjacency import attributes, predecessors
from ..schema.backward import StepModel
from ..schema.values import NodeState
from ..torch_api.reading import is_plain, why_unreadable
from .kept_gradients import KeptGradient
from .recorded_run import RecordedRun

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Contribution:
    """One consumer's contribution to a node's incoming gradient.

    Attributes:
        step: The consumer's step, from 1; 0 for the gradient that backward started from.
        consumer: The id of the consumer; None for the gradient that backward started from.
        input_nr: The consumer's input number; None without a consumer.
        output_nr: The output number of the receiving node.
        grad: The contribution; None if the consumer passed None, or its values were not kept.
        total: The sum of the contributions so far to this output, in the engine's order.
    """

    step: int
    consumer: int | None
    input_nr: int | None
    output_nr: int
    grad: torch.Tensor | None
    total: torch.Tensor | None


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
    contributions: list[Contribution]
    kept: bool


def recorded_steps(graph: nx.MultiDiGraph, run: RecordedRun) -> list[RecordedStep]:
    """Return the steps of a run with their gradients."""
    models = step_models(graph, run)
    return [
        RecordedStep(
            **model,
            grad_outputs=[_tensor(kept) for kept in step.grad_outputs],
            grad_inputs=[_tensor(kept) for kept in step.grad_inputs],
            contributions=list(contributions(graph, run, step.node)),
            kept=all(
                k is None or k.tensor is not None for k in step.grad_outputs + step.grad_inputs
            ),
        )
        for model, step in zip(models, run.steps.values(), strict=True)
    ]


def step_models(graph: nx.MultiDiGraph, run: RecordedRun) -> list[StepModel]:
    """Return the steps of a run, as plain JSON values."""
    numbers = run.numbers
    nodes, takers = attributes(graph), predecessors(graph)
    return [
        {
            "step": number,
            "node": node,
            "op": nodes[node]["op"],
            "name": nodes[node]["name"],
            "accumulated": _accumulated(nodes[node], run, node),
            "ready": max([numbers.get(source, 0) for source in takers[node]], default=0),
        }
        for node, number in numbers.items()
    ]


def _accumulated(data: dict[str, Any], run: RecordedRun, node: int) -> str | None:
    """Return the name of the ``.grad`` that a node's step changed."""
    timeline = run.grads.changed_by(node) if run.grads is not None else None
    grew = timeline is not None or (
        data["kind"] == "leaf" and run.steps[node].grad_outputs != [None]
    )
    if not grew:
        return None
    return f"{data['name']}.grad" if data["name"] else f"the .grad of node {node}"


def state_at(step: StepModel | None, cursor: int) -> NodeState:
    """Return the state of a node after ``cursor`` steps."""
    if step is None:
        return "not reached"
    if cursor > step["step"]:
        return "done"
    if cursor == step["step"]:
        return "running"
    return "ready" if cursor >= step["ready"] else "waiting"


def contributions(
    graph: nx.MultiDiGraph, run: RecordedRun, node: int, largest: float = math.inf
) -> Iterator[Contribution]:
    """Yield the contributions to a node's gradient in the order in which the engine summed them.

    Args:
        graph: The captured graph.
        run: The backward pass.
        node: The receiving node.
        largest: Gradients of more bytes are not summed: their total is None.

    Yields:
        The gradient that backward started from, if the node is an output; then each consumer's
        contribution. Without hooks the last total is bitwise the node's incoming gradient.
    """
    totals: dict[int, torch.Tensor | None] = {}
    unknown: set[int] = set()  # outputs with a contribution whose values were not kept
    for step, consumer, input_nr, output_nr, kept in _arrivals(graph, run, node):
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
        yield Contribution(step, consumer, input_nr, output_nr, grad, total)


Arrival = tuple[int, int | None, int | None, int, KeptGradient | None]


def _arrivals(graph: nx.MultiDiGraph, run: RecordedRun, node: int) -> Iterator[Arrival]:
    numbers = run.numbers
    for output_nr, seed in seeds(graph, run, node):
        yield 0, None, None, output_nr, KeptGradient(seed)
    edges = [
        (numbers[source], edge["input_nr"], source, edge["output_nr"])
        for source, _, edge in graph.in_edges(node, data=True)
        if source in numbers
    ]
    for number, input_nr, source, output_nr in sorted(edges):
        yield number, source, input_nr, output_nr, run.steps[source].grad_inputs[input_nr]


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
