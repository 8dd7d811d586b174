"""The models and optimizers of a run, and the names of their parameters."""

from __future__ import annotations

import gc
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from ...torch_api.modules import own_parameters, submodules
from ...tracing.source_line import shown_file

_T = TypeVar("_T")
_FABRIC = ("lightning.fabric.", "lightning_fabric.")


@dataclass(frozen=True)
class Part:
    """A parameter of a model, or a tensor that only an optimizer holds."""

    name: str
    tensor: torch.Tensor
    module: nn.Module | None = None  # the model's own class around it: not one of torch.nn
    path: str = ""  # of that module in its model


@dataclass
class Program:
    """The models and optimizers of a run at one moment. Do not keep it: it holds the tensors."""

    optimizers: list[torch.optim.Optimizer]
    parts: dict[int, Part] = field(default_factory=dict)  # by the id of the tensor
    models: dict[str, nn.Module] = field(default_factory=dict)  # by the prefix of their names
    held: set[int] = field(default_factory=set)  # ids of what any optimizer holds

    def of(self, optimizer: torch.optim.Optimizer) -> list[Part]:
        """Return the parts that one optimizer holds, each once."""
        found = dict.fromkeys(map(id, held_by(optimizer)))
        return [self.parts[key] for key in found]

    def beside(self, optimizer: torch.optim.Optimizer) -> list[Part]:
        """Return parameters that no optimizer holds, of models of which this one holds a part."""
        own = {id(each) for each in held_by(optimizer)}
        return [
            self.parts[id(parameter)]
            for model in self.models.values()
            if any(id(parameter) in own for parameter in model.parameters())
            for parameter in model.parameters()
            if id(parameter) not in self.held
        ]


def held_by(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of an optimizer."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def read_program(
    models: Iterable[nn.Module], optimizers: Iterable[torch.optim.Optimizer]
) -> Program:
    """Name the parameters of models, and what optimizers hold beside them."""
    program = Program(_distinct(optimizers))
    program.held = {id(each) for one in program.optimizers for each in held_by(one)}
    tops = [
        model
        for model in map(_unwrapped, models)
        if not program.held or any(id(each) in program.held for each in model.parameters())
    ]
    classes = Counter(type(model).__name__ for model in tops)
    seen: Counter[str] = Counter()
    for model in tops:
        kind = type(model).__name__
        seen[kind] += 1
        number = f"[{seen[kind] - 1}]" if classes[kind] > 1 else ""
        prefix = f"{kind}{number}." if len(tops) > 1 else ""
        program.models[prefix] = model
        for name, parameter, module, path in _named(model):
            part = Part(f"{prefix}{name}", parameter, module, path)
            program.parts.setdefault(id(parameter), part)
    for i, optimizer in enumerate(program.optimizers):
        which = f"optimizer {i}" if len(program.optimizers) > 1 else "the optimizer"
        for j, tensor in enumerate(held_by(optimizer)):
            name = f"tensor {j} of {which} {tuple(tensor.shape)}"
            program.parts.setdefault(id(tensor), Part(name, tensor))
    return program


def living_program() -> Program:
    """Name the parameters of all models and optimizers that live in this process."""
    modules = [each for each in living(nn.Module) if _is_made(each)]
    optimizers = living(torch.optim.Optimizer)
    inner = {id(child) for each in modules for child in submodules(each).values()}
    return read_program([each for each in modules if id(each) not in inner], optimizers)


def program_of(models: Sequence[nn.Module]) -> Program:
    """Name the parameters of models, and of the living optimizers that hold some of them."""
    own = {id(each) for model in models for each in model.parameters()}
    optimizers = [
        each
        for each in _distinct(living(torch.optim.Optimizer))
        if any(id(tensor) in own for tensor in held_by(each))
    ]
    return read_program(models, optimizers)


def living(kind: type[_T]) -> list[_T]:
    """Return the objects of a class that live in this process."""
    # Not isinstance(), which asks proxies for their class.
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


def module_line(part: Part) -> str | None:
    """Return where the class around a parameter has its forward: "model.py:31"."""
    if part.module is None or type(part.module).__module__.startswith("torch."):
        return None
    code = getattr(inspect.unwrap(type(part.module).forward), "__code__", None)
    return None if code is None else f"{shown_file(code.co_filename)}:{code.co_firstlineno}"


def _is_made(module: nn.Module) -> bool:
    """Whether the constructor of ``nn.Module`` has run."""
    with suppress(Exception):
        return all(read(module) is not None for read in (submodules, own_parameters))
    return False


def _distinct(optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.optim.Optimizer]:
    """Leave out wrappers, which have the groups of another one."""
    found: dict[tuple[int, ...], torch.optim.Optimizer] = {}
    for each in optimizers:
        with suppress(Exception):  # a wrapper that is half made
            found.setdefault(tuple(map(id, held_by(each))), each)
    return list(found.values())


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the model in a wrapper of torch's, such as DistributedDataParallel."""
    while True:
        place = type(model).__module__
        children = [each for each in submodules(model).values() if each is not None]
        is_wrapper = place.startswith("torch.") and not place.startswith("torch.nn.modules.")
        is_fabric = place.startswith(_FABRIC) and type(model).__name__ == "_FabricModule"
        if not (is_fabric or (is_wrapper and len(children) == 1)) or _has_own(model):
            return model
        model = children[0]


def _has_own(module: nn.Module) -> bool:
    return any(each is not None for each in own_parameters(module).values())


def _named(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, nn.Module, str]]:
    """Yield each parameter, its name, and the innermost module around it that is not torch's."""
    waiting: list[tuple[str, nn.Module, nn.Module, str]] = [("", model, model, "")]
    seen: set[int] = set()
    while waiting:
        path, module, around, around_path = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if not type(module).__module__.startswith("torch."):
            around, around_path = module, path
        for name, parameter in own_parameters(module).items():
            if parameter is not None:
                yield f"{path}.{name}".lstrip("."), parameter, around, around_path
        children: Sequence[tuple[str, Any]] = list(submodules(module).items())
        for name, child in reversed(children):
            if child is not None:
                waiting.append((f"{path}.{name}".lstrip("."), child, around, around_path))
