"""Names of tensors and paths of modules, from the user's own variables and modules."""

from __future__ import annotations

import contextlib
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from ..hosts.this_host import caller_variables, this_host
from ..torch_api.distributed import (
    Sharded,
    gathered_parameters,
    is_distributed,
    is_sharded_by_fsdp2,
    reduced,
)
from ..torch_api.modules import own_buffers, own_parameters, submodules
from ..torch_api.nodes import Edge, gradient_edge
from .arguments import read_int
from .held_by import NAMED, Place, attributes_in, items_in, objects_in
from .owners import parts_of_others, shortest_first

OUTSIDE = "()"  # the path of operations outside all modules


def ancestors(path: str, by: str = ".") -> list[str]:
    """Return a path and its ancestors, innermost first, ending with the root."""
    found = [path]
    while path:
        path = path.rpartition(by)[0]
        found.append(path)
    return found


def below(path: str, name: str) -> str:
    """Return the path of a dotted name below a module."""
    return f"{path}.{name}" if path and name else path or name


def means(ref: str, name: str, *, around: bool = False) -> bool:
    """Whether a dotted pattern, with "*" for any part, matches a name."""
    if "*" not in ref:
        return ref == name or (around and ref.startswith(f"{name}."))
    parts, others = ref.split("."), name.split(".")
    if len(parts) != len(others) and not (around and len(parts) > len(others)):
        return False
    return all(part in ("*", other) for part, other in zip(parts, others, strict=False))


def common_ancestor(paths: Iterable[str], by: str = ".") -> str:
    """Return the innermost module around all paths; a single path itself."""
    first, *others = dict.fromkeys(paths)
    if OUTSIDE in others or (first == OUTSIDE and others):
        return ""
    around = first.split(by) if first else []
    for path in others:
        parts = path.split(by) if path else []
        same = 0
        while same < min(len(around), len(parts)) and around[same] == parts[same]:
            same += 1
        around = around[:same]
    return by.join(around)


def innermost(paths: set[str]) -> str:
    """Return the innermost of nested modules; else the module around all of them."""
    deepest = max(paths, key=len)
    around = ancestors(deepest)
    return deepest if all(path in around for path in paths) else common_ancestor(paths)


# Names IPython keeps for itself: `_`, `__`, `_12`, `_i`, `_i12`, `Out`, ...
_HISTORY = re.compile(r"_+|_\d+|_i+\d*|_[dio]h|In|Out")
_LEFT_OVER = frozenset({"p", "param", "parameter"})  # by `for p in model.parameters()`

_MOST_ALIASES = 4
_STACKLEVEL = "Give 1 for the variables of the caller, 2 for the variables of the caller's caller."


