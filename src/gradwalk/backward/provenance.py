"""Find which operation produced a tensor that another operation takes, while they run.

A tensor is recognised while it lives. A new tensor object for the same values (a saved tensor, a
``.grad``) is recognised by its memory. The latest operation that wrote into a memory produced its
present values.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..torch_api.reading import storage_of


@dataclass(frozen=True)
class Producer:
    """The origin of a tensor.

    Attributes:
        kind: "gradient", an incoming one of the node; "operation"; "held", a tensor that existed
            before backward ran.
        number: The index of the gradient, operation or held tensor.
        part: The output number of the operation.
    """

    kind: Literal["gradient", "operation", "held"]
    number: int
    part: int = 0


class Provenance:
    """The producers of the tensors in one node's backward."""

    def __init__(self) -> None:
        self._of_tensor: dict[int, tuple[weakref.ref[torch.Tensor], Producer]] = {}
        self._of_memory: dict[Hashable, Producer] = {}
        self._written_by: dict[int, int] = {}
        # A living storage keeps its number unique.
        self._storages: dict[int, StorageWeakRef] = {}

    def note(self, tensor: torch.Tensor, producer: Producer) -> None:
        """Store the producer of a tensor."""
        self._of_tensor[id(tensor)] = weakref.ref(tensor), producer
        memory = memory_of(tensor)
        if memory is not None:
            if memory[0] not in self._storages:
                self._storages[memory[0]] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._of_memory[memory] = producer

    def write(self, tensor: torch.Tensor, operation: int) -> None:
        """Record that an operation changed a tensor in place, and all tensors of its memory."""
        storage = storage_of(tensor)
        if storage is not None:
            self._written_by[storage] = operation

    def of(self, tensor: torch.Tensor) -> Producer | None:
        """Return the producer of a tensor; None if it has not been seen."""
        known = self._of_tensor.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        memory = memory_of(tensor)
        return None if memory is None else self._of_memory.get(memory)

    def writer(self, tensor: torch.Tensor, producer: Producer | None) -> int | None:
        """Return the last operation that changed a tensor's memory in place; None for none."""
        storage = storage_of(tensor)
        written = None if storage is None else self._written_by.get(storage)
        if written is None or (
            producer and producer.kind == "operation" and producer.number >= written
        ):
            return None
        return written


def memory_of(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Return a key that is equal for tensors of the same memory, layout and values.

    Its first part identifies the whole storage. None for a tensor without a memory of its own.
    """
    storage = storage_of(tensor)
    if storage is None:
        return None
    shown = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
    return storage, *shown, tensor.is_conj(), tensor.is_neg()
