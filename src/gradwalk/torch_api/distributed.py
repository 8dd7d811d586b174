"""Read sharded and replicated tensors, and the nodes that redistribute them.

Nothing here communicates with another process.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.graph import Node
from torch.nn.parallel import DistributedDataParallel

from .capability import named, optional
from .dtensors import own_part
from .nodes import custom_function


@dataclass(frozen=True)
class Sharded:
    """A sharded parameter."""

    full: tuple[int, ...]  # the shape of the whole parameter, as the forward pass uses it
    part: tuple[int, ...]  # the shape of the part that this process holds
    # The tensor that the module and the optimizer hold, while it lives.
    parameter: weakref.ref[torch.Tensor]
    ranks: int | None  # number of ranks that share it; None if this torch does not report it
    # Whether the whole is freed after forward and gathered again for backward; None if this torch
    # does not report it.
    is_freed_between: bool | None

    @property
    def grad(self) -> torch.Tensor | None:
        """Return this process's shard of the reduced gradient, without communication."""
        parameter = self.parameter()
        grad = None if parameter is None else parameter.grad
        part = None if grad is None else own_part(grad)
        return grad if part is None else part

    def part_of(self, whole: torch.Tensor) -> torch.Tensor | None:
        """Return this process's shard of a tensor of the full shape; None where unknown."""
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


_state_of = optional("FSDPModule._get_fsdp_state")
_groups_of = optional("FSDPState._fsdp_param_groups")
_group_of = optional("FSDPState._fsdp_param_group")
_reshards = optional("FSDPParamGroup._reshard_after_forward")
_gathered_of = optional("FSDPParam._unsharded_param")
_info_of = optional("FSDPParam._module_info")
_full_name_of = optional("FSDPParam._param_fqn")


def is_sharded_by_fsdp2(kind: type) -> bool:
    """Whether modules of a class were given to ``fully_shard``, which changes their class."""
    return _state_of(kind) is not None


def gathered_parameters(
    module: nn.Module,
) -> Iterator[tuple[nn.Module, str, torch.Tensor, Sharded]]:
    """Yield module, name and parameter of what FSDP2 has gathered for one module."""
    if not is_sharded_by_fsdp2(type(module)):
        return
    state: Any = _state_of(module)()
    # One group up to torch 2.10; several, if they have meshes of their own, in later ones.
    groups = _groups_of(state) or [_group_of(state)]
    for group in groups:
        ranks = ranks_of(group)
        for each in () if group is None else group.fsdp_params:
            gathered, info = _gathered_of(each), _info_of(each)
            if gathered is None or info is None:  # no forward pass has run
                continue
            sharded = Sharded(
                tuple(gathered.shape),
                tuple(each.sharded_size),
                weakref.ref(each.sharded_param),
                ranks,
                _reshards(group),
            )
            yield info.module, info.param_name, gathered, sharded
            for owner, name in zip(info.shared_modules, info.shared_param_names, strict=True):
                yield owner, name, gathered, sharded


def ranks_of(group: Any) -> int | None:
    """Return the number of ranks over which FSDP2 shards a group; None if unknown."""
    found: int | None = getattr(getattr(group, "mesh_info", None), "shard_mesh_size", None)
    return found


@dataclass(frozen=True)
class Bucket:
    """The DistributedDataParallel bucket of one parameter."""

    # The bucket's number, from 0 in the order of reduction; None if the log does not have it.
    number: int | None
    count: int
    nbytes: int
    parameters: int  # number of parameters in it
    # The gradient's number, from 0 in the order in which gradients were ready; None before the log
    # has one.
    ready: int | None
    total: int  # number of gradients


