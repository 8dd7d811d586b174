"""Compare gradients inside compiled code with the same program in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...english import plural
from ...graph.labels import label
from ...sources.open_nodes import Opening
from ..compiled.counterparts import counterparts
from .aligned import Aligned
from .known_numbers import RunNumbers
from .rows import NumericsRow
from .tensor_distance import Number, TensorDistance, tensor_distance

Tolerance = tuple[float, float]


def rows_inside(
    both: Aligned, tolerance: Callable[[str | None, str | None], Tolerance]
) -> tuple[list[NumericsRow], list[str]]:
    """Compare the gradients of an eager run with those inside the compiled code of the other.

    Args:
        both: Two runs, of which one may be compiled.
        tolerance: Returns the tolerance for two dtypes.

    Returns:
        A row per operation whose incoming gradient is known in both, in the order of the forward
        pass; and sentences on why others are unknown.
    """
    openings = [side.subject.all_open() for side in (both.here, both.there)]
    has_code = [opening is not None and bool(opening.inside) for opening in openings]
    if has_code == [True, False]:
        swapped, why = rows_inside(both.swapped(), tolerance)
        return [replace(row, nodes=(row.nodes[1], row.nodes[0])) for row in swapped], why
    opening = openings[1] if has_code == [False, True] else None
    recorded = both.there.subject.recording
    if opening is None or recorded is None:
        return [], []
    why = [
        numbers
        for node in opening.inside
        if isinstance(numbers := opening.numbers(node, recorded), str)
    ]
    plain, model = both.here.subject, both.here.subject.model["nodes"]
    drawn = opening.captured.drawn
    found = counterparts(plain.graph, drawn, both.pairs, lambda node: model[node]["namespace"])
    rows: list[NumericsRow] = []
    for node, each in found.of.items():
        if each.main is None:
            continue
        data, other = plain.drawn.nodes[node], drawn.nodes[each.main]
        allowed = tolerance(data["dtype"], other["dtype"])
        apart = _gap(both.here, node, _arrived(opening, both.there, each.main, each.calls), allowed)
        if apart is None:
            continue
        module = model[node]["namespace"]
        rows.append(
            NumericsRow(
                nodes=(node, each.main),
                label=label(data),
                op=data["op"],
                module=module.replace("/", ".") if module else None,
                line=data.get("source"),
                value_error=None,
                grad_error=apart.error,
                own_error=None,
                is_estimate=False,
                tolerance=allowed,
                leaves="gradient" if apart.leaves else None,
                numbers=apart.worst,
                compared=apart.compared,
            )
        )
    return rows, list(dict.fromkeys(why))


def _gap(
    here: RunNumbers, node: int, found: Number | None, allowed: Tolerance
) -> TensorDistance | None:
    """The distance between the gradient of a call and the incoming gradient of an operation."""
    arrived = [each for each in here.gradients(node) if each is not None]
    if found is None or len(arrived) != 1:
        return None
    return tensor_distance(arrived[0], found, allowed, lambda: here.largest(node))


def _arrived(
    opening: Opening, there: RunNumbers, call: int, group: tuple[int, ...]
) -> Number | None:
    """The incoming gradient of an operation's calls; None unless there is exactly one."""
    recorded, drawn = there.subject.recording, opening.captured.drawn
    assert recorded is not None
    found: list[Number] = []
    for source, _, edge in drawn.in_edges(call, data=True):
        if edge.get("kind") != "gradient" or source in group:
            continue
        place = opening.places.get(source)
        if place is None:
            step = recorded.run.steps.get(source)
            kept = None if step is None else step.grad_outputs[edge["input_nr"]]
        else:
            kept = opening.given(place, recorded, edge["input_nr"])
        if kept is None:
            return None
        found.append(
            Number(kept.tensor) if kept.tensor is not None else Number(None, kept.summarise())
        )
    return found[0] if len(found) == 1 else None


def notes_inside(rows: list[NumericsRow], why: list[str]) -> list[str]:
    """Return sentences on the gradients inside compiled code."""
    notes = [f"Inside compiled code: {each}" for each in why]
    if not rows:
        return notes
    out = [row for row in reversed(rows) if row.leaves]
    what = f"{plural(len(rows), 'gradient')} inside compiled code"
    if not out:
        return [*notes, f"{what} {'is' if len(rows) == 1 else 'are'} within tolerance, too."]
    row = out[0]
    where = ", ".join(filter(None, (row.module and f"in {row.module}", row.line)))
    return [
        *notes,
        f"{len(out):,} of {what} {'is' if len(out) == 1 else 'are'} out of tolerance. The first in "
        f"backward order is the gradient at {row.label}{' ' + where if where else ''}, with a "
        f"relative error of {row.grad_error:.2g}.",
    ]
