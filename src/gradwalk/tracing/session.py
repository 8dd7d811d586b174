"""One thread's watch over the forward pass: from each call to a record, origins and cuts."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointFunction

from ..torch_api.checkpoints import frame_here
from ..torch_api.engine import next_sequence_nr
from ..torch_api.nodes import sequence_nr
from ..torch_api.reading import shares_memory, storage_id
from ..torch_api.tensors import base_of, version_of
from . import records
from . import weak_id_dict as weak_facts
from .cuts import Change, Constant, Cut, Origin, Unseen, combined
from .double_backward import Call, differentiates, gives_constants, note_derivatives
from .module_path import ModuleStack, TensorRef
from .operands import (
    DERIVATIVE,
    DETACH,
    SET_GRAD,
    TO_PYTHON,
    Operand,
    ReadOut,
    changed_by,
    depends_on_values,
    function_name,
    how_cut,
    how_read,
    is_random,
    literal,
    operands,
    tensors_of,
)
from .records import Record, Taken, copied_numbers, leaves_below
from .source_line import SourceLine, SourceLines, function_frame

_MOST_UNSEEN = 32  # tensors behind one
_WHOLE = frozenset({"detach", "data", "copy", "item", "numpy"})  # what is left is what went in


class Session:
    """What is known while one thread is watched.

    Attributes:
        modules: The running modules.
    """

    def __init__(self) -> None:
        self.modules = ModuleStack()
        self._records = records.of_this_thread()
        self._records.last = None
        self._began = next_sequence_nr()
        self._records.begin_watch(self._began)
        self._lines = SourceLines()
        self._region: SourceLine | None = None  # where grad mode was switched off
        self._read_out = ReadOut()
        self._last_was_used = True
        self._taken_last: dict[int, Taken] = {}  # by the id of a leaf that operations took

    def saw(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        result: Any,
        numbers: tuple[int, int],
    ) -> None:
        """Note one call that has just returned. No mode of the user's sees what is asked.

        Args:
            function: What was called.
            arguments: Its positional arguments.
            keywords: Its keyword arguments.
            result: What it returned.
            numbers: The number of the next autograd node, before the call and after it.
        """
        name = function_name(function)
        if differentiates(function) and self._saw_derivatives(
            Call(function, arguments, keywords, result, numbers)
        ):
            return
        outputs = tensors_of(result)
        changed = arguments[0] if arguments and isinstance(arguments[0], torch.Tensor) else None
        if name == "__setitem__" and changed is not None:
            outputs = [changed]
        written = changed_by(function, name, arguments, keywords)
        if written:
            self._note_change(name, written, numbers[0])
        if not outputs:
            self._saw_no_tensor(name, arguments, result)
            return
        if not torch.is_grad_enabled() and self._region is None and self._in_function(numbers[0]):
            self._note_used(operands(arguments, keywords))
            return  # what it makes is its own affair: its outputs get their node when it returns
        made, free = _parted(outputs)
        leaf = made[0] if len(made) == 1 and made[0].is_leaf and made[0] is not changed else None
        if not free and leaf is None and not (made and numbers[0] < numbers[1]):
            return
        going_in = operands(arguments, keywords)
        inplace = changed is not None and id(changed) in map(id, outputs)
        if made and numbers[0] < numbers[1]:
            number = literal(name, arguments, keywords)
            record = self._record(function, going_in, numbers, number)
            record.inplace = inplace
            if len(outputs) == 1:
                _note_output(record, made[0])
            self._note_all(made, record)
        elif leaf is not None and not isinstance(weak_facts.fact(leaf), Origin):
            free = [*free, leaf]  # torch.tensor(..., requires_grad=True)
        self._note_free(name, going_in, free)

    def _saw_derivatives(self, call: Call) -> bool:
        """Note derivatives, and say whether they are constants."""
        note_derivatives(call, self._lines.here(), self)
        if gives_constants(call):
            given = operands(call.arguments[:1], {})
            self._note_free(DERIVATIVE, given, tensors_of(call.result))
            return True
        return False

    def _note_free(self, name: str, going_in: list[Operand], outputs: list[torch.Tensor]) -> None:
        """Note where the outputs of a call came from that need no grad."""
        for output in outputs:
            how = how_cut(name, output)
            origin = self._origin(name, how, going_in, output, name in DETACH)
            self._note_all([output], origin)

    def finish(self) -> None:
        """End the watch: see to it that what was noted lives as long as the graph."""
        self._records.end_watch(next_sequence_nr())
        if self._last_was_used:
            self._records.last = None
        parents = {id(p) for record in self._records.since(self._began) for p in record.parents}
        number = next_sequence_nr()
        for tensor, noted in weak_facts.known():
            if (
                isinstance(noted, Record)
                and noted.thread is self._records
                and noted.start >= self._began
                and id(noted) not in parents
                and self._records.may_mark(noted, number)
                and tensor.grad_fn is not None
            ):
                records.mark(tensor.grad_fn, noted)

    def _record(
        self,
        function: Any,
        going_in: list[Operand],
        numbers: tuple[int, int],
        written: Operand | None = None,
    ) -> Record:
        place = None if written is None else written[0]
        if written and type(written[1]) is int:  # integers are no operands of other calls
            going_in.insert(0 if place == 0 else len(going_in), written)
        parents: list[Record] = []
        constants: list[Constant] = []
        leaves: list[Taken] = []
        needed: list[bool] = []
        for position, value in going_in:
            if not isinstance(value, torch.Tensor):
                read = self._read_out.origin(value)
                if read is None and place is not None and position == place:
                    read = Origin(None, ())  # its own: constants are told apart by it
                if read is not None:
                    constants.append(_number(position, value, read))
                    needed.append(False)
                continue
            made_by = self._made_by(value)
            needed.append(made_by is not None or value.requires_grad)
            if made_by is not None:
                parents.append(made_by)
            elif not needed[-1]:
                origin = weak_facts.fact(value) or self._read_out.origin(value)
                constants.append(self._constant(position, value, origin))
            elif value.is_leaf:
                leaves.append(self._taken(value))
        record = Record(self._records, numbers, tuple(parents), function)
        record.source = self._lines.here()
        record.module = self.modules.current
        record.frame = frame_here()
        record.leaves = tuple(leaves)
        record.constants = tuple(constants)
        record.needed_grad = tuple(needed)
        self._records.add(record)
        return record

    def _origin(
        self, name: str, how: str | None, going_in: list[Operand], output: Any, whole: bool
    ) -> Origin:
        """Where an output that needs no grad came from.

        Args:
            name: The bare name of the function.
            how: How gradient was lost, if it was.
            going_in: The operands.
            output: The output.
            whole: Whether ``how`` also holds for a tensor that was itself detached in place.
        """
        where = self._lines.here()
        cuts: list[Cut] = []
        unseen_before: dict[Unseen, None] = {}
        direct, complete, random = False, True, is_random(name)
        for _, value in going_in:
            is_tensor = isinstance(value, torch.Tensor)
            noted = weak_facts.fact(value)
            made_by = self._made_by(value) if is_tensor else None
            if value is output and isinstance(noted, Origin):
                where = noted.where  # changed in place, not made here
            if not depends_on_values(name):
                continue
            random = random or (isinstance(noted, Origin) and noted.is_random)
            if isinstance(noted, Origin):  # also of a leaf that was made while we watched
                cuts += noted.cuts if how is None else self._cut_again(how, where, noted.cuts)
                complete = complete and noted.complete
                unseen_before.update(dict.fromkeys(noted.unseen))
            if is_tensor and (value.requires_grad or (made_by is not None and whole)):
                cuts += [self._cut(how, where, value, made_by)] if how else []
                direct = how in _WHOLE
            elif made_by is None and not isinstance(noted, Origin):
                read = self._read_out.origin(value)
                cuts += read.cuts if read else ()
                if is_tensor and read is None and shares_memory(value):
                    # One that functional_call() puts in a parameter's place does not stay there.
                    is_kept = isinstance(value, torch.nn.Parameter)
                    known = self.modules.reference(value) if is_kept else TensorRef(value)
                    unseen_before[Unseen(known, where)] = None
        few, are_all = combined(cuts)
        unseen = tuple(unseen_before)
        are_all = complete and are_all and len(unseen) <= _MOST_UNSEEN
        direct = direct and len(cuts) == 1
        return Origin(where, few, direct, are_all, unseen[:_MOST_UNSEEN], random)

    def _cut_again(
        self, how: str, where: SourceLine | None, cuts: tuple[Cut, ...]
    ) -> Iterable[Cut]:
        """Cuts whose values a call takes that would lose their gradient, too."""
        if not cuts:
            return ()
        if how == "no_grad" and self._region is None:  # one region, for all that is known
            return [cut if cut.how == how else cut.cut_by((how, where)) for cut in cuts]
        region = self._region if how == "no_grad" else None
        return [cut.cut_by((how, region or self._lines.own() or where)) for cut in cuts]

    def _made_by(self, tensor: torch.Tensor) -> Record | None:
        """The record of the call that made a tensor.

        The output of an ``autograd.Function`` is not seen when it is made, only when it is used.
        """
        noted = weak_facts.fact(tensor)
        if isinstance(noted, Record):
            return noted
        last = self._records.last
        if last is None or tensor.is_leaf or not tensor.requires_grad:
            return None
        if self._records.may_mark(last, last.end):  # looking at a node is like marking it
            node = tensor.grad_fn
            if node is None or sequence_nr(node) != last.start:
                return None
            weak_facts.note(tensor, last)
        self._last_was_used = True
        return last

    def _cut(
        self, how: str, where: SourceLine | None, source: torch.Tensor, made_by: Record | None
    ) -> Cut:
        own = self._lines.own()
        if made_by is not None:
            leaves, direct, complete = leaves_below(made_by)
        else:
            leaves = direct = frozenset([self.modules.reference(source)] if source.is_leaf else [])
            complete = True
        return Cut(
            how=how,
            where=where,
            region=self._region if how == "no_grad" else None,
            shape=_shape(source),
            source=self.modules.reference(source),
            made_by=weakref.ref(made_by) if made_by is not None else None,
            output_nr=source.output_nr,
            leaves=leaves,
            direct=direct,
            own=None if own == where else own,
            module=self.modules.current,
            complete=complete,
        )

    def _saw_no_tensor(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        if name in SET_GRAD:
            if arguments and arguments[0]:
                self._region = None
            elif self._region is None and function_frame() is None:
                self._region = self._lines.here()
        elif name in TO_PYTHON and arguments:
            how = how_read(name)
            origin = self._origin(name, how, [(0, arguments[0])], None, False)
            if origin.cuts:
                self._records.note_read(
                    "numpy" if how == "numpy" else "item", self._lines.here(), origin.cuts
                )
                self._read_out.note(arguments[0], result, origin)

    def below(self, tensor: torch.Tensor) -> Iterable[TensorRef]:
        """The leaves that a tensor was computed from, as far as they are known."""
        made_by = self._made_by(tensor)
        return () if made_by is None else leaves_below(made_by)[0]

    def reference(self, tensor: torch.Tensor) -> TensorRef:
        """A weak reference to a tensor."""
        return self.modules.reference(tensor)

    def _note_used(self, going_in: list[Operand]) -> None:
        """Note tensors with a gradient path that the forward of an ``autograd.Function`` uses."""
        frame = function_frame()
        is_checkpoint = frame is not None and frame.f_locals["cls"] is CheckpointFunction
        for _, value in going_in:
            if not isinstance(value, torch.Tensor) or not value.requires_grad:
                continue
            if value.is_leaf or is_checkpoint:
                made_by = self._made_by(value) if is_checkpoint else None
                cut = self._cut("no_grad", self._lines.here(), value, made_by)
                self._records.note_read(
                    "checkpoint" if is_checkpoint else "function", cut.where, (cut,)
                )

    def _note_change(self, name: str, changed: Any, number: int) -> None:
        """Note which line changes tensors in place."""
        where = self._lines.here()
        for tensor in tensors_of(changed):
            storage = storage_id(tensor)
            if storage is not None:
                self._records.note_change(storage, Change(number, where, name))

    def _in_function(self, number: int) -> bool:
        """Whether an ``autograd.Function`` is running its forward; the first time, note its call.

        Its ``apply`` cannot be overridden, so it is known by what it calls: grad mode is off
        although nobody switched it off, and its node has the number before this one.
        """
        frame = function_frame()
        if frame is None:
            return False
        last = self._records.last
        function, arguments = frame.f_locals["cls"], frame.f_locals["args"]
        if last is not None and last.function is function and last.end == number:
            return True
        waiting = None if self._last_was_used else last
        record = self._record(function, operands(arguments, {}), (number - 1, number))
        record.source = self._lines.at(frame.f_back)
        if waiting is not None:
            record.parents += (waiting,)
        self._records.last, self._last_was_used = record, False
        return True

    def _note_all(self, outputs: list[torch.Tensor], noted: Record | Origin) -> None:
        for output in outputs:
            # A parameter has no weak reference: see `ModuleStack.reference`.
            if type(output) is torch.Tensor or not isinstance(output, torch.nn.Parameter):
                weak_facts.note(output, noted)
            if isinstance(noted, Record) and noted.inplace:
                base = base_of(output)
                if base is not None:  # writing into a view gives the whole tensor a new node
                    weak_facts.note(base, noted)

    def _taken(self, leaf: torch.Tensor) -> Taken:
        value = copied_numbers(leaf) if leaf.is_cpu else None
        last, version = self._taken_last.get(id(leaf)), version_of(leaf)
        # None, or one number; 0 is not told from -0 so.
        if (
            last is not None
            and last.version == version
            and (last.value is value or (type(value) is float and value and last.value == value))
            and last.tensor() is leaf
        ):
            return last
        found = self._taken_last[id(leaf)] = Taken(self.modules.reference(leaf), version, value)
        return found

    def _constant(
        self, position: int | str, tensor: torch.Tensor, origin: Origin | None
    ) -> Constant:
        return Constant(
            position,
            _shape(tensor),
            _text(tensor.dtype),
            copied_numbers(tensor) if tensor.is_cpu else None,
            self.modules.reference(tensor),
            origin,
        )


def _number(position: int | str, value: Any, origin: Origin) -> Constant:
    return Constant(position, (), type(value).__name__, value, None, origin)


def _parted(outputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The tensors that need grad, and the others."""
    made: list[torch.Tensor] = []
    free: list[torch.Tensor] = []
    for output in outputs:
        (made if output.requires_grad else free).append(output)
    return made, free


def _note_output(record: Record, output: torch.Tensor) -> None:
    """Note what a call gave."""
    record.output = _shape(output), output.dtype
    # Writing into a view makes more nodes, and which of them is last is torch's affair.
    if not (record.inplace and base_of(output) is not None):
        record.value = copied_numbers(output)


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return () if tensor.is_nested else tuple(tensor.shape)


_text = functools.cache(str)  # slow on a dtype, and there are few of them
