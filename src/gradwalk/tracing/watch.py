"""`watch`: annotate the autograd graph during the forward pass that makes it."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction

from ..graph.capture import as_text
from ..torch_api.checkpoints import frame_here
from ..torch_api.engine import next_sequence_nr
from ..torch_api.modes import is_tracing, pop_mode, push_mode, top_mode, unseen, without_overrides
from ..torch_api.module_hooks import ModuleHooks
from ..torch_api.nodes import sequence_nr
from ..torch_api.reading import base_of, shape_of, shares_memory, storage_id, version_of
from . import failed_call, records, weak_id_dict
from .cuts import Change, Constant, Cut, Made, Origin, UnrecordedSource, merge_cuts
from .double_backward import DerivativeCall, differentiates, gives_constants, note_derivatives
from .module_path import ModuleStack, TensorRef
from .operands import (
    COLLECTIVES,
    DERIVATIVE,
    DETACH,
    NO_DERIVATIVE,
    SET_GRAD,
    TO_PYTHON,
    Operand,
    ReadOut,
    changed_by,
    depends_on_values,
    function_name,
    how_cut,
    how_read,
    index_text,
    is_random,
    literal,
    operands,
    tensors_of,
)
from .records import LeafSnapshot, Record, copied_numbers, leaves_below
from .running_function import running_function
from .source_line import SourceLine, SourceLines

_MOST_UNSEEN = 32  # sources of one tensor
_WHOLE = frozenset({"detach", "data", "copy", "item", "numpy"})  # the result equals the input


class Session:
    """The state of one thread's watch."""

    def __init__(self) -> None:
        self.modules = ModuleStack()
        self._records = records.current_thread()
        self._records.last = None
        self._began = next_sequence_nr()
        self._records.begin_watch(self._began)
        self._lines = SourceLines()
        self._region: SourceLine | None = None  # where grad mode was switched off
        self._read_out = ReadOut()
        self._last_was_used = True
        self._taken_last: dict[int, LeafSnapshot] = {}  # by the id of the leaf

    def record_call(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        result: Any,
        numbers: tuple[int, int],
    ) -> None:
        """Record a call that has returned; ``numbers`` of the next node, before and after it."""
        name = function_name(function)
        if differentiates(function) and self._record_derivatives(
            DerivativeCall(function, arguments, keywords, result, numbers)
        ):
            return
        outputs, place = tensors_of(result), None
        changed = arguments[0] if arguments and isinstance(arguments[0], torch.Tensor) else None
        if name == "__setitem__" and changed is not None:
            outputs, place = [changed], _assigned_place(changed, arguments[1])
        written = changed_by(function, name, arguments, keywords)
        if written:
            self._note_change(name, written, numbers[0])
        if not outputs:
            self._record_read_out(name, arguments, result)
            return
        if not torch.is_grad_enabled() and self._region is None and self._in_function(numbers[0]):
            self._note_used(operands(arguments, keywords))
            return  # outputs of a Function get their node when it returns
        made = [output for output in outputs if output.requires_grad]
        free = [output for output in outputs if not output.requires_grad]
        leaf = made[0] if len(made) == 1 and made[0].is_leaf and made[0] is not changed else None
        if not free and leaf is None and not (made and numbers[0] < numbers[1]):
            return
        inputs = operands(arguments, keywords)
        inplace = changed is not None and id(changed) in map(id, outputs)
        if made and numbers[0] < numbers[1]:
            number = literal(name, arguments, keywords)
            record = self._record(function, inputs, numbers, number)
            record.inplace = inplace
            record.place = place
            if len(outputs) == 1:
                _note_output(record, made[0])
            self._note_all(made, record)
        elif leaf is not None and not isinstance(weak_id_dict.get(leaf), Origin):
            free = [*free, leaf]  # torch.tensor(..., requires_grad=True)
        self._note_free(name, inputs, free)

    def _record_derivatives(self, call: DerivativeCall) -> bool:
        self._records.derivatives += 1
        note_derivatives(call, self._lines.here(), self.modules.reference, self._leaves_below)
        if gives_constants(call):
            given = operands(call.arguments[:1], {})
            self._note_free(DERIVATIVE, given, tensors_of(call.result))
            return True
        return False

    def _note_free(self, name: str, inputs: list[Operand], outputs: list[torch.Tensor]) -> None:
        """Record the origin of outputs that need no grad."""
        for output in outputs:  # most calls have none
            how = how_cut(name, output)
            if how == NO_DERIVATIVE and not any(
                isinstance(each, torch.Tensor) and each.requires_grad for _, each in inputs
            ):
                how = None
            origin = self._origin(name, how, inputs, output, name in DETACH)
            self._note_all([output], origin)

    def finish(self) -> None:
        """End the watch; let nodes hold records that would die before the graph."""
        number = next_sequence_nr()
        self._records.end_watch(number)
        if self._last_was_used:
            self._records.last = None
        if number == self._began:  # no node was made, as in most cells of a notebook
            return
        parents = {id(p) for record in self._records.since(self._began) for p in record.parents}
        for tensor, noted in weak_id_dict.items():
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
        inputs: list[Operand],
        numbers: tuple[int, int],
        written: Operand | None = None,
        where: SourceLine | None = None,
    ) -> Record:
        place = None if written is None else written[0]
        if written and type(written[1]) is int:  # other calls ignore integers
            inputs.insert(0 if place == 0 else len(inputs), written)
        parents: list[Record] = []
        constants: list[Constant] = []
        leaves: list[LeafSnapshot] = []
        needed: list[bool] = []
        for position, value in inputs:
            if not isinstance(value, torch.Tensor):
                read = self._read_out.origin(value)
                if read is None and place is not None and position == place:
                    read = Origin(None, ())  # a new object identifies the constant
                if read is not None:
                    kind = type(value).__name__
                    constants.append(Constant(position, (), kind, value, None, read))
                    needed.append(False)
                continue
            made_by = self._made_by(value)
            needed.append(made_by is not None or value.requires_grad)
            if made_by is not None:
                parents.append(made_by)
            elif not needed[-1]:
                origin = weak_id_dict.get(value) or self._read_out.origin(value)
                constants.append(self._constant(position, value, origin))
            elif value.is_leaf:
                leaves.append(self._taken(value))
        record = Record(
            self._records,
            *numbers,
            tuple(parents),
            function,
            self._lines.here() if where is None else where,
            self.modules.current,
            frame_here(),
            tuple(leaves),
            tuple(constants),
            tuple(needed),
        )
        self._records.add(record)
        return record

    def _origin(
        self, name: str, how: str | None, inputs: list[Operand], output: Any, whole: bool
    ) -> Origin:
        """Return the origin of an output that needs no grad; ``whole`` if ``how`` holds for it."""
        where = self._lines.here()
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
        return [cut.with_later_cause((how, region or self._lines.own() or where)) for cut in cuts]

    def _made_by(self, tensor: torch.Tensor) -> Record | None:
        """Return the record of the call that made a tensor, also of a Function's output."""
        noted = weak_id_dict.get(tensor)
        if isinstance(noted, Record):
            return noted
        last = self._records.last
        if last is None or tensor.is_leaf or not tensor.requires_grad:
            return None
        if self._records.may_mark(last, last.end):  # reading grad_fn touches the node
            node = tensor.grad_fn
            if node is None or sequence_nr(node) != last.start:
                return None
            weak_id_dict.put(tensor, last)
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
            shape=shape_of(source),
            source=self.modules.reference(source),
            made_by=weakref.ref(made_by) if made_by is not None else None,
            made=_made(made_by) if made_by is not None else None,
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
                self._region = self._lines.here()
        elif name in COLLECTIVES:
            self._note_free(name, operands(arguments[1:], {}), tensors_of(arguments[:1]))
        elif name in TO_PYTHON and arguments:
            how = how_read(name)
            origin = self._origin(name, how, [(0, arguments[0])], None, False)
            if origin.cuts:
                self._records.note_read(
                    "numpy" if how == "numpy" else "item", self._lines.here(), origin.cuts
                )
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
                cut = self._cut("no_grad", self._lines.here(), value, made_by)
                self._records.note_read(
                    "checkpoint" if is_checkpoint else "function", cut.where, (cut,)
                )

    def _note_change(self, name: str, changed: Any, number: int) -> None:
        where = self._lines.here()
        for tensor in tensors_of(changed):
            storage = storage_id(tensor)
            if storage is not None:
                self._records.note_change(storage, Change(number, where, name))

    def _in_function(self, number: int) -> bool:
        """Return whether an ``autograd.Function`` runs its forward; record its call once.

        Its ``apply`` cannot be overridden, so its inner calls show it: grad mode is off although
        the user did not switch it off, and its node has the number before this one.
        """
        running = running_function()
        if running is None:
            return False
        last = self._records.last
        function = running.function
        if last is not None and last.function is function and last.end == number:
            return True
        arguments = running.arguments
        if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments):
            return True  # it makes no node, so the number before this one is another call's
        waiting = None if self._last_was_used else last
        where, inputs = self._lines.at(running.caller), operands(arguments, {})
        record = self._record(function, inputs, (number - 1, number), where=where)
        if waiting is not None:
            record.parents += (waiting,)
        self._records.last, self._last_was_used = record, False
        return True

    def _note_all(self, outputs: list[torch.Tensor], noted: Record | Origin) -> None:
        for output in outputs:
            # A parameter gets no weak reference: see `ModuleStack.reference`.
            if type(output) is torch.Tensor or not isinstance(output, torch.nn.Parameter):
                weak_id_dict.put(output, noted)
            if isinstance(noted, Record) and noted.inplace:
                base = base_of(output)
                if base is not None:  # writing into a view gives the whole tensor a new node
                    weak_id_dict.put(base, noted)

    def _taken(self, leaf: torch.Tensor) -> LeafSnapshot:
        value = copied_numbers(leaf) if leaf.is_cpu else None
        last, version = self._taken_last.get(id(leaf)), version_of(leaf)
        # None, or one number; 0 and -0 must stay apart.
        if (
            last is not None
            and last.version == version
            and (last.value is value or (type(value) is float and value and last.value == value))
            and last.tensor() is leaf
        ):
            return last
        found = self._taken_last[id(leaf)] = LeafSnapshot(
            self.modules.reference(leaf), version, value
        )
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


