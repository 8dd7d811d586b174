"""Which operation gave the tensor that another one takes, while they run.

A tensor is known again as long as it lives, and by its memory where torch hands out another tensor
for the same values: what a node saved, a ``.grad``. Who has written into a memory since gave what
is read of it.
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
    """Where a tensor is from.

    Attributes:
        kind: "gradient", one that arrived at the node; "operation"; "held", a tensor that was there
            before backward ran.
        number: Which gradient, operation or held tensor.
        part: Which of the tensors that the operation gave.
    """

    kind: Literal["gradient", "operation", "held"]
    number: int
    part: int = 0


class Provenance:
    """What gave the tensors that the backward of one node works with."""

    def __init__(self) -> None:
        self._of_tensor: dict[int, tuple[weakref.ref[torch.Tensor], Producer]] = {}
        self._of_memory: dict[Hashable, Producer] = {}
        self._written_by: dict[int, int] = {}
        # While these are there no other memory goes by the same number.
        self._storages: dict[int, StorageWeakRef] = {}

    def note(self, tensor: torch.Tensor, giver: Producer) -> None:
        """A tensor is there."""
        self._of_tensor[id(tensor)] = weakref.ref(tensor), giver
        memory = memory_of(tensor)
        if memory is not None:
            if memory[0] not in self._storages:
                self._storages[memory[0]] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._of_memory[memory] = giver

    def write(self, tensor: torch.Tensor, operation: int) -> None:
        """An operation has changed a tensor in place, and with it all that share its memory."""
        storage = storage_of(tensor)
        if storage is not None:
            self._written_by[storage] = operation

    def of(self, tensor: torch.Tensor) -> Producer | None:
        """What gave a tensor; None where it has not been seen."""
        known = self._of_tensor.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        memory = memory_of(tensor)
        return None if memory is None else self._of_memory.get(memory)

    def writer(self, tensor: torch.Tensor, giver: Producer | None) -> int | None:
        """The operation that has changed a tensor's memory since it was given; None for none."""
        storage = storage_of(tensor)
        written = None if storage is None else self._written_by.get(storage)
        if written is None or (giver and giver.kind == "operation" and giver.number >= written):
            return None
        return written


def memory_of(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """What two tensors have in common that show the same values of the same memory.

    The first part is that of the whole memory. None of a tensor that has none of its own.
    """
    storage = storage_of(tensor)
    if storage is None:
        return None
    shown = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
    return storage, *shown, tensor.is_conj(), tensor.is_neg()
