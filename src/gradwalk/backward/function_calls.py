"""Record the operations of a custom Function's backward while a recorded pass runs it.

Only custom nodes are recorded; a formula describes torch's own nodes. A reentrant checkpoint counts
as custom: its recomputation and inner backward are recorded without running anything twice.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.autograd.graph import Node
from torch.multiprocessing.reductions import StorageWeakRef

from ..graph.capture import Capture
from ..torch_api.capability import is_there
from ..torch_api.checkpoints import reentrant_function
from ..torch_api.dtensors import copied
from ..torch_api.engine import running_node
from ..torch_api.modes import reporting, unseen
from ..torch_api.nodes import custom_function, is_of_torch, node_class, op_name
from ..torch_api.reading import detached, in_short, nbytes_of, storage_of, version_of
from ..torch_api.saved_tensors import read_saved
from ..torch_api.signatures import Operator, declared_arguments, schema_of, written_arguments
from ..torch_api.summary import MOST_VALUES
from .kept_gradients import LARGEST_COPY, GradientStore, KeptGradient


@dataclass(frozen=True)
class Producer:
    """The origin of a tensor."""

    # "gradient", an incoming one of the node; "operation"; "held", a tensor that existed before
    # backward ran.
    kind: Literal["gradient", "operation", "held"]
    number: int  # the index of the gradient, operation or held tensor
    part: int = 0  # the output number of the operation


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


MOST = 5_000  # operations that are listed per node

_MOST_CHARACTERS = 200  # characters of an argument that is not a tensor


@dataclass
class TensorRecord:
    """A tensor that an operation returned, or that existed before."""

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    kept: KeptGradient  # its values, if the budget of the pass allows


@dataclass(frozen=True)
class ArgumentRecord:
    """A tensor argument of an operation."""

    argument: str | None
    producer: Producer


@dataclass(frozen=True)
class Operation:
    """One operation that ran."""

    name: str  # torch's name, "aten.mul.Tensor"
    inner_node: str | None  # the node of an inner backward pass that ran it; None for none
    recomputed: bool  # whether it belongs to a checkpoint's recomputed forward
    code: list[str | Producer]  # the arguments as code, each tensor as its producer
    arguments: list[ArgumentRecord]
    # Its outputs; None for one that is not a tensor.
    outputs: list[TensorRecord | None] = field(default_factory=list)
    # After ``outputs``: the storages that it wrote, as later operations read them.
    writes: list[TensorRecord] = field(default_factory=list)


@dataclass
class Operations:
    """The operations of one node."""

    listed: list[Operation] = field(default_factory=list)  # the first operations
    count: int = 0
    # The tensors that they took from outside: saved ones and others.
    held: list[TensorRecord] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # the known names of ``held``
    # Index in the backward's result -> the producer of that tensor.
    returned: dict[int, Producer] = field(default_factory=dict)
    note: str | None = None  # why the record is incomplete; None if it is complete


def is_recorded(node: Node) -> bool:
    """Return whether a node's backward is custom Python or a reentrant checkpoint."""
    cls: type = type(node)
    custom = custom_function(node) if node_class(cls).is_function else None
    if custom is None:
        return False
    return not is_of_torch(custom) or reentrant_function(node) is not None


@contextmanager
def record_operations(
    captured: Capture, into: dict[int, Operations], max_bytes: int
) -> Iterator[None]:
    """Record the operations of custom backwards within the block, up to ``max_bytes`` of values."""
    if not is_there(reporting, schema_of):  # which of them write in place must be known
        yield
        return
    replaced: list[Any] = []
    pass_ = _Pass(captured, GradientStore(max_bytes))
    try:
        for i, node in enumerate(captured.nodes):
            if is_recorded(node):
                # The engine looks `apply` up on the node before its class. It is a reference cycle
                # until it is removed.
                node.apply = _recording_apply(node, i, into, pass_)  # type: ignore[attr-defined]
                replaced.append(node)
        yield
    finally:
        for node in replaced:
            with contextlib.suppress(AttributeError):
                del node.apply


