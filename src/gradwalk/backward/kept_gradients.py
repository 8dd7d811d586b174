"""Keep the gradients of a pass within a memory budget.

Gradients are referred to, not copied; torch then makes a new tensor where it would add in place. A
gradient that torch moves into a leaf's ``.grad`` is copied; if it is large, only its norm is taken.
A user's hook may change a gradient, which torch's version counter shows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..schema.details import TensorSummary
from ..schema.json_values import json_number
from ..torch_api.dtensors import PLAIN, copied
from ..torch_api.reading import (
    PART,
    distinct,
    has_data,
    parts,
    stacked_norms,
    storage_id,
    version_of,
    why_unreadable,
)
from ..torch_api.summary import MOST_VALUES, Summarise, summarise, without_values
from .stolen import Memory, StolenGrads, has_memory, memory_of

_HALF = {torch.float16, torch.bfloat16}
_READ_AT_ONCE = {torch.float32, torch.float64}
_DTYPES_WITH_NORM = _HALF | _READ_AT_ONCE | {torch.complex64, torch.complex128}


@dataclass(frozen=True)
class Statistics:
    """Statistics of a gradient, left on its device so that backward does not wait."""

    norm: torch.Tensor
    # Its smallest value; None for complex numbers, as are the following.
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    nan: torch.Tensor | None = None  # the number of NaN values; None for none
    inf: torch.Tensor | None = None  # the number of infinite values; None for none


def has_norm(tensor: torch.Tensor) -> bool:
    """Return whether torch computes the norm of a tensor directly: its values are in memory."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.dtype in _DTYPES_WITH_NORM
        and why_unreadable(tensor) is None
    )


