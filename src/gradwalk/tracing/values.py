"""Find the forward value of each node, as far as it is still known.

A tensor that was changed in place since is not shown as its node's value. torch counts in-place
changes, and a saved tensor remembers the count until backward frees it. It does not count a
change through ``.data``, as by ``half()`` of a module. Such a change shows in the numbers that
`watch` copied, or in a shape, dtype or device that torch did not record.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import as_text, described_outputs, is_replaced
from ..graph.labels import described
from ..schema.values import Values
from ..torch_api.nodes import (
    input_names,
    keeps_tensors,
    leaf_classes,
    leaf_tensor,
    op_name,
    outputs_metadata,
    saved_tensors,
)
from ..torch_api.reading import storage_of, version_of
from ..torch_api.saved_tensors import Saved, changed_operands, read_saved
from ..torch_api.signatures import tensor_arguments
from ..torch_api.summary import as_json, plain_values
from .annotate import Annotated
from .constant_operands import MOST_INFERRED
from .records import MOST_COPIED, LeafSnapshot
from .repeated import repeated_values

_MOST_CONSUMERS = 100  # of one tensor whose saved tensors are read
_MOST_VIEWS = 3  # between a leaf and the operation that saved it, such as a transpose


@dataclass(frozen=True)
class Used:
    """The state of a leaf when operations used it."""

    changed: bool | None  # whether it has changed since; None if unknown
    # The numbers that they used, as ``tolist()`` gives them; None if only the tensor itself has
    # them.
    value: Any = None
    several: bool = False  # whether they used different numbers of it


def used_leaf(
    captured: Annotated,
    node: int,
    had_run: bool,
    snapshots: Iterable[LeafSnapshot] | None = None,
    is_read: bool = True,
    *,
    consumers: Consumers | None = None,
) -> Used:
    """Compare a leaf with the values that the operations of a graph used.

    Leaves normally change only after a backward. ``snapshots`` are looked up if they are not given;
    ``consumers`` reads what operations saved, once for several leaves.
    """
    leaf = leaf_tensor(captured.nodes[node])
    assert leaf is not None, "the node is a leaf"
    is_other = is_replaced(captured.leaf_types[node], leaf)
    seen = list(_snapshots_of(captured, node, leaf) if snapshots is None else snapshots)
    if seen:
        known = _compared_with(leaf, seen)
        return replace(known, changed=True) if is_other else known
    if is_other:
        return Used(changed=True)
    try:
        if version_of(leaf) == 0:
            return Used(changed=False)
        consumers = consumers or Consumers(captured, lambda: captured.predecessors)
        same = _equals_saved(consumers, node, leaf) if is_read else None
        if same is not None:
            return Used(changed=not same)
        return Used(changed=None if had_run else False)
    except Exception:  # a subclass may refuse any question
        return Used(changed=False)


def used_leaves(
    captured: Annotated, leaves: Iterable[int], had_run: bool, are_read: bool
) -> dict[int, Used]:
    """Return `used_leaf` of many leaves of a graph."""
    ids = {id(leaf_tensor(captured.nodes[node])): node for node in leaves}
    snapshots: dict[int, list[LeafSnapshot]] = {node: [] for node in ids.values()}
    consumers = Consumers(captured, captured.consumers)
    # All nodes of one call have the same.
    for each in {id(seen.leaves): seen.leaves for seen in captured.annotations.values()}.values():
        for one in each:
            tensor = one.tensor()
            node = None if tensor is None else ids.get(id(tensor))
            if node is None or (snapshots[node] and snapshots[node][-1] is one):
                continue  # unchanged since the previous use
            snapshots[node].append(one)
    if snapshots and are_read and not had_run:
        are_read = any(map(consumers.changed, consumers.keeping))  # else no leaf has changed
    return {
        node: used_leaf(captured, node, had_run, found, are_read, consumers=consumers)
        for node, found in snapshots.items()
    }


def _snapshots_of(captured: Annotated, node: int, leaf: torch.Tensor) -> Iterator[LeafSnapshot]:
    for consumer in islice(captured.predecessors[node], _MOST_CONSUMERS):
        seen = captured.annotations.get(consumer)
        if seen is not None:
            yield from (snapshot for snapshot in seen.leaves if snapshot.tensor() is leaf)


def _compared_with(leaf: torch.Tensor, seen: list[LeafSnapshot]) -> Used:
    first = seen[0].value
    if first is None:
        version = version_of(leaf)
        return Used(changed=any(snapshot.version != version for snapshot in seen))
    # As text, so that NaN equals itself.
    if any(repr(snapshot.value) != repr(first) for snapshot in seen):
        return Used(changed=True, several=True)
    now = plain_values(leaf)
    return Used(changed=now is None or repr(leaf.tolist()) != repr(first), value=first)


def _equals_saved(consumers: Consumers, node: int, leaf: torch.Tensor) -> bool | None:
    """Return whether a leaf equals what was saved of it for backward; None if unknown."""
    memory = storage_of(leaf)
    if memory is None:
        return None
    known: bool | None = None
    for consumer in consumers.near(node):
        for saved in consumers.changed(consumer):
            if isinstance(saved.value, torch.Tensor) and storage_of(saved.value) == memory:
                return False
        if memory in consumers.memories(consumer):
            known = True
    return known


class Consumers:
    """The operations that use the leaves of a graph; reads their saved tensors once."""

    def __init__(
        self, captured: Annotated, before: Callable[[], Mapping[int, Iterable[int]]]
    ) -> None:
        self._captured, self._nodes = captured, captured.nodes
        self._find = before
        self._changed: dict[int, list[Saved]] = {}
        self._memories: dict[int, set[int | None]] = {}

    @functools.cached_property
    def _before(self) -> Mapping[int, Iterable[int]]:
        return self._find()

    @property
    def keeping(self) -> Iterator[int]:
        """The operations that may save tensors."""
        return iter(self._captured.of_classes(keeps_tensors))

    def changed(self, node: int) -> list[Saved]:
        """Return the saved operands of an operation that were changed in place since."""
        if node not in self._changed:
            self._changed[node] = changed_operands(self._nodes[node])
        return self._changed[node]

    def memories(self, node: int) -> set[int | None]:
        """Return the storages of an operation's other saved tensors."""
        if node not in self._memories:
            behind = self._nodes[node]
            self._memories[node] = {
                storage_of(saved.value)
                for saved in read_saved(behind, saved_tensors(type(behind)))
                if isinstance(saved.value, torch.Tensor) and not saved.changed
            }
        return self._memories[node]

    def near(self, node: int) -> Iterator[int]:
        """Yield the operations that used a leaf, or a view of it, and may have saved it."""
        waiting, seen = [(node, 0)], {node}
        left = _MOST_CONSUMERS
        for at, steps in waiting:  # grows while we walk
            for consumer in self._before.get(at, ()):
                if consumer in seen or left == 0:
                    continue
                left -= 1
                seen.add(consumer)
                yield consumer
                if steps < _MOST_VIEWS and not keeps_tensors(type(self._nodes[consumer])):
                    waiting.append((consumer, steps + 1))