@dataclass
class Names:
    """The user's names for the tensors of a graph."""

    leaves: dict[int, str] = field(default_factory=dict)  # ``id`` of a leaf tensor -> its name
    # (node, output_nr) of an intermediate tensor -> its name.
    edges: dict[Edge, str] = field(default_factory=dict)
    # (node, output_nr) -> the intermediate tensor itself, while it lives.
    tensors: dict[Edge, weakref.ref[torch.Tensor]] = field(default_factory=dict)
    # ``id`` of a leaf, or of a tensor that does not require grad -> its name, and the tensor itself
    # while it lives.
    known: dict[int, tuple[str, weakref.ref[torch.Tensor]]] = field(default_factory=dict)
    # Dotted path of a module -> the module, while it lives. A module that several variables hold
    # has its paths below one of them.
    modules: dict[str, weakref.ref[torch.nn.Module]] = field(default_factory=dict)
    # Dotted path of a module -> the name of its class.
    classes: dict[str, str] = field(default_factory=dict)
    # ``id`` of a module -> the module while it lives, its variable, and its dotted path there. The
    # first place of a module stays.
    places: dict[int, tuple[weakref.ref[torch.nn.Module], str, str]] = field(default_factory=dict)
    # Variable of a module -> ``id`` of each of its parameters -> its dotted path.
    parameters: dict[str, dict[int, str]] = field(default_factory=dict)
    # ``id`` of a parameter with several names in one module -> these names.
    tied: dict[int, list[str]] = field(default_factory=dict)
    # ``id`` of a leaf or a module -> its further names, where variables, attributes and items of
    # containers hold it.
    aliases: dict[int, list[str]] = field(default_factory=dict)
    # ``id`` of a tensor that FSDP2 gathered -> the tensor while it lives, and its sharded
    # parameter.
    sharded: dict[int, tuple[weakref.ref[torch.Tensor], Sharded]] = field(default_factory=dict)
    # ``id`` of a parameter within a DistributedDataParallel -> that wrapper, while it lives.
    replicated: dict[int, weakref.ref[DistributedDataParallel]] = field(default_factory=dict)

    def add_replicated(self, module: DistributedDataParallel) -> None:
        """Note the parameters whose gradients a DistributedDataParallel reduces."""
        self.replicated.update(dict.fromkeys(map(id, reduced(module)), weakref.ref(module)))

    def place_of(self, module: torch.nn.Module) -> tuple[str, str] | None:
        """Return a module's variable and its dotted path; None for an unknown module."""
        reference, variable, path = self.places.get(id(module), (None, "", ""))
        return (variable, path) if reference is not None and reference() is module else None

    def name_of(self, tensor: torch.Tensor) -> str | None:
        """Return the user's name for any tensor; None without one."""
        name, reference = self.known.get(id(tensor), (None, None))
        if reference is not None and reference() is tensor:
            return name
        if tensor.requires_grad and not tensor.is_leaf:
            with contextlib.suppress(RuntimeError):  # one of several views, whose base was written
                return self.edges.get(gradient_edge(tensor))
        return None

    def tied_to(self, tensor: torch.Tensor) -> list[str]:
        """Return all names of a tensor with several names in a module, its own name first."""
        name, reference = self.known.get(id(tensor), ("", None))
        places = self.tied.get(id(tensor), ())
        is_it = reference is not None and reference() is tensor
        return list(dict.fromkeys([name, *places])) if is_it and places else []

    def sharded_as(self, tensor: torch.Tensor) -> Sharded | None:
        """Return the sharded parameter that FSDP2 gathered in a tensor; None for other tensors."""
        reference, found = self.sharded.get(id(tensor), (None, None))
        return found if reference is not None and reference() is tensor else None

    def leaves_of_parameters(self) -> dict[int, int]:
        """Map the ``id`` of each sharded parameter to the ``id`` of its leaf in the graph."""
        found: dict[int, int] = {}
        for key, (_, sharded) in self.sharded.items():
            parameter = sharded.parameter()
            if parameter is not None:
                found[id(parameter)] = key
        return found

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Note a tensor's name. The first name given to a tensor stays."""
        try:
            if tensor.is_leaf:
                key = id(tensor)
                if key not in self.known:
                    self.known[key] = name, weakref.ref(tensor)
                elif len(aliases := self.aliases.setdefault(key, [])) < _MOST_ALIASES:
                    aliases.append(name)
                if tensor.requires_grad:
                    self.leaves.setdefault(key, name)
                return
            edge = gradient_edge(tensor)
        except Exception:
            return  # a view whose base was changed beyond repair, a broken tensor subclass, ...
        self.edges.setdefault(edge, name)
        known = self.tensors.get(edge)
        if known is None or known() is None:
            self.tensors[edge] = weakref.ref(tensor)


