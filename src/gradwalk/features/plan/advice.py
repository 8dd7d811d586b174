"""Choose the blocks to checkpoint for a budget of memory."""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ...amounts import Bytes, Flops
from ...english import plural
from ...result import make, returned_by
from .recorder import BACKWARD, ModuleRecord
from .run_step import Recorded

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True)
class Span:
    """A part of the forward pass that can be checkpointed: a block, or neighbours as one."""

    end: int  # the index of the first operation after it
    reached: int  # the index of its first operation in backward, before which it is recomputed
    freed: int  # bytes that are not kept between the two, less those of kept inputs
    # The most that live memory rises, while it is recomputed, above the operation before.
    rise: int
    # Floating-point operations of the recomputation, up to the last operation that saves.
    flops: int


def blocks_of(model: nn.Module, recorded: Recorded) -> list[dict[str, ModuleRecord]]:
    """Return the calls of the blocks that may be checkpointed, by name, in their order.

    Blocks are modules with modules inside. Those that are called once count, outside of compiled
    code.

    Returns:
        The outer blocks and, where they have repeated blocks inside as the stages of a ResNet have,
        those.
    """
    outer = [*_block_names(model, "")]
    inner = [name for block in outer for name in _blocks_in(model.get_submodule(block), block)]
    levels = [outer] if inner == outer else [outer, inner]
    return [_calls(set(names), recorded) for names in levels]


def _calls(names: set[str], recorded: Recorded) -> dict[str, ModuleRecord]:
    times = Counter(call.name for call in recorded.recorder.calls)
    return {
        call.name: call
        for call in recorded.recorder.calls
        if call.name in names and times[call.name] == 1 and call.end > call.start
        if not any(_within(call.name, c) or _within(c, call.name) for c in recorded.compiled)
    }


def _within(name: str, outer: str) -> bool:
    return not outer or name == outer or name.startswith(f"{outer}.")


def _block_names(module: nn.Module, name: str) -> Iterator[str]:
    """Yield the names of repeated modules, else of the outermost ones without repeated ones."""
    inner = list(_inner(module, name))
    kinds = Counter(type(each) for _, each in inner)
    for path, each in inner:
        if kinds[type(each)] > 1:
            yield path
        else:
            deeper = list(_block_names(each, path))
            yield from deeper or [path]


def _blocks_in(block: nn.Module, name: str) -> list[str]:
    """Return the names of the blocks that a list in a block has; the block's own without any."""
    lists = (*_CONTAINERS, nn.Sequential)
    opened = [each for each in block.named_children() if isinstance(each[1], lists)]
    found = [path for key, child in opened for path, _ in _inner(child, f"{name}.{key}")]
    return found or [name]