def norm_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the 2-norm of a tensor on its device; None if torch has none."""
    return _norm(*distinct(tensor)) if has_norm(tensor) else None


def _norm(once: torch.Tensor, repeats: int) -> torch.Tensor:
    norm: torch.Tensor
    if once.dtype in _HALF:
        # A sum of squares may overflow half precision; convert part by part.
        some = [torch.linalg.vector_norm(part, dtype=torch.float32) for part in parts(once)]
        norm = some[0] if len(some) == 1 else torch.linalg.vector_norm(torch.stack(some))
    else:
        norm = torch.linalg.vector_norm(once)
    return norm * math.sqrt(repeats) if repeats > 1 else norm


def statistics_of(tensor: torch.Tensor) -> Statistics:
    """Return the statistics of a tensor that `has_norm`."""
    once, repeats = distinct(tensor) if 0 in tensor.stride() else (tensor, 1)
    norm = _norm(once, repeats)
    if tensor.is_complex():
        return Statistics(norm)
    low, high = once.aminmax()
    if tensor.is_cpu and math.isfinite(norm.item()):  # reading another device would wait
        return Statistics(norm, low, high)
    nan = torch.stack([part.isnan().sum() for part in parts(once)]).sum() * repeats
    inf = torch.stack([part.isinf().sum() for part in parts(once)]).sum() * repeats
    return Statistics(norm, low, high, nan, inf)


def padded(statistics: Statistics) -> Statistics:
    """Return the statistics after padding with zeros."""
    low, high = statistics.low, statistics.high
    if low is None or high is None:
        return statistics
    return replace(statistics, low=low.clamp(max=0), high=high.clamp(min=0))


DEFAULT_BUDGET = 256 * 2**20
"""Bytes of large gradients kept per run; beyond that only their statistics are kept."""
LARGEST_COPY = 2**20
"""Gradients of a leaf up to this many bytes are copied when they become ``.grad``."""

_NOT_TAKEN = -1.0  # no norm is negative

CHANGED = (
    "This tensor was changed in place after it flowed here (by a hook or by the program), before "
    "its values were looked at: they are not known."
)


class KeptGradient:
    """A gradient as it was when it flowed."""

    __slots__ = ("_flowed", "_norm", "number", "statistics", "summary", "taken", "version")

    def __init__(
        self,
        flowed: torch.Tensor | None,
        version: int | None = None,
        *,
        summary: TensorSummary | None = None,
        statistics: Statistics | None = None,
        norm: torch.Tensor | None = None,
    ) -> None:
        """Refer to a gradient with its 2-norm, if taken; None if the budget was spent."""
        self._flowed = flowed
        self._norm: float | None = _NOT_TAKEN
        # The value of a 0-dimensional gradient, once `norms` has read it; else None.
        self.number: float | None = None
        self.summary = summary  # its summary without the values; None while the values are there
        self.statistics = statistics  # the numbers missing from ``summary``
        # Its 2-norm, on its device, if taken while the gradient flowed.
        self.taken = norm if statistics is None else statistics.norm
        if version is None:
            version = 0 if flowed is None else version_of(flowed)
        self.version = version  # how often it had been changed in place then

    @property
    def tensor(self) -> torch.Tensor | None:
        """Its values; None if the budget was spent or the tensor was changed."""
        flowed = self._flowed
        return None if flowed is None or version_of(flowed) != self.version else flowed

    @property
    def changed(self) -> bool:
        """Whether it has been changed in place since."""
        return self._flowed is not None and version_of(self._flowed) != self.version

    @property
    def was_changed(self) -> bool:
        """Whether it was changed in place after it flowed, before or after it was kept."""
        return self.changed or (self.summary is not None and self.summary["note"] == CHANGED)

    def is_of(self, grad: torch.Tensor, version: int) -> bool:
        """Return whether this is the gradient ``grad`` in that version."""
        return self._flowed is grad and self.version == version

    def hold(self, other: torch.Tensor) -> None:
        """Refer to another tensor that holds the same values."""
        self._flowed, self.version = other, version_of(other)

    def summarise(self, summarised: Summarise = summarise) -> TensorSummary:
        """Return a summary of the gradient, with a note if it was changed in place since."""
        if self._flowed is None:
            return self._without_values()
        summary = summarised(self._flowed)
        if not self.changed:
            return summary
        return {
            **summary,
            "note": "This tensor was changed in place after it flowed here (by a hook or by the "
            "program); the values are those it holds now.",
        }

    def _without_values(self) -> TensorSummary:
        assert self.summary is not None
        summary = self.summary.copy()
        if (found := self.statistics) is not None:
            summary["norm"] = json_number(found.norm.item())
            if found.low is not None and found.high is not None:
                summary["min"] = json_number(found.low.item())
                summary["max"] = json_number(found.high.item())
                summary["nan"] = 0 if found.nan is None else int(found.nan)
                summary["inf"] = 0 if found.inf is None else int(found.inf)
        return summary


class GradientStore:
    """The gradients of one run."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._storages: set[int] = set()
        # One node's grad_input is the next node's grad_output: one tensor, kept once.
        self._known: dict[int, KeptGradient] = {}
        self._spent: dict[int, tuple[weakref.ref[torch.Tensor], int, KeptGradient]] = {}
        # Views of one memory within one step hold the same numbers.
        self._at_hand: dict[Memory, KeptGradient] = {}
        self._norms: dict[tuple[Any, ...], torch.Tensor | None] = {}
        self._stolen = StolenGrads()
        self._by_memory: dict[Memory, list[KeptGradient]] = {}
        self._new: list[KeptGradient] = []  # of the current step

    @property
    def bytes_left(self) -> int:
        """Bytes that may still be kept."""
        return self._max_bytes - self._bytes

    def count(self, size: int) -> None:
        """Count bytes that other code keeps against the budget."""
        self._bytes += size

    def begin_step(self) -> None:
        """Start keeping the gradients of another node."""
        self._at_hand.clear()

    def keep(
        self, grad: torch.Tensor | None, version: int, in_large_leaf: bool
    ) -> KeptGradient | None:
        """Keep a gradient in the version that it had when it flowed.

        ``in_large_leaf`` says that it becomes the ``.grad`` of a leaf without a copy, because it
        is large: then the leaf keeps it alive.
        """
        if grad is None:
            return None
        known = self._known.get(id(grad))
        if known is not None and known.is_of(grad, version):
            return known
        spent = self._spent.get(id(grad))
        if spent is not None and spent[0]() is grad and spent[1] == version:
            return spent[2]
        try:
            copy = self._stolen.copy_of(grad, version)
            if copy is None and grad.layout is torch.sparse_coo:  # its values have a version each
                copy = copied(grad)
            if copy is None:
                kept = self._keep(grad, version, in_large_leaf)
            else:
                kept = self._keep(copy, version_of(copy), in_large_leaf)
        except Exception:  # a user's class may raise anywhere
            return KeptGradient(None, summary=summarise(grad))
        if kept.is_of(grad, version):
            self._known[id(grad)] = kept  # it holds the tensor, so the id stays valid
            self._new.append(kept)
        elif kept.statistics is not None or copy is not None:
            self._spent[id(grad)] = weakref.ref(grad), version, kept
            if kept.statistics is not None:
                self._at_hand[memory_of(grad)] = kept
        return kept

    def use_alias(self, grad: torch.Tensor, alias: torch.Tensor) -> None:
        """Refer to another tensor of the same memory in place of a gradient."""
        kept = self._known.pop(id(grad), None)
        if kept is not None and kept.is_of(grad, version_of(grad)):
            kept.hold(alias)

    def note_stolen(self, grad: torch.Tensor, copy: torch.Tensor) -> None:
        """Use the copy of a gradient that became a ``.grad``, until `forget_stolen`."""
        if type(grad) not in PLAIN or grad.layout is not torch.strided:
            return
        self._stolen.add(grad, version_of(grad), copy)
        if not self._new and not self._by_memory:
            return
        for kept in self._new:
            if (held := kept.tensor) is not None and has_memory(held):
                self._by_memory.setdefault(memory_of(held), []).append(kept)
        self._new.clear()
        for kept in self._by_memory.pop(memory_of(grad), ()):
            held = kept.tensor
            instead = None if held is None else self._stolen.copy_of(held, kept.version)
            if instead is not None:
                kept.hold(instead)

    def forget_stolen(self) -> None:
        """Forget the copies: all gradients seen so far are kept."""
        self._stolen = StolenGrads()

    def _keep(self, grad: torch.Tensor, version: int, in_large_leaf: bool) -> KeptGradient:
        if version_of(grad) == version and type(grad) in PLAIN and _is_small(grad):
            return KeptGradient(grad, version)
        storage = storage_id(grad)
        if storage is None:  # sparse, nested; or hidden by torch.func, without readable values
            hidden = grad.layout is torch.strided and not grad.is_nested
            summary = summarise(grad) if hidden else None
            return KeptGradient(None if hidden else grad, version, summary=summary)
        if version_of(grad) != version:
            summary = without_values(grad)
            summary["note"] = CHANGED
            return KeptGradient(None, summary=summary)
        if not has_data(grad):
            return KeptGradient(grad, version)
        size = grad.untyped_storage().nbytes()
        if grad.numel() <= MOST_VALUES:
            small = size <= MOST_VALUES * 64 or why_unreadable(grad) is not None
            return KeptGradient(grad, version) if small else KeptGradient(grad.clone())
        if in_large_leaf:
            return KeptGradient(grad, version, norm=self._norm_in_leaf(grad, version))
        if storage in self._storages:
            size = 0
        if self._bytes + size > self._max_bytes:
            return self.without_values(grad)
        self._bytes += size
        if size:
            self._storages.add(storage)
        return KeptGradient(grad, version)

    def _norm_in_leaf(self, grad: torch.Tensor, version: int) -> torch.Tensor | None:
        # An optimizer or clipping changes it in place right after the pass.
        if why_unreadable(grad) is not None:
            return None
        key = grad.data_ptr(), grad.shape, grad.stride(), grad.dtype, version
        if key not in self._norms:  # both the node that passes it on and the leaf see it
            self._norms[key] = norm_of(grad)
        return self._norms[key]

    def has_room(self, gradients: Iterable[torch.Tensor | None]) -> bool:
        """Count plain gradients that will be kept unchanged; return whether all fit the budget."""
        seen: set[int] = set()
        for grad in gradients:
            if grad is None or id(grad) in seen or grad.numel() <= MOST_VALUES:
                continue
            seen.add(id(grad))
            copy = self._stolen.copy_of(grad, version_of(grad))
            storage = storage_id(grad if copy is None else copy)
            if storage is None or storage in self._storages or not has_data(grad):
                continue
            size = grad.untyped_storage().nbytes()
            if self._bytes + size > self._max_bytes:
                return False
            self._bytes += size
            self._storages.add(storage)
        return True

    def without_values(self, grad: torch.Tensor) -> KeptGradient:
        """Return the statistics of a gradient alone."""
        if storage_id(grad) is None or why_unreadable(grad) is not None:
            return KeptGradient(None, summary=summarise(grad))
        summary = self.only_statistics(grad)
        if not has_norm(grad):
            return KeptGradient(None, summary=summary)
        alike = self._at_hand.get(memory_of(grad))
        found = alike.statistics if alike is not None else None
        return KeptGradient(None, summary=summary, statistics=found or statistics_of(grad))

    def only_statistics(self, grad: torch.Tensor) -> TensorSummary:
        """Return a summary without numbers."""
        summary = without_values(grad)
        summary["note"] = (
            "Only statistics were kept: the gradients of this backward pass exceed max_bytes, "
            f"{self._max_bytes / 2**20:.4g} MiB."
        )
        return summary


