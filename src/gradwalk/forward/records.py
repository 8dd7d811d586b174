"""What a forward call left behind, found again by the numbers of the autograd nodes it made.

torch numbers autograd nodes consecutively per thread, and the counter can be read without touching
a node. So a call is remembered as the range of numbers it used up. The alternative, writing into
``node.metadata``, wraps every node in Python, and a deep chain of wrapped nodes crashes when it is
freed (see `release`).

Records mirror the graph: each holds those of its operands, and a tensor's record is held as long
as the tensor lives. So records die with the graph although no node knows them.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.autograd.graph import Node

from ..graph.nodes import outputs_metadata, sequence_nr
from ..graph.release import empty
from .module_path import ModuleCall, TensorRef
from .source_line import SourceLine

MOST_COPIED = 16
"""Numbers of a tensor that is copied when an operation takes it or gives it."""

_SPARE = 256  # nodes a thread may mark at any time
_PER_NODE = 100  # and one more for so many nodes made, so that marked chains stay shallow
_MARK = "gradwalk"
_MOST_CALLS = 512  # that are searched for leaves: a program may cut at every step of a long loop


@dataclass(frozen=True)
class Cut:
    """A place where a tensor that needs grad went in and what came out carries none.

    Attributes:
        how: "detach", "data", "no_grad", "inference_mode", "item", "numpy", "integer cast",
            "integer result" (a comparison, an argmax) or "copy" (``torch.tensor(t)``).
        where: The user's line that did it.
        region: For "no_grad", the line that switched grad mode off, when that was watched.
        shape: The shape of the tensor that went in.
        source: The tensor that went in, while it lives.
        made_by: The call that made it, while its graph lives; `find_source` reads it.
        output_nr: Which output of its node the tensor is.
        leaves: The leaves it was computed from, itself if it is one, nearest first, as far as that
            was watched and at most those of the 512 nearest calls. They outlive the graph between.
    """

    how: str
    where: SourceLine | None
    region: SourceLine | None
    shape: tuple[int, ...]
    source: TensorRef
    made_by: weakref.ref[Record] | None
    output_nr: int
    leaves: tuple[TensorRef, ...]


@dataclass(frozen=True)
class Origin:
    """Where a tensor that needs no grad came from.

    Attributes:
        where: The user's line that made it.
        cuts: Where gradient was lost on the way to it; empty when none ever could have come.
        direct: Whether it is itself what its cut left, not computed from that.
    """

    where: SourceLine | None
    cuts: tuple[Cut, ...]
    direct: bool = False


@dataclass(frozen=True)
class Constant:
    """An operand that needs no grad.

    Attributes:
        position: Where it stood in the call: 0 for the first argument ("self" of a method),
            a keyword, or "0[2]" for the third item of a list.
        shape: Its shape; ``()`` for a Python number.
        dtype: As torch prints it, "torch.float32"; "float" for a Python number.
        values: The numbers themselves, nested as ``tolist()`` gives them, of small tensors on the
            CPU at the time of the call; None for others.
        tensor: The tensor while it lives; None for a Python number.
        origin: Where it came from; None when that was not watched.
        argument: The name of the function's parameter, where torch names it.
        input_nr: Which of the node's forward inputs it is, where that is certain.
    """

    position: int | str
    shape: tuple[int, ...]
    dtype: str
    values: Any
    tensor: TensorRef | None
    origin: Origin | None
    argument: str | None = None
    input_nr: int | None = None

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Where gradient was lost on the way to it."""
        return self.origin.cuts if self.origin else ()


class Record:
    """One call that made autograd nodes.

    Attributes:
        start: The number of the first node it made.
        end: One more than the number of the last.
        thread: The records of the thread that made it.
        parents: The records of its operands, held so that they live as long as this one.
        threads: Every thread that made nodes below it.
        function: What was called; the class for an ``autograd.Function``.
        source: The user's line.
        module: The running module.
        inplace: Whether it changed one of its operands.
        constants: Its operands that need no grad.
        leaves: Its operands that are leaves and need grad, while they live.
        needed_grad: Of each operand, in the order of the call, whether it needed grad.
        output: Shape and dtype of its output, when it gave one.
        value: The numbers of that output when it has few: as ``tolist()`` gives them on the CPU, a
            copy on another device; None for others.
    """

    __slots__ = (
        "__weakref__",
        "constants",
        "end",
        "function",
        "inplace",
        "leaves",
        "module",
        "needed_grad",
        "output",
        "parents",
        "source",
        "start",
        "thread",
        "threads",
        "value",
    )

    def __init__(
        self,
        thread: ThreadRecords,
        numbers: tuple[int, int],
        parents: tuple[Record, ...],
        function: Any,
    ) -> None:
        self.thread = thread
        self.start, self.end = numbers
        self.parents = parents
        self.threads = thread.alone
        for parent in parents:
            if parent.threads is not self.threads and not parent.threads <= self.threads:
                self.threads |= parent.threads
        self.function = function
        self.source: SourceLine | None = None
        self.module: ModuleCall | None = None
        self.inplace = False
        self.constants: tuple[Constant, ...] = ()
        self.leaves: tuple[TensorRef, ...] = ()
        self.needed_grad: tuple[bool, ...] = ()
        self.output: tuple[Any, ...] | None = None
        self.value: Any = None

    # A chain of records is as deep as the graph, and Python frees chains by recursion.
    def __del__(self, _empty: Callable[[list[Any]], None] = empty) -> None:
        if self.parents:
            held = list(self.parents)
            self.parents = ()
            _empty(held)