_RESULTS = ("result", "output")  # torch's names for an operation's own saved output
_ADDED_TO = {"AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"}  # for +=, -=, *=, /=

ITSELF = "The tensor itself, as it is now."
COPIED = "Copied by watch() when the operation ran."


@dataclass(frozen=True)
class Known:
    """A node's value."""

    value: Any  # the tensor, not to be changed; for `watch`, a copy as ``tolist()`` gives it
    origin: str  # a sentence: where it comes from


def value_of(captured: Annotated, node: int) -> Known | None:
    """Return a node's forward value, of any size; None if it has several, or may have changed."""
    leaf = leaf_tensor(captured.nodes[node])
    if leaf is not None:
        return Known(leaf, ITSELF)
    if len(captured.graph.nodes[node]["outputs"]) != 1:
        return None
    return _copied(captured, node) or _held(captured, node) or _saved(captured, node)


@dataclass(frozen=True)
class Drawn:
    """The values that are drawn at nodes."""

    # Node id -> a number or nested lists, as JSON values; unknown values are left out.
    values: dict[int, Values]
    # Small leaves that may have changed in place since operations used them. True: changed, and
    # drawn only if `watch` copied the value. None: unknown, and drawn as it was when this was made.
    changed: dict[int, bool | None]
    versions: dict[int, int]  # the in-place version of each leaf at that time
    had_run: bool  # whether a backward may have run before
    repeated: frozenset[int] = frozenset()  # nodes of which an operation was repeated