def _assigned_place(tensor: torch.Tensor, index: Any) -> str | None:
    """Return the text of an index assigned to; None for a view, which has places of its own."""
    return index_text(index) if base_of(tensor) is None else None


def _made(record: Record) -> Made:
    is_only = len(record.needed_grad) == len(record.leaves) == 1
    leaf = record.leaves[0].tensor if is_only else None
    dtype = None if record.output is None else as_text(record.output[1])
    return Made(function_name(record.function), leaf, dtype, record.value)


def _note_output(record: Record, output: torch.Tensor) -> None:
    record.output = shape_of(output), output.dtype
    # Writing into a view makes more nodes, in an order that torch does not define.
    if not (record.inplace and base_of(output) is not None):
        record.value = copied_numbers(output)


# In eval mode they use other kernels, with other rounding, unless a mode is active.
_FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


class _Watcher(TorchFunctionMode):
    """Sees the calls and results of every torch function that this thread calls from Python."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.session = Session()
        self.paused_by: nn.Module | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` unchanged, and record the call."""
        kwargs = kwargs or {}
        # The compiler and the tracer must see only the call itself.
        if is_compiling() or is_tracing():
            return func(*args, **kwargs)
        before = next_sequence_nr()
        result = func(*args, **kwargs)
        numbers = before, next_sequence_nr()
        # Any tensor subclass may raise, and the user's program and modes must not notice.
        try:
            with without_overrides(), unseen():
                self.session.record_call(func, args, kwargs, result, numbers)
        except Exception:
            pass
        return result

    def pause(self, module: nn.Module) -> None:
        """Stop watching while a module runs that would compute or be traced differently."""
        if self.paused_by is None and top_mode() is self:
            self.paused_by = module
            pop_mode()

    def resume(self, module: nn.Module) -> None:
        """Watch again once that module has returned."""
        if self.paused_by is module:
            self.paused_by = None
            push_mode(self)