def is_distributed() -> bool:
    """Return whether ``torch.distributed`` is initialised."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


_is_sink = named("torch.nn.parallel.distributed._DDPSink")
_log_of = optional("DistributedDataParallel._get_ddp_logging_data")


def is_sink(node: Node) -> bool:
    """Whether DistributedDataParallel has put a node at the output of its module."""
    function = custom_function(node)
    return function is not None and _is_sink(function)


def buckets_of(module: DistributedDataParallel) -> dict[int, Bucket]:
    """Return each parameter's entry in the module's log, by ``id``; empty without a log."""
    with contextlib.suppress(Exception):  # torch calls it a prototype
        log = _log_of(module)()
        return _buckets(reduced(module), log)
    return {}


def _buckets(parameters: Sequence[torch.Tensor], log: Mapping[str, Any]) -> dict[int, Bucket]:
    count = len(parameters)
    order = _numbers(str(log.get("prev_iteration_grad_ready_order_indices", "")))
    ready = {place: i for i, place in enumerate(order)}
    rebuilt = str(log.get("rebuilt_per_bucket_param_indices", ""))
    if rebuilt:
        groups = [_numbers(each) for each in rebuilt.split(",")]
        sizes = _numbers(str(log["rebuilt_bucket_sizes"]))
    else:
        sizes = _numbers(str(log["bucket_sizes"]))
        groups = _from_the_last(parameters, sizes)
    found = {
        place: (number, nbytes, len(group))
        for number, (group, nbytes) in enumerate(zip(groups, sizes, strict=False))
        for place in group
    }
    return {
        id(parameter): Bucket(
            number, len(sizes), nbytes, together, ready.get(place), len(order) or count
        )
        for place, parameter in enumerate(parameters)
        for number, nbytes, together in [found.get(place, (None, 0, 0))]
    }


def _from_the_last(parameters: Sequence[torch.Tensor], sizes: Sequence[int]) -> list[list[int]]:
    """Places of the parameters of each bucket; none where their sizes do not tell."""
    if len(Counter((each.dtype, each.device) for each in parameters)) != 1:
        return []
    place = len(parameters)
    found = []
    for size in sizes:
        group: list[int] = []
        left = size
        while left > 0 and place > 0:
            place -= 1
            group.append(place)
            left -= parameters[place].numel() * parameters[place].element_size()
        if left != 0:
            return []
        found.append(group)
    return found if place == 0 else []


def reduced(module: DistributedDataParallel) -> list[torch.Tensor]:
    """Return the parameters whose gradients it reduces, in the order of its log."""
    ignored = getattr(module, "parameters_to_ignore", ())
    found: dict[int, torch.Tensor] = {}
    for path, below in module.module.named_modules():
        for name, parameter in below.named_parameters(recurse=False):
            if parameter.requires_grad and f"{path}.{name}" not in ignored:
                found.setdefault(id(parameter), parameter)
    return list(found.values())


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.replace(",", " ").split()]


Change = Literal["to local", "from local", "redistribute"]

_WAYS: tuple[tuple[Callable[[type], bool], Change], ...] = (
    (named("torch.distributed.tensor._api._ToTorchTensor"), "to local"),
    (named("torch.distributed.tensor._api._FromTorchTensor"), "from local"),
    (named("torch.distributed.tensor._redistribute.Redistribute"), "redistribute"),
)

_is_post_backward = named(
    "torch.distributed.fsdp._fully_shard._fsdp_param_group.RegisterPostBackwardFunction"
)


@dataclass(frozen=True)
class Placed:
    """The placement of a tensor over ranks."""

    placements: tuple[Any, ...]  # torch's placements, one for each dimension of the mesh
    # Name and number of ranks of each dimension of the mesh; "" for no name.
    mesh: tuple[tuple[str, int], ...]
    device: str  # type of the mesh's devices

    @property
    def words(self) -> str:
        """Such as "S(0)", or "R, S(1)" on a mesh of two dimensions."""
        return ", ".join(map(str, self.placements))


@dataclass(frozen=True)
class Crossing:
    """A node that creates, gathers or redistributes a DTensor."""

    way: Change
    # How the tensor is placed that is shared out; of a redistribution, what was given.
    forward: Placed
    # How the gradient is placed that it makes; None where that is not known.
    backward: Placed | None


def crossing(node: Node, arrived: Placed | None = None) -> Crossing | None:
    """Return how a node changes a placement, from that of its gradient if known; or None."""
    function = custom_function(node)
    if function is None:
        return None
    way = next((way for is_it, way in _WAYS if is_it(function)), None)
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
    """Return the placement of a DTensor; None for every other tensor."""
    dtensor = sys.modules.get("torch.distributed.tensor")
    if dtensor is None or not isinstance(tensor, dtensor.DTensor):
        return None
    return _placed(tensor.placements, tensor.device_mesh)


def ranks_with_the_same(tensor: torch.Tensor) -> list[int] | None:
    """Return the ranks with the same part of a sharded tensor and its gradient; None for others."""
    found, grad = placed(tensor), tensor.grad if tensor.is_leaf else None
    if found is None or (grad is not None and placed(grad) != found):
        return None
    mesh = tensor.device_mesh  # type: ignore[attr-defined]
    here = mesh.get_coordinate()
    if here is None:
        return None
    same_ranks = tuple(
        slice(None) if each.is_replicate() else place
        for each, place in zip(found.placements, here, strict=True)
    )
    return sorted(int(rank) for rank in mesh.mesh[same_ranks].flatten())


def collective(before: Placed, after: Placed) -> str | None:
    """Return what changes the placement, "all-gather over tp, 2 ranks"; "" for nothing; or None."""
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
    """A node where FSDP2 reduces the gradients of a group of parameters."""

    names: Sequence[str]  # the names of the parameters in their module
    ranks: int | None  # the number of ranks over which each parameter is sharded; None if unknown


def reducing(node: Node) -> Reducing | None:
    """Return FSDP2's reduction at a node; None for every other node."""
    function = custom_function(node)
    if function is None or not _is_post_backward(function):
        return None
    group = getattr(node, "param_group", None)
    found = getattr(group, "fsdp_params", ())
    names = [_full_name_of(each) or _name_in_module(each) for each in found]
    return Reducing(names, ranks_of(group))


def _name_in_module(parameter: Any) -> str:
    return str(getattr(_info_of(parameter), "param_name", "an unknown parameter"))


def _placed(placements: Sequence[Any], mesh: Any) -> Placed:
    names = mesh.mesh_dim_names or [""] * mesh.ndim
    axes = tuple((str(name), int(mesh.size(i))) for i, name in enumerate(names))
    return Placed(tuple(placements), axes, str(mesh.device_type))


def _has_partial(found: Placed) -> bool:
    return any(each.is_partial() for each in found.placements)


_treats_partial_as_whole = optional("tensor_api._normalize_placements_for_grad")


def _makes_whole(function: type[torch.autograd.Function]) -> bool:
    """Whether this torch treats the gradient of partial sums as replicated."""
    return _treats_partial_as_whole(sys.modules[function.__module__]) is not None


def _replicate() -> Any:
    return sys.modules["torch.distributed.tensor"].Replicate()