def _inner(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules inside of one that have modules inside; opens containers."""
    for key, child in module.named_children():
        path = f"{name}.{key}" if name else key
        children = list(child.children())
        is_open = isinstance(child, _CONTAINERS) or (
            isinstance(child, nn.Sequential) and any(list(each.children()) for each in children)
        )
        if is_open:
            yield from _inner(child, path)
        elif children:
            yield path, child


class Spans:
    """Measures parts of a recorded step."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.operations = recorded.recorder.operations
        self.curve = [each.live for each in self.operations]
        self._at_start = sum(held.sizes[0][1] for held in recorded.recorder.held if held.born < 0)
        # Bytes that are freed between an operation and the one before it.
        self._freed: Counter[int] = Counter()
        for held in recorded.recorder.held:
            if held.died is not None:
                self._freed[held.died] += held.bytes
        forward: dict[int, int] = {}  # sequence number -> index of the operation
        backward: dict[int, int] = {}
        for i, each in enumerate(self.operations):
            if each.sequence_nr is not None:
                first = backward if each.phase == BACKWARD else forward
                first.setdefault(each.sequence_nr, i)
        self._forward, self._backward = sorted(forward.items()), sorted(backward.items())

    def of(self, calls: Sequence[ModuleRecord]) -> Span | None:
        """Measure neighbouring calls as one part; None if checkpointing it frees nothing."""
        first, last = calls[0], calls[-1]
        low, high = first.sequence_nrs[0], last.sequence_nrs[1]
        end = self.recorded.forward_end - 1
        inside, outputs, saving = 0, 0, -1
        for held, numbers in self.recorded.kept:
            here = [number for number in numbers if low <= number < high]
            saving = max([saving, *here])
            if here and held in last.outputs and min(numbers) >= low:
                outputs += held.bytes_at(end)  # nothing else keeps it until it is made again
            if len(here) < len(numbers) or held.role or held in last.outputs:
                continue
            if here and first.start <= held.born < last.end:
                inside += held.bytes_at(end)
        lost = {id(held): held for held in first.inputs if not held.bytes_at(end)}
        freed = inside - sum(held.bytes_at(held.born) for held in lost.values())
        place = bisect_left(self._backward, (low, -1))
        after = [i for number, i in self._backward[place:] if number < high]
        if freed <= 0 or not after:
            return None
        stop = self._stop(saving, last.end)
        before = self.curve[first.start - 1] if first.start else self._at_start
        before -= self._freed[first.start]
        reached = min(after)
        most = max(self.curve[first.start : max(stop, first.start + 1)])
        rise = most - before - outputs - self._freed[reached]
        flops = sum(each.flops for each in self.operations[first.start : stop])
        return Span(last.end, reached, freed, rise, flops)

    def _stop(self, saving: int, end: int) -> int:
        """Return where recomputation stops: torch ends it when the last tensor is saved again."""
        place = bisect_left(self._forward, (saving, -1))
        if saving < 0 or place == len(self._forward):
            return end
        index = self._forward[place][1]
        saves_output = any(
            held.born == index and saving in numbers for held, numbers in self.recorded.kept
        )
        return index + 1 if saves_output else index


class Subsets:
    """Predicts the peak of a step for many choices of parts to checkpoint."""

    def __init__(self, curve: Sequence[int], spans: Sequence[Span]) -> None:
        """Cut the curve where a part ends or is reached; the most within each piece decides."""
        self._spans = spans
        edges = sorted({0, len(curve), *(s.end for s in spans), *(s.reached for s in spans)})
        pieces = [(a, b) for a, b in itertools.pairwise(edges) if a < b]
        self._most = torch.tensor([max(curve[a:b]) for a, b in pieces], dtype=torch.float64)
        self._free = self._freed([a for a, _ in pieces])
        before = [each.reached - 1 for each in spans]
        rises = [curve[i] + each.rise for i, each in zip(before, spans, strict=True)]
        self._recomputing = torch.tensor(rises, dtype=torch.float64)
        self._free_before = self._freed(before)
        self._flops = torch.tensor([each.flops for each in spans], dtype=torch.float64)

    def _freed(self, indices: Sequence[int]) -> torch.Tensor:
        """Return what each part frees at some operations: a row for each part."""
        rows = [[s.freed if s.end <= i < s.reached else 0 for i in indices] for s in self._spans]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(indices))

    def peaks(self, chosen: torch.Tensor) -> torch.Tensor:
        """Return the predicted peak of each choice: a row of zeros and ones for each."""
        chosen = chosen.double()
        during = (self._most - chosen @ self._free).amax(1)
        if not len(self._spans):
            return during
        again = self._recomputing - chosen @ self._free_before
        return torch.maximum(during, again.masked_fill(chosen == 0, 0).amax(1))

    def flops(self, chosen: torch.Tensor) -> torch.Tensor:
        """Return the recomputed floating-point operations of each choice."""
        return chosen.double() @ self._flops


_MOST_SUBSETS = 100_000
_ALL_SUBSETS = 12  # blocks


@dataclass(frozen=True)
class Segments:
    """Chen's rule for n blocks: checkpoint √n segments of √n blocks each."""

    count: int  # the number of segments
    peak: Bytes  # the predicted peak
    extra_flops: Flops  # floating-point operations that backward computes again


@returned_by("plan(...).advise(budget)")
@dataclass(frozen=True)
class Advice:
    """Which blocks to checkpoint so that a step fits a budget.

    Attributes:
        budget: The bytes that are there.
        blocks: The names of the modules to checkpoint.
        peak: The predicted peak with them; `Plan.apply` plans it exactly.
        peak_before: The peak without.
        extra_flops: Floating-point operations that backward computes again.
        fits: Whether the predicted peak is within the budget; None if it is within it, but a lower
            bound.
        code: The Python code that checkpoints them in a model called ``model``.
        chen: Chen's √n rule for the same blocks; None without blocks.
        notes: Blocks that the advice leaves alone, and warnings.
    """

    budget: Bytes
    blocks: tuple[str, ...]
    peak: Bytes
    peak_before: Bytes
    extra_flops: Flops
    fits: bool | None
    code: str
    chen: Segments | None
    notes: tuple[str, ...]

    def __str__(self) -> str:
        spare = Bytes(self.budget - self.peak)
        barely = "barely " if _is_tight(self.budget, self.peak) else ""
        verdict = {
            True: f"it {barely}fits in {self.budget} with {spare} to spare",
            False: f"it does not fit in {self.budget}",
            None: f"a lower bound, so whether it fits in {self.budget} is unknown",
        }[self.fits]
        lines = [
            f"Peak {self.peak_before} before, {self.peak} predicted: {verdict}.",
            f"Checkpoint {plural(len(self.blocks), 'block')}: {_short(self.blocks)}. "
            f"Backward computes {self.extra_flops} again."
            if self.blocks
            else "No block to checkpoint.",
        ]
        if self.chen is not None:
            lines.append(
                f"Chen's √n rule: {self.chen.count} segments, peak {self.chen.peak}, "
                f"{self.chen.extra_flops} again."
            )
        return "\n".join([*lines, *self.notes, *(["", self.code] if self.blocks else [])])


