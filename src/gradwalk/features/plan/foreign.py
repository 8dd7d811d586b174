"""Tensors from outside of the model and the batch that a step uses: they stay as they are."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from ...torch_api.fake_tensors import storages_of, tensors_in
from ...torch_api.reading import key_of
from .values import written_tensors


class ForeignTensors:
    """Keeps the gradients and the memory of tensors that a loss or a hook brought along."""

    def __init__(self, own: Iterable[torch.Tensor]) -> None:
        """``own``: the tensors of the model and the batch."""
        self._grads: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._is_own: dict[int, bool] = {}  # of each storage that lives, by its key
        self._references: dict[int, Any] = {}
        for each in own:
            self._note(each, is_own=True)
        self._written: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def keep_grads(self, leaves: Iterable[torch.Tensor], model: nn.Module) -> None:
        """Take away the gradients of leaves that are not the model's, until the step ends."""
        own = {id(each) for each in model.parameters()}
        for leaf in leaves:
            if id(leaf) not in own:
                self._grads.append((leaf, leaf.grad))
                leaf.grad = None

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Return a context after which gradients and memory are what they were before."""
        try:
            yield
        finally:
            for leaf, grad in self._grads:
                leaf.grad = grad
            for storage, before in self._written.values():
                storage.copy_(before)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation; copies the foreign memory that it writes to."""
        for tensor in tensors_in((args, kwargs)):
            self._note(tensor, is_own=False)
        for tensor in written_tensors(func, args, kwargs):
            for storage in storages_of(tensor):
                key = key_of(storage)
                if not self._is_own.get(key, True) and key not in self._written:
                    self._written[key] = storage, storage.clone()  # type: ignore[no-untyped-call]
        result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            self._note(tensor, is_own=True)
        return result

    def _note(self, tensor: torch.Tensor, *, is_own: bool) -> None:
        """Remember where a storage comes from, while it lives."""
        for storage in storages_of(tensor):
            key = key_of(storage)
            if key in self._is_own:
                continue

            def forget(_: Any, key: int = key) -> None:
                self._is_own.pop(key, None)
                self._references.pop(key, None)

            self._is_own[key] = is_own
            self._references[key] = weakref.ref(storage, forget)
