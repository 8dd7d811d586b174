"""The panel's lists of a node's neighbours, and of the gradients between them."""

from __future__ import annotations

import operator
from itertools import islice

import torch

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass, StepContribution, contributions, seeds
from ..backward.recorded_run import RecordedRun, Step
from ..graph.adjacency import predecessors
from ..graph.labels import label
from ..lazily import nx
from ..schema.details import (
    ConsumerModel,
    ContributionModel,
    InputModel,
    OutputModel,
    TensorSummary,
)
from ..torch_api.reading import same_numbers
from ..torch_api.summary import Summarise, summarise

MOST_LISTED = 100
"""Most entries of each list: inputs, outputs, consumers, contributions to a gradient."""

_LARGEST_ADDED = 2**26  # bytes of a gradient whose contributions are summed
_MOST_ADDED = 1_000  # contributions that are summed again, to see whether a hook changed the sum


def outputs_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[OutputModel], int]:
    """List the first outputs of a node, and count all of them."""
    roots = {nr for root, nr in graph.graph["roots"] if root == node_id}
    outputs = graph.nodes[node_id]["outputs"]
    return [
        {
            "output_nr": output["output_nr"],
            "name": output["name"],
            "shape": None if output["shape"] is None else list(output["shape"]),
            "dtype": output["dtype"],
            "device": output["device"],
            "is_root": output["output_nr"] in roots,
        }
        for output in outputs[:MOST_LISTED]
    ], len(outputs)


def inputs_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[InputModel], int]:
    """List the first inputs of a node by argument, and count all of them."""
    edges = sorted(
        ((edge["arg_nr"], target, edge) for _, target, edge in graph.out_edges(node_id, data=True)),
        key=operator.itemgetter(0),
    )
    listed = edges[:MOST_LISTED]
    return [
        input_model(graph, nr, edge["argument"], target, edge["output_nr"])
        for nr, target, edge in listed
    ], len(edges)


def input_model(
    graph: nx.MultiDiGraph, arg_nr: int, argument: str | None, node: int, output_nr: int
) -> InputModel:
    """Describe one input of a node: output ``output_nr`` of ``node``."""
    outputs = graph.nodes[node]["outputs"]
    shape = outputs[output_nr]["shape"] if output_nr < len(outputs) else None
    return {
        "arg_nr": arg_nr,
        "argument": argument,
        "node": node,
        "output_nr": output_nr,
        "label": label(graph.nodes[node]),
        "shape": None if shape is None else list(shape),
    }


def consumers_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[ConsumerModel], int]:
    """List the first consumers of a node's outputs, and count all of them."""
    found = [
        (source, -1 if edge["arg_nr"] is None else edge["arg_nr"], key)
        for source, edges in predecessors(graph)[node_id].items()
        for key, edge in edges.items()
    ]
    listed = [
        (source, graph.edges[source, node_id, key])
        for source, _, key in sorted(found)[:MOST_LISTED]
    ]
    return [
        consumer_model(graph, source, edge["arg_nr"], edge["argument"], edge["output_nr"])
        for source, edge in listed
    ], len(found)


def consumer_model(
    graph: nx.MultiDiGraph, node: int, arg_nr: int | None, argument: str | None, output_nr: int = 0
) -> ConsumerModel:
    """Describe one consumer: argument ``arg_nr`` of ``node``."""
    return {
        "node": node,
        "arg_nr": arg_nr,
        "argument": argument,
        "output_nr": output_nr,
        "label": label(graph.nodes[node]),
    }


def arrived(
    graph: nx.MultiDiGraph, run: RecordedRun, step: Step, summarised: Summarise
) -> list[TensorSummary | None]:
    """Summarise the incoming gradients of a node, and note if a hook changed one."""
    found = [_summary(kept, summarised) for kept in step.grad_outputs[:MOST_LISTED]]
    if graph.in_degree(step.node) > _MOST_ADDED:
        return found
    sums = {
        each.output_nr: each.total
        for each in contributions(graph, run, step.node, _LARGEST_ADDED)
        if each.output_nr < len(found)
    }
    for nr, total in sums.items():
        summary, kept = found[nr], step.grad_outputs[nr]
        if summary is None or kept is None or total is None or kept.changed:
            continue
        if kept.tensor is not None and not _alike(total, kept.tensor):
            note = (
                "A hook on this tensor changed the incoming gradient (its norm was "
                f"{float(summarise(total)['norm'] or 0):.6g}) before the node ran."
            )
            found[nr] = {**summary, "note": note}
    return found


def _alike(total: torch.Tensor, incoming: torch.Tensor) -> bool:
    if total is incoming:
        return True
    numbers = same_numbers(total)
    if numbers is not None and numbers == same_numbers(incoming):
        return True
    try:  # with a tolerance: devices may sum in another order
        return torch.allclose(total, incoming, rtol=1e-3, atol=0, equal_nan=True)
    except RuntimeError:  # sparse and other layouts
        return True


def contribution_models(
    graph: nx.MultiDiGraph, run: RecordedRun, node: int, summarised: Summarise
) -> list[ContributionModel]:
    """List the contributions to a node's gradient, in the order in which the engine sums them."""
    return [
        {
            "step": each.step,
            "consumer": each.consumer,
            "label": (
                "where backward started"
                if each.consumer is None
                else label(graph.nodes[each.consumer])
            ),
            "arg_nr": each.arg_nr,
            "argument": (
                None
                if each.consumer is None
                else graph.edges[each.consumer, node, each.arg_nr]["argument"]
            ),
            "output_nr": each.output_nr,
            "grad": None if each.grad is None else summarised(each.grad),
            "total": _total(each, summarised),
        }
        for each in islice(contributions(graph, run, node, _LARGEST_ADDED), MOST_LISTED)
    ]


def _total(found: StepContribution, summarised: Summarise) -> TensorSummary | None:
    if found.total is None:
        return None
    # The sum exists for the summary only: do not keep it.
    return summarised(found.total) if found.total is found.grad else summarise(found.total)


def count_by_now(graph: nx.MultiDiGraph, recording: RecordedPass | None, node: int) -> int:
    """Count the contributions that have arrived by the cursor, also those not listed."""
    if recording is None:
        return 0
    numbers, never = recording.run.numbers, recording.cursor + 1
    return sum(1 for _ in seeds(graph, recording.run, node)) + sum(
        len(edges)
        for source, edges in graph.pred[node].items()
        if numbers.get(source, never) <= recording.cursor
    )


def passed_on(
    step: Step, inputs: list[InputModel], summarised: Summarise
) -> list[TensorSummary | None] | None:
    """Summarise a node's outgoing gradients; None without inputs."""
    if not inputs:
        return None
    return [_summary(step.grad_inputs[edge["arg_nr"]], summarised) for edge in inputs]


def _summary(kept: KeptGradient | None, summarised: Summarise) -> TensorSummary | None:
    return None if kept is None else kept.summarise(summarised)