def _recording_apply(
    node: Any, i: int, into: dict[int, Operations], pass_: _Pass
) -> Callable[..., Any]:
    apply = node.apply

    def recording(*grads: Any) -> Any:
        recorder = _NodeRecorder(node, pass_, grads)
        into[i] = recorder.found
        with reporting(recorder.begin):
            result = apply(*grads)
        recorder.finish(result)
        return result

    return recording


class _Pass:
    """State that the nodes of one pass share: the budget and the names of tensors."""

    def __init__(self, captured: Capture, store: GradientStore) -> None:
        self.store = store
        self.lock = threading.RLock()  # each device runs its nodes in its own thread
        self._captured = captured

    @functools.cached_property
    def names(self) -> Mapping[tuple[Any, ...], str]:
        """Memory -> the name of a leaf or other tensor of the graph that uses it."""
        graph = self._captured.graph
        found: dict[tuple[Any, ...] | None, str] = {}
        for (node, nr), reference in self._captured.tensors.items():
            outputs = graph.nodes[node]["outputs"]
            name, tensor = outputs[nr]["name"] if nr < len(outputs) else None, reference()
            if name is not None and tensor is not None:
                found[memory_of(tensor)] = name
        for node, leaf in self._captured.leaves():
            name = graph.nodes[node]["name"]
            if name is not None:
                found[memory_of(leaf)] = name
        return {memory: name for memory, name in found.items() if memory is not None}


