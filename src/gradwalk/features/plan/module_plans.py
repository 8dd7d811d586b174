"""The amounts of each module of a planned step."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from ...amounts import Bytes, Flops
from ...english import nearest
from ...result import make, replaced, returned_by
from .recorder import BACKWARD, FORWARD, Held
from .run_step import Recorded


@returned_by("plan(model, batch)")
@dataclass(frozen=True)
class ModulePlan:
    """The amounts of one module, with everything inside it.

    Attributes:
        name: Its name, as in ``named_modules()``.
        kind: Its class.
        parameters: Bytes of parameters; a shared one counts in the module that has it first.
        saved: Bytes that its operations keep at the end of the forward pass.
        at_peak: Bytes made in it that are live at the peak, its parameters included.
        flops_forward: Floating-point operations of its forward pass.
        flops_backward: Those of its backward pass, recomputation included.
        estimated_seconds: Estimated time of both; None without a device.
    """

    name: str
    kind: str
    parameters: Bytes
    saved: Bytes
    at_peak: Bytes
    flops_forward: Flops
    flops_backward: Flops
    estimated_seconds: float | None = None


class ModulePlans(Mapping[str, ModulePlan]):
    """The amounts of each module by its name; "model.layers.3" finds "layers.3", too."""

    def __init__(
        self, model: nn.Module, recorded: Recorded, peak: int, seconds: Sequence[float] | None
    ) -> None:
        """Add up a step by module; ``peak``: an operation, ``seconds``: None without a device."""
        amounts = _Sums(recorded, peak, seconds or ()).amounts
        self._modules = {}
        for name, module in model.named_modules():
            held = [Bytes(amounts[what][name]) for what in ("parameters", "saved", "at_peak")]
            work = [Flops(amounts[what][name]) for what in (FORWARD, BACKWARD)]
            time = None if seconds is None else float(amounts["seconds"][name])
            of: tuple[Any, ...] = (name, type(module).__name__, *held, *work, time)
            self._modules[name] = make(ModulePlan, *of)

    def __getitem__(self, name: str) -> ModulePlan:
        found = self._modules.get(name)
        if found is None and name.partition(".")[0] == "model":
            found = self._modules.get(name.partition(".")[2])
        if found is None:
            close = nearest(name, self._modules)
            raise KeyError(f"The model has no module {name!r}. {close or ''}".rstrip())
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class _Sums:
    """Adds amounts to a module and to all that it is in.

    Attributes:
        amounts: Kind of amount -> module -> amount.
    """

    def __init__(self, recorded: Recorded, peak: int, seconds: Sequence[float]) -> None:
        self.amounts: dict[str, dict[str, Any]] = defaultdict(Counter)
        self._recorder = recorded.recorder
        for held in self._recorder.held:
            owner = self._owner(held)
            if held.role == "parameter":
                self._add("parameters", owner, held.bytes)
            self._add("at_peak", owner, held.bytes_at(peak))
        for held, keepers in recorded.keepers:
            first = self._recorder.module_of(min(keepers)) if keepers else None
            module = self._owner(held) if first is None else first
            self._add("saved", module, held.bytes_at(recorded.forward_end - 1))
        for each in self._recorder.operations:
            self._add(each.phase, each.module, each.flops)
        for each, time in zip(self._recorder.operations, seconds, strict=False):
            if each.phase in (FORWARD, BACKWARD):
                self._add("seconds", each.module, time)

    def _owner(self, held: Held) -> str:
        if held.role in ("parameter", "buffer"):
            return held.name.rpartition(".")[0]
        return self._recorder.operations[held.born].module if held.born >= 0 else ""

    def _add(self, what: str, module: str, amount: float) -> None:
        while amount:
            self.amounts[what][module] += amount
            if not module:
                return
            module = module.rpartition(".")[0]


_MOST_ROWS = 24
_FEW = 6
_MOST_TENSORS = 5
_HEADS = ("module", "parameters", "saved", "at peak", "forward", "backward")


def plan_table(plan: Any) -> str:
    """Return a `Plan` as text."""
    ranks = f", on each of {plan.ranks} ranks" if plan.ranks is not None else ""
    totals = {
        "parameters": plan.parameters,
        "gradients": plan.gradients,
        "optimizer state": plan.optimizer_state,
        "saved for backward": plan.saved,
    }
    times = (
        f"Estimated on {plan.device}, at its peak rates: at least "
        f"{1e3 * (plan.estimated_seconds or 0):.3g} ms for forward and backward"
    )
    lines = [
        f"Peak {'at least ' * bool(plan.lower_bound)}{plan.peak}{ranks}: {plan.at}",
        ", ".join(f"{what} {amount}" for what, amount in totals.items() if amount),
        f"{plan.flops}: forward {plan.flops_forward}, backward {plan.flops_backward}",
        *([] if plan.estimated_seconds is None else [times]),
        "",
        *_aligned([_HEADS, *(_cells(row) for row in _rows(plan)[:_MOST_ROWS])]),
        "",
        "Largest at the peak:",
        *(f"  {each}" for each in plan.tensors(_MOST_TENSORS)),
        *_some(plan.remarks),
        plan.not_counted,
    ]
    if plan.compiled:
        lines.append(f"Planned as if not compiled: {', '.join(plan.compiled)}.")
    return "\n".join(lines)


_MOST_REMARKS = 8


def _some(remarks: Sequence[str]) -> list[str]:
    more = len(remarks) - _MOST_REMARKS
    return [*remarks[:_MOST_REMARKS], *([f"{more} more in plan.remarks."] if more > 0 else [])]


def _rows(plan: Any) -> list[tuple[str, ModulePlan]]:
    """Return the outer modules, neighbours that are alike together; opens the largest of few."""
    root = plan.modules[""]
    groups = _groups(plan, "")
    while len(groups) < _FEW:
        largest = max(groups, key=lambda group: group[0].at_peak, default=None)
        if largest is None or largest[1:] or 2 * largest[0].at_peak < root.at_peak:
            break
        inner = _groups(plan, largest[0].name)
        if not inner:
            break
        place = groups.index(largest)
        groups[place : place + 1] = inner
    return [("(model)", root), *(_together(group) for group in groups)]


def _groups(plan: Any, outer: str) -> list[list[ModulePlan]]:
    """Return the modules right inside of one, or of a list in it, and neighbours alike as one."""
    groups: list[list[ModulePlan]] = []
    for each in plan.modules.values():
        if not each.name or each.name.rpartition(".")[0] != outer:
            continue
        if _is_opened(plan, each):
            groups += _groups(plan, each.name)
        elif groups and _key(groups[-1][-1]) == _key(each):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _is_opened(plan: Any, each: ModulePlan) -> bool:
    """Whether a module is a list of others, or a sequence of modules with modules inside."""
    deeper = re.compile(rf"{re.escape(each.name)}\.[^.]+\.")
    is_outer = each.kind == "Sequential" and any(map(deeper.match, plan.modules))
    return each.kind in ("ModuleList", "ModuleDict") or is_outer


def _key(each: ModulePlan) -> tuple[Any, ...]:
    return each.name.rpartition(".")[0], each.kind, each.parameters


def _together(group: list[ModulePlan]) -> tuple[str, ModulePlan]:
    """Return the sum of modules that are alike, with a name for them."""
    first, last = group[0], group[-1]
    if first is last:
        return first.name, first
    names = [each.name for each in fields(first) if each.name not in ("name", "kind")]
    amounts = [name for name in names if getattr(first, name) is not None]
    totals = {what: sum(getattr(each, what) for each in group) for what in amounts}
    whole = replaced(first, **{what: type(getattr(first, what))(n) for what, n in totals.items()})
    return f"{first.name} … {last.name.rpartition('.')[2]} ({len(group)} together)", whole


def _cells(row: tuple[str, ModulePlan]) -> tuple[str, ...]:
    name, each = row
    amounts = (each.parameters, each.saved, each.at_peak, each.flops_forward, each.flops_backward)
    return name, *(str(amount) if amount else "-" for amount in amounts)


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    signs = ["<", *">" * (len(widths) - 1)]
    line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return [line.format(*row) for row in rows]