def read_names(names: Any, caller: str) -> Names:
    """Read the argument ``names=``: a mapping to tensors or modules, a module, or None."""
    found = Names()
    if names is None:
        return found
    if isinstance(names, torch.nn.Module):
        _add_module(found, "", names)
        return found
    if not isinstance(names, Mapping):
        raise TypeError(
            f"{caller}() was given names={names!r}, of type {type(names).__name__}. Pass a mapping "
            "from names to tensors or modules, such as {'w': w, 'model': model}, or one module."
        )
    for name, value in names.items():
        if not isinstance(value, NAMED):
            raise TypeError(
                f"{caller}() was given names={{{name!r}: ...}} with a value of type "
                f"{type(value).__name__}. Map each name to a tensor or an nn.Module."
            )
    _add_places(found, [[(str(name), value) for name, value in names.items()]])
    return found


def caller_names(names: Any, caller: str, stacklevel: int, without: Any = None) -> Names:
    """Return the names that a public function was given, or those of its caller's variables.

    It counts frames from the function that calls it, so only the public function may call it.

    ``names``: the argument ``names=``; None for the variables of the caller. ``stacklevel``: the
    frame to read: 1 is the public function's caller, 2 the caller's caller. The outermost frame if
    there are fewer.
    """
    level = read_int(stacklevel, f"{caller}() was given stacklevel=", _STACKLEVEL)
    if names is not None and not is_distributed():
        return read_names(names, caller)
    frame = sys._getframe(2)
    for _ in range(level - 1):
        frame = frame.f_back or frame
    variables = caller_variables(frame)
    if names is not None:
        found = read_names(names, caller)
        for value in variables.values():  # names= may be the module inside of it
            if isinstance(value, DistributedDataParallel):
                found.add_replicated(value)
        return found
    return names_among({name: each for name, each in variables.items() if each is not without})


def names_among(variables: Mapping[str, Any]) -> Names:
    """Find names among variables: of tensors and modules, in flat containers and in attributes.

    A variable's own name takes precedence over a place in a module, an object or a container: ``w``
    is named ``w`` even if it is also ``params[0]``. A variable that a loop over parameters leaves
    behind comes after the modules. A module that is part of another one has its name there.
    """
    found, as_written = Names(), this_host().as_written
    own = [
        (as_written(name), value)
        for name, value in list(variables.items())
        if not _HISTORY.fullmatch(name)
    ]
    own.sort(key=lambda item: item[0].startswith("_"))  # stable: public names first
    items = [item for name, value in own for item in items_in(name, value)]
    objects = [each for each in own if type(each[1]) is not FunctionType]
    _, listed = objects_in(objects)
    # A loop may have left one of the objects of a list in a variable.
    own = [each for each in own if id(each[1]) not in listed]
    deep, _ = objects_in([each for each in objects if id(each[1]) not in listed])
    left_over = [item for item in own if item[0] in _LEFT_OVER]
    named = [item for item in own if item[0] not in _LEFT_OVER]
    _add_places(found, [named, list(attributes_in(own)), deep, left_over, items])
    return found


def _add_places(found: Names, groups: Sequence[Sequence[Place]]) -> None:
    """Add tensors and modules, group by group; modules that are part of another come last."""
    modules = [list(_of_kind(torch.nn.Module, places)) for places in groups]
    parts = parts_of_others([module for places in modules for _, module in places])
    later: list[Place] = []
    for places, of_group in zip(groups, modules, strict=True):
        for place, tensor in _of_kind(torch.Tensor, places):
            with contextlib.suppress(Exception):
                found.add(place, tensor)
        own = [each for each in of_group if not parts.get(id(each[1]))]
        later += [each for each in of_group if parts.get(id(each[1]))]
        for place, module in of_group:
            found.aliases.setdefault(id(module), []).append(place)
        for place, module in shortest_first(own):
            with contextlib.suppress(Exception):
                _add_module(found, place, module, is_part=id(module) in parts)
    for place, module in later:
        with contextlib.suppress(Exception):
            _add_module(found, place, module, is_part=True)


def _of_kind(kind: type, places: Iterable[Place]) -> Iterator[Place]:
    for place, value in places:
        try:
            is_one = isinstance(value, kind)
        except Exception:  # a variable may hold an object whose class raises here
            continue
        if is_one:
            yield place, value


