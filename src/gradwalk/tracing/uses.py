"""Find where `watch` saw each leaf used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..graph.capture import Capture
from .annotations import forward_name
from .double_backward import differentiates
from .records import Record, living_records, records_in
from .source_line import SourceLine

_PIECEWISE_LINEAR = frozenset(
    {"relu", "relu6", "leaky_relu", "rrelu", "prelu", "hardtanh", "threshold", "abs", "clamp"}
)
"""Functions whose second derivative is zero."""


class Derivatives(NamedTuple):
    """The derivatives that a loss was computed from.

    Attributes:
        where: The line that computed the first of them.
        linear: A piecewise linear function that was differentiated, with its line, if any.
    """

    where: SourceLine | None
    linear: tuple[str, SourceLine | None] | None


class Use(NamedTuple):
    """One use of a leaf.

    Attributes:
        where: The line that used it.
        derivatives: Those of the result that went into the loss; None for none.
    """

    where: SourceLine | None
    derivatives: Derivatives | None


def uses_in(captured: Capture) -> dict[int, Use]:
    """Find one use of every leaf that `watch` saw used.

    Args:
        captured: The graph of a loss.

    Returns:
        By ``id`` of each living leaf. Uses whose derivative went into the loss come first.
    """
    behind = _with_parents(records_in(captured).values())
    calls = [record for record in behind if differentiates(record.function)]
    differentiated = _with_parents(parent for call in calls for parent in call.parents)
    linear = None
    for record in differentiated:
        name = (forward_name(record.function) or "").rpartition(".")[2].rstrip("_")
        if name in _PIECEWISE_LINEAR:
            linear = name, record.source
    first = min(calls, key=lambda call: call.start, default=None)
    derivatives = None if first is None else Derivatives(first.source, linear)
    found: dict[int, Use] = {}
    for records, of in ((differentiated, derivatives), (behind, None), (living_records(), None)):
        for record in records:
            for taken in record.leaves:
                leaf = taken.tensor()
                if leaf is not None:
                    found.setdefault(id(leaf), Use(record.source, of))
    return found


def _with_parents(records: Iterable[Record]) -> list[Record]:
    """Return some records and all their ancestors."""
    found = list(dict.fromkeys(records))
    seen = set(map(id, found))
    for record in found:  # grows while we walk
        new = [parent for parent in record.parents if id(parent) not in seen]
        seen.update(map(id, new))
        found += dict.fromkeys(new)
    return found
