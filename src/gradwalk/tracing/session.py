"""Record what one thread's watch sees: calls and their results, cuts, constants and modules."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointFunction

from ..graph.capture import as_text
from ..torch_api.checkpoints import frame_here, saving_hooks
from ..torch_api.engine import next_sequence_nr
from ..torch_api.nodes import sequence_nr
from ..torch_api.reading import (
    base_of,
    shape_of,
    shares_memory,
    storage_id,
    version_of,
)
from . import records, steps, weak_id_dict
from .around_backward import AROUND_BACKWARD, Budget
from .both_runs import note_line
from .call import (
    Call,
    gave_back,
    gives_input_back,
    is_given,
    is_new_leaf,
    is_same_large,
    made_of,
)
from .call_log import READS, CallLog, LoggedCall, tensors_in_order, written
from .cuts import Change, Constant, Cut, Origin, UnrecordedSource, merge_cuts
from .double_backward import DerivativeCall, gives_constants, note_derivatives
from .module_path import ModuleStack, TensorRef
from .operands import (
    COLLECTIVES,
    DERIVATIVE,
    DETACH,
    NEVER_OPERANDS,
    NO_DERIVATIVE,
    SET_GRAD,
    TO_PYTHON,
    CallKind,
    Operand,
    ReadOut,
    changed_by,
    depends_on_values,
    how_cut,
    how_read,
    index_text,
    is_random,
    literal,
    may_change,
    operands,
    tensors_of,
)
from .records import (
    MOST_COPIED,
    RECORDS,
    CallFacts,
    LeafSnapshot,
    Record,
    copied_numbers,
    leaves_below,
)
from .running_function import running_function
from .source_line import SourceLine, here, line_at, own_line

_new: Any = tuple.__new__  # the constructor of a NamedTuple is a function in Python
Taken = tuple[tuple[Record, ...], tuple[LeafSnapshot, ...], tuple[Constant, ...], tuple[bool, ...]]
"""The parents, leaves, constants and ``needed_grad`` of a record."""
_NOTHING: Taken = (), (), (), ()

_entries = weak_id_dict.entries
_SHAPE = frozenset({int, bool})
_SETTINGS = NEVER_OPERANDS | {float}
_MOST_UNSEEN = 32  # sources of one tensor
_WHOLE = frozenset({"detach", "data", "copy", "item", "numpy"})  # the result equals the input


_MOST_IN_BACKWARD = 20_000  # nodes whose backward one watch records


class Session:
    """The state of one thread's watch."""

    def __init__(self) -> None:
        self._records = records.current_thread()
        self._records.ran = {}
        self.modules = ModuleStack(self._records.ran)
        self._records.last = None
        self._began = next_sequence_nr()
        self._records.begin_watch(self._began)
        self._region: SourceLine | None = None  # where grad mode was switched off
        self._read_out = ReadOut()
        self._last_was_used = True
        # By the id of the leaf, those with weak references, which no later watch should keep.
        self._taken_last: dict[int, LeafSnapshot] = {}
        self._budget = Budget(_MOST_IN_BACKWARD)
        self._log = CallLog()

    @contextmanager
    def around_backward(self, arguments: tuple[Any, ...]) -> Iterator[None]:
        """Surround a backward pass with what features add to it."""
        outputs = tensors_of(arguments[0])
        with contextlib.ExitStack() as stack:
            for each in AROUND_BACKWARD if outputs and self._budget.nodes > 0 else ():
                stack.enter_context(each(outputs, self._budget))
            yield
        self._log = CallLog()  # a page shows no more than one step

    def state_before(self, keywords: Mapping[str, Any] | None) -> torch.Tensor | None:
        """Return the state of the random numbers for the log, before a call that may draw some."""
        is_off = keywords and (keywords.get("training") is False or keywords.get("p") == 0)
        return None if is_off or self._log.is_full else torch.get_rng_state()

    def record_call(self, call: Call, kind: CallKind, result: Any) -> None:
        """Record a call that has returned."""
        if gave_back(call, kind, result):
            return
        noted = self._logged(call, kind)
        self._record_call(call, kind, result)
        if noted is not None:
            self._note_call(noted, call, kind, result)

    def _record_call(self, call: Call, kind: CallKind, result: Any) -> None:
        arguments, keywords = call.arguments, call.keywords
        if kind.differentiates and self._record_derivatives(call, result):
            return
        if kind.may_change or (keywords and may_change(keywords)):
            self._note_changes(call, kind)
        if kind.name in steps.NOTED:
            steps.note_call(kind.name, call.frame, arguments)
        makes_nodes = call.start < call.end
        if makes_nodes and type(result) is torch.Tensor and result.requires_grad:
            self._record_made(call, kind, (result,), result)  # most calls
            return
        outputs = [arguments[0]] if kind.name == "__setitem__" else tensors_of(result)
        if not outputs:
            self._record_read_out(kind.name, arguments, result)
            return
        if not torch.is_grad_enabled() and self._region is None and self._in_function(call):
            self._note_used(operands(arguments, keywords))
            return  # outputs of a Function get their node when it returns
        made = [output for output in outputs if output.requires_grad]
        free = [output for output in outputs if not output.requires_grad]
        if made and makes_nodes:
            self._record_made(call, kind, made, made[0] if len(outputs) == 1 else None)
        elif is_new_leaf(made, arguments):
            free += made
        if free:
            self._note_free(kind.name, operands(arguments, keywords), free)

    def record_only(self, call: Call, kind: CallKind, only: torch.Tensor) -> bool:
        """Record a call of a `CallKind.is_plain` that made nodes for its ``only`` plain tensor.

        Most calls are of this kind, so each step counts.

        Returns:
            False for a call that changed its operand: then `record_call` has to record it.
        """
        function, arguments, keywords, start, end, frame, random = call
        if (arguments and arguments[0] is only) or "out" in keywords or only.is_nested:
            return False
        given: list[Any] = []
        taken = self._taken_plainly(kind, arguments, keywords, given) or self._taken_by(
            call, kind, given
        )
        value = None if only.numel() > MOST_COPIED else copied_numbers(only)
        line = line_at(frame)
        gave = False, None, (only.shape, only.dtype), value
        record = self._add((start, end, function, line), taken, gave)
        token = weak_id_dict.put(only, record)
        record._given = (token,)
        log = self._log
        if not log.is_full:
            names = tuple(keywords) if keywords else ()
            noted = function, given, names, (token,), False, False, True, line, random
            log.note(noted, id(only), token)
        return True

    def _taken_plainly(
        self,
        kind: CallKind,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        given: list[Any],
    ) -> Taken | None:
        """Return what `_taken_by` does for tensors of recorded calls, parameters and numbers.

        None if there is another operand. It does the same in less time.
        """
        parents, leaves, needed = list[Record](), list[LeafSnapshot](), list[bool]()
        log, known = self._log, self._records.taken
        constants: tuple[Constant, ...] = ()
        number = literal(kind, arguments, keywords) if kind.takes_numbers else None
        if self._records.last is not None or self._read_out.has_numbers:
            return None
        for value in (*arguments, *keywords.values()) if keywords else arguments:
            cls = type(value)
            if cls in _SETTINGS:
                given.append(value)
                if number is not None and value is number[1]:
                    # A new object identifies a number of the program.
                    read = Origin(None, ())
                    constants = (Constant(number[0], (), cls.__name__, value, None, read),)
                    needed.append(False)
                    number = None
                continue
            found = _entries.get(id(value))
            if found is not None and type(found[1]) in RECORDS:
                parents.append(found[1])
                given.append(found[0])
                if found[1].log is not log:
                    log.follow(found[1].log)
            elif cls is torch.nn.Parameter and value.requires_grad:
                last = known.get(id(value))
                if last is None or not is_same_large(last, value):
                    last = self._taken(value)
                leaves.append(last)
                given.append(last)
            elif cls is tuple and _SHAPE.issuperset(map(type, value)):
                given.append(value)
                continue
            else:
                return None
            needed.append(True)
        return tuple(parents), tuple(leaves), constants, tuple(needed)

    def _logged(self, call: Call, kind: CallKind) -> LoggedCall | None:
        """Return a call for the log, before it is recorded; None if no page runs it again."""
        function, arguments, keywords, _, __, frame, random = call
        if self._log.is_full or kind.runs_backward:
            return None
        given = [written(each, self._instead) for each in (*arguments, *keywords.values())]
        if not tensors_of([arguments, tuple(keywords.values())]):
            return None  # what it gave comes from outside
        reads, grad_mode = kind.name in READS, torch.is_grad_enabled()
        names, line = tuple(keywords), line_at(frame)
        return LoggedCall(function, given, names, (), False, reads, grad_mode, line, random)

    def _note_call(self, noted: LoggedCall, call: Call, kind: CallKind, result: Any) -> None:
        """Log a call that gave or changed tensors, or read values."""
        changed = tensors_of(changed_by(kind, call.arguments, call.keywords))
        outputs = list(tensors_in_order(result)) or changed
        base = base_of(changed[0]) if changed else None
        if base is not None:
            outputs.append(base)
        if any(is_given(each) for each in (*outputs, *changed)):
            for each in changed if base is None else (*changed, base):
                self._log.forget(each)
            return
        self._log.note_outputs(noted._replace(has_base=base is not None), outputs)

    def _instead(self, tensor: torch.Tensor) -> Any:
        """Return what stands for a tensor in a logged call."""
        if tensor.requires_grad and tensor.is_leaf:
            return self._taken(tensor)
        found = _entries.get(id(tensor))
        reference: Any = None if found is None else found[0]
        noted: Any = None if found is None else found[1]
        log, is_recorded = self._log, type(noted) in RECORDS
        if is_recorded and noted.log is log:
            return reference
        token = log.token_of(tensor)
        if token is not None:
            return token
        if not is_recorded:
            return log.outside(tensor, self.modules.reference)
        log.follow(noted.log)
        return log.outside(tensor, self.modules.reference, reference)

    def _record_made(
        self, call: Call, kind: CallKind, made: Sequence[torch.Tensor], only: torch.Tensor | None
    ) -> None:
        """Record a call that made nodes for some outputs, and its ``only`` output if it has one."""
        function, arguments, _, start, end, frame, _ = call
        taken = self._taken_by(call, kind)
        inplace, base, place, output, value = False, None, None, None, None
        if arguments and any(each is arguments[0] for each in made):
            inplace, base = True, base_of(arguments[0])
        if base is None and kind.name == "__setitem__":  # a view has places of its own
            place = index_text(arguments[1])
        if only is not None:
            output = shape_of(only), only.dtype
            # Writing into a view makes more nodes, in an order that torch does not define.
            value = None if base is not None else copied_numbers(only)
        gave = inplace, place, output, value
        record = self._add((start, end, function, line_at(frame)), taken, gave)
        for each in made:
            # A parameter gets no weak reference: see `TensorRef`.
            if type(each) is torch.Tensor or not isinstance(each, torch.nn.Parameter):
                record.made(each)
        if base is not None:  # writing into a view gives the whole tensor a new node
            record.made(base)

    def _record_derivatives(self, call: Call, result: Any) -> bool:
        """Record a call that computed derivatives; return whether they are constants."""
        self._records.derivatives += 1
        numbers = call.start, call.end
        seen = DerivativeCall(call.function, call.arguments, call.keywords, result, numbers)
        note_derivatives(seen, here(), self.modules.reference, self._leaves_below)
        if not gives_constants(seen):
            return False
        self._note_free(DERIVATIVE, operands(call.arguments[:1], {}), tensors_of(result))
        return True

    def _note_free(self, name: str, inputs: list[Operand], outputs: list[torch.Tensor]) -> None:
        """Record the origin of outputs that need no grad."""
        for output in outputs:  # most calls have none
            how = how_cut(name, output)
            if how == NO_DERIVATIVE and not any(
                isinstance(each, torch.Tensor) and each.requires_grad for _, each in inputs
            ):
                how = None
            origin = self._origin(name, how, inputs, output, name in DETACH)
            if type(output) is torch.Tensor or not isinstance(output, torch.nn.Parameter):
                weak_id_dict.put(output, origin)

    def finish(self) -> None:
        """End the watch; let nodes hold records that would die before the graph."""
        number = next_sequence_nr()
        self._records.end_watch(number)
        if self._last_was_used:
            self._records.last = None
        made = list(self._records.since(self._began))
        parents = {id(parent) for record in made for parent in record.parents}
        for record in made:
            for tensor in () if id(record) in parents else record.outputs():
                if self._records.may_mark(record, number) and tensor.grad_fn is not None:
                    records.mark(tensor.grad_fn, record)

    def _taken_by(
        self, call: Call, kind: CallKind | None = None, given: list[Any] | None = None
    ) -> Taken:
        """Return the facts about the operands of a call; numbers count if its kind is given.

        ``given`` gets what stands for the operands in the log.
        """
        _, arguments, keywords, *_ = call
        number = literal(kind, arguments, keywords) if kind and kind.takes_numbers else None
        place = None if number is None else number[0]
        flat: Iterable[Operand]
        flat = [*enumerate(arguments), *keywords.items()] if keywords else enumerate(arguments)
        if given is not None:
            values = (*arguments, *keywords.values())
            given[:] = [written(each, self._instead) for each in values]
        taken = self._facts_of(flat, place)
        if taken is None:
            inputs = operands(arguments, keywords)
            if number and type(number[1]) is int:  # other calls ignore integers
                inputs.insert(0 if place == 0 else len(inputs), number)
            taken = self._facts_of(inputs, place)
        return taken or _NOTHING

    def _facts_of(self, inputs: Iterable[Operand], place: int | str | None) -> Taken | None:
        """Return the facts about operands; None if a list of them has to be unpacked first.

        A number of the program is at ``place``.
        """
        parents: list[Record] = []
        constants: list[Constant] = []
        leaves: list[LeafSnapshot] = []
        needed: list[bool] = []
        last, read_out = self._records.last, self._read_out
        for position, value in inputs:
            cls = type(value)
            if cls is torch.Tensor or isinstance(value, torch.Tensor):
                found = _entries.get(id(value))
                noted: Any = None if found is None else found[1]
                if last is not None and type(noted) not in RECORDS:
                    noted = self._made_by_last(value) or noted
                if type(noted) in RECORDS:
                    parents.append(noted)
                elif not value.requires_grad:
                    origin = noted or read_out.origin(value)
                    constants.append(self._constant(position, value, origin))
                    needed.append(False)
                    continue
                elif value.is_leaf:
                    leaves.append(self._taken(value))
                needed.append(True)
            elif position == place or (cls not in NEVER_OPERANDS and read_out.origin(value)):
                # A new object identifies a number of the program.
                read = read_out.origin(value) or Origin(None, ())
                constants.append(Constant(position, (), cls.__name__, value, None, read))
                needed.append(False)
            elif (cls is tuple or cls is list) and not _SHAPE.issuperset(map(type, value)):
                return None
        return tuple(parents), tuple(leaves), tuple(constants), tuple(needed)

    def _add(self, made: tuple[Any, ...], taken: Taken, gave: tuple[Any, ...]) -> Record:
        """Make the record of a call."""
        parents, leaves, constants, needed = taken
        records, frame = self._records, None if saving_hooks(True) is None else frame_here()
        if frame is not None:
            note_line(frame, made[3])
        where = self.modules.current, frame, leaves, constants, needed, records.derivatives
        return records.add(_new(CallFacts, (*made, *where, *gave)), parents, self._log)

    def _origin(
        self, name: str, how: str | None, inputs: list[Operand], output: Any, whole: bool
    ) -> Origin:
        """Return the origin of an output that needs no grad; ``whole`` if ``how`` holds for it."""
        where = here()
        cuts: list[Cut] = []
        sources: dict[UnrecordedSource, None] = {}
        direct, complete, random = False, True, is_random(name)
        for _, value in inputs:
            is_tensor = isinstance(value, torch.Tensor)
            noted = weak_id_dict.get(value)
            made_by = self._made_by(value) if is_tensor else None
            if value is output and isinstance(noted, Origin):
                where = noted.where  # changed in place, not made here
            if not depends_on_values(name):
                continue
            random = random or (isinstance(noted, Origin) and noted.is_random)
            if isinstance(noted, Origin):  # also a leaf that was made under `watch`
                cuts += noted.cuts if how is None else self._add_later_cause(how, where, noted.cuts)
                complete = complete and noted.complete
                sources.update(dict.fromkeys(noted.unrecorded))
            if is_tensor and (value.requires_grad or (made_by is not None and whole)):
                cuts += [self._cut(how, where, value, made_by)] if how else []
                direct = how in _WHOLE
            elif made_by is None and not isinstance(noted, Origin):
                read = self._read_out.origin(value)
                cuts += read.cuts if read else ()
                if is_tensor and read is None and shares_memory(value):
                    # functional_call() puts a tensor into a parameter's place only for the call.
                    is_kept = isinstance(value, torch.nn.Parameter)
                    known = self.modules.reference(value) if is_kept else TensorRef(value)
                    sources[UnrecordedSource(known, where)] = None
        few, are_all = merge_cuts(cuts)
        unrecorded = tuple(sources)
        are_all = complete and are_all and len(unrecorded) <= _MOST_UNSEEN
        direct = direct and len(cuts) == 1
        return Origin(where, few, direct, are_all, unrecorded[:_MOST_UNSEEN], random)

    def _add_later_cause(
        self, how: str, where: SourceLine | None, cuts: tuple[Cut, ...]
    ) -> Iterable[Cut]:
        """Add a call that loses gradient to the cuts of its operands."""
        if not cuts:
            return ()
        if how == "no_grad" and self._region is None:  # it may be the same unseen region
            return [cut if cut.how == how else cut.with_later_cause((how, where)) for cut in cuts]
        region = self._region if how == "no_grad" else None
        return [cut.with_later_cause((how, region or own_line() or where)) for cut in cuts]

    def _made_by(self, tensor: torch.Tensor) -> Record | None:
        """Return the record of the call that made a tensor, also of a Function's output."""
        noted = weak_id_dict.get(tensor)
        return noted if isinstance(noted, Record) else self._made_by_last(tensor)

    def _made_by_last(self, tensor: torch.Tensor) -> Record | None:
        last = self._records.last
        if last is None or tensor.is_leaf or not tensor.requires_grad:
            return None
        if self._records.may_mark(last, last.facts.end):  # reading grad_fn touches the node
            node = tensor.grad_fn
            if node is None or sequence_nr(node) != last.facts.start:
                return None
            last.made(tensor)
        self._last_was_used = True
        return last

    def _cut(
        self, how: str, where: SourceLine | None, source: torch.Tensor, made_by: Record | None
    ) -> Cut:
        own = own_line()
        if made_by is not None:
            leaves, direct, complete = leaves_below(made_by)
        else:
            leaves = direct = frozenset([self.modules.reference(source)] if source.is_leaf else [])
            complete = True
        return Cut(
            how=how,
            where=where,
            region=self._region if how == "no_grad" else None,
            shape=shape_of(source),
            source=self.modules.reference(source),
            made_by=weakref.ref(made_by) if made_by is not None else None,
            made=None if made_by is None else made_of(made_by),
            output_nr=source.output_nr,
            leaves=leaves,
            direct=direct,
            own=None if own == where else own,
            module=self.modules.current,
            complete=complete,
        )

    def _record_read_out(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        if name in SET_GRAD:
            if arguments and arguments[0]:
                self._region = None
            elif self._region is None and running_function() is None:
                self._region = here()
        elif name in COLLECTIVES:
            self._note_free(name, operands(arguments[1:], {}), tensors_of(arguments[:1]))
        elif name in TO_PYTHON and arguments:
            how = how_read(name)
            origin = self._origin(name, how, [(0, arguments[0])], None, False)
            if origin.cuts:
                self._records.note_read("numpy" if how == "numpy" else "item", here(), origin.cuts)
                self._read_out.note(arguments[0], result, origin)

    def _leaves_below(self, tensor: torch.Tensor) -> Iterable[TensorRef]:
        made_by = self._made_by(tensor)
        return () if made_by is None else leaves_below(made_by)[0]

    def _note_used(self, inputs: list[Operand]) -> None:
        """Record tensors with a gradient path that an ``autograd.Function`` uses in forward."""
        running = running_function()
        is_checkpoint = running is not None and running.function is CheckpointFunction
        for _, value in inputs:
            if not isinstance(value, torch.Tensor) or not value.requires_grad:
                continue
            if value.is_leaf or is_checkpoint:
                made_by = self._made_by(value) if is_checkpoint else None
                cut = self._cut("no_grad", here(), value, made_by)
                self._records.note_read(
                    "checkpoint" if is_checkpoint else "function", cut.where, (cut,)
                )

    def _note_changes(self, call: Call, kind: CallKind) -> None:
        changed = changed_by(kind, call.arguments, call.keywords)
        for tensor in tensors_of(changed) if changed else ():
            storage = storage_id(tensor)
            if storage is not None:
                change = Change(call.start, line_at(call.frame), kind.name)
                self._records.note_change(storage, change)

    def _in_function(self, call: Call) -> bool:
        """Return whether an ``autograd.Function`` runs its forward; record its call once.

        Its ``apply`` cannot be overridden, so its inner calls show it: grad mode is off although
        the user did not switch it off, and its node has the number before this one.
        """
        running = running_function()
        if running is not None:
            function, arguments, caller = running.function, running.arguments, running.caller
        elif gives_input_back(call):
            function, arguments, caller = torch.autograd.Function, call.arguments[:1], call.frame
        else:
            return False
        last = self._records.last
        if last is not None and last.facts.end == call.start:
            return True
        if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments):
            return True  # it makes no node, so the number before this one is another call's
        waiting = None if self._last_was_used else last
        taken = self._taken_by(call._replace(arguments=arguments, keywords={}))
        made = call.start - 1, call.start, function, line_at(caller)
        record = self._add(made, taken, (False, None, None, None))
        if waiting is not None:
            record.parents += (waiting,)
        self._records.last, self._last_was_used = record, False
        return True

    def _taken(self, leaf: torch.Tensor) -> LeafSnapshot:
        version, key = version_of(leaf), id(leaf)
        last = self._records.taken.get(key) or self._taken_last.get(key)
        is_large = leaf.numel() > MOST_COPIED
        value = copied_numbers(leaf) if not is_large and leaf.is_cpu else None
        # None, or one number; 0 and -0 must stay apart.
        if (
            last is not None
            and last.version == version
            and (last.value is value or (type(value) is float and value and last.value == value))
            and last.tensor() is leaf
        ):
            return last
        found = LeafSnapshot(self.modules.reference(leaf), version, value)
        if found.tensor.is_owned:
            self._records.keep_taken(found)
        else:
            self._taken_last[key] = found
        return found

    def _constant(
        self, position: int | str, tensor: torch.Tensor, origin: Origin | None
    ) -> Constant:
        return Constant(
            position,
            shape_of(tensor),
            as_text(tensor.dtype),
            copied_numbers(tensor) if tensor.is_cpu else None,
            self.modules.reference(tensor),
            origin,
        )
