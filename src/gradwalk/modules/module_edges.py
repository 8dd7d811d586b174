"""Where a module's call begins and ends among the operations around those that are certain."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .module_tree import ModuleKind, ModuleTree
from .plumbing import is_plumbing
from .program_order import Program


@dataclass
class Gap:
    """What ran between two operations that consume parameters.

    Attributes:
        first: The place of its first operation.
        last: One more than the place of its last; nothing is left between when they are equal.
        home: The innermost module around both ends.
        left: The modules that are left, innermost first: (path, where their call began).
        entered: The modules that are entered, outermost first: (path, where their call ends).
    """

    first: int
    last: int
    home: str
    left: list[tuple[str, int]] = field(default_factory=list)
    entered: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """One end of a module's call.

    Attributes:
        path: The module.
        far: Where the other end is: the first of the places that are certain, or the last.
        low: The first place that nobody has claimed yet.
        high: One more than the last such place.
        gap: What it borders on.
    """

    path: str
    far: int
    low: int
    high: int
    gap: Gap


_ACTIVATIONS = (
    "Relu", "Gelu", "Silu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "Hardtanh", "Hardswish",
    "Softplus",
)  # fmt: skip

_GATES = ("Sigmoid", "Tanh", "Relu", "Mul", "Add", "Sub", "Rsub", "Split", "UnsafeSplit", "Unbind")


class Edges:
    """Finds the first and the last operations of modules' calls."""

    def __init__(self, program: Program, tree: ModuleTree) -> None:
        self.program = program
        self.tree = tree
        self._likeness = functools.cache(tree.likeness)
        self._compared: set[str] = set()  # modules whose ends are known from others of their kind

    def tails(self, exits: Sequence[End]) -> list[list[str]]:
        """Of the operations after each module's certain ones, those that are still its own.

        Returns:
            For each exit, the modules of the first free operations: the one that is left, or, of a
            sequence, its children.
        """
        shared = self._shared(exits, before=False)
        self._compared |= {e.path for e, n in zip(exits, shared, strict=True) if n is not None}
        return [self._tail(end, common) for end, common in zip(exits, shared, strict=True)]

    def heads(self, entries: Sequence[End]) -> list[list[str]]:
        """Of the operations before each module's certain ones, those that are already its own.

        Returns:
            For each entry, the modules of the last free operations, as for `tails`.
        """
        least: dict[Any, int] = {}
        for end, common in zip(entries, self._shared(entries, before=True), strict=True):
            if common is not None:
                key, count = self._likeness(end.path), self._head_count(end, common)
                least[key] = min(count, least.get(key, count))
        return [self._head(end, least.get(self._likeness(end.path))) for end in entries]

    def _shared(self, ends: Sequence[End], *, before: bool) -> list[int | None]:
        """How many operations all calls of modules of one kind have in common at one end.

        That tells something only where such modules stand in different surroundings: None if not.
        """
        groups: dict[Any, list[int]] = defaultdict(list)
        for i, end in enumerate(ends):
            if self.tree.kind(end.path) == "custom":
                groups[self._likeness(end.path)].append(i)
        found: list[int | None] = [None] * len(ends)
        for group in groups.values():
            if len({self._surroundings(ends[i], before=before) for i in group}) < 2:
                continue
            borders = [self.program.ops[ends[i].low : ends[i].high] for i in group]
            common = _common([ops[::-1] for ops in borders] if before else borders)
            for i in group:
                found[i] = common
        return found

    def _surroundings(self, end: End, *, before: bool) -> Any:
        """What a module stands beside, named so that copies of the module around look the same."""
        around, _, name = end.path.rpartition(".")
        neighbours = end.gap.left if before else end.gap.entered
        beside = None
        if around == end.gap.home and neighbours:
            outermost = neighbours[-1][0] if before else neighbours[0][0]
            beside = outermost.rpartition(".")[2]
        return self._likeness(around), name, beside

    def _tail(self, end: End, common: int | None) -> list[str]:
        kind = self.tree.kind(end.path)
        if kind == "list" or end.low >= end.high:
            return []
        if kind == "sequence":
            left = [path for path, _ in end.gap.left]
            children = self._between(end.path, left[left.index(end.path) - 1], None)
            return self._align(end.path, children, range(end.low, end.high))
        return [end.path] * self._tail_count(end, kind, common)

    def _tail_count(self, end: End, kind: ModuleKind, common: int | None) -> int:
        if kind == "standard":
            if self.tree.is_recurrent(end.path):
                return self._recurrent_tail(end)
            return self._layer_tail(end)
        valid = self._valid(end)
        strong, weak = self._evidence(end, valid, gates=False)
        count = max(strong, common or 0, self._run_by_children(end, valid))
        if end.path.rpartition(".")[2].isdigit():
            count = max(count, weak)
        if common is None and not count and self._wraps_one_layer(end.path):
            while count < valid and self._is_unary_step(end.low + count):
                count += 1
        return min(count, valid)

    def _run_by_children(self, end: End, valid: int) -> int:
        """Up to where operations are such as only the module's own children run."""
        count = 0
        for place in range(end.low, end.low + valid):
            op, constant = self.program.ops[place], self.program.constants[place]
            own = self.tree.runs_in_child(end.path, op, constant)
            if own and not self.tree.runs_in_child(end.gap.home, op, constant):
                count = place - end.low + 1
        return count

    def _valid(self, end: End) -> int:
        """How many operations take nothing but the values and the inputs of a call."""
        last = end.gap.first - 1
        for place in range(end.low, end.high):
            for operand in self.program.operands[place]:
                inside = end.far <= operand < place
                if not inside and not self.program.is_used_within(operand, end.far, last):
                    return place - end.low
        return end.high - end.low

    def _evidence(self, end: End, valid: int, *, gates: bool) -> tuple[int, int]:
        """Up to where operations take values that a call would not have given away.

        Args:
            end: The end of the call.
            valid: How many operations may be its own.
            gates: Whether the call is known to end in a formula.

        Returns:
            How many operations, by values from its midst; and how many, counting its inputs too.
        """
        strong = weak = 0
        began, free = end.far, end.low
        for count in range(1, valid + 1):
            place = free + count - 1
            operands = self.program.operands[place]
            # After the first such operation, what branches and joins again is one formula.
            latest = place - 1 if strong or gates else free - 1
            inner = [o for o in operands if began <= o < latest and o != free - 1]
            # What nothing in the call has used may be a second result.
            if any(gates or o >= free or self.program.users[o][0] < free for o in inner):
                strong = count
            if inner or any(operand < began for operand in operands):
                weak = count
        return strong, max(strong, weak)

    def _layer_tail(self, end: End) -> int:
        """A layer reshapes its result when it had reshaped its input."""
        place, last = end.low, end.gap.first - 1
        op, shape = self.program.ops[place], self.program.shapes[place]
        if self.program.operands[place] != [last]:
            return 0
        if op == "UnsafeViewBackward0":
            return 1
        if op != "ViewBackward0" or not self.program.ops[last].startswith(("Addmm", "Linear")):
            return 0
        flattened = self._flattened_input(last)
        if flattened is not None:
            before = self._shape_before(flattened)
            return int(shape is not None and before is not None and shape[:-1] == before[:-1])
        rows = self.program.shapes[last]
        if shape is None or rows is None or not self.program.constants[last]:
            return 0
        return int(len(shape) > 2 and shape[-1] == rows[-1])

    def _flattened_input(self, place: int) -> int | None:
        """The reshaping of a linear layer's input to rows."""
        for operand in self.program.operands[place]:
            is_view = self.program.ops[operand] in ("ViewBackward0", "UnsafeViewBackward0")
            if is_view and self.program.owners[operand] is None:
                return operand
        return None

    def _shape_before(self, place: int) -> tuple[int, ...] | None:
        operands = self.program.operands[place]
        return self.program.shapes[operands[0]] if operands else None

    def _recurrent_tail(self, end: End) -> int:
        """Cells end in gates; layers and attention in plumbing."""
        ops = self.program.ops[end.low : end.high]
        if "weight_ih" not in self.tree.own[end.path]:
            return _joined(ops) + _count_plumbing(ops[_joined(ops) :])
        gates = next((i for i, op in enumerate(ops) if not op.startswith(_GATES)), len(ops))
        count, _ = self._evidence(end, gates, gates=True)
        last = self.program.ops[end.low + count - 1]
        if last.startswith("Add") and count < gates and end.path not in self._cells_with_gates:
            count += int(ops[count].startswith(("Tanh", "Relu")))
        return count

    @functools.cached_property
    def _cells_with_gates(self) -> set[str]:
        """The cells that split what they compute: those of LSTMs and GRUs."""
        return {
            owner
            for place, owner in enumerate(self.program.owners)
            if owner is not None
            and self.program.ops[place].startswith(("Addmm", "Mm"))
            and self._splits(place)
        }

    def _splits(self, place: int) -> bool:
        users = self.program.users[place]
        further = [user for each in users for user in self.program.users[each]]
        return any("Split" in self.program.ops[user] for user in users + further)

    def _wraps_one_layer(self, path: str) -> bool:
        inside = [each for each in self.tree.own if each.startswith(f"{path}." if path else "")]
        return len(inside) == 1 and self.tree.kind(inside[0]) == "standard"

    def _is_unary_step(self, place: int) -> bool:
        op = self.program.ops[place]
        return self.program.operands[place] == [place - 1] and (
            is_plumbing(op) or op.startswith(_ACTIVATIONS)
        )

    def _head(self, end: End, common: int | None) -> list[str]:
        kind = self.tree.kind(end.path)
        if kind == "list" or end.low >= end.high:
            return []
        if kind == "sequence":
            entered = [path for path, _ in end.gap.entered]
            children = self._between(end.path, None, entered[entered.index(end.path) + 1])
            for count in range(min(end.high - end.low, 2 * len(children)), 0, -1):
                places = range(end.high - count, end.high)
                found = self._align(end.path, children, places)
                if len(found) == count:
                    return found
            return []
        if kind == "custom":
            return [end.path] * self._head_count(end, common or 0)
        rearranged = self._head_count(end, self._rearranged(end))
        return [end.path] * (rearranged or self._layer_head(end))

    def _head_count(self, end: End, most: int) -> int:
        count = 0
        while count < most and self._is_used_only_within(end.high - count - 1, end.far):
            count += 1
        return count

    def _is_used_only_within(self, place: int, end: int) -> bool:
        users = self.program.users[place]
        return bool(users) and users[-1] <= end

    def _rearranged(self, end: End) -> int:
        """Attention and recurrent layers rearrange what they are given."""
        rearranging = ("in_proj", "q_proj", "weight_ih_l")
        if not any(name.startswith(rearranging) for name in self.tree.own[end.path]):
            return 0
        return _count_plumbing(self.program.ops[end.low : end.high][::-1])

    def _layer_head(self, end: End) -> int:
        """A linear layer reshapes its input to rows, and its result back."""
        views = ("ViewBackward0", "UnsafeViewBackward0")
        ops, place, after = self.program.ops, end.high - 1, end.far + 1
        if self.program.users[place] != [end.far] or after >= len(ops):
            return 0
        if ops[place] not in views or ops[after] not in views:
            return 0
        given, result = self._shape_before(place), self.program.shapes[after]
        if given is None or result is None or given[:-1] != result[:-1]:
            return 0
        if self.program.operands[after] != [end.far]:
            return 0
        copies = end.low < place and ops[place - 1] == "CloneBackward0"
        is_copied = ops[place] == "UnsafeViewBackward0" and copies
        return 1 + int(is_copied and self.program.users[place - 1] == [place])

    def rest(self, gap: Gap, first: int, last: int) -> list[str]:
        """Whose the operations are that no module on the way claimed."""
        kind = self.tree.kind(gap.home)
        called = self.tree.called(gap.home)
        if kind != "sequence":
            return [called] * (last - first)
        before = gap.left[-1][0] if gap.left else None
        after = gap.entered[0][0] if gap.entered else None
        children = self._between(gap.home, before, after)
        found = self._align(gap.home, children, range(first, last))
        runner = self._in_sequence(gap, called, first, last) if gap.entered and gap.left else called
        return found + [runner] * (last - first - len(found))

    def _in_sequence(self, gap: Gap, called: str, first: int, last: int) -> str:
        """A sequence runs nothing itself, so one of the modules beside has run it."""
        for path, began in reversed(gap.left):
            if self.tree.kind(path) == "custom":
                # Of a sequence known by its numbers only, it may be that it is a list after all.
                end = End(path, began, first, last, gap)
                doubtful = path in self._compared or self._valid(end) < last - first
                return called if doubtful and not self.tree.classes else path
        return next((p for p, _ in gap.entered if self.tree.kind(p) == "custom"), called)

    def _between(self, path: str, before: str | None, after: str | None) -> list[str]:
        start = len(path) + 1 if path else 0
        first, last = (
            None if inner is None else inner[start:].partition(".")[0] for inner in (before, after)
        )
        return self.tree.between(path, first, last)

    def _align(self, path: str, children: Sequence[str], places: range) -> list[str]:
        """Give operations, in their order, to modules without parameters in theirs.

        Returns:
            A module for each operation, up to the first that none of them runs.
        """
        prefix = f"{path}." if path else ""
        found: list[str] = []
        at = -1
        for place in places:
            op, constant = self.program.ops[place], self.program.constants[place]
            nearest = next(
                (
                    i
                    for i in range(at + 1, len(children))
                    if self.tree.runs(prefix + children[i], op, constant) is not False
                ),
                None,
            )
            if nearest is None:
                known = at >= 0 and self.tree.runs(prefix + children[at], op, constant)
                if at < 0 or known is False:
                    break
            else:
                at = nearest
            found.append(prefix + children[at])
        return found


def _common(all_ops: Sequence[Sequence[str]]) -> int:
    """How many operations some lists have in common at their beginning."""
    same = 0
    for ops in zip(*all_ops, strict=False):
        if any(op != ops[0] for op in ops):
            break
        same += 1
    return same


def _joined(ops: Sequence[str]) -> int:
    """Up to where the steps of a recurrent layer are joined, and its directions."""
    count = 0
    for i, op in enumerate(ops):
        if op.startswith(("Stack", "Cat")):
            count = i + 1
        elif not op.startswith(_GATES) and not is_plumbing(op):
            break
    return count


def _count_plumbing(ops: Sequence[str]) -> int:
    # A layer gives all that it has computed; picking some of it is the user's doing.
    picking = ("SelectBackward0", "SliceBackward0")
    plumbing = (is_plumbing(op) and op not in picking for op in ops)
    return next((i for i, is_one in enumerate(plumbing) if not is_one), len(ops))
