"""Record forward calls, and find them again by the numbers of the autograd nodes they made.

torch numbers autograd nodes consecutively per thread, and the counter can be read without touching
a node. So a call is stored as its range of numbers. Writing into ``node.metadata`` instead would
wrap every node in Python, and a deep chain of wrapped nodes crashes when freed (see `release`).

Records mirror the graph: each holds the records of its operands, and each tensor keeps its own
record alive. So records die with the graph although no node refers to them.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import random
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..torch_api.dtensors import PLAIN
from ..torch_api.nodes import (
    Edge,
    custom_function,
    gradient_edge,
    leaf_classes,
    leaf_tensor,
    outputs_metadata,
    sequence_nr,
)
from ..torch_api.reading import why_unreadable
from ..torch_api.release import empty
from . import weak_id_dict
from .call_log import CallLog
from .cuts import MOST_LEAVES, Change, Constant, Cut, Reading, merge_cuts
from .module_path import ModuleCall, ModuleRan, TensorRef
from .source_line import SourceLine

MOST_COPIED = 16
"""Tensors of at most this many numbers are copied when an operation takes or gives them."""

_SPARE = 256  # nodes that a thread may always mark
_PER_NODE = 100  # one more for so many nodes made, so that marked chains stay shallow
_MARK = "gradwalk"
_ENDING = 1 / 16  # of the records end a chain
_MOST_CALLS = 512  # searched for leaves: a program may cut at every step of a long loop
_MOST_READ = 64  # lines that read values out of torch
_MOST_CHANGES = 8  # of one storage
_MOST_CHANGED = 1024  # storages that were changed in place
_MOST_TAKEN = 2**16  # leaves whose snapshot is kept
_MOST_WATCHES = 1024  # blocks with unwatched operations between them


class LeafSnapshot(NamedTuple):
    """A leaf at the time an operation used it."""

    tensor: TensorRef  # the leaf, while it lives
    version: int  # how often it had been changed in place
    # Its numbers, as ``tolist()`` gives them, if it has few and is on the CPU; else None.
    value: Any


class CallFacts(NamedTuple):
    """The facts about a call that has returned."""

    # The number of the first node it made, and one more than the number of the last.
    start: int
    end: int
    # The function; the class for an ``autograd.Function``, or `torch.autograd.Function` itself
    # for one that only returned its input.
    function: Any
    source: SourceLine | None
    module: ModuleCall | None
    # The checkpointed region that it ran in, while torch knows of it.
    frame: weakref.ref[Any] | None
    # Its operands that are leaves and need grad, at the time of the call.
    leaves: tuple[LeafSnapshot, ...]
    constants: tuple[Constant, ...]  # its operands that need no grad
    # For each operand, in the order of the call, whether it needed grad.
    needed_grad: tuple[bool, ...]
    derivatives: int  # how many derivatives the thread had computed before it
    inplace: bool = False  # whether it changed one of its operands
    # The index that it assigned to, as Python writes it, if known.
    place: str | None = None
    # Shape and dtype of its only output; None if it gave several.
    output: tuple[Any, Any] | None = None
    # The numbers of that output if it has few: as ``tolist()`` gives them on the CPU, a copy on
    # another device; None for others.
    value: Any = None


class Record:
    """One call that made autograd nodes."""

    __slots__ = (
        "__weakref__",
        "_given",
        "facts",
        "log",
        "marks",
        "parents",
        "place",
        "thread",
        "threads",
    )

    thread: ThreadRecords  # the records of the thread that made it
    threads: frozenset[ThreadRecords]  # every thread that made nodes below it
    facts: CallFacts
    parents: tuple[Record, ...]  # the records of its operands, which it keeps alive
    marks: int  # how many nodes were touched for it
    log: CallLog  # the calls of its block, to run them again
    place: int  # its place among them
    _given: tuple[weakref.ref[Any], ...]  # the tensors that keep it alive

    def made(self, tensor: torch.Tensor) -> None:
        """Let a tensor that the call made keep this record alive."""
        self._given += (weak_id_dict.put(tensor, self),)

    def outputs(self) -> Iterator[torch.Tensor]:
        """Yield the living tensors that keep this record alive."""
        for reference in self._given:
            tensor: torch.Tensor | None = reference()
            if tensor is not None and weak_id_dict.get(tensor) is self:
                yield tensor


class _EndingRecord(Record):
    """A record that does something when it dies.

    A chain of records is as deep as the graph, and Python frees chains by recursion. It ends at
    these, and one record in 16 is one; see `release`.
    """

    __slots__ = ()

    # Bound here, because the interpreter clears modules before it ends.
    def __del__(self, _empty: Callable[[list[Any]], None] = empty) -> None:
        self.thread.marked -= self.marks  # the marked nodes are freed
        held = list(self.parents)
        self.parents = ()
        _empty(held)


RECORDS = frozenset({Record, _EndingRecord})
"""The classes of records: to compare classes needs no call."""


def leaves_below(record: Record) -> tuple[frozenset[TensorRef], frozenset[TensorRef], bool]:
    """Return the leaves of an output, those its own graph reaches, and whether these are all."""
    order = [record]
    seen = {id(record)}
    direct: dict[TensorRef, None] = {}
    leaves: dict[TensorRef, None] = {}
    complete, leaves_read = True, 0
    for each in order:  # grows while we walk
        direct.update(dict.fromkeys(taken.tensor for taken in each.facts.leaves))
        for constant in each.facts.constants:
            for cut in constant.cuts:
                complete = complete and cut.complete and leaves_read < MOST_LEAVES
                if leaves_read < MOST_LEAVES:  # the nearest cut lists earlier ones' leaves, too
                    leaves_read += len(cut.leaves)
                    leaves.update(dict.fromkeys(cut.leaves))
            complete = complete and (constant.origin is None or constant.origin.complete)
        for parent in each.parents:
            if id(parent) in seen:
                continue
            if len(order) >= _MOST_CALLS:
                complete = False
                continue
            seen.add(id(parent))
            order.append(parent)
    found = {**direct, **leaves}
    if len(found) > MOST_LEAVES:
        found, complete = dict.fromkeys(list(found)[:MOST_LEAVES]), False
    return frozenset(found), frozenset(found.keys() & direct.keys()), complete


class ThreadRecords:
    """The living records of one thread, by the numbers of their nodes."""

    def __init__(self) -> None:
        self.alone = frozenset((self,))
        self._draw = random.Random(0).random  # not the user's generator
        self.last: Record | None = None  # an autograd.Function whose output is not yet seen
        self.taken: dict[int, LeafSnapshot] = {}  # by the id of the leaf; the id may be of another
        self._starts: list[int] = []
        self._records: list[weakref.ref[Record]] = []
        self._prune_at = 1024
        self.marked = 0  # nodes of living records
        self.ran: dict[int, ModuleRan] = {}  # by the ``id`` of modules, of the latest watch
        self.derivatives = 0  # calls of autograd.grad() and backward() under `watch`
        self._read: dict[tuple[str, SourceLine | None], Reading] = {}
        self._changed: dict[int, tuple[Change, ...]] = {}
        self._watched: list[tuple[int, float]] = []  # ranges of node numbers
        _threads.add(self)

    def keep_taken(self, snapshot: LeafSnapshot) -> None:
        """Keep the latest snapshot of a leaf for its next use, also in later watches."""
        if len(self.taken) >= _MOST_TAKEN:
            self.taken.clear()
        self.taken[snapshot.tensor.key] = snapshot

    def begin_watch(self, number: int) -> None:
        """Record that `watch` sees every call from a node number on."""
        if self._watched and self._watched[-1][1] >= number:  # no node was made in between
            number = self._watched.pop()[0]
        self._watched = [*self._watched[-_MOST_WATCHES:], (number, math.inf)]

    def end_watch(self, number: int) -> None:
        """Record that `watch` ended before a node number."""
        self._watched[-1] = self._watched[-1][0], number

    def was_watched(self, number: int) -> bool:
        """Return whether `watch` was on when this thread made a node."""
        return any(start <= number < end for start, end in self._watched)

    def add(self, facts: CallFacts, parents: tuple[Record, ...], log: CallLog) -> Record:
        """Make the record of a call; numbers only grow."""
        record = _EndingRecord() if self._draw() < _ENDING else Record()
        record.thread, record.facts, record.parents, record.marks = self, facts, parents, 0
        record.log, record.place, record._given = log, len(log.calls), ()
        threads = self.alone
        for parent in parents:
            if parent.threads is not threads and not parent.threads <= threads:
                threads |= parent.threads
        record.threads = threads
        start, starts = facts[0], self._starts
        if not starts or start >= starts[-1]:
            starts.append(start)
            self._records.append(weakref.ref(record))
            if len(starts) >= self._prune_at:
                self._prune()
        return record

    def find(self, number: int) -> Record | None:
        """Return the record of the call that made the node with this number."""
        at = bisect.bisect_right(self._starts, number) - 1
        record = self._records[at]() if at >= 0 else None
        return record if record is not None and number < record.facts.end else None

    def since(self, number: int) -> Iterator[Record]:
        """Yield the living records from this number on."""
        for reference in self._records[bisect.bisect_left(self._starts, number) :]:
            record = reference()
            if record is not None:
                yield record

    def may_mark(self, record: Record, number: int) -> bool:
        """Return whether a record may touch a node, given torch's current node number."""
        if self.marked >= _SPARE + number // _PER_NODE:
            return False
        self.marked += 1
        record.marks += 1
        record.__class__ = _EndingRecord
        return True

    def note_read(self, how: str, where: SourceLine | None, cuts: tuple[Cut, ...]) -> None:
        """Record that a line read values out of torch; only the latest lines are kept."""
        earlier = self._read.pop((how, where), None)
        known = [
            cut
            for cut in (earlier.cuts if earlier else ())
            if cut.source() is not None or any(leaf() is not None for leaf in cut.leaves)
        ]
        self._read[how, where] = Reading(how, where, merge_cuts([*cuts, *known])[0])
        while len(self._read) > _MOST_READ:
            del self._read[next(iter(self._read))]

    @property
    def read(self) -> Iterable[Reading]:
        """The lines that read values out of torch."""
        return tuple(self._read.values())

    def note_change(self, storage: int, change: Change) -> None:
        """Record an in-place change of a storage."""
        earlier = self._changed.pop(storage, ())
        self._changed[storage] = (*earlier, change)[-_MOST_CHANGES:]
        while len(self._changed) > _MOST_CHANGED:
            del self._changed[next(iter(self._changed))]

    def first_change(self, storage: int, since: int) -> Change | None:
        """Return the first in-place change of a storage after a node was made."""
        changes = self._changed.get(storage, ())
        return next((change for change in changes if change.number > since), None)

    def _prune(self) -> None:
        living = [
            (start, reference)
            for start, reference in zip(self._starts, self._records, strict=True)
            if reference() is not None
        ]
        self._starts = [start for start, _ in living]
        self._records = [reference for _, reference in living]
        self._prune_at = 2 * len(living) + 1024


