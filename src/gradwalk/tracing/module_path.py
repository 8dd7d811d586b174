"""The stack of running modules: where in the user's model a forward pass is."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from ..torch_api.modules import own_parameters, submodules

# More names than this are not needed for a shared module.
_MOST_NAMES = 16


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module."""

    # Its name relative to the outermost running module ("encoder.layers.0.linear1"), empty for the
    # outermost module itself. A module outside it has its class name, in parentheses.
    path: str
    root: str  # the class name of the outermost module
    # (path, class name) of the running modules from the outermost in, this one last.
    running: tuple[tuple[str, str], ...]
    outermost: weakref.ref[nn.Module]  # the outermost module, while it lives


class TensorRef:
    """A weak reference to a tensor: gives it while it lives, then None.

    References to the same tensor are equal. Plain weak references compare their referents, and a
    tensor's ``==`` returns a tensor.
    """

    __slots__ = ("__weakref__", "_find", "_key")

    def __init__(self, tensor: torch.Tensor, find: ParameterRef | None = None) -> None:
        self._key = id(tensor)
        # Python makes one weak reference per tensor, also comparable when the tensor is gone.
        self._find: Callable[[], torch.Tensor | None] = find or weakref.ref(tensor)

    def __call__(self) -> torch.Tensor | None:
        """Return the tensor; None once it is gone."""
        return self._find()

    def resolve_through(self, place: ParameterRef) -> None:
        """Replace the weak reference by the parameter's place in its module."""
        if place() is self():
            self._find = place

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorRef) or self._key != other._key:
            return False
        return self._find is other._find or ((tensor := self()) is not None and other() is tensor)

    def __hash__(self) -> int:
        return self._key


@dataclass(frozen=True)
class ParameterRef:
    """A parameter, as long as it is in its module."""

    module: weakref.ref[nn.Module]
    name: str
    key: int

    def __call__(self) -> torch.Tensor | None:
        """Return the parameter; None once it or its module is gone."""
        module = self.module()
        found = None if module is None else own_parameters(module).get(self.name)
        return found if id(found) == self.key else None


def owners_of_parameters(
    root: nn.Module, known: Mapping[int, ParameterRef]
) -> dict[int, ParameterRef]:
    """Return the module and name of each parameter below ``root`` by ``id``, added to ``known``."""
    found = dict(known)
    waiting, seen = [root], {id(root)}  # a class may define its own `modules()`, which may raise
    for module in waiting:  # grows while we walk
        below = {id(each): each for each in submodules(module).values() if each is not None}
        waiting += [each for key, each in below.items() if key not in seen]
        seen |= below.keys()
        for name, parameter in own_parameters(module).items():
            key = id(parameter)
            if parameter is not None and (key not in found or found[key]() is not parameter):
                found[key] = ParameterRef(weakref.ref(module), name, key)
    return found


class ModuleStack:
    """The running modules of one thread."""

    def __init__(self) -> None:
        self._running: list[tuple[int, ModuleCall]] = []
        self._names: dict[int, list[str]] | None = None
        self._calls: dict[tuple[int, str], int] = {}
        self._root: nn.Module | None = None
        self._owners: dict[int, ParameterRef] = {}
        self._unowned: weakref.WeakValueDictionary[int, TensorRef] = weakref.WeakValueDictionary()

    @property
    def current(self) -> ModuleCall | None:
        """The innermost running module."""
        return self._running[-1][1] if self._running else None

    def enter(self, module: nn.Module) -> None:
        """Record that a module's forward starts."""
        name = type(module).__name__
        if not self._running:
            self._root, self._names = module, None
            self._calls = {}
            self._add_parameters(module)
            call = ModuleCall("", name, (("", name),), weakref.ref(module))
        else:
            call = self._below(self._running[-1][1], module)
        self._running.append((id(module), call))

    def leave(self, module: nn.Module) -> None:
        """Record that a module's forward and all calls within it ended."""
        for depth in range(len(self._running) - 1, -1, -1):
            if self._running[depth][0] == id(module):
                del self._running[depth:]
                break
        if not self._running:
            self._root = self._names = None  # a finished forward keeps no module alive

    def reference(self, tensor: torch.Tensor) -> TensorRef:
        """Return a reference to a tensor.

        A known module's parameter gets no weak reference: torch refuses to swap the contents of
        tensors that have one (`torch.utils.swap_tensors`, which ``module.double()`` may use).
        """
        if self.is_parameter(tensor):
            return TensorRef(tensor, self._owners[id(tensor)])
        if type(tensor) is torch.Tensor or not isinstance(tensor, nn.Parameter):
            return TensorRef(tensor)
        known = self._unowned.get(id(tensor))
        if known is None or known() is not tensor:
            known = self._unowned[id(tensor)] = TensorRef(tensor)
        return known

    def is_parameter(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is a parameter of a module whose forward this watch saw."""
        owned = self._owners.get(id(tensor))
        return owned is not None and owned() is tensor

    def _add_parameters(self, root: nn.Module) -> None:
        self._owners = owners_of_parameters(root, self._owners)
        for key, reference in list(self._unowned.items()):
            if key in self._owners:
                reference.resolve_through(self._owners[key])
                del self._unowned[key]

    def _below(self, parent: ModuleCall, module: nn.Module) -> ModuleCall:
        if self._names is None and self._root is not None:
            self._names = names_of_submodules(self._root)
        prefix = f"{parent.path}." if parent.path else ""
        known = (self._names or {}).get(id(module), [])
        names = [name for name in known if name.startswith(prefix)] or known
        names = names or [f"{prefix}({type(module).__name__})"]
        # The names of a shared module are used in turn: Sequential(a, relu, b, relu).
        earlier = self._calls.get((id(module), prefix), 0)
        self._calls[id(module), prefix] = earlier + 1
        path = names[earlier % len(names)]
        running = (*parent.running, (path, type(module).__name__))
        return ModuleCall(path, parent.root, running, parent.outermost)


def names_of_submodules(root: nn.Module) -> dict[int, list[str]]:
    """Return the dotted names of every module below ``root`` by ``id``, of shared ones all."""
    names: dict[int, list[str]] = {}
    waiting: list[tuple[str, nn.Module]] = [("", root)]
    for prefix, module in waiting:  # grows while we walk
        for name, child in submodules(module).items():
            if child is None:
                continue
            found = names.setdefault(id(child), [])
            if len(found) < _MOST_NAMES:
                found.append(prefix + name)
                waiting.append((f"{prefix}{name}.", child))
    return names