def advise(model: nn.Module, recorded: Recorded, budget: Bytes, given: object = None) -> Advice:
    """Choose the blocks that fit a budget at least cost, else those with the lowest peak."""
    measured = Spans(recorded)
    choices = [_chosen(measured, calls, budget) for calls in blocks_of(model, recorded)]
    best = min(choices, key=lambda each: (not each.fits, each.flops if each.fits else each.peak))
    before, code = Bytes(max(measured.curve)), code_for(best.blocks)
    chen = _chen(measured, best.calls) if best.calls else None
    notes = _notes(model, recorded, best.blocks)
    fits = None if best.fits and recorded.not_counted else best.fits
    notes = (*notes, *_budget_notes(budget, best.peak, given), *_lower_bound(recorded))
    found = budget, best.blocks, best.peak, before, best.flops, fits
    return make(Advice, *found, code, chen, notes)


@dataclass(frozen=True)
class _Choice:
    """The best choice among some blocks."""

    calls: Sequence[ModuleRecord]  # the calls of the blocks to choose from
    blocks: tuple[str, ...]  # the names of the chosen ones
    peak: Bytes
    flops: Flops
    fits: bool


def _chosen(measured: Spans, calls: Mapping[str, ModuleRecord], budget: Bytes) -> _Choice:
    """Choose among some blocks."""
    found = {name: measured.of([call]) for name, call in calls.items()}
    spans = {name: span for name, span in found.items() if span is not None}
    subsets = Subsets(measured.curve, list(spans.values()))
    choices = _choices(list(spans.values()))
    peaks, flops = subsets.peaks(choices), subsets.flops(choices)
    fitting = peaks <= budget
    worth = torch.where(fitting, flops, math.inf) if fitting.any() else peaks
    # Among equals the one with the lower peak, then with fewer blocks, then with earlier ones.
    best = min(
        torch.nonzero(worth == worth.min())[:, 0].tolist(),
        key=lambda i: (float(peaks[i]), float(flops[i]), int(choices[i].sum()), -i),
    )
    blocks = tuple(name for name, is_in in zip(spans, choices[best], strict=True) if is_in)
    cost = Bytes(peaks[best].item()), Flops(flops[best].item())
    return _Choice([calls[name] for name in spans], blocks, *cost, bool(fitting[best]))


def _choices(spans: Sequence[Span]) -> torch.Tensor:
    """Return the choices to compare: all of few blocks, else so many of each kind."""
    if len(spans) <= _ALL_SUBSETS:
        every = [*itertools.product((0, 1), repeat=len(spans))]
        return torch.tensor(every).reshape(len(every), len(spans))
    for digits in (6, 2, 1):
        kinds: dict[tuple[str, ...], list[int]] = {}
        for i, each in enumerate(spans):
            kind = tuple(f"{amount:.{digits - 1}e}" for amount in (each.freed, each.flops))
            kinds.setdefault(kind, []).append(i)
        if math.prod(len(group) + 1 for group in kinds.values()) <= _MOST_SUBSETS:
            break
    else:
        order = sorted(range(len(spans)), key=lambda i: spans[i].flops / spans[i].freed)
        kinds = {("all",): order}
    rows = []
    for counts in itertools.product(*(range(len(group) + 1) for group in kinds.values())):
        row = [0] * len(spans)
        for group, count in zip(kinds.values(), counts, strict=True):
            for i in group[:count]:
                row[i] = 1
        rows.append(row)
    return torch.tensor(rows)


def _chen(measured: Spans, calls: Sequence[ModuleRecord]) -> Segments:
    size = math.ceil(math.sqrt(len(calls)))
    parts = [calls[i : i + size] for i in range(0, len(calls), size)]
    spans = [span for part in parts if (span := measured.of(part)) is not None]
    subsets = Subsets(measured.curve, spans)
    every = torch.ones(1, len(spans))
    peak, flops = subsets.peaks(every).item(), subsets.flops(every).item()
    return Segments(len(spans), Bytes(peak), Flops(flops))