_local = threading.local()
_hooks_lock = threading.Lock()
_watching = 0  # threads


@contextmanager
def watch() -> Iterator[None]:
    """Annotate the operations of a forward pass while it runs.

    Inside the block gradwalk records, for every operation, the user's source line, the running
    module, the function's name, whether it works in place, the operands that need no grad, and
    where gradient was cut: ``detach()``, ``.data``, ``no_grad``, ``item()``, integers, copies.
    `gradwalk.GraphWidget`, `gradwalk.capture` and `gradwalk.explain_grad` show these records.
    Values, gradients, random state and the graph do not change. No tensor is kept alive, and the
    records are freed with the graph. If the block raises, `gradwalk.last_failure` keeps the inputs
    of the failing call until the next block begins. Blocks may be nested, and each thread watches
    only itself. In a notebook ``%load_ext gradwalk`` runs every cell in such a block.

    Functions compiled by ``torch.compile`` or TorchScript are not entered.

    Example::

        >>> from gradwalk import capture
        >>> import torch
        >>> from gradwalk import watch
        >>> w, c = torch.tensor([4.0], requires_grad=True), torch.tensor([2.0])
        >>> with watch():
        ...     y = w * c
        >>> [(data["kind"], data.get("value")) for _, data in capture(y).nodes(data=True)]
        [('op', None), ('leaf', None), ('constant', '[2]')]
    """
    if is_compiling():
        yield
        return
    if getattr(_local, "watcher", None) is not None:
        with _noting_failure():
            yield
        return
    _local.watcher = watcher = _Watcher()
    _install_hooks()
    push_mode(watcher)
    try:
        with _noting_failure():
            yield
    finally:
        if watcher.paused_by is None:
            pop_mode()
        _remove_hooks()
        _local.watcher = None
        with contextlib.suppress(Exception), without_overrides():
            watcher.session.finish()


