"""Note which modules and functions a step called, so that it can be run again.

A call of an outermost module is one entry, and so is each torch function that the program calls
between a module and backward. An entry holds its arguments, without copies: for what an earlier
entry made, it holds that entry.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import nn
from torch.compiler import is_compiling, is_dynamo_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from ...torch_api.engine import is_within_pass
from ...torch_api.modes import is_tracing, lowest_mode, pop_mode, push_mode, unseen
from ...torch_api.reading import version_of
from ...tracing.operands import tensors_of
from ...tracing.source_line import SourceLine, here

_MOST_ENTRIES = 512  # of one step
_MOST_PASSES = 8  # of one step; of more, the latest

BACKWARDS = frozenset({torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad})
_WRAPPERS = ("torch.nn.parallel.", "torch.distributed.fsdp.fully_sharded_data_parallel")


class Held(NamedTuple):
    """A tensor that no entry made, and its version when it was used."""

    tensor: torch.Tensor
    version: int | None


class Ref(NamedTuple):
    """A tensor that an entry made."""

    entry: Entry
    place: int


@dataclass(eq=False)
class Entry:
    """A call of a module, or of a function of torch."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    where: SourceLine | None
    state: State
    number: int  # by the order of the calls


@dataclass(eq=False)
class Backward:
    """A backward pass of the step: its arguments, and the values of its losses."""

    is_grad: bool  # torch.autograd.grad
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    losses: list[torch.Tensor]


_KINDS = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


class State(NamedTuple):
    """The random state and autocast that a call ran under."""

    random: torch.Tensor | None
    devices: Sequence[torch.Tensor]
    autocast: tuple[tuple[str, torch.dtype], ...]  # where it is enabled

    @classmethod
    def now(cls, *, is_random: bool = True) -> State:
        """Read the state of this moment; that of random numbers only if they are drawn."""
        on_device = is_random and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return cls(
            torch.get_rng_state() if is_random else None,
            torch.cuda.get_rng_state_all() if on_device else (),
            tuple(
                (kind, torch.get_autocast_dtype(kind))
                for kind in _KINDS
                if torch.is_autocast_enabled(kind)
            ),
        )

    def set_random(self) -> None:
        """Put the random state back."""
        if self.random is not None:
            torch.set_rng_state(self.random)
        if self.devices:
            torch.cuda.set_rng_state_all(list(self.devices))


class Tape:
    """Notes the calls of this thread from `begin` to `end`, while it is not paused."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        """``failed``: is given what goes wrong, once."""
        self.entries: deque[list[Entry]] = deque([[]])  # of the latest steps
        self.passes: list[Backward] = []
        self.is_full = False  # the step had more entries than are noted
        self._failed = failed
        self._made: dict[int, tuple[ref[torch.Tensor], Ref]] = {}  # by the id of the tensor
        self._mode = _Mode(self)
        self._is_pushed, self._is_paused = False, True
        self._thread = threading.get_ident()
        self._inside: nn.Module | None = None
        self._depth = 0
        self._state = State.now()
        self._numbers = itertools.count()
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Note calls from now on, when it is not paused."""
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True),
        ]

    def end(self) -> None:
        """Note no more, and let go of everything."""
        self.pause()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.entries.clear()
        self.passes, self._made = [], {}

    def pause(self) -> None:
        """Note nothing until `resume`."""
        self._is_paused, self._inside = True, None
        self._pop()

    def resume(self, steps: int) -> None:
        """Begin a new step; keep the entries of ``steps`` steps, as many as take turns."""
        self._is_paused, self.is_full = False, False
        self.passes = []
        self.entries.append([])
        while len(self.entries) > max(steps, 1):
            self.entries.popleft()
        kept = {id(entry) for each in self.entries for entry in each}
        self._made = {
            key: found
            for key, found in self._made.items()
            if found[0]() is not None and id(found[1].entry) in kept
        }

    def noted(self, value: Any) -> Any:
        """Return a value with its tensors replaced by what is held for them."""
        return replaced(value, torch.Tensor, self._held)

    def _held(self, tensor: torch.Tensor) -> Held | Ref:
        found = self._made.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        return Held(tensor, version_of(tensor))

    def note(
        self,
        call: tuple[Any, tuple[Any, ...], Mapping[str, Any]],
        outputs: Sequence[torch.Tensor],
        *,
        where: SourceLine | None,
        state: State,
    ) -> None:
        """Note a call that made ``outputs``."""
        function, args, kwargs = call
        entries = self.entries[-1]
        if len(entries) >= _MOST_ENTRIES:
            self.is_full = True
            return
        entry = Entry(
            function, self.noted(args), self.noted(dict(kwargs)), where, state, next(self._numbers)
        )
        entries.append(entry)
        self._now_made(entry, outputs)

    def _now_made(self, entry: Entry, outputs: Sequence[torch.Tensor]) -> None:
        for place, tensor in enumerate(outputs):
            if tensor.grad_fn is not None:
                self._made[id(tensor)] = ref(tensor), Ref(entry, place)

    def _enter(self, module: nn.Module, _: Any) -> None:
        if is_dynamo_compiling() or self._is_paused:
            return
        if self._inside is not None:  # most calls
            self._depth += module is self._inside
        elif (
            torch.is_grad_enabled()
            and not is_compiling()
            and threading.get_ident() == self._thread
            and not is_within_pass()
            and not is_tracing()
            and not _is_wrapper(module)
        ):
            self._inside, self._depth = module, 1
            self._pop()
            self._state = State.now()

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if is_dynamo_compiling() or self._is_paused:
            return
        if module is self._inside:
            self._depth -= 1
            if not self._depth:
                self._inside = None
                with self._guarded():
                    made = list(tensors_in(output))
                    if any(tensor.grad_fn is not None for tensor in made):
                        self.note((module, args, kwargs), made, where=here(), state=self._state)
                        self._push()
        elif self._inside is None and self.entries[-1] and _is_wrapper(module):
            with self._guarded():
                self._now_made(self.entries[-1][-1], list(tensors_in(output)))

    def _guarded(self) -> _Guard:
        return _Guard(self)

    def _push(self) -> None:
        if not self._is_pushed:
            with lowest_mode(None):
                push_mode(self._mode)
            self._is_pushed = True

    def _pop(self) -> None:
        if self._is_pushed:
            self._is_pushed = False
            with lowest_mode(self._mode):
                pop_mode()


