"""Record the operations of a custom Function's backward while a recorded pass runs it.

Only custom nodes are recorded; a formula describes torch's own nodes. A reentrant checkpoint counts
as custom: its recomputation and inner backward are recorded without running anything twice.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..torch_api.checkpoints import reentrant_function
from ..torch_api.engine import running_node
from ..torch_api.modes import telling, unseen
from ..torch_api.nodes import custom_function, is_of_torch, node_class, op_name
from ..torch_api.reading import copied, first_line
from ..torch_api.saved_tensors import read_saved
from ..torch_api.signatures import Operator, declared_arguments, written_arguments
from ..torch_api.summary import MOST_VALUES
from ..torch_api.tensors import detached, version_of
from .kept_gradients import LARGEST_COPY, GradientStore, KeptGradient
from .provenance import Producer, Provenance, memory_of

MOST = 5_000
"""Operations that are listed per node."""

_MOST_WRITTEN = 200  # characters of an argument that is not a tensor


@dataclass
class TensorRecord:
    """A tensor that an operation returned, or that existed before.

    Attributes:
        shape: Its shape.
        dtype: As torch prints it.
        device: As torch prints it.
        kept: Its values, if the budget of the pass allows.
    """

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    kept: KeptGradient


@dataclass(frozen=True)
class ArgumentRecord:
    """A tensor argument of an operation.

    Attributes:
        argument: torch's name for the argument.
        producer: The producer of the tensor.
    """

    argument: str | None
    producer: Producer


@dataclass(frozen=True)
class Operation:
    """One operation that ran.

    Attributes:
        called: torch's name, "aten.mul.Tensor".
        behind: The node of an inner backward pass that ran it; None for none.
        again: Whether it belongs to a checkpoint's recomputed forward.
        written: The arguments as code, each tensor as its producer.
        taken: The tensor arguments.
        gave: Its outputs; None for one that is not a tensor.
        left: After ``gave``: the storages that it wrote, as later operations read them.
    """

    called: str
    behind: str | None
    again: bool
    written: list[str | Producer]
    taken: list[ArgumentRecord]
    gave: list[TensorRecord | None] = field(default_factory=list)
    left: list[TensorRecord] = field(default_factory=list)


@dataclass
class Operations:
    """The operations of one node.

    Attributes:
        listed: The first operations.
        count: The number of operations.
        held: The tensors that they took from outside: saved ones and others.
        names: The known names of ``held``.
        returned: Index in the backward's result -> the producer of that tensor.
        note: Why the record is incomplete; None if it is complete.
    """

    listed: list[Operation] = field(default_factory=list)
    count: int = 0
    held: list[TensorRecord] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    returned: dict[int, Producer] = field(default_factory=dict)
    note: str | None = None


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
    """Record the operations of custom backwards within the block; restore the nodes afterwards.

    Args:
        captured: The graph that backward runs through.
        into: Receives the operations of each node that runs.
        max_bytes: Bytes of large tensors to keep; for others only statistics are kept.
    """
    looked_into: list[Any] = []
    pass_ = _Pass(captured, GradientStore(max_bytes))
    try:
        for i, node in enumerate(captured.nodes):
            if is_recorded(node):
                # The engine looks `apply` up on the node before its class. It is a reference cycle
                # until it is removed.
                node.apply = _noted(node, i, into, pass_)  # type: ignore[attr-defined]
                looked_into.append(node)
        yield
    finally:
        for node in looked_into:
            with contextlib.suppress(AttributeError):
                del node.apply


def _noted(node: Any, i: int, into: dict[int, Operations], pass_: _Pass) -> Callable[..., Any]:
    apply = node.apply

    def noted(*grads: Any) -> Any:
        noting = _Noting(node, pass_, grads)
        into[i] = noting.found
        with telling(noting.begin):
            result = apply(*grads)
        noting.finish(result)
        return result

    return noted


class _Pass:
    """State that the nodes of one pass share: the budget and the names of tensors."""

    def __init__(self, captured: Capture, keeper: GradientStore) -> None:
        self.keeper = keeper
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


class _Noting:
    """Records the backward of one node."""

    def __init__(self, node: Any, pass_: _Pass, grads: tuple[Any, ...]) -> None:
        self.found = Operations()
        self._node = node
        self._name = op_name(node)
        self._is_checkpoint = reentrant_function(node) is not None
        self._pass = pass_
        self._givers = Provenance()
        self._of_memory: dict[int, list[TensorRecord]] = {}
        self._of_held: list[tuple[Any, ...] | None] = []
        with self._guarded():
            for nr, grad in enumerate(grads):
                if isinstance(grad, torch.Tensor):
                    self._givers.note(grad, Producer("gradient", nr))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Keep errors and user modes away from the recording code in the block."""
        try:
            with self._pass.lock, unseen():
                yield
        except Exception as error:  # a user's class may raise anywhere
            self.found.note = (
                "The operations of this backward were recorded only in part "
                f"({type(error).__name__}: {first_line(error)})."
            )

    def begin(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        """Record the start of an operation; return the function that records its result."""
        found = self.found
        found.count += 1
        if found.note is None and len(found.listed) == MOST:
            found.note = f"Only the first {MOST:,} operations of this backward were noted."
        told: Callable[[Any], None] = _ignored
        if found.note is None:
            with self._guarded():
                told = self._begun(func, args, kwargs)
        return told

    def _begun(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        taken: list[ArgumentRecord] = []
        written: list[str | Producer] = []
        known = isinstance(func, Operator)
        names: list[str | None] = [*declared_arguments(func)] if known else []
        given = [*zip([*names, *[None] * len(args)], args, strict=False)]
        for i, (name, value) in enumerate([*given, *kwargs.items()]):
            written += [", "] * bool(i) + [f"{name}="] * (i >= len(args))
            written += self._written(name, value, taken)
        into = written_arguments(func) if known else ()
        changed = [
            tensor
            for name, value in [*given, *kwargs.items()]
            if name in into
            for tensor in (value if isinstance(value, (list, tuple)) else [value])
            if isinstance(tensor, torch.Tensor)
        ]
        for tensor in changed:
            self._copy(tensor)
        behind = running_node()
        behind = None if behind in (None, self._name) else behind
        again = self._is_checkpoint and behind is None and torch.is_grad_enabled()
        operation = Operation(str(func), behind, again, written, taken)
        return functools.partial(self._ended, operation, changed)

    def _ended(self, operation: Operation, changed: list[torch.Tensor], result: Any) -> None:
        with self._guarded():
            number = len(self.found.listed)
            self._pass.keeper.begin_step()
            self.found.listed.append(operation)
            for tensor in changed:
                self._givers.write(tensor, number)
            parts = result if isinstance(result, (tuple, list)) else [result]
            for part, each in enumerate(parts):
                is_tensor = isinstance(each, torch.Tensor)
                given = self._given(each, operation, changed) if is_tensor else None
                operation.gave.append(given)
                if is_tensor:
                    self._givers.note(each, Producer("operation", number, part))

    def _written(
        self, name: str | None, value: Any, taken: list[ArgumentRecord]
    ) -> Iterator[str | Producer]:
        """Yield the code of an argument; add its tensors to ``taken``."""
        if isinstance(value, torch.Tensor):
            producer = self._producer(value)
            taken.append(ArgumentRecord(name, producer))
            yield producer
        elif isinstance(value, (list, tuple)) and any(
            isinstance(each, torch.Tensor) for each in value
        ):
            yield "["
            for i, each in enumerate(value):
                yield from [", "] * bool(i)
                yield from self._written(None if name is None else f"{name}[{i}]", each, taken)
            yield "]"
        else:
            text = repr(value)
            yield text if len(text) <= _MOST_WRITTEN else f"{text[:_MOST_WRITTEN]}…"

    def _producer(self, tensor: torch.Tensor) -> Producer:
        """Return the producer of a tensor that is used now."""
        producer = self._givers.of(tensor)
        writer = self._givers.writer(tensor, producer)
        if writer is not None:  # it changed the tensor through another one of the same memory
            operation = self.found.listed[writer]
            producer = Producer("operation", writer, len(operation.gave) + len(operation.left))
            operation.left.append(self._given(tensor))
        elif producer is not None:
            return producer
        else:
            producer = Producer("held", len(self.found.held))
            self.found.held.append(self._given(tensor))
            self._of_held.append(memory_of(tensor))
        self._givers.note(tensor, producer)
        return producer

    def _given(
        self,
        tensor: torch.Tensor,
        by: Operation | None = None,
        changed: Sequence[torch.Tensor] = (),
    ) -> TensorRecord:
        """Record a tensor, possibly the result of an operation that changed some in place."""
        # With a shared version counter torch would return a different tensor for one made from no
        # input. Later writes into it are seen here.
        is_new = by is not None and not by.taken
        held = tensor.detach() if is_new else detached(tensor)
        kept = self._pass.keeper.keep(held, version_of(held), is_large_leafs=False)
        assert kept is not None
        if changed:  # torch counts the change only after the operation has returned
            kept = self._copied(kept)
        shape = None if tensor.is_nested else tuple(tensor.shape)
        given = TensorRecord(shape, str(tensor.dtype), str(tensor.device), kept)
        memory = memory_of(tensor)
        if memory is not None:
            self._of_memory.setdefault(memory[0], []).append(given)
        return given

    def _copy(self, tensor: torch.Tensor) -> None:
        """Copy a recorded tensor's values before something may change them in place."""
        memory = memory_of(tensor)
        for given in self._of_memory.pop(memory[0], ()) if memory is not None else ():
            given.kept = self._copied(given.kept)

    def _copied(self, kept: KeptGradient) -> KeptGradient:
        keeper, there = self._pass.keeper, kept.tensor
        if there is None:
            return kept
        if there.numel() > MOST_VALUES and there.nbytes > keeper.bytes_left:
            return keeper.without_values(there)
        keeper.count(there.nbytes)
        return KeptGradient(copied(there))

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
                if each.nbytes <= LARGEST_COPY or (of is not None and not of.taken):
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
        lets_go = getattr(custom_function(self._node), "clear_saved_tensors_on_access", False)
        for saved in read_saved(self._node) if missing and not lets_go else ():
            if saved.value is not None and memory_of(saved.value) in missing:
                found[missing[memory_of(saved.value)]] = saved.name


def _ignored(_: Any) -> None:
    pass