_threads: weakref.WeakSet[ThreadRecords] = weakref.WeakSet()
_local = threading.local()


def reading_lines() -> list[Reading]:
    """Return the lines of all threads that read values out of torch under `watch`."""
    return [reading for thread in list(_threads) for reading in thread.read]


def ran_under_watch(captured: Capture) -> bool:
    """Return whether `watch` was on while any operation of a graph ran, seen or not."""
    numbers = [data["sequence_nr"] for data in captured.attributes.values() if data["kind"] == "op"]
    return any(thread.was_watched(number) for thread in list(_threads) for number in numbers)


def ran_with(tensor: torch.Tensor) -> bool:
    """Return whether a module ran in the latest watch of a thread that has a parameter."""
    for thread in list(_threads):
        for reference, held in list(thread.ran.values()):
            if id(tensor) in held and reference() is not None:
                return True
    return False


def modules_ran() -> Iterator[Any]:
    """Yield the living modules that ran in the latest watch of a thread."""
    for thread in list(_threads):
        for reference, _ in list(thread.ran.values()):
            module = reference()
            if module is not None:
                yield module


def has_watched() -> bool:
    """Return whether `watch` has been on in a thread that lives."""
    return any(thread._watched for thread in list(_threads))


def has_records() -> bool:
    """Return whether a record lives."""
    return next(living_records(), None) is not None


