"""What the backward of a custom Function does, call by call, while a recorded pass runs it.

Only these nodes are looked into: what a node of torch's own does is known by its formula. The node
of a part checkpointed with ``use_reentrant=True`` is one of them: what it computes again, and the
backward pass of its own that it runs, are told without running anything twice.
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
"""So many operations of a node are told one by one."""

_MOST_WRITTEN = 200  # characters of an argument that is no tensor


@dataclass
class Given:
    """A tensor that an operation gave, or that was there before.

    Attributes:
        shape: Its shape.
        dtype: As torch prints it.
        device: Likewise.
        kept: Its values, as far as the budget of the pass allows.
    """

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    kept: KeptGradient


@dataclass(frozen=True)
class Taken:
    """A tensor that an operation took.

    Attributes:
        argument: What torch calls that argument.
        giver: Where the tensor is from.
    """

    argument: str | None
    giver: Producer


@dataclass(frozen=True)
class Operation:
    """One operation that ran.

    Attributes:
        called: What torch calls it, "aten.mul.Tensor".
        behind: The node of a pass within the node's own backward that asked for it; None for none.
        again: Whether a checkpointed part of the forward pass asked for it, which runs again.
        written: The arguments as a program would write them, each tensor as where it is from.
        taken: The tensors among them.
        gave: What it gave; None for what is no tensor.
        left: Behind that, what others read of the memory that it wrote into.
    """

    called: str
    behind: str | None
    again: bool
    written: list[str | Producer]
    taken: list[Taken]
    gave: list[Given | None] = field(default_factory=list)
    left: list[Given] = field(default_factory=list)


@dataclass
class Operations:
    """The operations of one node.

    Attributes:
        listed: The first of them.
        count: How many there were.
        held: The tensors that they took from elsewhere: saved ones, and any other.
        names: What these are called, as far as it is known.
        returned: Place among what the backward returned -> where that is from.
        note: Why not all is known; None where it is.
    """

    listed: list[Operation] = field(default_factory=list)
    count: int = 0
    held: list[Given] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    returned: dict[int, Producer] = field(default_factory=dict)
    note: str | None = None


def is_looked_into(node: Node) -> bool:
    """Whether a node's backward is Python of somebody's own, or a reentrant checkpoint."""
    cls: type = type(node)
    custom = custom_function(node) if node_class(cls).is_function else None
    if custom is None:
        return False
    return not is_of_torch(custom) or reentrant_function(node) is not None


@contextmanager
def noting_operations(
    captured: Capture, into: dict[int, Operations], max_bytes: int
) -> Iterator[None]:
    """Within it the operations of custom backwards are noted; afterwards the nodes are as before.

    Args:
        captured: The graph that backward runs through.
        into: Gets those of each node that runs.
        max_bytes: Of large tensors to keep; of others only statistics are kept.
    """
    looked_into: list[Any] = []
    pass_ = _Pass(captured, GradientStore(max_bytes))
    try:
        for i, node in enumerate(captured.nodes):
            if is_looked_into(node):
                # The engine asks the node for it, so the node's own comes before its class's. Until
                # it is taken away again the node holds itself by it.
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
    """What the nodes of one pass share: the budget, and what the user calls tensors."""

    def __init__(self, captured: Capture, keeper: GradientStore) -> None:
        self.keeper = keeper
        self.lock = threading.RLock()  # nodes of several devices run on threads of their own
        self._captured = captured

    @functools.cached_property
    def names(self) -> Mapping[tuple[Any, ...], str]:
        """Memory -> what a leaf, or another tensor of the graph, is called that shows it."""
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
    """Notes what the backward of one node does."""

    def __init__(self, node: Any, pass_: _Pass, grads: tuple[Any, ...]) -> None:
        self.found = Operations()
        self._node = node
        self._name = op_name(node)
        self._is_checkpoint = reentrant_function(node) is not None
        self._pass = pass_
        self._givers = Provenance()
        self._of_memory: dict[int, list[Given]] = {}
        self._of_held: list[tuple[Any, ...] | None] = []
        with self._carefully():
            for nr, grad in enumerate(grads):
                if isinstance(grad, torch.Tensor):
                    self._givers.note(grad, Producer("gradient", nr))

    @contextmanager
    def _carefully(self) -> Iterator[None]:
        """Within it nothing that goes wrong is the program's, and no mode of the user's sees it."""
        try:
            with self._pass.lock, unseen():
                yield
        except Exception as error:  # a class of the user's may refuse anything
            self.found.note = (
                "What this backward ran could not be noted to its end "
                f"({type(error).__name__}: {first_line(error)})."
            )

    def begin(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        """An operation is about to run; gives what to tell of what it gave."""
        found = self.found
        found.count += 1
        if found.note is None and len(found.listed) == MOST:
            found.note = f"Only the first {MOST:,} operations of this backward were noted."
        told: Callable[[Any], None] = _ignored
        if found.note is None:
            with self._carefully():
                told = self._begun(func, args, kwargs)
        return told

    def _begun(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[Any], None]:
        taken: list[Taken] = []
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
        with self._carefully():
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
        self, name: str | None, value: Any, taken: list[Taken]
    ) -> Iterator[str | Producer]:
        """An argument as a program would write it; the tensors of it are taken."""
        if isinstance(value, torch.Tensor):
            giver = self._giver(value)
            taken.append(Taken(name, giver))
            yield giver
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

    def _giver(self, tensor: torch.Tensor) -> Producer:
        """Where a tensor is from, that is taken now."""
        giver = self._givers.of(tensor)
        writer = self._givers.writer(tensor, giver)
        if writer is not None:  # which changed it by way of another tensor of the same memory
            operation = self.found.listed[writer]
            giver = Producer("operation", writer, len(operation.gave) + len(operation.left))
            operation.left.append(self._given(tensor))
        elif giver is not None:
            return giver
        else:
            giver = Producer("held", len(self.found.held))
            self.found.held.append(self._given(tensor))
            self._of_held.append(memory_of(tensor))
        self._givers.note(tensor, giver)
        return giver

    def _given(
        self,
        tensor: torch.Tensor,
        by: Operation | None = None,
        changed: Sequence[torch.Tensor] = (),
    ) -> Given:
        """Note a tensor; what an operation has just given, which changed some in place."""
        # What is made of nothing torch hands out as another tensor, unless its count of changes is
        # its own; what writes there is seen here.
        is_new = by is not None and not by.taken
        held = tensor.detach() if is_new else detached(tensor)
        kept = self._pass.keeper.keep(held, version_of(held), is_large_leafs=False)
        assert kept is not None
        if changed:  # torch counts that only once the operation has returned
            kept = self._copied(kept)
        shape = None if tensor.is_nested else tuple(tensor.shape)
        given = Given(shape, str(tensor.dtype), str(tensor.device), kept)
        memory = memory_of(tensor)
        if memory is not None:
            self._of_memory.setdefault(memory[0], []).append(given)
        return given

    def _copy(self, tensor: torch.Tensor) -> None:
        """Keep what was given in a tensor's memory as it is: something may change it there."""
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
        """The backward has returned."""
        if self.found.note is not None:
            return
        with self._carefully():
            for place, each in enumerate(result if isinstance(result, tuple) else (result,)):
                if not isinstance(each, torch.Tensor):
                    continue
                giver = self.found.returned[place] = self._giver(each)
                # torch may make it a `.grad`, and that be changed.
                of = self.found.listed[giver.number] if giver.kind == "operation" else None
                if each.nbytes <= LARGEST_COPY or (of is not None and not of.taken):
                    self._copy(each)
            self._name_held()

    def _name_held(self) -> None:
        """Call the tensors from elsewhere as the user does, or as what the node saved."""
        names, found = self._pass.names, self.found.names
        missing: dict[tuple[Any, ...] | None, int] = {}
        for i, memory in enumerate(self._of_held):
            if memory is not None and memory in names:
                found[i] = names[memory]
            elif memory is not None:
                missing[memory] = i
        # Reading what a class lets go of when it is read would do just that.
        lets_go = getattr(custom_function(self._node), "clear_saved_tensors_on_access", False)
        for saved in read_saved(self._node) if missing and not lets_go else ():
            if saved.value is not None and memory_of(saved.value) in missing:
                found[missing[memory_of(saved.value)]] = saved.name


def _ignored(_: Any) -> None:
    pass