def drawn_values(captured: Annotated, freed: bool) -> Drawn:
    """Return the values of all nodes with at most 16 numbers, and the leaves that changed.

    Saved tensors are read only if the graph has at most 2,000 nodes. ``freed`` says that a backward
    has freed part of it.
    """
    found: dict[int, Values] = {}
    are_read = len(captured.nodes) <= MOST_INFERRED
    leaves = dict(captured.leaves())
    had_run = freed or any(map(_has_grad, leaves.values()))
    small = [node for node, kind in captured.leaf_types.items() if kind and _is_small(kind[0])]
    used = used_leaves(captured, small, had_run, are_read)
    changed = _from_leaves(used, leaves, found)
    for node in _seen_or_held(captured):
        if node not in leaves and _gave_few(captured.nodes[node]):
            known = _copied(captured, node) or _held(captured, node)
            if known is not None:
                _put(found, node, known.value)
    if are_read:
        _from_saved(captured, found)
    for node, extra in enumerate(captured.extras, captured.first_extra):
        if extra.constant is not None and extra.constant.values is not None:
            found[node] = as_json(extra.constant.values)
        elif extra.value is not None:
            _put(found, node, extra.value)
        elif extra.constant is None and (tensor := extra.tensor) is not None:
            _from_outside(tensor, node, found)
    versions = {node: _version(leaf) for node, leaf in leaves.items()}
    unsure = {node for node, each in used.items() if each.changed is not False}
    repeated = repeated_values(captured, found, unsure) if are_read else {}
    return Drawn({**found, **repeated}, changed, versions, had_run, frozenset(repeated))


def _is_small(shape: Iterable[int] | None) -> bool:
    count = 1
    for size in (MOST_COPIED + 1,) if shape is None else shape:
        if type(size) is not int:  # a symbol, as in jagged or traced tensors
            return False
        count *= size
    return count <= MOST_COPIED


def _seen_or_held(captured: Annotated) -> list[int]:
    """Return the nodes whose output `watch` may have copied or the program still holds."""
    seen = {node for node, each in captured.annotations.items() if each.value is not None}
    return sorted(seen.union(node for node, _ in captured.tensors))


def _gave_few(node: Node) -> bool:
    try:
        (only,) = outputs_metadata(node)
        count = math.prod(only.shape)
        return type(count) is int and count <= MOST_COPIED  # else a symbol
    except Exception:  # several outputs, or a nested tensor, which has no single shape
        return False


def _only_output(captured: Annotated, node: int) -> Mapping[str, Any] | None:
    """Return the shape, dtype and device of a node's output; None if it has several."""
    outputs = described_outputs(captured.nodes[node])
    return outputs[0] if len(outputs) == 1 else None


def _from_leaves(
    of: dict[int, Used], leaves: dict[int, torch.Tensor], found: dict[int, Values]
) -> dict[int, bool | None]:
    """Add the values that operations used of some leaves; return `Drawn.changed`."""
    changed: dict[int, bool | None] = {}
    for node, used in of.items():
        is_copied = used.value is not None
        if is_copied or not used.changed:
            _put(found, node, used.value if is_copied else leaves[node])
        if used.changed is not False and not is_copied:
            changed[node] = used.changed
    return changed


def _from_outside(tensor: torch.Tensor, node: int, found: dict[int, Values]) -> None:
    """Add the value of a small tensor outside the graph, unless it has changed in place."""
    with contextlib.suppress(Exception):  # a subclass may refuse any question
        if _is_small(tensor.shape) and version_of(tensor) == 0:
            _put(found, node, tensor.detach())


def _has_grad(leaf: torch.Tensor) -> bool:
    try:
        return leaf.grad is not None
    except Exception:  # a subclass may refuse any question
        return False


def _version(leaf: torch.Tensor) -> int:
    try:
        return version_of(leaf)
    except Exception:  # a subclass may refuse any question
        return 0


def _put(found: dict[int, Values], node: int, value: Any) -> None:
    values = plain_values(value) if isinstance(value, torch.Tensor) else as_json(value)
    if values is not None:
        found[node] = values


def _copied(captured: Annotated, node: int) -> Known | None:
    seen = captured.annotations.get(node)
    return None if seen is None or seen.value is None else Known(seen.value, COPIED)


def _held(captured: Annotated, node: int) -> Known | None:
    """Return the output itself, if the program holds it unchanged."""
    reference = captured.tensors.get((node, 0))
    tensor = reference() if reference is not None else None
    if tensor is None:
        return None
    with contextlib.suppress(Exception):  # a subclass may refuse any question
        output = _only_output(captured, node)
        is_it = tensor.grad_fn is captured.nodes[node] and output and _fits(output, tensor)
        if is_it and _is_unchanged(captured, node, tensor):
            return Known(tensor, ITSELF)
    return None


def _fits(output: Mapping[str, Any], tensor: torch.Tensor) -> bool:
    """Return whether a tensor may be a node's output: ``.data = ...`` may have replaced it."""
    shape = None if tensor.is_nested else tuple(tensor.shape)
    known: bool = output["shape"] is None or output["shape"] == shape
    return known and (output["dtype"], output["device"]) == (
        as_text(tensor.dtype),
        as_text(tensor.device),
    )


