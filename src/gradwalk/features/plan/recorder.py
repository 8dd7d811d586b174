"""Record the memory and the work of a training step, one operation after the other."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from ...amounts import Bytes
from ...torch_api.engine import current_node, next_sequence_nr
from ...torch_api.fake_tensors import (
    bytes_moved,
    flops_of,
    operation_mode,
    resizes_reported,
    storages_of,
    tensors_in,
    was_converted,
)
from ...torch_api.nodes import leaf_tensor, op_name, sequence_nr
from ...torch_api.reading import key_of
from ...tracing.source_line import SourceLine, here

FORWARD, BACKWARD, STEP = "forward", "backward", "optimizer step"


@dataclass(slots=True, eq=False)
class Held:
    """A storage, from the operation that made it to the one before which it was freed."""

    role: str  # "parameter", "buffer", "input", "optimizer state" or "gradient"; "" for others
    name: str  # the name of a parameter, buffer or input
    shape: tuple[int, ...]  # the shape of the first tensor seen on it
    dtype: torch.dtype  # its dtype
    born: int  # the index of the operation that made it; -1 for one that was there before
    sizes: list[tuple[int, int]]  # (index of an operation, bytes from then on), in order
    # The index of the first operation without it; None if it outlived the recording.
    died: int | None = None
    # The storage with the same numbers in another dtype that it was converted from.
    copy_of: Held | None = None
    storage: Any = None  # the storage, while it lives

    @property
    def bytes(self) -> int:
        """Its bytes at the end."""
        return self.sizes[-1][1]

    def bytes_at(self, index: int) -> int:
        """Return its bytes after an operation."""
        if index < self.born or (self.died is not None and self.died <= index):
            return 0
        return next(size for since, size in reversed(self.sizes) if since <= index)


@dataclass(slots=True, frozen=True)
class Operation:
    """One operation that ran."""

    name: str  # torch's name, "aten.mm"
    phase: str  # `FORWARD`, `BACKWARD` or `STEP`
    live: int  # live bytes after it
    flops: int  # floating-point operations
    # The number of the autograd node that it made or, in backward, that ran it.
    sequence_nr: int | None
    node: str | None  # the class of the node that ran, in backward
    module: str  # the name of the running module, or of the module of the node that ran
    source: SourceLine | None  # the line of the user
    moved: int  # bytes that it reads and writes
    dtype: torch.dtype | None  # the dtype of its first result


@dataclass(slots=True)
class ModuleRecord:
    """One call of a module in the forward pass."""

    name: str  # the module's name
    start: int  # the number of operations before it
    sequence_nrs: tuple[int, int]  # the number of the next autograd node before it, and after it
    inputs: list[Held]  # the storages of its positional arguments
    end: int = -1  # the number of operations at its end
    outputs: list[Held] = field(default_factory=list)  # the storages of its result


class Recorder:
    """Counts live memory after every operation of a thread, each storage once.

    It holds no tensor: weak references tell when torch frees a storage.

    Attributes:
        operations: What ran, in order.
        held: Every storage that was seen, in the order of their creation.
        calls: The calls of modules in the forward pass.
        phase: The phase that runs; set it when another begins.
        live: Live bytes now.
    """

    def __init__(
        self, modules: Iterable[tuple[str, nn.Module]] = (), *, most: int | None = None
    ) -> None:
        """``most``: the live bytes above which a MemoryError ends the step; None for no limit."""
        self._most = most
        self.operations: list[Operation] = []
        self.held: list[Held] = []
        self.calls: list[ModuleRecord] = []
        self.phase = FORWARD
        self.live = 0
        self._known: dict[int, Held] = {}
        self._names = {id(module): name for name, module in modules}
        self._owner: dict[int, str] = {}  # of each parameter, by its id
        self._stack: list[tuple[int, ModuleRecord | None]] = []
        self._made: dict[int, tuple[str, SourceLine | None]] = {}  # by sequence number
        self._last_made = next_sequence_nr() - 1
        self._is_function = False  # whether an autograd.Function made the last node

    def note(self, role: str, name: str, tensor: torch.Tensor) -> None:
        """Count a tensor that is there already, or say what a known one is."""
        if role == "parameter":
            self._owner[id(tensor)] = name.rpartition(".")[0]
        for storage in storages_of(tensor):
            found = self._known.get(key_of(storage)) or self._add(storage, tensor, -1)
            if not found.role:
                found.role, found.name = role, name

    def of(self, tensor: torch.Tensor) -> list[Held]:
        """Return the known storages of a tensor."""
        found = (self._known.get(key_of(storage)) for storage in storages_of(tensor))
        return [each for each in found if each is not None]

    def module_of(self, sequence_nr: int) -> str | None:
        """Return the name of the module that made an autograd node."""
        return self._made.get(sequence_nr, (None,))[0]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Return a context whose operations and calls of modules are recorded."""
        hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            with resizes_reported(self._resized), operation_mode(self._ended):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _add(self, storage: torch.UntypedStorage, tensor: torch.Tensor, born: int) -> Held:
        key, size = key_of(storage), storage.nbytes()
        held = Held("", "", tuple(tensor.shape), tensor.dtype, born, [(born, size)])

        def freed(_: Any) -> None:
            self._known.pop(key, None)
            held.died = len(self.operations)
            self.live -= held.bytes

        held.storage = weakref.ref(storage, freed)
        self._known[key] = held
        self.held.append(held)
        self.live += size
        return held

    def _resized(self, storage: torch.UntypedStorage) -> None:
        held = self._known.get(key_of(storage))
        if held is not None:
            self.live += storage.nbytes() - held.bytes
            held.sizes.append((len(self.operations), storage.nbytes()))

    def _ended(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        index = len(self.operations)
        results = tensors_in(result)
        for tensor in results:
            for storage in storages_of(tensor):
                held = self._known.get(key_of(storage))
                if held is None:
                    held = self._add(storage, tensor, index)
                    found = self.of(args[0]) if was_converted(func, args, tensor) else None
                    held.copy_of = found[0] if found else None
                elif held.bytes != storage.nbytes():
                    self._resized(storage)
        if self._most is not None and self.live > self._most:
            raise MemoryError(f"the step takes more than {Bytes(self._most)}")
        flops, moved = flops_of(func, args, kwargs, result), bytes_moved(func, args, result)
        what = str(func.overloadpacket), self.phase, self.live, flops
        dtype = results[0].dtype if results else None
        self.operations.append(Operation(*what, *self._where(), moved, dtype))

    def _where(self) -> tuple[int | None, str | None, str, SourceLine | None]:
        """Return the number and class of the node, the module and the line of an operation."""
        node = current_node()
        if node is not None:
            number = sequence_nr(node)
            module, source = self._made.get(number, ("", None))
            leaf = leaf_tensor(node)
            if leaf is not None:
                module = self._owner.get(id(leaf), "")
            if self._stack:  # recomputed
                module, source = self._module(), here()
            return number, op_name(node), module, source
        module, source = self._module(), here()
        made = next_sequence_nr() - 1
        if made > self._last_made:
            # In place on a view, one operation makes several nodes.
            for number in range(self._last_made + 1, made + 1):
                self._made[number] = module, source
            self._last_made = made
            self._is_function = not torch.is_grad_enabled()
        elif torch.is_grad_enabled() or not self._is_function or self.phase != FORWARD:
            return None, None, module, source  # without a node
        return made, None, module, source  # also of the calls inside an autograd.Function

    def _module(self) -> str:
        return self._names.get(self._stack[-1][0], "") if self._stack else ""

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if id(module) not in self._names:
            return
        call = None
        if self.phase == FORWARD:
            numbers = next_sequence_nr(), -1
            call = ModuleRecord(
                self._names[id(module)], len(self.operations), numbers, self._storages(inputs)
            )
            self.calls.append(call)
        self._stack.append((id(module), call))

    def _leave(self, module: nn.Module, _: Any, outputs: Any) -> None:
        while id(module) in self._names and self._stack:
            key, call = self._stack.pop()
            if call is not None:
                call.end = len(self.operations)
                call.sequence_nrs = call.sequence_nrs[0], next_sequence_nr()
                call.outputs = self._storages(outputs)
            if key == id(module):
                return

    def _storages(self, values: Any) -> list[Held]:
        return [held for tensor in tensors_in(values) for held in self.of(tensor)]
