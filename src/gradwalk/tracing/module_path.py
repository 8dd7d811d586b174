"""The stack of running modules: where in the user's model a forward pass is."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from ..torch_api.modules import own_parameters, submodules

# More names than this are not needed for a shared module.
_MOST_NAMES = 16


class ModuleCall:
    """One call of a module."""

    __slots__ = ("_around", "kind", "outermost", "path", "root")

    def __init__(
        self, path: str, kind: str, around: ModuleCall | None, outermost: weakref.ref[nn.Module]
    ) -> None:
        # Its name relative to the outermost running module ("encoder.layers.0.linear1"), empty for
        # the outermost module itself. A module outside it has its class name, in parentheses.
        self.path = path
        self.kind = kind  # its class name
        self.root: str = kind if around is None else around.root  # the outermost class
        self.outermost = outermost  # the outermost module, while it lives
        self._around = around  # the call that it is in

    @property
    def running(self) -> tuple[tuple[str, str], ...]:
        """(path, class name) of the running modules from the outermost in, this one last."""
        found, call = [(self.path, self.kind)], self._around
        while call is not None:
            found.append((call.path, call.kind))
            call = call._around
        return tuple(reversed(found))


class TensorRef:
    """A weak reference to a tensor: gives it while it lives, then None.

    A parameter of a known module is referenced by its place in the module: torch refuses to swap
    the contents of tensors that have a weak reference (`torch.utils.swap_tensors`, which
    ``module.double()`` may use).

    References to the same tensor are equal. Plain weak references compare their referents, and a
    tensor's ``==`` returns a tensor.
    """

    __slots__ = ("__weakref__", "_name", "_to", "key")

    def __init__(
        self, tensor: torch.Tensor, module: nn.Module | None = None, name: str | None = None
    ) -> None:
        self.key = id(tensor)  # also once the tensor is gone
        self._name = name
        # Python makes one weak reference per object, also comparable when the object is gone.
        self._to: weakref.ref[Any] = weakref.ref(tensor if module is None else module)

    def __call__(self) -> torch.Tensor | None:
        """Return the tensor; None once it is gone, or no more in its module."""
        found = self._to()
        if self._name is None or found is None:
            return found
        own = own_parameters(found)
        parameter = own[self._name] if self._name in own else None  # noqa: SIM401  TorchScript has no get()
        return parameter if id(parameter) == self.key else None

    @property
    def is_owned(self) -> bool:
        """Whether it refers to a place in a module."""
        return self._name is not None

    def resolve_through(self, owned: TensorRef) -> None:
        """Replace the weak reference by the parameter's place in its module."""
        if owned() is self():
            self._to, self._name = owned._to, owned._name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorRef) or self.key != other.key:
            return False
        if self._to is other._to and self._name == other._name:
            return True
        return (tensor := self()) is not None and other() is tensor

    def __hash__(self) -> int:
        return self.key


ModuleRan = tuple[weakref.ref[nn.Module], tuple[int, ...]]
"""A module that ran, and the ``id`` of its own parameters then."""