def _is_unchanged(captured: Annotated, node: int, tensor: torch.Tensor) -> bool:
    """Return whether a tensor still holds its node's output.

    Its version counts every in-place change; recorded changes gave it a new node. So an output
    with a version is trusted only if ``+=`` and the like explain it, as in ``total += loss``.
    """
    version = version_of(tensor)
    if version == 0:
        return True
    if (node, 0) not in captured.roots:
        return False
    at: int | None = node
    for _ in range(version):
        if at is None or captured.graph.nodes[at]["op"] not in _ADDED_TO:
            return False
        edges = captured.graph.out_edges(at, data="argument")
        at = next((target for _, target, argument in edges if argument == "self"), None)
    # torch forbids such changes of a leaf that needs grad.
    return at is None or captured.graph.nodes[at]["kind"] != "leaf"


def _saved(captured: Annotated, node: int) -> Known | None:
    graph = captured.graph
    shape, dtype = graph.nodes[node]["shape"], graph.nodes[node]["dtype"]

    def fits(saved: Saved) -> bool:
        return _is_as_saved(saved, shape, dtype)

    for saved in _own_results(captured, node):
        if fits(saved):
            return Known(saved.value, f"Saved by this node for backward, as {saved.name}.")
    for consumer in islice(captured.predecessors[node], _MOST_CONSUMERS):
        arguments = {edge["argument"] for edge in graph.get_edge_data(consumer, node).values()}
        for saved in read_saved(captured.nodes[consumer], _of_lists(arguments)):
            if saved.name in arguments and fits(saved) and _is_given(captured, node, saved.value):
                by = described(graph, consumer)
                return Known(saved.value, f"Saved by {by} for its backward, as {saved.name}.")
    return None


def _of_lists(arguments: Iterable[str | None]) -> set[str]:
    """Return the names of arguments; a list's items ("tensors[1]") give its name ("tensors")."""
    return {name.partition("[")[0] for name in arguments if name is not None}


def _own_results(captured: Annotated, node: int) -> Iterator[Saved]:
    """Yield a node's own output among its saved tensors."""
    # In the graph of a backward, "result" is an argument: the forward operation's output.
    op = captured.graph.nodes[node]["op"]
    names = [name for name in _RESULTS if name not in tensor_arguments(op)]
    return (saved for saved in read_saved(captured.nodes[node], names) if saved.name in names)


def _is_as_saved(saved: Saved, shape: Sequence[int] | None, dtype: str | None) -> bool:
    """Return whether a saved tensor is unchanged and matches a node's shape and dtype."""
    value = saved.value
    return (
        isinstance(value, torch.Tensor)
        and saved.note is None
        and not value.is_nested
        and shape is not None
        and tuple(value.shape) == tuple(shape)
        and as_text(value.dtype) == dtype
    )


def _is_given(captured: Annotated, node: int, tensor: torch.Tensor) -> bool:
    """Return whether the graph shows as many writes of an output as its version counts."""
    at: int | None = node
    for _ in range(version_of(tensor)):
        if at is None or op_name(captured.nodes[at]) != "CopySlices":
            return False
        at = next(iter(captured.successors[at]), None)
    return True


def _from_saved(captured: Annotated, found: dict[int, Values]) -> None:
    """Add the small outputs and operands that nodes have saved; known ones are not read again."""
    nodes, leaves = captured.nodes, leaf_classes(captured.nodes)
    missing: dict[Node | None, int] = {
        behind: node
        for node, behind in enumerate(nodes)
        if type(behind) not in leaves and node not in found and _gave_few(behind)
    }
    for node, behind in enumerate(nodes) if missing else ():
        if not keeps_tensors(type(behind)):
            continue
        following = behind.next_functions
        places = {nr: missing[to] for nr, (to, _) in enumerate(following) if to in missing}
        results = _results(op_name(behind)) if behind in missing else frozenset()
        if not places and not results:
            continue
        arguments = input_names(behind, following)
        operands = {arguments[nr]: target for nr, target in places.items()}
        for saved in read_saved(behind, results | _of_lists(operands)):
            target = node if saved.name in results else operands.get(saved.name)
            if target is None or target in found or not _is_few(saved):
                continue
            output = _only_output(captured, target)
            fits = output is not None and _is_as_saved(saved, output["shape"], output["dtype"])
            if fits and (target == node or _is_given(captured, target, saved.value)):
                _put(found, target, saved.value)


@functools.cache
def _results(op: str) -> frozenset[str]:
    return frozenset(_RESULTS) - tensor_arguments(op)


def _is_few(saved: Saved) -> bool:
    value = saved.value
    is_there = isinstance(value, torch.Tensor) and saved.note is None
    return is_there and not value.is_nested and value.numel() <= MOST_COPIED
