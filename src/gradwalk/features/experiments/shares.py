"""Split the incoming gradient of a node by its edges, in a recorded pass."""

from __future__ import annotations

import torch

from ...backward.recorded_pass import RecordedPass
from ...graph.adjacency import predecessors
from ...graph.labels import label
from ...schema.what_if import ShareModel
from ...torch_api.reading import is_plain, own_part

MOST_SHARES = 50
"""The largest number of edges of a node for which shares are computed."""

_LARGEST = 2**24  # the largest number of values read for one node


def shares(recorded: RecordedPass, node: int) -> list[ShareModel]:
    """Return the share of each edge in the incoming gradient of a node, the largest first.

    Args:
        recorded: The pass; nothing runs again.
        node: An autograd node.

    Returns:
        One share per edge. Empty for fewer than two edges, if a gradient was not kept, or if a
        hook changed the sum.
    """
    graph, steps = recorded.graph, recorded.run.steps
    edges = [
        (consumer, edge["input_nr"])
        for consumer, into in predecessors(graph)[node].items()
        for edge in into.values()
        if edge["output_nr"] == 0
    ]
    step = steps.get(node)
    if step is None or not 1 < len(edges) <= MOST_SHARES or len(step.grad_outputs) != 1:
        return []
    (arrived,) = step.grad_outputs
    whole = None if arrived is None else arrived.tensor
    # A freed tensor has no numbers, and one sharded over ranks needs communication.
    if whole is None or not is_plain(whole):
        return []
    if whole.numel() * len(edges) > _LARGEST or not whole.numel():
        return []
    found: list[ShareModel] = []
    for consumer, input_nr in edges:
        kept = steps[consumer].grad_inputs[input_nr] if consumer in steps else None
        if kept is None:
            continue  # None flowed there
        if kept.tensor is None or own_part(kept.tensor) is not None:
            return []
        part = kept.tensor.sum_to_size(whole.shape)
        found.append(
            {
                "consumer": consumer,
                "input_nr": input_nr,
                "label": label(graph.nodes[consumer]),
                "share": along(part, whole),
            }
        )
    square = along(whole, whole)
    if not square or not torch.isfinite(torch.tensor(square)):
        return []
    for each in found:
        each["share"] /= square
    if abs(sum(each["share"] for each in found) - 1) > 1e-3:
        return []
    return sorted(found, key=lambda each: -abs(each["share"]))


def along(part: torch.Tensor, whole: torch.Tensor) -> float:
    """Return the real inner product of two gradients."""
    dtype = torch.complex128 if whole.is_complex() else torch.float64
    first, second = (
        (each if each.layout is torch.strided else each.to_dense()).to(dtype).flatten()
        for each in (part, whole)
    )
    return float(torch.real(torch.vdot(first, second)))
