"""Nodes where tensors that are shared out over ranks come from, go to, or are placed anew.

Everything here is read off the nodes: no other process is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.autograd.graph import Node

from .nodes import custom_function
from .sharded import ranks_of

Way = Literal["to local", "from local", "redistribute"]

_CLASSES: dict[tuple[str, str], Way] = {
    ("torch.distributed.tensor._api", "_ToTorchTensor"): "to local",
    ("torch.distributed.tensor._api", "_FromTorchTensor"): "from local",
    ("torch.distributed.tensor._redistribute", "Redistribute"): "redistribute",
}

_POST_BACKWARD = (
    "torch.distributed.fsdp._fully_shard._fsdp_param_group",
    "RegisterPostBackwardFunction",
)


@dataclass(frozen=True)
class Placed:
    """How a tensor is shared out over ranks.

    Attributes:
        placements: torch's placements, one for each dimension of the mesh.
        mesh: Name and number of ranks of each dimension of the mesh; "" for no name.
        device: Type of the mesh's devices.
    """

    placements: tuple[Any, ...]
    mesh: tuple[tuple[str, int], ...]
    device: str

    @property
    def words(self) -> str:
        """Such as "S(0)", or "R, S(1)" on a mesh of two dimensions."""
        return ", ".join(map(str, self.placements))


@dataclass(frozen=True)
class Crossing:
    """A node where a tensor begins or ceases to be shared out, or is shared out otherwise.

    Attributes:
        way: Which of them.
        forward: How the tensor is placed that is shared out; of a redistribution, what was given.
        backward: How the gradient is placed that it makes; None where that is not known.
    """

    way: Way
    forward: Placed
    backward: Placed | None


def crossing(node: Node, arrived: Placed | None = None) -> Crossing | None:
    """What a node does to how tensors are shared out.

    Args:
        node: Any node.
        arrived: How the gradient was placed that came to it, where that is known.

    Returns:
        None for a node that is none of these, or of which this torch does not tell.
    """
    function = custom_function(node)
    if function is None:
        return None
    way = _CLASSES.get((function.__module__, function.__qualname__))
    if way is None:
        return None
    of: Any = node
    if way == "from local":
        # torch 2.10 has them by other names.
        placements = getattr(
            of, "forward_input_placements", getattr(of, "previous_placement", None)
        )
        mesh = getattr(of, "forward_input_device_mesh", getattr(of, "previous_device_mesh", None))
    else:
        name = "dtensor_spec" if way == "to local" else "current_spec"
        spec = getattr(of, name, None)
        placements, mesh = getattr(spec, "placements", None), getattr(spec, "mesh", None)
    if placements is None or mesh is None:
        return None
    forward = _placed(placements, mesh)
    given = getattr(of, "grad_placements", None)
    if given is not None:
        return Crossing(way, forward, _placed(given, mesh))
    if way == "redistribute" and _has_partial(forward):
        if arrived is None:
            return Crossing(way, forward, None)
        pairs = zip(arrived.placements, forward.placements, strict=True)
        wanted = [b if a.is_partial() or not b.is_partial() else _replicate() for a, b in pairs]
    elif way != "redistribute" and _has_partial(forward) and not _makes_whole(function):
        return Crossing(way, forward, None)
    else:  # of a gradient torch makes no partial sums
        wanted = [_replicate() if each.is_partial() else each for each in placements]
    return Crossing(way, forward, _placed(wanted, mesh))


def placed(tensor: torch.Tensor | None) -> Placed | None:
    """How a tensor is shared out; None for one that is not."""
    shared_out = sys.modules.get("torch.distributed.tensor")
    if shared_out is None or not isinstance(tensor, shared_out.DTensor):
        return None
    return _placed(tensor.placements, tensor.device_mesh)


def ranks_with_the_same(tensor: torch.Tensor) -> list[int] | None:
    """The ranks that hold the same of a tensor and of its gradient, by how both are placed.

    Args:
        tensor: Any tensor.

    Returns:
        Numbers of ranks, this one among them; None of a tensor that is not shared out, or whose
        gradient is placed otherwise.
    """
    found, grad = placed(tensor), tensor.grad if tensor.is_leaf else None
    if found is None or (grad is not None and placed(grad) != found):
        return None
    mesh = tensor.device_mesh  # type: ignore[attr-defined]
    here = mesh.get_coordinate()
    if here is None:
        return None
    across = tuple(
        slice(None) if each.is_replicate() else place
        for each, place in zip(found.placements, here, strict=True)
    )
    return sorted(int(rank) for rank in mesh.mesh[across].flatten())


def collective(before: Placed, after: Placed) -> str | None:
    """What the ranks do together to place a tensor anew.

    Args:
        before: How it is placed.
        after: How it is to be placed, on the same mesh.

    Returns:
        "all-gather over tp, 2 ranks", say; "" where nothing is sent; None where it is not known.
    """
    if before.mesh != after.mesh:
        return None
    changes = [
        (a, b, axis)
        for a, b, axis in zip(before.placements, after.placements, before.mesh, strict=True)
        if a != b and axis[1] > 1
    ]
    if not changes:
        return ""
    if len(changes) > 1:  # torch plans how to go from one to the other
        return None
    ((a, b, (name, size)),) = changes
    is_shard = [type(each).__name__ == "Shard" for each in (a, b)]
    if a.is_replicate():
        return "" if is_shard[1] else None
    if a.is_partial():
        done = "all-reduce" if b.is_replicate() else "reduce-scatter" if is_shard[1] else None
    elif is_shard[0] and b.is_replicate():
        done = "all-gather"
    elif all(is_shard) and before.device != "cpu":  # there torch does otherwise
        done = "all-to-all"
    else:
        done = None
    return done and f"{done} over {f'{name}, ' if name else ''}{size} ranks"


@dataclass(frozen=True)
class Reducing:
    """A node where FSDP2 reduces the gradients of a group of parameters.

    Attributes:
        names: Of the parameters, as their module calls them.
        ranks: Over how many each parameter is shared out; None where this torch does not tell.
    """

    names: Sequence[str]
    ranks: int | None


def reducing(node: Node) -> Reducing | None:
    """Whether FSDP2 has put a node there to reduce gradients; None for every other node."""
    function = custom_function(node)
    if function is None or (function.__module__, function.__qualname__) != _POST_BACKWARD:
        return None
    group = getattr(node, "param_group", None)
    found = getattr(group, "fsdp_params", ())
    names = [each._param_fqn or each._module_info.param_name for each in found]
    return Reducing(names, ranks_of(group))


def _placed(placements: Sequence[Any], mesh: Any) -> Placed:
    names = mesh.mesh_dim_names or [""] * mesh.ndim
    axes = tuple((str(name), int(mesh.size(i))) for i, name in enumerate(names))
    return Placed(tuple(placements), axes, str(mesh.device_type))


def _has_partial(found: Placed) -> bool:
    return any(each.is_partial() for each in found.placements)


def _makes_whole(function: type[torch.autograd.Function]) -> bool:
    """Whether this torch takes gradients of partial sums as a whole where they become local."""
    return hasattr(sys.modules[function.__module__], "_normalize_placements_for_grad")


def _replicate() -> Any:
    return sys.modules["torch.distributed.tensor"].Replicate()
