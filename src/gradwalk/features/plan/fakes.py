"""Copies of a model's tensors and of a batch that have shapes and no memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...torch_api.fake_tensors import fake_mode, key_of, tree_map

_T = TypeVar("_T")


class Fakes:
    """Makes one fake tensor for each tensor; those that share memory share it again.

    Attributes:
        mode: The mode that the fake tensors belong to.
    """

    def __init__(self) -> None:
        self.mode = fake_mode()
        self._storages: dict[int, Any] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the fake of a tensor, with a fake of its ``.grad``."""
        known = self._tensors.get(id(tensor))
        if known is not None:
            return known[1]
        if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
            raise TypeError(
                "The model has a lazy module, whose parameters have no shape yet. Run it once on a "
                "small batch, and plan it then."
            )
        if tensor.layout is not torch.strided or hasattr(tensor, "__tensor_flatten__"):
            raise TypeError(
                f"The model or the batch has a {type(tensor).__name__} with layout "
                f"{tensor.layout}, and plan() copies dense tensors only. Give a dense one."
            )
        device = torch.device("cpu") if tensor.device.type == "meta" else tensor.device
        storage = tensor.untyped_storage()
        with self.mode, torch.no_grad():
            memory = self._storages.get(key_of(storage))
            if memory is None:
                memory = torch.empty(storage.nbytes(), dtype=torch.uint8, device=device)
                self._storages[key_of(storage)] = memory
            made = torch.empty(0, dtype=tensor.dtype, device=device).set_(
                memory.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
            )
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            made.requires_grad_(tensor.requires_grad)
            if tensor.is_leaf and tensor.grad is not None:
                made.grad = self.of(tensor.grad)
        self._tensors[id(tensor)] = tensor, made
        return made

    def tree(self, values: _T) -> _T:
        """Return nested values with the fakes of their tensors."""
        mapped: _T = tree_map(lambda v: self.of(v) if isinstance(v, torch.Tensor) else v, values)
        return mapped

    def state(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """Return the fakes of all parameters and buffers by name, tied ones under each name."""
        return {name: self.of(tensor) for name, tensor in _tensors(model)}

    def model(self, model: nn.Module) -> nn.Module:
        """Return a copy of a model whose tensors are fakes."""
        held = [value for module in model.modules() for value in vars(module).values()]
        tensors = [*held, *(tensor for _, tensor in _tensors(model))]
        memo = {id(each): self.of(each) for each in tensors if isinstance(each, torch.Tensor)}
        return copy.deepcopy(model, memo)


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def build(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """Return a model, or the one that a function builds, on meta."""
    if isinstance(model, nn.Module):
        return model
    made: Any = None
    if callable(model):
        with torch.device("meta"):
            made = model()
    if not isinstance(made, nn.Module):
        kind = type(made if callable(model) else model).__name__
        raise TypeError(
            f"model was {'a function that returned' if callable(model) else 'given'} a {kind}. "
            "Give an nn.Module, on any device, or a function that builds one."
        )
    return made


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Return a context after which every module has the attributes that it had before."""
    kept = [
        (module, {k: dict(v) if type(v) is dict else v for k, v in vars(module).items()})
        for module in model.modules()
    ]
    before = [(module, dict(vars(module))) for module, _ in kept]
    try:
        yield
    finally:
        for (module, contents), (_, attributes) in zip(kept, before, strict=True):
            vars(module).clear()
            vars(module).update(attributes)
            for name, value in attributes.items():
                if type(value) is dict and value != contents[name]:
                    value.clear()
                    value.update(contents[name])