def _is_small(grad: torch.Tensor) -> bool:
    """Return whether a gradient is of a common kind and small, also in memory."""
    try:
        return (
            grad.numel() <= MOST_VALUES
            and grad.untyped_storage().nbytes() <= MOST_VALUES * 64
            and grad.layout is torch.strided
            and not grad.is_nested
        )
    except (NotImplementedError, RuntimeError):  # it has no single memory
        return False


def norms(kept: Sequence[KeptGradient | None]) -> list[float | None]:
    """Return the 2-norms of gradients, read once per device; None for unreadable ones."""
    missing = {id(each): each for each in kept if each is not None and each._norm == _NOT_TAKEN}
    groups: dict[tuple[torch.device, torch.dtype, bool], _Group] = {}
    for each in missing.values():
        taken = each.taken is not None
        like = each.tensor if each.taken is None else each.taken
        if like is None:
            each._norm = None if each.changed else _as_float(each.summarise()["norm"])
        elif has_norm(like):
            groups.setdefault((like.device, like.dtype, taken), []).append((each, like))
        else:
            each._norm = _as_float(each.summarise()["norm"])
    for (_, dtype, taken), group in groups.items():
        rest = _without_numbers(group) if dtype in _READ_AT_ONCE and not taken else group
        tensors = [tensor for _, tensor in rest]
        values = torch.stack(tensors).tolist() if taken else _norms(tensors)
        for (each, _), norm in zip(rest, values, strict=True):
            # The squares may overflow although the numbers do not: use float64.
            overflowed = (norm is None or math.isinf(norm)) and each.tensor is not None
            each._norm = _as_float(each.summarise()["norm"]) if overflowed else norm
    return [None if each is None else each._norm for each in kept]