class _Guard:
    """Hides what we compute from the program's modes; an error ends the tape alone."""

    def __init__(self, tape: Tape) -> None:
        self._tape, self._unseen = tape, unseen()

    def __enter__(self) -> None:
        self._unseen.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self._unseen.__exit__(kind, error, traceback)
        if isinstance(error, Exception):
            self._tape._is_paused = True
            self._tape._failed(error)
            return True
        return False


class _Mode(TorchFunctionMode):
    """Sees the functions that the program calls between a module and a step."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` unchanged, and note it if it made a node."""
        tape = self._tape
        if is_compiling() or tape._is_paused or is_tracing():
            return func(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        if func in BACKWARDS:
            self._pass(func, args, kwargs)
        state = State.now(is_random=func in _DRAWING)
        result = func(*args, **kwargs)
        if isinstance(result, (torch.Tensor, tuple, list)) or func is torch.Tensor.__setitem__:
            with tape._guarded():
                made = tensors_of(args[0] if result is None else result)
                if any(each.grad_fn is not None for each in made):
                    tape.note((func, args, kwargs), made, where=here(), state=state)
        return result

    def _pass(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        tape = self._tape
        with tape._guarded():
            given = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            losses = [each.detach() for each in tensors_of(given) if each.numel() == 1]
            is_grad = func is torch.autograd.grad
            found = Backward(is_grad, tape.noted(args), tape.noted(dict(kwargs)), losses)
            tape.passes = [*tape.passes, found][-_MOST_PASSES:]


_DRAWING = frozenset(
    getattr(nn.functional, name)
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout", "rrelu", "gumbel_softmax")
) | {nn.functional.scaled_dot_product_attention}
"""Functions that draw random numbers."""


def _is_wrapper(module: nn.Module) -> bool:
    """Whether a module adds communication to another one: that one is run again alone."""
    return type(module).__module__.startswith(_WRAPPERS)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a result, in containers and in objects with fields."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors_in(vars(value))


def replaced(value: Any, kind: Any, by: Callable[[Any], Any]) -> Any:
    """Return a value of containers in which objects of a class are replaced."""
    if isinstance(value, kind):
        return by(value)
    if type(value) is dict:
        return {key: replaced(each, kind, by) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(each, kind, by) for each in value)
    is_named = isinstance(value, tuple) and hasattr(value, "__match_args__")
    if is_named and not hasattr(value, "n_sequence_fields"):  # which those of torch have
        # Not its constructor, which may ask the tensors: PackedSequence does.
        return tuple.__new__(type(value), [replaced(each, kind, by) for each in value])
    return value
