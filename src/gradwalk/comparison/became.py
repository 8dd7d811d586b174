"""What became of operations in compiled code that is open, in words and for the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from ..graph.english import list_some, with_counts
from ..graph.words import label
from ..subject.subject import Subject
from ..wire import BecameModel, CompiledModel

_How = Literal["one", "several", "dropped", "unknown"]


def compiled_model(
    compiled: Mapping[str, Any],
    plain: Subject,
    opened: Subject,
    places: tuple[Mapping[int, int], Mapping[int, int]],
) -> CompiledModel:
    """What the picture tells of a program beside the same, compiled.

    Args:
        compiled: As `gradwalk.comparison.difference.difference` found it.
        plain: The program that is not compiled.
        opened: The compiled one.
        places: Of nodes of both, in this order.

    Returns:
        Plain JSON values.
    """
    here, there = places
    calls = opened.drawn.nodes
    operations: list[BecameModel] = []
    for each in compiled["operations"]:
        node = each["node"]
        data, module = plain.drawn.nodes[node], plain.model["nodes"][node]["namespace"]
        operations.append(
            {
                "place": here[node],
                "how": _how(each),
                "calls": [there[call] for call in each["calls"]],
                "again": [there[call] for call in each["again"]],
                "label": label(data),
                "where": ", ".join(
                    filter(None, (module and module.replace("/", "."), data.get("source")))
                ),
                "said": _became(each, calls),
            }
        )
    fused = _fused(compiled, calls, plain.drawn.nodes)
    for each, model in zip(compiled["operations"], operations, strict=True):
        model["said"] += fused.get(each["node"], "")
    return {
        "said": _said(compiled, operations, calls),
        "operations": operations,
        "adding": [there[call] for call in compiled["adding"]],
        "others": [there[call] for call in compiled["others"] if not calls[call].get("recomputed")],
    }


def _how(each: Mapping[str, Any]) -> _How:
    if each["is_dropped"]:
        return "dropped"
    return ("unknown", "one", "several")[min(2, len(each["calls"]))]


def _became(each: Mapping[str, Any], calls: Any) -> str:
    again = f"; runs forward again: {_names_of(each['again'], calls)}" if each["again"] else ""
    if each["is_dropped"]:
        return "no call: the gradient goes straight on"
    if not each["calls"]:
        return "no counterpart found"
    return f"{_names_of(each['calls'], calls)}{again}"


def _fused(compiled: Mapping[str, Any], calls: Any, nodes: Any) -> dict[int, str]:
    """In which kernel the calls of an operation run, and with what: by the operation's node."""
    own: dict[int, dict[tuple[int, str], list[int]]] = {}
    computing: dict[int, int] = {}  # how many of its calls are told, those of libraries too
    within: dict[tuple[int, str], list[int]] = {}  # each compiled node has kernels of its own
    for each in compiled["operations"]:
        for call in (*each["calls"], *each["again"]):
            told = calls[call].get("kernels")
            computing[each["node"]] = computing.get(each["node"], 0) + (told is not None)
            for kernel in told or ():
                place = calls[call]["inside"], kernel
                own.setdefault(each["node"], {}).setdefault(place, []).append(call)
                within.setdefault(place, []).append(each["node"])
    found: dict[int, str] = {}
    for node, kernels in own.items():
        said = []
        for place, run in kernels.items():
            others = [label(nodes[each]) for each in dict.fromkeys(within[place]) if each != node]
            part = "" if len(run) == computing[node] else f"{_names_of(run, calls)} "
            how = f"fused with {list_some(with_counts(others))} into" if others else "alone in"
            said.append(f"{part}{how} {place[1]}")
        found[node] = f"; {', and '.join(said)}"
    return found


def _names_of(nodes: list[int], calls: Any) -> str:
    """The calls in words: "mm ×2, t, sum"."""
    names = (calls[node]["op"].removeprefix("aten.").partition(".")[0] for node in nodes)
    return ", ".join(with_counts(names))


def _said(compiled: Mapping[str, Any], operations: list[BecameModel], calls: Any) -> str:
    how = Counter[str](each["how"] for each in operations)
    parts = [
        f"{how[kind]:,} {words}"
        for kind, words in (
            ("one", "as one call"),
            ("several", "as several calls"),
            ("dropped", "without any, the gradient goes straight on"),
            ("unknown", "without a counterpart that could be found"),
        )
        if how[kind]
    ]
    again = sum(len(each["again"]) for each in operations)
    total = f"{len(operations):,} operation{'' if len(operations) == 1 else 's'}"
    said = [f"Inside {compiled['in']}: of {total} {', '.join(parts)}."] if parts else []
    if again:
        runs = "call of the forward pass runs" if again == 1 else "calls of the forward pass run"
        said.append(f"{again:,} {runs} again in backward.")
    if adding := len(compiled["adding"]):
        adds = "call adds" if adding == 1 else "calls add"
        said.append(f"{adding:,} {adds} up gradients, which else the engine does between nodes.")
    said.append(_said_of_kernels(calls))
    return " ".join(said)


def _said_of_kernels(calls: Any) -> str:
    """How many calls were fused into how many kernels, as far as that is known."""
    inner = [data for data in calls.values() if data["kind"] == "call"]
    told = [data["kernels"] for data in inner if data.get("kernels")]
    if not told:
        return (
            "This is the program before the backend fuses calls: which of them run as one is not "
            "known (a call says why)."
        )
    names = {name for kernels in told for name in kernels}
    several = sum(len(kernels) > 1 for kernels in told)
    again = f", {several:,} of them in several, which work it out anew" if several else ""
    kernels = "one kernel" if len(names) == 1 else f"{len(names):,} kernels"
    return (
        f"This is the program before the backend fused calls: {len(told):,} of its {len(inner):,} "
        f"run in {kernels}{again}."
    )