_Group = list[tuple[KeptGradient, torch.Tensor]]


def _without_numbers(group: _Group) -> _Group:
    """Read gradients of a single number, whose norm is the absolute value; return the others."""
    rest: _Group = []
    ones: _Group = []
    for one in group:
        (ones if one[1].dim() == 0 and type(one[1]) in PLAIN else rest).append(one)
    try:
        numbers = torch.stack([tensor for _, tensor in ones]).tolist() if ones else ()
    except (RuntimeError, NotImplementedError):  # hidden by torch.func
        return group
    for (each, _), number in zip(ones, numbers, strict=True):
        each.number, each._norm = number, abs(number)
    return rest


def _norms(tensors: list[torch.Tensor]) -> list[float | None]:
    """Return the norms of tensors of one dtype on one device; None where torch refuses."""
    if not tensors:
        return []
    narrow = tensors[0].itemsize < 4
    found: list[float | None] = [None] * len(tensors)
    places: dict[tuple[int, ...], list[int]] = {}
    at_once: list[torch.Tensor] = []
    apart: dict[int, torch.Tensor] = {}
    for i, tensor in enumerate(tensors):
        if (narrow and tensor.numel() > PART) or 0 in tensor.stride():
            norm = norm_of(tensor)
            if norm is not None:
                apart[i] = norm
            continue
        # A contiguous tensor and its views of the same size hold the same numbers.
        key = (tensor.data_ptr(), tensor.numel()) if tensor.is_contiguous() else (i,)
        if key not in places:
            at_once.append(tensor)
        places.setdefault(key, []).append(i)
    try:
        wide = torch.float32 if narrow else None
        taken = stacked_norms(at_once, wide).tolist() if at_once else []
        values = [*taken, *(torch.stack([*apart.values()]).tolist() if apart else ())]
    except RuntimeError:  # a tensor subclass may refuse any operation
        return found
    for at, value in zip([*places.values(), *([i] for i in apart)], values, strict=True):
        for i in at:
            found[i] = value
    return found


def _as_float(number: float | str | None) -> float | None:
    return None if number is None else float(number)