def leaves_below(record: Record) -> tuple[TensorRef, ...]:
    """The leaves that a call's output was computed from, nearest first, of the nearest calls."""
    order = [record]
    seen = {id(record)}
    leaves: dict[int, TensorRef] = {}
    for each in order:  # grows while we walk
        leaves.update({id(leaf): leaf for leaf in each.leaves})
        for parent in each.parents:
            if id(parent) not in seen and len(order) < _MOST_CALLS:
                seen.add(id(parent))
                order.append(parent)
    return tuple(leaves.values())


class ThreadRecords:
    """The records of one thread that are still alive, by the numbers of their nodes."""

    def __init__(self) -> None:
        self.alone = frozenset((self,))
        self.last: Record | None = None  # an autograd.Function whose output was not seen yet
        self._starts: list[int] = []
        self._records: list[weakref.ref[Record]] = []
        self._prune_at = 1024
        self._marked = 0
        _threads.add(self)

    def add(self, record: Record) -> None:
        """Make a record findable; numbers only grow, so it belongs at the end."""
        if self._starts and record.start < self._starts[-1]:
            return
        self._starts.append(record.start)
        self._records.append(weakref.ref(record))
        if len(self._starts) >= self._prune_at:
            self._prune()

    def find(self, number: int) -> Record | None:
        """The record of the call that made the node of this number."""
        at = bisect.bisect_right(self._starts, number) - 1
        record = self._records[at]() if at >= 0 else None
        return record if record is not None and number < record.end else None

    def since(self, number: int) -> Iterator[Record]:
        """The living records from this number on."""
        for reference in self._records[bisect.bisect_left(self._starts, number) :]:
            record = reference()
            if record is not None:
                yield record

    def may_mark(self, number: int) -> bool:
        """Whether one more node may be touched when torch has arrived at this number."""
        if self._marked >= _SPARE + number // _PER_NODE:
            return False
        self._marked += 1
        return True

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


def any_alive() -> bool:
    """Whether anything that was watched is still there, in any thread."""
    return any(True for thread in list(_threads) for _ in thread.since(0))


def of_this_thread() -> ThreadRecords:
    """The records of the running thread."""
    try:
        found: ThreadRecords = _local.records
    except AttributeError:
        found = _local.records = ThreadRecords()
    return found


def mark(node: Any, record: Record) -> None:
    """Let a node hold its record, for when its tensor dies but what was computed from it lives."""
    node.metadata[_MARK] = record


def find_record(node: Node, among: Iterable[ThreadRecords] = ()) -> Record | None:
    """The record of the call that made a node.

    Args:
        node: An autograd node.
        among: The threads that may have made it. Without them the running thread is asked first,
            then all others.

    Returns:
        The record; None when there is none, or when several threads have one that fits.
    """
    number = sequence_nr(node)
    here = of_this_thread()
    threads = list(among) or list(_threads)
    if here in threads and not among:
        record = here.find(number)
        if record is not None and _fits(record, node):
            return record
    claims = [thread.find(number) for thread in threads]
    fitting = [record for record in claims if record is not None and _fits(record, node)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(record: Record, node: Any) -> bool:
    """Whether what is known of the call's output is true of the node."""
    if isinstance(record.function, type):
        return type(node).__name__ == f"{record.function.__name__}Backward"
    if record.output is None or record.end - record.start > 1:
        return True
    with contextlib.suppress(RuntimeError):  # a nested tensor has no one shape
        return any((tuple(m.shape), m.dtype) == record.output for m in outputs_metadata(node))
    return True
