"""The panel's lists of incoming and outgoing gradients of a node in the shown pass."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import torch

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun, Step
from ..backward.steps import Contribution, contributions, seeds
from ..graph.labels import label
from ..schema.details import ContributionModel, InputModel, TensorSummary
from ..torch_api.reading import same_numbers
from ..torch_api.summary import Summarise, summarise
from .extra_details import MOST_LISTED

if TYPE_CHECKING:
    import networkx as nx

_LARGEST_ADDED = 2**26  # bytes of a gradient whose contributions are summed
_MOST_ADDED = 1_000  # contributions that are summed again, to see whether a hook changed the sum


def arrived(
    graph: nx.MultiDiGraph, run: RecordedRun, step: Step, summarised: Summarise
) -> list[TensorSummary | None]:
    """Summarise the incoming gradients of a node, and note if a hook changed one."""
    found = [_summary(kept, summarised) for kept in step.grad_outputs[:MOST_LISTED]]
    if graph.in_degree(step.node) > _MOST_ADDED:
        return found
    sums = {
        share.output_nr: share.total
        for share in contributions(graph, run, step.node, _LARGEST_ADDED)
        if share.output_nr < len(found)
    }
    for nr, total in sums.items():
        summary, kept = found[nr], step.grad_outputs[nr]
        if summary is None or kept is None or total is None or kept.changed:
            continue
        if kept.tensor is not None and not _alike(total, kept.tensor):
            summary["note"] = (
                "A hook on this tensor changed the incoming gradient (its norm was "
                f"{float(summarise(total)['norm'] or 0):.6g}) before the node ran."
            )
    return found


def _alike(total: torch.Tensor, came: torch.Tensor) -> bool:
    if total is came:
        return True
    numbers = same_numbers(total)
    if numbers is not None and numbers == same_numbers(came):
        return True
    try:  # with a tolerance: devices may sum in another order
        return torch.allclose(total, came, rtol=1e-3, atol=0, equal_nan=True)
    except RuntimeError:  # sparse and other layouts
        return True


def shares(
    graph: nx.MultiDiGraph, run: RecordedRun, node: int, summarised: Summarise
) -> list[ContributionModel]:
    """List the contributions to a node's gradient, in the order in which the engine sums them."""
    return [
        {
            "step": share.step,
            "consumer": share.consumer,
            "label": (
                "where backward started"
                if share.consumer is None
                else label(graph.nodes[share.consumer])
            ),
            "input_nr": share.input_nr,
            "argument": _argument(graph, share, node),
            "output_nr": share.output_nr,
            "grad": None if share.grad is None else summarised(share.grad),
            "total": _total(share, summarised),
        }
        for share in islice(contributions(graph, run, node, _LARGEST_ADDED), MOST_LISTED)
    ]


def _total(share: Contribution, summarised: Summarise) -> TensorSummary | None:
    if share.total is None:
        return None
    # The sum exists for the summary only: do not keep it.
    return summarised(share.total) if share.total is share.grad else summarise(share.total)


def shares_by_now(
    listed: list[ContributionModel] | None, recording: RecordedPass | None
) -> list[ContributionModel] | None:
    """Keep the contributions that have arrived by the cursor."""
    if listed is None or recording is None:
        return None
    return [share for share in listed if share["step"] <= recording.cursor]


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


def _argument(graph: nx.MultiDiGraph, share: Contribution, node: int) -> str | None:
    if share.consumer is None:
        return None
    argument: str | None = graph.edges[share.consumer, node, share.input_nr]["argument"]
    return argument


def passed_on(
    step: Step, inputs: list[InputModel], summarised: Summarise
) -> list[TensorSummary | None] | None:
    """Summarise a node's outgoing gradients; None without inputs."""
    if not inputs:
        return None
    return [_summary(step.grad_inputs[edge["input_nr"]], summarised) for edge in inputs]


def _summary(kept: KeptGradient | None, summarised: Summarise) -> TensorSummary | None:
    return None if kept is None else kept.summarise(summarised)
