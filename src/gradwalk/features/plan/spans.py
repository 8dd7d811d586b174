"""What checkpointing some blocks of a recorded step frees, and what it costs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

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
    found = [
        path
        for key, child in block.named_children()
        if isinstance(child, (*_CONTAINERS, nn.Sequential))
        for path, _ in _inner(child, f"{name}.{key}")
    ]
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
        pieces = [(a, b) for a, b in pairwise(edges) if a < b]
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
