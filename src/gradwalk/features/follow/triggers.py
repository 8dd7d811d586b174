"""The triggers between looks: what each needs, when it fires, and what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from ...english import list_some, plural
from ...graph.capture import as_text
from ...schema.findings import Severity
from .again import Birth
from .run_finding import RunFinding
from .sentences import finding
from .statistics import Change, Row, Statistics

_NARROW = (torch.bfloat16, torch.float16)


@dataclass
class Seen:
    """A step of one optimizer, as far as it was read."""

    statistics: Statistics
    count: int  # steps that have ended
    row: Row
    changes: Sequence[Change] = ()
    birth: Birth | None = None  # of a step that was run again

    def names(self, places: Sequence[int]) -> list[str]:
        """Return the names of parameters by their places."""
        return [self.statistics.name(place) for place in places]


class Trigger(NamedTuple):
    """One thing that may go wrong between looks."""

    name: str
    needs: Literal["row", "changes"]  # the numbers of each step, or those before and after some
    says: Callable[[Seen], Iterator[RunFinding]]
    fires: Callable[[Seen], bool] = lambda _: True
    runs_again: bool = False  # the step, when it fires for the first time


def _is_odd(seen: Seen) -> bool:
    return not all(map(math.isfinite, (*seen.row.losses, *seen.row.norms.values())))


def _born(seen: Seen) -> Iterator[RunFinding]:
    """Say that a step has NaN or Inf, and where it was born."""
    row = seen.row
    names = seen.names([i for i, norm in row.norms.items() if not math.isfinite(norm)])
    odd = ["NaN" if math.isnan(x) else "Inf" for x in row.losses if not math.isfinite(x)]
    said = [f"The loss is {odd[0]} at step {row.step}."] if odd else []
    if names:
        is_before = row.step == seen.count + 1
        when = "before the step writes it into the weights" if is_before else "and in later steps"
        among = f"{len(names)} of {plural(seen.statistics.count, 'parameter')}"
        what = f"The gradient of {list_some(names, 4)} is NaN or Inf at step {row.step}"
        said.append(f"{what} ({among}), {when}.")
    birth = seen.birth or Birth("")
    words = {"said": " ".join(said), "born": birth.sentence}
    yield finding("born", row.step, names, line=birth.line, node=birth.node, words=words)


def _spike(seen: Seen) -> Iterator[RunFinding]:
    row = seen.row
    largest = max(row.norms, key=lambda i: row.norms[i])
    numbers = {"norm": row.total, "times": row.times or 0.0, "largest": row.norms[largest]}
    yield finding("spike", row.step, seen.names([largest]), numbers=numbers)


def _unchanged(seen: Seen) -> Iterator[RunFinding]:
    """Parameters that a step did not change although they have a gradient."""
    still = [each for each in seen.changes if each.is_stuck]
    for is_rounded in (False, True):
        group = [each for each in still if (each.dtype in _NARROW or each.rounds) == is_rounded]
        if not group:
            continue
        is_narrow = group[0].dtype in _NARROW
        why = (
            f"An update that is small beside a number of {as_text(group[0].dtype)} rounds away."
            if is_rounded
            else "Look at the optimizer: its learning rate, and what its step() does."
        )
        if is_narrow:
            why += " Keep the weights in float32, with autocast, or raise the learning rate."
        is_grave = not is_rounded or (is_narrow and 2 * len(group) > len(seen.changes))
        words = {"total": plural(len(seen.changes), "parameter"), "why": why}
        names = seen.names([each.place for each in group])
        severity: Severity | None = None if is_grave else "info"
        yield finding("unchanged", seen.count, names, severity=severity, words=words)


def _changed(seen: Seen) -> Iterator[RunFinding]:
    names = seen.names([each.place for each in seen.changes if each.is_without and each.moved])
    if names:
        yield finding("changed", seen.count, names)


def _wrote(seen: Seen) -> Iterator[RunFinding]:
    odd = [each.place for each in seen.changes if not math.isfinite(each.moved)]
    if odd:
        yield finding("wrote", seen.count, seen.names(odd))


TRIGGERS = (
    Trigger("nan", "row", _born, _is_odd, runs_again=True),
    Trigger("spike", "row", _spike, lambda seen: seen.row.times is not None, runs_again=True),
    Trigger("unchanged", "changes", _unchanged),
    Trigger("changed", "changes", _changed),
    Trigger("nan", "changes", _wrote),
)
