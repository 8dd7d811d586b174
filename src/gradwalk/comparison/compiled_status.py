"""Describe how operations were compiled, for the panel and the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from ..english import with_counts
from ..graph.labels import label
from ..schema.comparison import BecameModel, CompiledModel
from ..sources.graph_source import GraphSource

_How = Literal["one", "several", "dropped", "unknown"]


def compiled_model(
    compiled: Mapping[str, Any],
    plain: GraphSource,
    opened: GraphSource,
    places: tuple[Mapping[int, int], Mapping[int, int]],
) -> CompiledModel:
    """Describe the operations of a program beside its compiled version."""
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
    return {
        "said": _said(compiled, operations),
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


def _names_of(nodes: list[int], calls: Any) -> str:
    """The calls in words: "mm ×2, t, sum"."""
    names = (calls[node]["op"].removeprefix("aten.").partition(".")[0] for node in nodes)
    return ", ".join(with_counts(names))


def _said(compiled: Mapping[str, Any], operations: list[BecameModel]) -> str:
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
    said.append("This is the program before the backend fuses calls.")
    return " ".join(said)
