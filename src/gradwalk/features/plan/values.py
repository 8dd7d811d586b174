"""Values of small tensors in a step on fake tensors, and stated assumptions where there are none.

Fake tensors have no values, and programs ask for some: the mask of a batch, the length of a
sequence, whether all numbers are finite. Small integers, booleans and a few floating-point numbers
are therefore kept as real tensors beside the fake ones. Each operation whose operands are all known
runs on them, too.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...torch_api.fake_tensors import (
    active_fake_mode,
    data_dependent,
    handling_mode,
    tensors_in,
    tree_leaves,
    tree_map,
)
from ...torch_api.modes import unseen
from ...torch_api.reading import has_data, is_fake_kind, key_of
from ...torch_api.signatures import schema_of, written_arguments
from ...tracing.source_line import SourceLine, is_library, line_at, line_of, shown_file
from .kernels import add_missing_memory, arranged

_MOST_BYTES = 2**24  # of a known tensor of integers or booleans
_MOST_FLOAT_BYTES = 2**10  # of one that is there before the step
_MOST_MADE_BYTES = 2**20  # of floating-point numbers that are made of known values
_MOST_KNOWN = 2**29  # bytes of all known tensors
_MOST_STAND_IN = 2**28  # bytes of the operands of an operation that runs for the size of its result
_MOST_TIMES = 1000  # of one assumption: a loop may wait for another answer


@dataclass(frozen=True)
class Assumption:
    """A value that a step asked for and that is not known."""

    line: SourceLine | None  # the line that asked
    value: bool | float  # what it was taken as

    def __str__(self) -> str:
        if self.line is None:
            place = "A line of torch"
        else:
            place = f"{shown_file(self.line.file)}:{self.line.line} ({self.line.text})"
        return f"{place} reads a value of a tensor, which is taken as {self.value}."


class _Memory:
    """The real memory of a known storage.

    Attributes:
        is_valid: Whether its values are up to date.
        storage: The memory.
    """

    def __init__(self, storage: torch.UntypedStorage, values: Values) -> None:
        self.is_valid = True
        self.storage = storage
        self._size, self._values = storage.nbytes(), values
        values.known_bytes += self._size

    def __del__(self) -> None:
        self._values.known_bytes -= self._size


class Values:
    """The known values of fake tensors.

    Attributes:
        assumptions: The assumptions, with how often each was made, in order.
        answers: The number of assumed booleans.
        is_blind: Whether an assumption has no reason: nothing speaks for the value.
        unknown_memory: Memory that the recorded sizes lack, each as the start of a sentence.
        known_bytes: Bytes of the known tensors.
        is_paused: Whether operations are not followed.
    """

    def __init__(self, mode: Any, flipped: Iterable[int] = ()) -> None:
        """``flipped``: the numbers of the booleans that are the opposite of what is likely."""
        self.assumptions: Counter[Assumption] = Counter()
        self.answers = 0
        self.is_blind = False
        self.unknown_memory: dict[str, None] = {}
        self.known_bytes = 0
        self.is_paused = False
        self._mode = mode
        self._flipped = frozenset(flipped)
        # By the id of a fake tensor: a reference to it, the real tensor and its memory.
        self._known: dict[int, tuple[Any, torch.Tensor, _Memory]] = {}
        self._memories: Any = weakref.WeakValueDictionary()  # by the key of a fake storage
        self._likely: dict[int, tuple[Any, bool]] = {}  # booleans by the id of a fake tensor
        self._written: dict[int, torch.Tensor] = {}  # real tensors that the step writes to

    def keeping(self) -> Any:
        """Return a mode in which values are kept; it belongs inside of the fake mode."""
        return handling_mode(self._run)

    def know(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Copy the values of a real tensor for its fake, if it is small."""
        if not has_data(real) or not self._is_small(real):
            return
        known = self._memories.get(key_of(fake.untyped_storage()))
        with unseen(), torch.no_grad():
            if known is None:
                memory = real.untyped_storage().cpu()  # type: ignore[no-untyped-call]
                memory = memory.clone() if real.device.type == "cpu" else memory
            else:
                memory = known.storage
            place: Any = memory, real.storage_offset(), real.shape, real.stride()
            copy = torch.empty(0, dtype=real.dtype, device="cpu").set_(*place)
        self._keep(fake, copy)

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the real tensor of a fake one, or None."""
        if not is_fake_kind(type(tensor)):
            return self._of_real(tensor)
        found = self._known.get(id(tensor))
        return found[1] if found and found[0]() is tensor and found[2].is_valid else None

    def _of_real(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return a copy of a small real tensor that the program holds."""
        if id(tensor) in self._written or not has_data(tensor) or not _is_plain(tensor):
            return None
        most = _MOST_FLOAT_BYTES if tensor.is_floating_point() else _MOST_BYTES
        if tensor.numel() * tensor.element_size() > most:
            return None
        with unseen(), torch.no_grad():
            return tensor.detach().cpu().clone()

    def _is_small(self, tensor: torch.Tensor, most_float: int = _MOST_FLOAT_BYTES) -> bool:
        most = most_float if tensor.is_floating_point() else _MOST_BYTES
        return _is_plain(tensor) and tensor.untyped_storage().nbytes() <= most

    def _keep(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        key = key_of(fake.untyped_storage())
        memory = self._memories.get(key)
        if memory is None:
            storage = real.untyped_storage()
            if self.known_bytes + storage.nbytes() > _MOST_KNOWN:
                return
            memory = self._memories[key] = _Memory(storage, self)
        number = id(fake)

        def forget(_: Any) -> None:
            self._known.pop(number, None)

        self._known[number] = weakref.ref(fake, forget), real, memory

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation on fake tensors, and on the known values."""
        # A sharded tensor works out its shapes under a fake mode of its own.
        if self.is_paused or active_fake_mode() is not self._mode:
            return func(*args, **kwargs)
        operands = tensors_in((args, kwargs))
        try:
            result = func(*args, **kwargs)
        except data_dependent() as raised:
            error = raised
        else:
            return self._ended(func, args, kwargs, result)
        try:
            return self._answer(func, args, kwargs, operands, error)
        finally:
            _forget_frames(error)
            del error  # its frames hold this one

    def _ended(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        """Return the result with the memory of the real one, and keep its values."""
        result = arranged(func, args, result)
        missing = add_missing_memory(func, args, kwargs, result)
        if missing is not None:
            self.unknown_memory[missing] = None
        made = tensors_in(result)
        if written_arguments(func):
            written = written_tensors(func, args, kwargs)
            is_small = all(self._is_small(each, _MOST_MADE_BYTES) for each in written)
            if not (is_small and self._compute(func, args, kwargs, result)):
                self._forget(written)
        elif made and all(self._is_small(each, _MOST_MADE_BYTES) for each in made):
            known = self._compute(func, args, kwargs, result)
            if not known and made[0].dtype is torch.bool:
                self._note_likely(func, args, made[0])
        return result

    def _compute(self, func: Any, args: Any, kwargs: Any, result: Any) -> bool:
        """Run an operation on real tensors, if all operands are known; whether it ran."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            return False
        written = written_tensors(func, args, kwargs)
        if any(not is_fake_kind(type(each)) for each in written):
            return False
        real: dict[int, torch.Tensor] = {}
        for each in tensors_in((args, kwargs)):
            value = self.of(each)
            if value is None:
                return False
            real[id(each)] = value
        try:
            computed = _run_really(func, args, kwargs, real)
        except Exception:  # such as an operation that the CPU lacks
            return False
        for fake, value in zip(tree_leaves(result), tree_leaves(computed), strict=True):
            is_pair = isinstance(value, torch.Tensor) and is_fake_kind(type(fake))
            if is_pair and fake.shape == value.shape and fake.dtype == value.dtype:
                self._keep(fake, value)
        return True

    def _forget(self, written: Iterable[torch.Tensor]) -> None:
        for each in written:
            if not is_fake_kind(type(each)):
                self._written[id(each)] = each
            elif each.layout is torch.strided:
                memory = self._memories.get(key_of(each.untyped_storage()))
                if memory is not None:
                    memory.is_valid = False

    # ---- Answers

    def _answer(
        self, func: Any, args: Any, kwargs: Any, operands: list[torch.Tensor], error: Exception
    ) -> Any:
        """Return the result of an operation that needs values, or raise its error."""
        known = {id(each): value for each in operands if (value := self.of(each)) is not None}
        if len(known) == len(operands):
            return self._made(_run_really(func, args, kwargs, known), operands, is_known=True)
        assumed = self._assumed(func, operands)
        if assumed is not None:
            return self._state(assumed, error)
        exact = [each for each in operands if not each.is_floating_point()]
        others = [each for each in operands if id(each) not in known]
        size = sum(each.numel() * each.element_size() for each in others)
        if not exact or any(id(each) not in known for each in exact) or size > _MOST_STAND_IN:
            raise error
        stand_ins = {id(each): _zeros_like(each) for each in others}
        result = _run_really(func, args, kwargs, {**known, **stand_ins})
        return self._made(result, operands, is_known=False)

    def _made(self, result: Any, operands: list[torch.Tensor], *, is_known: bool) -> Any:
        """Return fake tensors with the memory of real results."""
        device = operands[0].device if operands else torch.device("cpu")

        def fake(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            made = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=device
            )
            made.untyped_storage().resize_(value.untyped_storage().nbytes())
            if is_known and self._is_small(made):
                self._keep(made, value)
            return made

        with torch.no_grad():
            return tree_map(fake, result)

    def _assumed(self, func: Any, operands: list[torch.Tensor]) -> bool | float | None:
        """Return the likely value of a number that is not known; None for an integer."""
        if func in (torch.ops.aten.equal.default, torch.ops.aten.allclose.default):
            return True
        if func is not torch.ops.aten._local_scalar_dense.default:
            return None
        (operand,) = operands
        likely = self._likely_value(operand)
        if operand.dtype is not torch.bool and not operand.is_floating_point():
            return None
        self.is_blind |= likely is None
        return 1.0 if operand.dtype is not torch.bool else likely or False

    def _state(self, value: bool | float, error: Exception) -> bool | float:
        if isinstance(value, bool):
            value = value != (self.answers in self._flipped)
            self.answers += 1
        assumption = Assumption(_asking_line(), value)
        self.assumptions[assumption] += 1
        if self.assumptions[assumption] > _MOST_TIMES:
            raise error
        return value

    def _likely_value(self, tensor: Any) -> bool | None:
        found = self._likely.get(id(tensor))
        return found[1] if found and found[0]() is tensor else None

    def _note_likely(self, func: Any, args: Any, made: torch.Tensor) -> None:
        """Remember the likely value of booleans: numbers are finite, and guards pass."""
        likely = _RULES.get(func.overloadpacket, _same)(self._likely_value, args)
        if likely is not None:
            number = id(made)

            def forget(_: Any) -> None:
                self._likely.pop(number, None)

            self._likely[number] = weakref.ref(made, forget), likely


_PLACE = str(Path(__file__).parent)


def _asking_line() -> SourceLine | None:
    """Return the line that asks for a value: the user's, else that of torch's module or optimizer.

    torch's own steps, such as an optimizer's, run below a line of gradwalk.
    """
    frame, of_torch = sys._getframe(1).f_back, None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PLACE):
            if of_torch is not None:
                return line_of(of_torch.f_code, of_torch.f_lasti, of_torch.f_lineno)
        elif not is_library(file):
            return line_at(frame)
        elif of_torch is None and _is_public(file):
            of_torch = frame
        frame = frame.f_back
    return None


