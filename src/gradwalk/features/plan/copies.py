"""Copies of a model and a batch for one training step, with or without memory."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...torch_api.fake_tensors import fake_mode, tree_leaves, tree_map
from ...torch_api.modes import random_numbers_kept
from ...torch_api.reading import is_fake_kind, key_of
from .errors import of_plan
from .values import Values

_T = TypeVar("_T")


class Fakes:
    """Makes one fake tensor for each tensor; those that share memory share it again.

    Attributes:
        mode: The mode that the fake tensors belong to.
        values: The values of small ones; None for copies with memory.
    """

    def __init__(self, flipped: Iterable[int] = ()) -> None:
        self.mode: Any = fake_mode()
        self.values: Values | None = Values(self.mode, flipped)
        self._storages: dict[int, tuple[Any, torch.UntypedStorage]] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the copy of a tensor, with a copy of its ``.grad``."""
        known = self._tensors.get(id(tensor))
        if known is not None:
            return known[1]
        if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
            text = (
                "The model has a lazy module, whose parameters have no shape yet. Run it once on a "
                "small batch, and plan it then."
            )
            raise of_plan(TypeError(text))
        is_plain = tensor.layout is torch.strided and not hasattr(tensor, "__tensor_flatten__")
        with self._unfollowed():
            made = self._dense(tensor) if is_plain else self._other(tensor)
        if self.values is not None and not tensor.requires_grad:
            self.values.know(made, tensor)
        self._tensors[id(tensor)] = tensor, made
        return made

    @contextlib.contextmanager
    def _unfollowed(self) -> Iterator[None]:
        if self.values is not None:
            self.values.is_paused = True
        try:
            yield
        finally:
            if self.values is not None:
                self.values.is_paused = False

    def _dense(self, tensor: torch.Tensor) -> torch.Tensor:
        device = torch.device("cpu") if tensor.device.type == "meta" else tensor.device
        storage = tensor.untyped_storage()
        with self.mode, torch.no_grad():
            found = self._storages.get(key_of(storage))
            if found is None:
                found = self._storages[key_of(storage)] = self._memory(storage, device), storage
            place = tensor.storage_offset(), tensor.shape, tensor.stride()
            made = torch.empty(0, dtype=tensor.dtype, device=device).set_(found[0], *place)
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            made.requires_grad_(tensor.requires_grad)
            if tensor.is_leaf and tensor.grad is not None:
                made.grad = self.of(tensor.grad)
        return made

    def _memory(self, storage: torch.UntypedStorage, device: torch.device) -> Any:
        """Return memory of a storage's size."""
        return torch.empty(storage.nbytes(), dtype=torch.uint8, device=device).untyped_storage()

    def _other(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor that is not dense, or wraps others."""
        raise TypeError(
            f"the model or the batch has a {type(tensor).__name__} with layout {tensor.layout}, "
            "which fake tensors do not copy"
        )

    def tree(self, values: _T) -> _T:
        """Return nested values with the fakes of their tensors."""
        mapped: _T = tree_map(lambda v: self.of(v) if isinstance(v, torch.Tensor) else v, values)
        return mapped

    def state(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """Return the fakes of all parameters and buffers by name, tied ones under each name."""
        return {name: self.of(tensor) for name, tensor in _tensors(model)}

    def model(self, model: nn.Module) -> nn.Module:
        """Return a copy of a model whose tensors are copies."""
        held = [value for module in model.modules() for value in vars(module).values()]
        tensors = [*held, *(tensor for _, tensor in _tensors(model))]
        memo = {id(each): self.of(each) for each in tensors if isinstance(each, torch.Tensor)}
        return copy.deepcopy(model, memo)

    def script(self, _: nn.Module) -> nn.Module:
        """Return a copy of a model with parts in TorchScript."""
        raise TypeError("the model has a part in TorchScript, which fake tensors do not run")

    def swap_attributes(self, model: nn.Module) -> None:
        """Replace the tensors that modules hold in plain attributes, within `unchanged`."""
        for module in model.modules():
            for name, value in list(vars(module).items()):
                is_list = isinstance(value, (list, tuple)) and type(value) in (list, tuple)
                is_own = is_list or (type(value) is dict and not name.startswith("_"))
                if isinstance(value, torch.Tensor) or is_own:
                    held = [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]
                    if held and all(map(self._is_swapped, held)):
                        vars(module)[name] = self.tree(value)

    def _is_swapped(self, tensor: torch.Tensor) -> bool:
        # A real one keeps its values, which fake mode copies when an operation reads them.
        return tensor.is_meta and not is_fake_kind(type(tensor))


class Copies(Fakes):
    """Makes one real copy of each tensor, as `Fakes` makes fake ones."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = contextlib.nullcontext()
        self.values = None

    def _memory(self, storage: torch.UntypedStorage, _: torch.device) -> Any:
        return storage.clone()  # type: ignore[no-untyped-call]

    def _other(self, tensor: torch.Tensor) -> torch.Tensor:
        made = copy.deepcopy(tensor.detach())
        if isinstance(tensor, nn.Parameter) and not isinstance(made, nn.Parameter):
            made = nn.Parameter(made, requires_grad=tensor.requires_grad)
        return made.requires_grad_(tensor.requires_grad)

    def script(self, model: nn.Module) -> nn.Module:
        """Return a copy of a model with parts in TorchScript."""
        with torch.no_grad():
            made = copy.deepcopy(model)
        for old, new in zip(model.parameters(), made.parameters(), strict=True):
            new.requires_grad_(old.requires_grad)
        return made

    def _is_swapped(self, tensor: torch.Tensor) -> bool:
        return tensor.is_leaf or not tensor.requires_grad


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def build(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """Return a model, or the one that a function builds, on meta."""
    if isinstance(model, nn.Module):
        return model
    made: Any = None
    if callable(model):
        try:
            with torch.device("meta"):
                made = model()
        except (RuntimeError, NotImplementedError) as error:
            if "meta" not in str(error):
                raise
            made = built_really(model)  # it reads values
    if not isinstance(made, nn.Module):
        kind = type(made if callable(model) else model).__name__
        raise TypeError(
            f"model was {'a function that returned' if callable(model) else 'given'} a {kind}. "
            "Give an nn.Module, on any device, or a function that builds one."
        )
    return made


def built_really(build: Callable[[], nn.Module]) -> nn.Module:
    """Return the model that a function builds, with values."""
    with random_state_kept(()):
        return build()


@contextlib.contextmanager
def random_state_kept(devices: Iterable[torch.device]) -> Iterator[None]:
    """Return a context that restores the random generators of torch, Python and numpy."""
    state = random.getstate()
    numpy: Any = getattr(sys.modules.get("numpy"), "random", None)
    of_numpy = None if numpy is None else numpy.get_state()
    try:
        with random_numbers_kept(devices):
            yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.set_state(of_numpy)


@contextlib.contextmanager
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