def _add_module(
    found: Names, prefix: str, module: torch.nn.Module, *, is_part: bool = False
) -> None:
    modules = modules_by_path({prefix: module})
    has_path = is_part or id(module) in found.places  # below another variable
    for path, child in modules:
        reference = weakref.ref(child)
        if not has_path:
            found.modules.setdefault(path, reference)
        found.classes.setdefault(path, type(child).__name__)
        if id(child) not in found.places:
            found.places[id(child)] = reference, prefix, path
    leaf_of: dict[int, int] = {}
    if any(map(_is_distributed, {type(child) for _, child in modules})):
        _add_distributed(found, module)
        leaf_of = found.leaves_of_parameters()
    parameters = _members(module, prefix, modules, "named_parameters")
    named: dict[int, str] = {}
    for place, parameter in parameters:
        named.setdefault(leaf_of.get(id(parameter), id(parameter)), place)
    found.parameters.setdefault(prefix, named)
    first: dict[int, str] = {}
    tied: dict[int, list[str]] = {}
    for place, tensor in (*parameters, *_members(module, prefix, modules, "named_buffers")):
        found.add(place, tensor)
        key = id(tensor)
        if key in first:
            tied.setdefault(key, [first[key]]).append(place)
        else:
            first[key] = place
    for key, of_tensor in tied.items():
        found.tied.setdefault(key, of_tensor)


def _is_distributed(kind: type) -> bool:
    """Whether modules of a class share parameters with other processes."""
    return issubclass(kind, DistributedDataParallel) or is_sharded_by_fsdp2(kind)


def _add_distributed(found: Names, module: torch.nn.Module) -> None:
    for child in module.modules():
        if isinstance(child, DistributedDataParallel):
            found.add_replicated(child)
        for owner, name, tensor, sharded in gathered_parameters(child):
            _, _, path = found.places.get(id(owner), (None, "", ""))
            found.add(f"{path}.{name}" if path else name, tensor)
            found.sharded.setdefault(id(tensor), (weakref.ref(tensor), sharded))


_OWN: dict[str, Callable[[torch.nn.Module], dict[str, Any]]] = {
    "named_parameters": own_parameters,
    "named_buffers": own_buffers,
}


def _members(
    module: torch.nn.Module,
    prefix: str,
    modules: Sequence[tuple[str, torch.nn.Module]],
    method: str,
) -> list[tuple[str, torch.Tensor]]:
    """Return (dotted name, tensor) below a module; a class may override ``method``."""
    if getattr(type(module), method) is not getattr(torch.nn.Module, method):  # a class of its own
        named = getattr(module, method)(remove_duplicate=False)
        return [(below(prefix, name), tensor) for name, tensor in named]
    own = _OWN[method]
    return [
        (f"{path}.{name}" if path else name, tensor)
        for path, child in modules
        for name, tensor in own(child).items()
        if tensor is not None
    ]


def modules_by_path(modules: Mapping[str, Any]) -> list[tuple[str, torch.nn.Module]]:
    """Return (dotted path, module) of the modules among some values, and of their submodules."""
    found: list[tuple[str, torch.nn.Module]] = []
    for name, module in modules.items():
        if isinstance(module, torch.nn.Module):
            _add_below(found, name, module)
    return found


def _add_below(
    found: list[tuple[str, torch.nn.Module]], path: str, module: torch.nn.Module
) -> None:
    """Add a module and its submodules in the order of ``named_modules``, which is slower."""
    if type(module).named_modules is not torch.nn.Module.named_modules:  # a class of its own
        named = module.named_modules(remove_duplicate=False)
        found += [(below(path, name), child) for name, child in named]
        return
    found.append((path, module))
    for name, child in submodules(module).items():
        if child is not None:
            _add_below(found, f"{path}.{name}" if path else name, child)