def _is_public(file: str) -> bool:
    """Whether a file of torch holds modules, optimizers or distributions."""
    return any(f"{os.sep}torch{os.sep}{each}{os.sep}" in file for each in _PUBLIC)


_PUBLIC = ("optim", "nn", "distributions", "ao")


def _forget_frames(error: BaseException | None) -> None:
    """Release the tensors that the frames of an error hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_complex() and not tensor.is_quantized


def written_tensors(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Return the tensors that an operation writes to."""
    names = written_arguments(func)
    if not names:
        return []
    given = dict(zip((each.name for each in schema_of(func).arguments), args, strict=False))
    given.update(kwargs)
    return tensors_in([given.get(name) for name in names])


def _run_really(func: Any, args: Any, kwargs: Any, real: dict[int, torch.Tensor]) -> Any:
    """Run an operation on the CPU with real tensors in place of its operands."""

    def replaced(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return real[id(value)] if isinstance(value, torch.Tensor) else value

    args, kwargs = tree_map(replaced, (args, kwargs))
    with unseen(), torch.no_grad():
        return func(*args, **kwargs)


def _zeros_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros that take the memory of one number."""
    with unseen():
        return torch.zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)


# ---- Rules for likely booleans

Likely = Callable[[Any], "bool | None"]


def _same(likely: Likely, args: Any) -> bool | None:
    """A view or a copy of booleans."""
    return likely(args[0]) if args else None


def _compared(is_equal: bool, _: Likely, args: Any) -> bool | None:
    """A number is equal to itself unless it is NaN, and it is not infinite."""
    left, right = args[:2]
    if left is right:
        return is_equal
    if isinstance(right, float) and math.isinf(right):
        return not is_equal
    return None


def _reduced(default: bool, likely: Likely, args: Any) -> bool:
    found = likely(args[0])
    return default if found is None else found


def _negated(likely: Likely, args: Any) -> bool | None:
    found = likely(args[0])
    return None if found is None else not found


def _both(likely: Likely, args: Any) -> bool | None:
    found = [likely(each) for each in args[:2]]
    return False if False in found else True if found == [True, True] else None


def _either(likely: Likely, args: Any) -> bool | None:
    found = [likely(each) for each in args[:2]]
    return True if True in found else False if found == [False, False] else None


def _never(*_: Any) -> bool:
    return False


def _unknown(*_: Any) -> None:
    return None


def _rules() -> dict[Any, Callable[[Likely, Any], bool | None]]:
    aten = torch.ops.aten
    every, some = functools.partial(_reduced, True), functools.partial(_reduced, False)
    return {
        aten.eq: functools.partial(_compared, True),
        aten.ne: functools.partial(_compared, False),
        **dict.fromkeys((aten.isnan, aten.isinf, aten.isposinf, aten.isneginf), _never),
        **dict.fromkeys((aten.all, torch.ops.aten._is_all_true), every),
        **dict.fromkeys((aten.any, torch.ops.aten._is_any_true), some),
        **dict.fromkeys((aten.logical_not, aten.bitwise_not), _negated),
        **dict.fromkeys((aten.logical_and, aten.bitwise_and, aten.mul), _both),
        **dict.fromkeys((aten.logical_or, aten.bitwise_or), _either),
        **dict.fromkeys((aten.lt, aten.le, aten.gt, aten.ge, aten.logical_xor), _unknown),
        **dict.fromkeys((aten.where, aten.cat, aten.bitwise_xor), _unknown),
    }


_RULES = _rules()
