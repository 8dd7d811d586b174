"""What was seen of backward, as it travels: state, steps, what flowed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, repeat

from ..wire import (
    JsonNumber,
    PackedRun,
    PackedState,
    PackedSteps,
    RunModel,
    StateModel,
    StepModel,
    Values,
)
from .column import differences, pack_column, pack_ranges, unpack_column, unpack_ranges


def pack_state(state: StateModel) -> PackedState:
    """Pack what has been seen of backward."""
    return {
        "runs": state["runs"],
        "reached": pack_ranges(state["reached"]),
        "flowed": pack_ranges(state["flowed"]),
        "freed": pack_ranges(state["freed"]),
        "note": state["note"],
    }


def unpack_state(packed: PackedState) -> StateModel:
    """The inverse of `pack_state`."""
    return {
        "runs": packed["runs"],
        "reached": unpack_ranges(packed["reached"]),
        "flowed": unpack_ranges(packed["flowed"]),
        "freed": unpack_ranges(packed["freed"]),
        "note": packed["note"],
    }


def pack_steps(steps: Sequence[StepModel]) -> PackedSteps:
    """Pack the steps of a backward pass; ``steps[k]`` has the number k + 1."""
    texts: dict[str | None, int] = {None: 0}
    op, name, accumulated = [], [], []
    for step in steps:
        op.append(texts.setdefault(step["op"], len(texts)))
        name.append(texts.setdefault(step["name"], len(texts)))
        accumulated.append(texts.setdefault(step["accumulated"], len(texts)))
    return {
        "texts": list(texts),
        "node": pack_column(differences(step["node"] for step in steps)),
        "op": pack_column(op),
        "name": pack_column(name),
        "accumulated": pack_column(accumulated),
        "waited": pack_column(before - step["ready"] for before, step in enumerate(steps)),
    }


def unpack_steps(packed: PackedSteps) -> list[StepModel]:
    """The inverse of `pack_steps`."""
    texts = packed["texts"]
    rows = zip(
        accumulate(unpack_column(packed["node"])),
        unpack_column(packed["op"]),
        unpack_column(packed["name"]),
        unpack_column(packed["accumulated"]),
        unpack_column(packed["waited"]),
        strict=True,
    )
    return [
        {
            "step": before + 1,
            "node": node,
            "op": texts[op] or "",
            "name": texts[name],
            "accumulated": texts[accumulated],
            "ready": before - waited,
        }
        for before, (node, op, name, accumulated, waited) in enumerate(rows)
    ]


def pack_run(run: RunModel) -> PackedRun:
    """Pack what flowed in a backward pass."""
    valued = [place for place, values in enumerate(run["values"]) if values is not None]
    return {
        "run": run["run"],
        "ended": run["ended"],
        "seeds": run["seeds"],
        "edges": pack_ranges(run["edges"]),
        "valued": pack_ranges(valued),
        "values": [run["values"][place] for place in valued],
        "norms": _pack_norms(run["norms"]),
        "grads": run["grads"],
        "marks": run["marks"],
    }


def unpack_run(packed: PackedRun) -> RunModel:
    """The inverse of `pack_run`."""
    edges = unpack_ranges(packed["edges"])
    values: list[Values | None] = [None] * len(edges)
    for place, numbers in zip(unpack_ranges(packed["valued"]), packed["values"], strict=True):
        values[place] = numbers
    norms: list[JsonNumber | None] = []
    for part in packed["norms"]:
        norms += repeat(*part) if isinstance(part, list) else [part]
    return {
        "run": packed["run"],
        "ended": packed["ended"],
        "seeds": packed["seeds"],
        "edges": edges,
        "values": values,
        "norms": norms,
        "grads": packed["grads"],
        "marks": packed["marks"],
    }


def _pack_norms(
    norms: Sequence[JsonNumber | None],
) -> list[JsonNumber | list[JsonNumber | None] | None]:
    packed: list[JsonNumber | list[JsonNumber | None] | None] = []
    for norm, run in groupby(norms):
        often = sum(1 for _ in run)
        packed += [[norm, often]] if often > 2 else [norm] * often
    return packed
