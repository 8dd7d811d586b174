"""The memory a graph holds for backward: what torch frees when the graph is deleted.

A node keeps tensors; several may keep the same memory, and the program may hold it as well: then
deleting the graph frees nothing. torch counts who holds a tensor and who holds its memory, so
whatever more is counted than this graph explains is held from outside.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

import torch
from torch.autograd.graph import Node

from ..english import plural
from ..graph.capture import Capture
from ..graph.labels import in_bytes
from ..result import returned_by
from ..schema.findings import MemoryModel
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import (
    base_of,
    counts_holders,
    has_data,
    storage_id,
    storage_uses,
    tensor_uses,
)
from ..torch_api.saved_tensors import read_saved


@dataclass(frozen=True)
class Memory:
    """The bytes that a graph holds for backward, and nobody else."""

    # Node id -> bytes. Memory that several nodes keep counts for the one that ran first, because
    # backward reaches it last and frees it there.
    nodes: dict[int, int]
    total: int  # all bytes
    # How many tensors are of unknown size: a saved-tensor hook has packed them, and unpacking may
    # run the forward again; or their layout has no one memory to measure.
    unknown: int


def saved_memory(captured: Capture) -> Memory:
    """Count the bytes that a graph holds for backward, each memory once.

    Memory that the program holds too is not counted: parameters, buffers, inputs and results in
    variables. Nothing that a hook packed is unpacked.
    """
    kept = _Kept()
    graph = captured.graph
    order = sorted(range(len(captured.nodes)), key=lambda i: graph.nodes[i]["sequence_nr"])
    for i in order:
        kept.add_node(i, captured.nodes[i])
    nodes: dict[int, int] = defaultdict(int)
    for node, size in kept.held():
        nodes[node] += size
    return Memory(dict(nodes), sum(nodes.values()), kept.unknown)


def freed_bytes(nodes: Iterable[Node], results: Iterable[torch.Tensor]) -> int:
    """Count the bytes that are freed when graphs and some of their results are deleted together."""
    kept = _Kept()
    for result in results:
        kept.add(0, result, is_output=False)
        kept.results.add(id(result))
    for node in nodes:
        kept.add_node(0, node)
    return sum(size for _, size in kept.held())


def memory_model(memory: Memory) -> MemoryModel:
    """The wire model: nodes that hold nothing are left out."""
    nodes = {node: size for node, size in sorted(memory.nodes.items()) if size}
    return {
        "nodes": list(nodes),
        "bytes": list(nodes.values()),
        "total": memory.total,
        "unknown": memory.unknown,
    }


@dataclass
class _Kept:
    """The tensors that nodes keep, while we look at them."""

    tensors: dict[int, torch.Tensor] = field(default_factory=dict)  # each tensor once, by ``id``
    # ``id`` of a tensor -> how often the graph holds it.
    holders: Counter[int] = field(default_factory=Counter)
    # ``id`` of a tensor -> how many of the others are views of it.
    views: Counter[int] = field(default_factory=Counter)
    # Storage -> how many tensors hold it that only torch sees: a node that keeps its own output
    # keeps a copy of the tensor, so that the two do not hold each other.
    copies: Counter[int] = field(default_factory=Counter)
    # Storage -> the node that ran first among those that keep it.
    first: dict[int, int] = field(default_factory=dict)
    # ``id`` of each tensor that is deleted with the graph, referred to or not.
    results: set[int] = field(default_factory=set)
    unknown: int = 0  # how many tensors could not be measured

    def add_node(self, i: int, node: Node) -> None:
        """Note all that a node keeps; no variable may outlive this, or it counts as a holder."""
        if type(node).__name__ == "CopySlices":
            self.unknown += 1  # it runs another node inside, which Python cannot see
        leaf = leaf_tensor(node)
        if leaf is not None:
            self.add(i, leaf, is_output=False)
        for saved in read_saved(node):
            if isinstance(saved.value, torch.Tensor):
                is_output = not saved.value.is_leaf and saved.value.grad_fn is node
                self.add(i, saved.value, is_output=is_output)
            elif saved.value is None and not saved.freed and saved.note is not None:
                self.unknown += 1

    def add(self, node: int, tensor: torch.Tensor, *, is_output: bool) -> None:
        """Note that a node keeps a tensor."""
        storage = storage_id(tensor)
        if storage is None or type(tensor.untyped_storage().nbytes()) is not int:  # a symbol
            self.unknown += 1
            return
        self.first.setdefault(storage, node)
        if is_output:
            self.copies[storage] += 1
        else:
            self.holders[id(tensor)] += 1
        if id(tensor) in self.tensors:
            return
        self.tensors[id(tensor)] = tensor
        base = base_of(tensor)
        if base is not None and not is_output:  # a view holds what it is a view of
            own = storage_id(base)
            if own is not None:  # of a wrapper subclass, not the one of the view
                self.first.setdefault(own, node)
            self.tensors[id(base)] = base
            self.holders[id(base)] += 1
            self.views[id(base)] += 1

    def held(self) -> Iterator[tuple[int, int]]:
        """(node, bytes) for each memory that nothing but the graph holds."""
        by_storage: dict[int, list[int]] = defaultdict(list)
        for key in self.tensors:
            storage = storage_id(self.tensors[key])
            if storage is not None:
                by_storage[storage].append(key)
        alone = _counts_alone()
        if alone is None:  # who else holds the memory is unknown, and so is whether it is freed
            self.unknown += sum(not self.tensors[keys[0]].is_leaf for keys in by_storage.values())
            return
        for storage, keys in by_storage.items():
            size = self._size(self.tensors[keys[0]])
            if size and not self._is_held_outside(storage, keys, alone):
                yield self.first[storage], size

    def _size(self, tensor: torch.Tensor) -> int:
        return 0 if tensor.device.type == "meta" else tensor.untyped_storage().nbytes()

    def _is_held_outside(self, storage: int, keys: Sequence[int], alone: _Counts) -> bool:
        if any(self.views[key] for key in keys) and not has_data(self.tensors[keys[0]]):
            # torch itself holds what fake views are made of.
            return any(self.tensors[key].is_leaf for key in keys)
        tensors = len(keys) + self.copies[storage]
        if storage_uses(storage) - alone.storage_uses > tensors - 1:
            return True
        return any(
            self.holders[key] > 0
            and key not in self.results
            and (
                sys.getrefcount(self.tensors[key]) > alone.references
                # A view may hold its base once more, for forward-mode derivatives.
                or tensor_uses(self.tensors[key]) - alone.uses
                > self.holders[key] - 1 + self.views[key]
            )
            for key in keys
        )


@dataclass(frozen=True)
class _Counts:
    """What torch and Python count of a tensor that one node keeps, and nobody else."""

    references: int
    uses: int
    storage_uses: int


@functools.cache
def _counts_alone() -> _Counts | None:
    """Ask torch itself, since how it counts differs between its versions; None if unknown."""
    if not counts_holders():
        return None
    with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        node = (torch.ones(1, requires_grad=True) * torch.ones(1)).grad_fn
    assert node is not None
    kept = {0: next((each.value for each in read_saved(node) if each.name == "other"), None)}
    if kept[0] is None:
        return None
    in_memory = storage_uses(storage_id(kept[0]) or 0)
    return _Counts(sys.getrefcount(kept[0]), tensor_uses(kept[0]), in_memory)


@returned_by("held(loss)")
@dataclass(frozen=True)
class HeldGraph:
    """Autograd graphs that are alive, and what keeps them so.

    Attributes:
        graphs: The number of graphs: those that one list, dict or object holds are together.
        bytes: The memory in bytes that is freed when the holders let go: of results and of tensors
            saved for backward. Memory that something else holds too is not counted.
        holders: The chains of names that lead to the graphs, such as
            "history[0..3] (list, global of train.py)".
        line: The line that computed the latest result, "train.py:12", if `gradwalk.watch` saw it;
            else None.
        advice: What to do so that the graphs are freed.
    """

    graphs: int
    bytes: int
    holders: list[str]
    line: str | None
    advice: str

    def __str__(self) -> str:
        since = f"; computed at {self.line}" if self.line else ""
        size = f"{plural(self.graphs, 'graph')}, {in_bytes(self.bytes)}"
        return f"{size}: {'; '.join(self.holders)}{since}. {self.advice}".rstrip()

    def _repr_html_(self) -> str:
        return _bars([self])


class HeldGraphs(list[HeldGraph]):
    """A list of held graphs, which a notebook shows with bars."""

    def _repr_html_(self) -> str:
        return _bars(self)


_MOST_BARS = 20
_GREEN = "#2f9e75"  # readable on a light and on a dark page
_CELL = 'style="text-align:left;padding:2px 12px 2px 0;border:0;vertical-align:top"'


def _bars(held: Sequence[HeldGraph]) -> str:
    """A sentence for a notebook, and a table with a bar and the holders of each entry."""
    if not held:
        return "<p>No autograd graph is alive.</p>"
    graphs = sum(each.graphs for each in held)
    kept = "keep" if graphs > 1 else "keeps"
    head = f"{plural(graphs, 'graph')} {kept} {in_bytes(sum(each.bytes for each in held))}"
    most = max(each.bytes for each in held) or 1
    rows = "".join(_row(each, most) for each in held[:_MOST_BARS])
    rest = len(held) - _MOST_BARS
    more = f"<p>and {rest} more</p>" if rest > 0 else ""
    return (
        f'<div><p style="margin:0 0 4px"><b>{head}</b></p>'
        f'<table style="border-collapse:collapse"><tbody>{rows}</tbody></table>{more}</div>'
    )


def _row(held: HeldGraph, most: int) -> str:
    width = max(2, round(160 * held.bytes / most)) if held.bytes else 0
    bar = (
        '<div style="width:160px;height:12px;margin-top:3px;background:#8884">'
        f'<div style="width:{width}px;height:12px;background:{_GREEN}"></div></div>'
    )
    since = f", computed at {held.line}" if held.line else ""
    words = f"{'; '.join(held.holders)}{since}"
    advice = f'<div style="opacity:.75">{escape(held.advice)}</div>' if held.advice else ""
    return (
        f"<tr><td {_CELL}>{bar}</td><td {_CELL}><b>{in_bytes(held.bytes)}</b></td>"
        f"<td {_CELL}>{plural(held.graphs, 'graph')}</td>"
        f"<td {_CELL}>{escape(words)}{advice}</td></tr>"
    )
