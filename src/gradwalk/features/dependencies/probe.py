"""Send a gradient into one row of a tensor, and see which rows of others receive something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ...graph.capture import OutputKey
from ..experiments.replay import Flow, Gradient, Replay

_CLOSE = 16  # roundings, as a share of the largest number: what cancels leaves as much

TAKES_STATISTICS = (
    *("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0"),
    *("MeanBackward1", "SumBackward1", "VarBackward0", "StdBackward0", "VarMeanBackward0"),
)
"""Operations that mix rows on purpose: they take statistics over them."""


@dataclass(frozen=True)
class Rows:
    """A tensor and the dimension along which its rows are."""

    place: OutputKey
    shape: tuple[int, ...]
    dim: int

    @property
    def count(self) -> int:
        """How many rows it has."""
        return self.shape[self.dim]


def shape_at(replay: Replay, place: OutputKey) -> tuple[int, ...]:
    """Return the shape of a tensor of the graph; () for a nested one."""
    like = replay.like(place[0])[place[1]]
    return () if like is None else like[0]


def sampled(count: int, most: int) -> list[int]:
    """Return at most so many rows, from the first to the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)}) if most > 1 else [0]


def probe_row(
    replay: Replay, output: Rows, row: int, only: set[int], keep: set[int] | None
) -> Flow:
    """Run the backward of some nodes for a gradient in one row; ``keep``: nodes, None for all."""
    _, dtype, device = replay.like(output.place[0])[output.place[1]]  # type: ignore[misc]
    seed = torch.zeros(output.shape, dtype=dtype, device=device)
    part = seed.select(output.dim, row)
    # Numbers that differ: an equal gradient for all entries vanishes in a softmax.
    numbers = torch.arange(part.numel(), dtype=torch.float64, device=device)
    part.copy_((1 + (numbers * 0.754877666).frac()).reshape(part.shape))
    return replay.run([(output.place, seed)], only=only, keep=lambda i: keep is None or i in keep)


def rows_reached(grad: Gradient, dim: int) -> torch.Tensor | None:
    """Return, for each row, whether a gradient has more in it than roundings; None without one."""
    if grad is None or not grad.dim():
        return None
    dense = grad if grad.layout is torch.strided else grad.to_dense()
    dim %= dense.dim()
    others = [each for each in range(dense.dim()) if each != dim]
    sizes = dense.abs().nan_to_num(1, 1, 1)
    sizes = sizes.amax(others) if others else sizes
    if not sizes.numel():
        return None
    epsilon = torch.finfo(dense.dtype).eps
    return (sizes > _CLOSE * epsilon * sizes.max()).cpu()


def matrix_of(
    replay: Replay, output: Rows, inputs: Sequence[Rows], rows: Sequence[int]
) -> list[torch.Tensor]:
    """Return for each input which of its rows (columns) each row of the output depends on."""
    only = replay.above({each.place[0] for each in inputs})
    keep = {each.place[0] for each in inputs}
    found = [torch.zeros(len(rows), each.count, dtype=torch.bool) for each in inputs]
    for at, row in enumerate(rows):
        flow = probe_row(replay, output, row, only, keep)
        for matrix, each in zip(found, inputs, strict=True):
            arrived = flow.arrived.get(each.place[0])
            reached = None if arrived is None else rows_reached(arrived[each.place[1]], each.dim)
            if reached is not None:
                matrix[at] = reached
    return found


def mixing_node(
    replay: Replay, output: Rows, row: int, only: set[int], wanted: int
) -> tuple[int, bool] | None:
    """Return the node where one row becomes several, and whether it received one row.

    A tensor may have several dimensions of as many rows. It is alone while one of them holds it.
    ``wanted``: a node that must be behind that one.
    """
    flow = probe_row(replay, output, row, only, None)
    behind_of = replay.above([wanted])
    before: dict[int, bool | None] = {}
    for node in replay.order:
        came = flow.arrived.get(node)
        if came is None or node not in behind_of:
            continue
        alone = [_is_alone(each, row, output.count) for each in came if each is not None]
        before[node] = None if not alone or None in alone else all(alone)
        for place, went in zip(replay.following[node], flow.passed.get(node, ()), strict=False):
            if place is None or place[0] not in behind_of or went is None:
                continue
            if _is_alone(went, row, output.count) is False and before[node] is not False:
                return node, before[node] is True
    return None


def _is_alone(grad: torch.Tensor, row: int, count: int) -> bool | None:
    """Whether a gradient is in one row alone; None if no dimension has as many."""
    dims = [dim for dim, size in enumerate(grad.shape) if size == count]
    is_flat = grad.dim() == 2 and grad.shape[0] > count and grad.shape[0] % count == 0
    if not dims or is_flat:  # examples and positions in one dimension
        return None
    for dim in dims:
        reached = rows_reached(grad, dim)
        if reached is None or not bool(reached.any()):
            return None
        if int(reached.sum()) == 1 and bool(reached[row]):
            return True
    return False


def pattern_of(matrix: torch.Tensor, rows: Sequence[int]) -> str:
    """Name the pattern of a matrix: "own", "all", "earlier", "later", "none" or "some"."""
    if not bool(matrix.any()):
        return "none"
    columns = torch.arange(matrix.shape[1])
    own = torch.tensor(list(rows)).unsqueeze(1)
    if matrix.shape[1] <= int(own.max()):
        return "all" if bool(matrix.all()) else "some"
    if not bool((matrix & (columns != own)).any()):
        return "own"
    if bool(matrix.all()):
        return "all"
    if not bool((matrix & (columns > own)).any()):
        return "earlier"
    return "later" if not bool((matrix & (columns < own)).any()) else "some"


def spans(numbers: Sequence[int]) -> str:
    """Write row numbers in short: "0 to 7, 9"."""
    found = list(_spans(numbers))
    return ", ".join(found[:4]) + (" and others" if len(found) > 4 else "")


def _spans(numbers: Sequence[int]) -> Iterator[str]:
    start = None
    for at, number in enumerate(numbers):
        start = number if start is None else start
        if at + 1 == len(numbers) or numbers[at + 1] != number + 1:
            several = f"{start} and {number}" if number == start + 1 else f"{start} to {number}"
            yield str(number) if start == number else several
            start = None
