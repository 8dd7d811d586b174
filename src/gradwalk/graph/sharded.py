"""Parameters of which every process holds a part, as FSDP2 (``fully_shard``) keeps them.

For a forward pass it gathers each of them in a tensor of its own, and that one is the leaf of the
graph. After backward it frees this tensor's memory, takes its gradient away, reduces it over the
processes, and adds this process's part to the ``.grad`` of the parameter that the optimizer holds.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .reading import own_part


@dataclass(frozen=True)
class Sharded:
    """A parameter in parts.

    Attributes:
        full: Its shape as a whole, as the forward pass uses it.
        part: The shape of what this process holds of it.
        parameter: What the module and the optimizer hold, while it lives.
        ranks: Over how many it is shared out; None where this torch does not tell.
        is_freed_between: Whether the whole is freed after forward and gathered again for backward;
            None where this torch does not tell.
    """

    full: tuple[int, ...]
    part: tuple[int, ...]
    parameter: weakref.ref[torch.Tensor]
    ranks: int | None
    is_freed_between: bool | None

    @property
    def grad(self) -> torch.Tensor | None:
        """This process's part of the reduced gradient. Nobody else is asked for it."""
        parameter = self.parameter()
        grad = None if parameter is None else parameter.grad
        part = None if grad is None else own_part(grad)
        return grad if part is None else part

    def part_of(self, whole: torch.Tensor) -> torch.Tensor | None:
        """Of a tensor of the full shape the part that this process holds of the parameter.

        None where that is not told: the parameter is gone, or is in parts in more than one way.
        """
        parameter: Any = self.parameter()
        placements: Any = getattr(parameter, "placements", ())
        if len(placements) != 1:
            return None
        placed, mesh = placements[0], parameter.device_mesh
        if not placed.is_shard() or tuple(whole.shape) != self.full:
            return None
        parts = whole.chunk(mesh.size(), placed.dim)
        place = mesh.get_local_rank()
        return parts[place] if place < len(parts) else whole.narrow(placed.dim, 0, 0)


def gathered_parameters(
    module: nn.Module,
) -> Iterator[tuple[nn.Module, str, torch.Tensor, Sharded]]:
    """What one module that FSDP2 manages has gathered so far.

    Args:
        module: Any module; those below it are not looked at.

    Yields:
        The module that a parameter is of, its name there, the gathered tensor, and the parameter.
        A module whose parameters are shared comes once for each of its names.
    """
    if not hasattr(type(module), "_get_fsdp_state"):
        return
    state: Any = module._get_fsdp_state()  # type: ignore[operator]
    # One group up to torch 2.10; several, if they have meshes of their own, in later ones.
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    for group in groups:
        ranks = ranks_of(group)
        for each in () if group is None else group.fsdp_params:
            gathered = getattr(each, "_unsharded_param", None)
            if gathered is None:  # no forward pass has run
                continue
            info = each._module_info
            sharded = Sharded(
                tuple(gathered.shape),
                tuple(each.sharded_size),
                weakref.ref(each.sharded_param),
                ranks,
                getattr(group, "_reshard_after_forward", None),
            )
            yield info.module, info.param_name, gathered, sharded
            for owner, name in zip(info.shared_modules, info.shared_param_names, strict=True):
                yield owner, name, gathered, sharded


def ranks_of(group: Any) -> int | None:
    """Over how many ranks FSDP2 shares out a group of parameters; None where that is not told."""
    found: int | None = getattr(getattr(group, "mesh_info", None), "shard_mesh_size", None)
    return found