@contextmanager
def _noting_failure() -> Iterator[None]:
    failed_call.keep(None)
    try:
        yield
    except Exception as error:
        failed_call.note(error, _Watcher.__torch_function__.__code__)
        raise


def _install_hooks() -> None:
    global _watching  # noqa: PLW0603
    with _hooks_lock:
        _watching += 1
        if _watching == 1:
            _hooks.switch_on()


def _remove_hooks() -> None:
    global _watching  # noqa: PLW0603
    with _hooks_lock:
        _watching -= 1
        if not _watching:
            _hooks.switch_off()


def _before(module: nn.Module, inputs: Any) -> None:
    watcher = _running()
    if watcher is not None:
        watcher.session.modules.enter(module)
        if is_tracing() or (isinstance(module, _FUSED) and _may_fuse(module, inputs)):
            watcher.pause(module)


def _after(module: nn.Module, _: Any, __: Any) -> None:
    watcher = _running()
    if watcher is not None:
        watcher.session.modules.leave(module)
        watcher.resume(module)


_hooks = ModuleHooks(_before, _after)


def _running() -> _Watcher | None:
    return None if is_compiling() else getattr(_local, "watcher", None)


def _may_fuse(module: nn.Module, inputs: Any) -> bool:
    if module.training:
        return False
    tensors = [*module.parameters(), *tensors_of(inputs)]
    with without_overrides():  # user modes must not see these queries
        return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