class ModuleStack:
    """The running modules of one thread."""

    def __init__(self, ran: dict[int, ModuleRan] | None = None) -> None:
        """``ran``: gets each module that runs."""
        self._ran: dict[int, ModuleRan] = {} if ran is None else ran
        self.current: ModuleCall | None = None  # the innermost running module's
        self._running: list[tuple[nn.Module, ModuleCall]] = []
        self._names: dict[int, list[str]] | None = None
        self._calls: dict[tuple[int, str], int] = {}
        self._root: nn.Module | None = None
        # Outermost modules, by id, whose parameters are not all in `_owners`.
        self._unsearched: dict[int, weakref.ref[nn.Module]] = {}
        self._owners: dict[int, TensorRef] = {}
        self._unowned: weakref.WeakValueDictionary[int, TensorRef] = weakref.WeakValueDictionary()

    def enter(self, module: nn.Module) -> None:
        """Record that a module's forward starts."""
        if id(module) not in self._ran:
            # functional_call() may have put other tensors in the place of its parameters.
            held = tuple(map(id, own_parameters(module).values()))
            self._ran[id(module)] = weakref.ref(module), held
        if self.current is None:
            self._root, self._names = module, None
            self._unsearched[id(module)] = weakref.ref(module)
            self._calls = {}
            if self._unowned:
                self._add_parameters()
            call = ModuleCall("", type(module).__name__, None, weakref.ref(module))
        else:
            call = self._below(self.current, module)
        self._running.append((module, call))
        self.current = call

    def leave(self, module: nn.Module) -> None:
        """Record that a module's forward and all calls within it ended."""
        running = self._running
        if running and running[-1][0] is module:
            del running[-1]
            if running:
                self.current = running[-1][1]
                return
        depth = len(running)
        while depth:  # it is the last one, unless others never left
            depth -= 1
            if running[depth][0] is module:
                del running[depth:]
                break
        if running:
            self.current = running[-1][1]
        else:
            # A finished forward keeps no module alive.
            self.current = self._root = self._names = None

    def reference(self, tensor: torch.Tensor) -> TensorRef:
        """Return a reference to a tensor."""
        owned = self._owners.get(id(tensor))
        if owned is not None and owned() is tensor:
            return owned
        if type(tensor) is torch.Tensor or not isinstance(tensor, nn.Parameter):
            return TensorRef(tensor)
        if self._running:  # mostly it is the innermost one's, or its child's
            innermost = self._running[-1][0]
            for module in (innermost, *submodules(innermost).values()):
                for name, parameter in () if module is None else own_parameters(module).items():
                    if parameter is tensor:
                        owned = self._owners[id(tensor)] = TensorRef(tensor, module, name)
                        return owned
        if self._unsearched:
            self._add_parameters()
            return self.reference(tensor)
        known = self._unowned.get(id(tensor))
        if known is None or known() is not tensor:
            known = self._unowned[id(tensor)] = TensorRef(tensor)
        return known

    def _add_parameters(self) -> None:
        """Note the place of every parameter below the outermost modules that have run."""
        roots = (reference() for reference in self._unsearched.values())
        waiting = [root for root in roots if root is not None]
        seen = set(map(id, waiting))  # a class may define its own `modules()`, which may raise
        self._unsearched = {}
        for module in waiting:  # grows while we walk
            below = {id(each): each for each in submodules(module).values() if each is not None}
            waiting += [each for key, each in below.items() if key not in seen]
            seen |= below.keys()
            for name, parameter in own_parameters(module).items():
                key = id(parameter)
                known = self._owners.get(key)
                if parameter is not None and (known is None or known() is not parameter):
                    self._owners[key] = TensorRef(parameter, module, name)
        for key, reference in list(self._unowned.items()):
            if key in self._owners:
                reference.resolve_through(self._owners[key])
                del self._unowned[key]

    def _below(self, parent: ModuleCall, module: nn.Module) -> ModuleCall:
        kind = type(module).__name__
        if self._names is None and self._root is not None:
            self._names = names_of_submodules(self._root)
        names = self._names.get(id(module)) if self._names is not None else None
        if names is not None and len(names) == 1:
            path = names[0]
        else:
            prefix = f"{parent.path}." if parent.path else ""
            names = names or [f"{prefix}({kind})"]
            # The names of a shared module are used in turn: Sequential(a, relu, b, relu).
            names = [name for name in names if name.startswith(prefix)] or names
            earlier = self._calls.get((id(module), prefix), 0)
            self._calls[id(module), prefix] = earlier + 1
            path = names[earlier % len(names)]
        return ModuleCall(path, kind, parent, parent.outermost)


def names_of_submodules(root: nn.Module) -> dict[int, list[str]]:
    """Return the dotted names of every module below ``root`` by ``id``, of shared ones all."""
    names: dict[int, list[str]] = {}
    waiting = [("", submodules(root))]
    for prefix, children in waiting:  # grows while we walk
        for name, child in children.items():
            if child is None:
                continue
            path = prefix + name
            found = names.get(id(child))
            if found is None:
                names[id(child)] = [path]
            elif len(found) < _MOST_NAMES:
                found.append(path)
            else:
                continue
            below = submodules(child)
            if below:
                waiting.append((f"{path}.", below))
    return names
