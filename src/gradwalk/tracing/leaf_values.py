"""Find the value of a leaf that operations used; it may have been changed in place since.

An optimizer's step changes parameters after the graph was made. torch counts in-place changes, and
a saved tensor remembers the count until backward frees it. A change through ``.data`` is not
counted: it shows only in numbers that `watch` copied, or in a shape, dtype or device that torch did
not record, as after ``half()`` of a module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from ..graph.capture import is_replaced
from ..torch_api.json_values import plain_values
from ..torch_api.nodes import keeps_tensors, leaf_tensor, saved_tensors
from ..torch_api.reading import storage_of
from ..torch_api.saved_tensors import Saved, changed_operands, read_saved
from ..torch_api.tensors import version_of
from .annotate import Annotated
from .records import LeafSnapshot

_MOST_CONSUMERS = 100  # of one leaf whose saved tensors are read
_MOST_VIEWS = 3  # between a leaf and the operation that saved it, such as a transpose


@dataclass(frozen=True)
class Used:
    """The state of a leaf when operations used it.

    Attributes:
        changed: Whether it has changed since; None if unknown.
        value: The numbers that they used, as ``tolist()`` gives them; None if only the tensor
            itself has them.
        several: Whether they used different numbers of it.
    """

    changed: bool | None
    value: Any = None
    several: bool = False


def used_leaf(
    captured: Annotated,
    node: int,
    had_run: bool,
    taken: Iterable[LeafSnapshot] | None = None,
    is_read: bool = True,
    *,
    takers: Takers | None = None,
) -> Used:
    """Compare a leaf with the values that the operations of a graph used.

    Args:
        captured: The graph.
        node: The id of the leaf.
        had_run: Whether a backward may have run; leaves normally change only after one.
        taken: What `watch` recorded of it; looked up at its operations if not given.
        is_read: Whether to read the tensors that operations saved.
        takers: Reads them; shared between several leaves.

    Returns:
        The comparison.

    Example::

        >>> from gradwalk.tracing.annotate import annotate
        >>> from gradwalk.tracing.watch import watch
        >>> from gradwalk.graph.capture import capture_nodes
        >>> from gradwalk.graph.names import Names
        >>> from gradwalk.graph.outputs import read_outputs
        >>> w = torch.tensor(3.0, requires_grad=True)
        >>> with watch():
        ...     y = w * 2
        >>> w.data.add_(1)
        tensor(4.)
        >>> captured = capture_nodes(read_outputs((y,), "capture"), Names())
        >>> used_leaf(annotate(captured, Names(), infer=False), 1, had_run=False)
        Used(changed=True, value=3.0, several=False)
    """
    leaf = leaf_tensor(captured.nodes[node])
    assert leaf is not None, "the node is a leaf"
    is_other = is_replaced(captured.taken[node], leaf)
    seen = list(_taken_by(captured, node, leaf) if taken is None else taken)
    if seen:
        known = _as_taken(leaf, seen)
        return replace(known, changed=True) if is_other else known
    if is_other:
        return Used(changed=True)
    try:
        if version_of(leaf) == 0:
            return Used(changed=False)
        takers = Takers(captured, lambda: captured.predecessors) if takers is None else takers
        same = _is_as_saved(takers, node, leaf) if is_read else None
        if same is not None:
            return Used(changed=not same)
        return Used(changed=None if had_run else False)
    except Exception:  # a subclass may refuse any question
        return Used(changed=False)


def used_leaves(
    captured: Annotated, leaves: Iterable[int], had_run: bool, are_read: bool
) -> dict[int, Used]:
    """Return `used_leaf` of many leaves of a graph.

    Args:
        captured: The graph.
        leaves: The ids of the leaves.
        had_run: Whether a backward may have run.
        are_read: Whether to read the tensors that operations saved.
    """
    ids = {id(leaf_tensor(captured.nodes[node])): node for node in leaves}
    taken: dict[int, list[LeafSnapshot]] = {node: [] for node in ids.values()}
    takers = Takers(captured, captured.takers)
    # All nodes of one call have the same.
    for each in {id(seen.leaves): seen.leaves for seen in captured.annotations.values()}.values():
        for one in each:
            tensor = one.tensor()
            node = None if tensor is None else ids.get(id(tensor))
            if node is None or (taken[node] and taken[node][-1] is one):
                continue  # unchanged since the previous use
            taken[node].append(one)
    if taken and are_read and not had_run and not any(map(takers.changed, takers.keeping)):
        are_read = False  # no saved tensor has changed
    return {
        node: used_leaf(captured, node, had_run, found, are_read, takers=takers)
        for node, found in taken.items()
    }


def _taken_by(captured: Annotated, node: int, leaf: torch.Tensor) -> Iterator[LeafSnapshot]:
    for consumer in islice(captured.predecessors[node], _MOST_CONSUMERS):
        seen = captured.annotations.get(consumer)
        if seen is not None:
            yield from (taken for taken in seen.leaves if taken.tensor() is leaf)


def _as_taken(leaf: torch.Tensor, seen: list[LeafSnapshot]) -> Used:
    first = seen[0].value
    if first is None:
        version = version_of(leaf)
        return Used(changed=any(taken.version != version for taken in seen))
    # As text, so that NaN equals itself.
    if any(repr(taken.value) != repr(first) for taken in seen):
        return Used(changed=True, several=True)
    now = plain_values(leaf)
    return Used(changed=now is None or repr(leaf.tolist()) != repr(first), value=first)


def _is_as_saved(takers: Takers, node: int, leaf: torch.Tensor) -> bool | None:
    """Return whether a leaf equals what was saved of it for backward; None if unknown."""
    memory = storage_of(leaf)
    if memory is None:
        return None
    known: bool | None = None
    for taker in takers.near(node):
        for saved in takers.changed(taker):
            if isinstance(saved.value, torch.Tensor) and storage_of(saved.value) == memory:
                return False
        if memory in takers.memories(taker):
            known = True
    return known


class Takers:
    """The operations that use the leaves of a graph; reads their saved tensors once."""

    def __init__(
        self, captured: Annotated, before: Callable[[], Mapping[int, Iterable[int]]]
    ) -> None:
        """Read nothing yet.

        Args:
            captured: The graph.
            before: Returns each node's predecessors.
        """
        self._nodes = captured.nodes
        self._find = before
        self._changed: dict[int, list[Saved]] = {}
        self._memories: dict[int, set[int | None]] = {}

    @functools.cached_property
    def _before(self) -> Mapping[int, Iterable[int]]:
        return self._find()

    @property
    def keeping(self) -> Iterator[int]:
        """The operations that may save tensors."""
        return (i for i, node in enumerate(self._nodes) if keeps_tensors(type(node)))

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
            for taker in self._before.get(at, ()):
                if taker in seen or left == 0:
                    continue
                left -= 1
                seen.add(taker)
                yield taker
                if steps < _MOST_VIEWS and not keeps_tensors(type(self._nodes[taker])):
                    waiting.append((taker, steps + 1))
