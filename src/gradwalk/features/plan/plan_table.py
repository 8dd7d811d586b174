"""The text of a plan: its totals, its modules and its largest tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from ...result import replaced
from .module_plans import ModulePlan

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
        f"Peak {plan.peak}{ranks}: {plan.at}",
        ", ".join(f"{what} {amount}" for what, amount in totals.items() if amount),
        f"{plan.flops}: forward {plan.flops_forward}, backward {plan.flops_backward}",
        *([] if plan.estimated_seconds is None else [times]),
        "",
        *_aligned([_HEADS, *(_cells(row) for row in _rows(plan)[:_MOST_ROWS])]),
        "",
        "Largest at the peak:",
        *(f"  {each}" for each in plan.tensors(_MOST_TENSORS)),
        plan.not_counted,
    ]
    if plan.compiled:
        lines.append(f"Planned as if not compiled: {', '.join(plan.compiled)}.")
    return "\n".join(lines)


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