class _NodeRecorder:
    def __init__(self, node: Any, pass_: _Pass, grads: tuple[Any, ...]) -> None:
        self.found = Operations()
        self._node = node
        self._name = op_name(node)
        self._is_checkpoint = reentrant_function(node) is not None
        self._pass = pass_
        self._provenance = Provenance()
        self._of_memory: dict[int, list[TensorRecord]] = {}
        self._of_held: list[tuple[Any, ...] | None] = []
        with self._guarded():
            for nr, grad in enumerate(grads):
                if isinstance(grad, torch.Tensor):
                    self._provenance.note(grad, Producer("gradient", nr))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Keep errors and user modes away from the recording code in the block."""
        try:
            with self._pass.lock, unseen():
                yield
        except Exception as error:  # a user's class may raise anywhere
            self.found.note = (
                f"The operations of this backward were recorded only in part ({in_short(error)})."
            )

    def begin(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        """Record the start of an operation; return the function that records its result."""
        found = self.found
        found.count += 1
        if found.note is None and len(found.listed) == MOST:
            found.note = f"Only the first {MOST:,} operations of this backward were noted."
        if found.note is None:
            with self._guarded():
                return self._begin(func, args, kwargs)
        return lambda _: None

    def _begin(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        arguments: list[ArgumentRecord] = []
        code: list[str | Producer] = []
        known = isinstance(func, Operator)
        names: list[str | None] = [*declared_arguments(func)] if known else []
        named = [*zip([*names, *[None] * len(args)], args, strict=False), *kwargs.items()]
        for i, (name, value) in enumerate(named):
            code += [", "] * bool(i) + [f"{name}="] * (i >= len(args))
            code += self._code_of(name, value, arguments)
        into = written_arguments(func) if known else ()
        changed = [
            tensor
            for name, value in named
            if name in into
            for tensor in (value if isinstance(value, (list, tuple)) else [value])
            if isinstance(tensor, torch.Tensor)
        ]
        for tensor in changed:
            self._copy(tensor)
        inner_node = running_node()
        inner_node = None if inner_node in (None, self._name) else inner_node
        recomputed = self._is_checkpoint and inner_node is None and torch.is_grad_enabled()
        operation = Operation(str(func), inner_node, recomputed, code, arguments)
        return functools.partial(self._end, operation, changed)

    def _end(self, operation: Operation, changed: list[torch.Tensor], result: Any) -> None:
        with self._guarded():
            number = len(self.found.listed)
            self._pass.store.begin_step()
            self.found.listed.append(operation)
            for tensor in changed:
                self._provenance.write(tensor, number)
            parts = result if isinstance(result, (tuple, list)) else [result]
            for part, each in enumerate(parts):
                is_tensor = isinstance(each, torch.Tensor)
                record = self._record_tensor(each, operation, changed) if is_tensor else None
                operation.outputs.append(record)
                if is_tensor:
                    self._provenance.note(each, Producer("operation", number, part))

    def _code_of(
        self, name: str | None, value: Any, arguments: list[ArgumentRecord]
    ) -> Iterator[str | Producer]:
        """Yield the code of an argument; add its tensors to ``arguments``."""
        if isinstance(value, torch.Tensor):
            producer = self._producer(value)
            arguments.append(ArgumentRecord(name, producer))
            yield producer
        elif isinstance(value, (list, tuple)) and any(
            isinstance(each, torch.Tensor) for each in value
        ):
            yield "["
            for i, each in enumerate(value):
                yield from [", "] * bool(i)
                yield from self._code_of(None if name is None else f"{name}[{i}]", each, arguments)
            yield "]"
        else:
            text = repr(value)
            yield text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"

    def _producer(self, tensor: torch.Tensor) -> Producer:
        producer = self._provenance.of(tensor)
        writer = self._provenance.writer(tensor, producer)
        if writer is not None:  # it changed the tensor through another one of the same memory
            operation = self.found.listed[writer]
            producer = Producer("operation", writer, len(operation.outputs) + len(operation.writes))
            operation.writes.append(self._record_tensor(tensor))
        elif producer is not None:
            return producer
        else:
            producer = Producer("held", len(self.found.held))
            self.found.held.append(self._record_tensor(tensor))
            self._of_held.append(memory_of(tensor))
        self._provenance.note(tensor, producer)
        return producer

    def _record_tensor(
        self,
        tensor: torch.Tensor,
        by: Operation | None = None,
        changed: Sequence[torch.Tensor] = (),
    ) -> TensorRecord:
        """Record a tensor, possibly the result of an operation that changed some in place."""
        # With a shared version counter torch would return a different tensor for one made from no
        # input. Later writes into it are seen here.
        is_new = by is not None and not by.arguments
        held = tensor.detach() if is_new else detached(tensor)
        kept = self._pass.store.keep(held, version_of(held), in_large_leaf=False)
        assert kept is not None
        if changed:  # torch counts the change only after the operation has returned
            kept = self._copied(kept)
        shape = None if tensor.is_nested else tuple(tensor.shape)
        record = TensorRecord(shape, str(tensor.dtype), str(tensor.device), kept)
        memory = memory_of(tensor)
        if memory is not None:
            self._of_memory.setdefault(memory[0], []).append(record)
        return record

    def _copy(self, tensor: torch.Tensor) -> None:
        """Copy a recorded tensor's values before something may change them in place."""
        memory = memory_of(tensor)
        for record in self._of_memory.pop(memory[0], ()) if memory is not None else ():
            record.kept = self._copied(record.kept)

    def _copied(self, kept: KeptGradient) -> KeptGradient:
        store, tensor = self._pass.store, kept.tensor
        if tensor is None:
            return kept
        size = nbytes_of(tensor)
        if tensor.numel() > MOST_VALUES and size > store.bytes_left:
            return store.without_values(tensor)
        store.count(size)
        return KeptGradient(copied(tensor))

    def finish(self, result: Any) -> None:
        """Record the result of the backward."""
        if self.found.note is not None:
            return
        with self._guarded():
            for place, each in enumerate(result if isinstance(result, tuple) else (result,)):
                if not isinstance(each, torch.Tensor):
                    continue
                producer = self.found.returned[place] = self._producer(each)
                # torch may use it as a `.grad`, which may change.
                of = self.found.listed[producer.number] if producer.kind == "operation" else None
                if nbytes_of(each) <= LARGEST_COPY or (of is not None and not of.arguments):
                    self._copy(each)
            self._name_held()

    def _name_held(self) -> None:
        """Name the tensors from outside after the user's variables or the saved attributes."""
        names, found = self._pass.names, self.found.names
        missing: dict[tuple[Any, ...] | None, int] = {}
        for i, memory in enumerate(self._of_held):
            if memory is not None and memory in names:
                found[i] = names[memory]
            elif memory is not None:
                missing[memory] = i
        # Reading would free the saved tensors of such a class.
        frees_on_read = getattr(custom_function(self._node), "clear_saved_tensors_on_access", False)
        for saved in read_saved(self._node) if missing and not frees_on_read else ():
            if saved.value is not None and memory_of(saved.value) in missing:
                found[missing[memory_of(saved.value)]] = saved.name