def living_records() -> Iterator[Record]:
    """Return every record that is still alive, of all threads."""
    return (record for thread in list(_threads) for record in thread.since(0))


def current_thread() -> ThreadRecords:
    """Return the records of the running thread."""
    try:
        found: ThreadRecords = _local.records
    except AttributeError:
        found = _local.records = ThreadRecords()
    return found


def mark(node: Any, record: Record) -> None:
    """Let a node hold its record: the node may outlive its tensor."""
    node.metadata[_MARK] = record


def threads_of(outputs: Iterable[torch.Tensor]) -> set[ThreadRecords]:
    """Return the records of the watched threads that made the graph of some tensors."""
    facts = [weak_id_dict.get(tensor) for tensor in outputs]
    return {thread for fact in facts if isinstance(fact, Record) for thread in fact.threads}


def records_in(captured: Capture) -> dict[int, Record]:
    """Return the records of the watched calls that made the operations of a graph, by node."""
    if not has_records():
        return {}
    threads = threads_of(
        tensor for known in captured.tensors.values() if (tensor := known()) is not None
    )
    classes = leaf_classes(captured.nodes)
    found: dict[int, Record] = {}
    others: set[ThreadRecords] = set()  # threads that did not make the graph
    for i, node in enumerate(captured.nodes):
        if type(node) in classes:
            continue
        record = find_record(node, threads)
        if record is not None:
            found[i] = record
        elif not threads:
            others |= _other_threads(node)
    return {i: record for i, record in found.items() if record.thread not in others}


