"""Which variable owns a module that several variables hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from ..torch_api.modules import submodules
from .held_by import Place


def parts_of_others(modules: Sequence[nn.Module]) -> dict[int, bool]:
    """Return the ``id`` of each module that is part of others -> whether one of these has it alone.

    Modules in the others that have it are not counted. Wrappers of torch, such as
    ``DistributedDataParallel``, have no parts: a model keeps the name that it has without them.
    Nor has a list whose modules all have variables of their own.
    """
    found = {id(module): module for module in modules}
    if len(found) < 2:
        return {}
    around: dict[int, set[int]] = {}  # a module -> the others that it is part of
    for key, module in found.items():
        if _owns(module, found):
            for part in _below(module) & found.keys() - {key}:
                around.setdefault(part, set()).add(key)
    return {part: len(outer - around.keys()) == 1 for part, outer in around.items()}


def shortest_first(places: Iterable[Place]) -> list[Place]:
    """Sort the places of each module: public names first, then short ones."""
    order: dict[int, int] = {}
    known = list(places)
    for _, module in known:
        order.setdefault(id(module), len(order))
    return sorted(
        known, key=lambda each: (order[id(each[1])], each[0].startswith("_"), len(each[0]))
    )


def _owns(module: nn.Module, held: dict[int, nn.Module]) -> bool:
    package = str(type(module).__module__)
    if package.startswith("torch.") and not package.startswith("torch.nn.modules."):
        return False
    is_container = isinstance(module, (nn.ModuleList, nn.ModuleDict))
    return not is_container or any(id(each) not in held for each in submodules(module).values())


def _below(module: nn.Module) -> set[int]:
    """Return the ``id`` of all modules in one, itself included."""
    found, waiting = {id(module)}, [module]
    while waiting:
        for child in submodules(waiting.pop()).values():
            if child is not None and id(child) not in found:
                found.add(id(child))
                waiting.append(child)
    return found
