"""Read this process's part of a tensor that is shared out over several ranks.

Nothing here communicates with another process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from .capability import capability

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""torch's plain tensor classes: not DTensor, and not a user's subclass."""


def own_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return this process's part of a DTensor; None for every other tensor.

    An operation on the whole DTensor may communicate, and would wait for the other processes. If
    one process simulates several ranks, return the first one's part.
    """
    if type(tensor) in PLAIN:
        return None
    simulated = simulated_parts(tensor)
    if simulated:
        return next(iter(simulated.values()))
    return _part_of_dtensor(tensor)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor, detached; a DTensor without the communication that ``clone()`` may cause."""
    part = _part_of_dtensor(tensor)
    if part is None:
        return tensor.detach().clone()
    placed: Any = tensor
    found: torch.Tensor = type(placed).from_local(
        part.detach().clone(),
        placed.device_mesh,
        placed.placements,
        run_check=False,
        shape=placed.shape,
        stride=placed.stride(),
    )
    return found


def _part_of_dtensor(tensor: torch.Tensor) -> torch.Tensor | None:
    shared_out = sys.modules.get("torch.distributed.tensor")
    if shared_out is None or not isinstance(tensor, shared_out.DTensor):
        return None
    return _local_part(tensor)


def _detached_part(tensor: Any) -> torch.Tensor:
    with torch.no_grad():  # without a graph, torch does not communicate
        part: torch.Tensor = tensor.to_local()
    return part


# Not tried: a DTensor needs a process group.
@capability("DTensor._local_tensor", otherwise=_detached_part)
def _local_part(read: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def part(tensor: torch.Tensor) -> torch.Tensor:
        try:
            found: torch.Tensor = read(tensor)
        except AttributeError:
            return _detached_part(tensor)
        return found

    return part


def simulated_parts(tensor: torch.Tensor) -> dict[int, torch.Tensor]:
    """Return the part of each rank of a ``LocalTensorMode``, ascending; nothing for others."""
    if type(tensor) in PLAIN:
        return {}
    held = _part_of_dtensor(tensor)
    held = tensor if held is None else held
    return _simulated(held) if type(held).__name__ == "LocalTensor" else {}


@capability(
    "torch.distributed._local_tensor.LocalTensor",
    "LocalTensor._local_tensors",
    otherwise=lambda _: {},
    lost="The parts of simulated ranks are not recognised",
)
def _simulated(kind: Any, parts: Any) -> Callable[[torch.Tensor], dict[int, torch.Tensor]]:
    one = torch.ones(1, device="cpu")
    if parts(kind({0: one})) != {0: one}:
        raise ValueError("torch simulates ranks in another way.")
    return lambda tensor: dict(sorted(parts(tensor).items())) if isinstance(tensor, kind) else {}