def copied_numbers(tensor: torch.Tensor) -> Any:
    """Copy the numbers of a small tensor: to a list, or on its device to avoid a wait."""
    if type(tensor) not in PLAIN or tensor.numel() > MOST_COPIED:
        return None
    # Speed matters: this runs for every operand and every output.
    try:
        if why_unreadable(tensor) is None:
            return tensor.tolist() if tensor.is_cpu else tensor.detach().clone()
    except RuntimeError:  # some layouts cannot be listed
        pass
    return None


def find_record(node: Node, among: Collection[ThreadRecords] = ()) -> Record | None:
    """Return the record of the call that made a node; None if several threads match."""
    number = sequence_nr(node)
    for threads in [among] if among else [[current_thread()], list(_threads)]:
        records = (thread.find(number) for thread in threads)
        fitting = [each for each in records if each is not None and _fits(each, node)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _other_threads(node: Node) -> set[ThreadRecords]:
    """Return the threads whose record of a node's number is of a call with other leaves."""
    number = sequence_nr(node)
    return {
        thread
        for thread in list(_threads)
        if (record := thread.find(number)) is not None and _has_other_leaves(record, node)
    }


def find_source(cut: Cut, numbered: Callable[[], Mapping[int, Sequence[Node]]]) -> Edge | None:
    """Return the place, in its own graph, of the tensor that a cut started from.

    If the tensor is gone, its node is searched among those ``numbered`` by sequence number; nodes
    of several threads may share one. None if both are gone.
    """
    tensor = cut.source()
    if tensor is not None and tensor.requires_grad:
        # One of several views of a changed base, or a leaf seen from inside torch.func.
        with contextlib.suppress(RuntimeError, AttributeError):
            return gradient_edge(tensor)
    record = cut.made_by() if cut.made_by else None
    if record is None:
        return None
    for node in numbered().get(record.facts.end - 1, ()):
        if find_record(node, record.threads) is record:
            return node, cut.output_nr
    return None


def _has_other_leaves(record: Record, node: Node) -> bool:
    """Return whether a node takes a leaf that a recorded call did not take."""
    if isinstance(record.facts.function, type):  # what its forward uses is not known
        return False
    taken = {leaf.tensor.key for leaf in record.facts.leaves}
    leaves = (leaf_tensor(to) for to, _ in node.next_functions if to is not None)
    return any(leaf is not None and id(leaf) not in taken for leaf in leaves)


def _fits(record: Record, node: Any) -> bool:
    """Return whether a node may be of a call; two threads number their nodes alike."""
    if _has_other_leaves(record, node):
        return False
    if record.facts.function is torch.autograd.Function:  # one that returned its input
        return custom_function(node) is not None
    if isinstance(record.facts.function, type):
        return type(node).__name__ == f"{record.facts.function.__name__}Backward"
    if record.facts.output is None or record.facts.end - record.facts.start > 1:
        return True
    shape, dtype = record.facts.output
    try:
        for each in outputs_metadata(node):
            if each.dtype == dtype and tuple(each.shape) == shape:
                return True
    except RuntimeError:  # a nested tensor has no single shape
        return True
    return False
