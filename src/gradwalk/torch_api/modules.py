"""Read what a module holds: its children, parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import nn

from .capability import capability

_HOOKED = {
    "_forward_hooks": "output",
    "_forward_pre_hooks": "input",
    "_backward_hooks": "gradient",
    "_backward_pre_hooks": "gradient",
}
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@capability("Module._modules", otherwise=lambda module: dict(module.named_children()))
def submodules(read: Any) -> Callable[[nn.Module], dict[str, nn.Module | None]]:
    """A module's children by name. Unlike ``named_children`` it repeats shared modules."""
    module = nn.Sequential(nn.Identity())
    if read(module)["0"] is not module[0]:
        raise ValueError("torch gives other modules.")
    return cast("Callable[[nn.Module], dict[str, nn.Module | None]]", read)


@capability(
    "Module._parameters",
    otherwise=lambda module: dict(module.named_parameters(recurse=False, remove_duplicate=False)),
)
def own_parameters(read: Any) -> Callable[[nn.Module], dict[str, nn.Parameter | None]]:
    """A module's own parameters by name, without those of its children."""
    module = nn.Linear(1, 1, device="meta")
    if read(module)["bias"] is not module.bias:
        raise ValueError("torch gives other parameters.")
    return cast("Callable[[nn.Module], dict[str, nn.Parameter | None]]", read)


@capability(
    "Module._buffers",
    otherwise=lambda module: dict(module.named_buffers(recurse=False, remove_duplicate=False)),
)
def own_buffers(read: Any) -> Callable[[nn.Module], dict[str, torch.Tensor | None]]:
    """A module's own buffers by name, without those of its children."""
    module = nn.BatchNorm1d(1, device="meta")
    if read(module)["running_mean"] is not module.running_mean:
        raise ValueError("torch gives other buffers.")
    return cast("Callable[[nn.Module], dict[str, torch.Tensor | None]]", read)


def module_hooks(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the hooks of a module, each with the word for the value that it may replace."""
    for attribute, what in _HOOKED.items():
        hooks = vars(module).get(attribute)
        for hook in hooks.values() if isinstance(hooks, dict) else ():
            yield what, hook


def stand_in(
    module: nn.Module,
    parameter: Callable[[torch.Tensor], torch.Tensor],
    buffer: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[[], None]:
    """Replace a module's own parameters and buffers; return what puts its state back.

    Attributes that its forward sets, and lists of parameters, as an RNN has, are put back as well.
    """
    own = vars(module)
    before = dict(own)
    for name, value in before.items():
        if name == "_parameters":
            own[name] = {k: None if each is None else parameter(each) for k, each in value.items()}
        elif name == "_buffers":
            own[name] = {k: None if each is None else buffer(each) for k, each in value.items()}
        elif type(value) is list and any(isinstance(each, nn.Parameter) for each in value):
            own[name] = [parameter(x) if isinstance(x, nn.Parameter) else x for x in value]

    def put_back() -> None:
        own.clear()
        own.update(before)

    return put_back


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that ``torch.compile`` was given, else the module itself."""
    children = vars(module).get("_modules")
    found = children.get("_orig_mod") if isinstance(children, dict) else None  # TorchScript: none
    return found if found is not None else module


def parameters_of(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a module; none if torch cannot walk it, as one without a hash."""
    with contextlib.suppress(Exception):
        return list(module.parameters())
    return []