def _notes(model: nn.Module, recorded: Recorded, blocks: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if recorded.compiled:
        notes.append(
            f"Left alone: {_short(recorded.compiled)}. torch.compile chooses there what to "
            "recompute."
        )
    if blocks and recorded.has_cache:
        notes.append(
            "The model fills a cache of keys and values. A block that runs twice fills it twice, "
            "and the peak can be higher. Training needs no cache: in transformers, set "
            "model.config.use_cache = False."
        )
    inside = (module for name in blocks for module in model.get_submodule(name).modules())
    if any(getattr(module, "num_batches_tracked", None) is not None for module in inside):
        notes.append(
            "Batch norms in these blocks update their running statistics twice in each step."
        )
    return tuple(notes)


_TIGHT = 2**30
_LARGE = 4 * 2**30


def _is_tight(budget: Bytes, peak: Bytes) -> bool:
    """Whether a step fits a card, but what else is on a card may not fit beside it."""
    return 0 <= budget - peak < _TIGHT and budget > _LARGE


def _budget_notes(budget: Bytes, peak: Bytes, given: object) -> Iterator[str]:
    """Yield what to know about a budget that is a card's memory."""
    if _is_tight(budget, peak):
        yield (
            "On a GPU, less than 1 GiB to spare is little: the context of CUDA and the libraries' "
            "workspaces take memory, too."
        )
    unit = re.fullmatch(r"\s*([\d.]+)\s*gb?\s*", str(given), re.IGNORECASE)
    if unit is not None and budget > _LARGE:
        yield (
            f"{unit[1]} GB is {budget}. A card that is sold with {unit[1]} GB has about {unit[1]} "
            f"GiB: write '{unit[1]}GiB' for it."
        )


def _lower_bound(recorded: Recorded) -> Iterator[str]:
    for each in recorded.not_counted:
        yield f"{each} is not counted, so the peak is a lower bound."


def code_for(blocks: Sequence[str]) -> str:
    """Return Python code that checkpoints some modules of ``model``; "" for none."""
    if not blocks:
        return ""
    return (
        "from functools import partial\n"
        "from torch.utils.checkpoint import checkpoint\n\n"
        f"for name in {_as_python_list(blocks)}:\n"
        "    block = model.get_submodule(name)\n"
        "    block.forward = partial(checkpoint, block.forward, use_reentrant=False)\n"
    )


def _runs(names: Sequence[str]) -> Iterator[tuple[str, list[int], str]]:
    """Yield names that differ in one number only, as prefix, numbers and suffix."""
    split = [re.fullmatch(r"(.*?)(\d+)((?:\.\D[^.]*)*)", name) for name in names]
    keyed = [
        (m[1], m[3], int(m[2])) if m else (name, "", -1)
        for m, name in zip(split, names, strict=True)
    ]
    for (prefix, suffix), group in itertools.groupby(keyed, key=lambda each: each[:2]):
        yield prefix, [number for *_, number in group], suffix


def _as_python_list(names: Sequence[str]) -> str:
    """Write names as a Python list."""
    parts = []
    for prefix, numbers, suffix in _runs(names):
        if len(numbers) == 1:
            parts.append(f'"{prefix}{numbers[0] if numbers[0] >= 0 else ""}{suffix}"')
            continue
        is_range = numbers == list(range(numbers[0], numbers[-1] + 1))
        start = f"{numbers[0]}, " if numbers[0] else ""
        where = f"range({start}{numbers[-1] + 1})" if is_range else str(tuple(numbers))
        parts.append(f'*[f"{prefix}{{i}}{suffix}" for i in {where}]')
    is_one = len(parts) == 1 and parts[0].startswith("*")
    return parts[0][1:] if is_one else f"[{', '.join(parts)}]"


def _short(names: Sequence[str]) -> str:
    """Write many names on one line."""
    parts = []
    for prefix, numbers, suffix in _runs(names):
        is_range = numbers[1:] and numbers == list(range(numbers[0], numbers[-1] + 1))
        shown = f"{numbers[0]}…{numbers[-1]}" if is_range else ",".join(map(str, numbers))
        parts.append(f"{prefix}{shown if numbers[0] >= 0 else ''}{suffix}")
    return ", ".join(parts)


@contextmanager
def checkpointed(blocks: Sequence[str], model: nn.Module) -> Iterator[None]:
    """Return a context in which some modules of a model are checkpointed."""
    modules = [model.get_submodule(name) for name in blocks]
    for module in modules:
        forward: Callable[..., object] = partial(checkpoint, module.forward, use_reentrant=False)
        vars(module)["forward"] = forward
    try:
        yield
    finally:
        for module in modules:
            del vars(module)["forward"]
