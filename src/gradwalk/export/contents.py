"""The contents of a file or a page: a graph and its recorded pass, with or without source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from ..checks.finding import finding_models
from ..graph.adjacency import collector_paused
from ..hosts.progress import progress
from ..schema.columns import encode
from ..schema.details import DetailsModel, FunctionModel, SourceModel, StageModel
from ..schema.file_format import FORMAT, VERSION, SavedGraphModel
from ..schema.graph_json import beyond_drawn, dtypes_model, graph_to_data
from ..sources.graph_source import GraphSource, Snapshot
from ..sources.saved_graph import undetailed

_LINE = SourceModel.__annotations__.keys()
_FUNCTION = FunctionModel.__annotations__.keys()
_LEFT_OUT = "Its source is left out."
_SOME_FILE = r"Cell In\[\d+\]|<[^<>\s]+>|[^\s`'\"(),;:]+\.\w+"
"""Matches file names in sentences, also of files that no node names."""


def without_source(saved: SavedGraphModel) -> SavedGraphModel:
    """Copy a graph without file names, line numbers and text of the program."""
    lines = list(_lines(saved))
    files = {line["file"] for line in lines}
    sources = (str(node.get("source") or "") for node in saved["network"]["nodes"])
    files |= {at.rpartition(":")[0] for at in sources}
    known = "|".join(map(re.escape, sorted(filter(None, files), key=len, reverse=True)))
    texts = sorted({line["text"] for line in lines if line["text"]}, key=len, reverse=True)
    shown = "|".join([*map(re.escape, texts), ".*?"])
    named = "|".join(filter(None, (known, _SOME_FILE)))
    place = rf"(?:{named}):\d+(?: \(`(?:{shown})`\))?"
    return cast(SavedGraphModel, _stripped(saved, re.compile(rf" at {place}"), re.compile(place)))


def _stripped(value: Any, at_place: re.Pattern[str], place: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return place.sub("a line that is left out", at_place.sub("", value))
    if isinstance(value, list):
        return [_stripped(each, at_place, place) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == _LINE:
        return None
    if value.keys() == _FUNCTION:
        return {**value, "place": None, "code": "", "note": _LEFT_OUT if value["code"] else None}
    return {
        name: None
        if name == "source" and isinstance(inner, str) and "code" not in value
        else _stripped(inner, at_place, place)
        for name, inner in value.items()
    }


def _lines(value: Any) -> Iterator[SourceModel]:
    """Every line of the program in a value."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, list):
            waiting += inner
        elif isinstance(inner, dict):
            if inner.keys() == _LINE:
                yield cast(SourceModel, inner)
            waiting += inner.values()


MOST_AT_EVERY_CURSOR = 500
"""Up to this many nodes, details are saved for every cursor; above, for the current one only."""

MOST_DETAILED = 2_000  # most nodes whose details are saved, counted from the outputs


def packed_graph(
    shown: Snapshot,
    source: bool = True,
    most: int = MOST_DETAILED,
    prepare: Callable[[SavedGraphModel], SavedGraphModel] | None = None,
) -> bytes:
    """Encode `saved_graph` as the bytes of a file; ``most``: most nodes with details."""
    with collector_paused():
        saved = saved_graph(shown, source, most)
        return encode(saved if prepare is None else prepare(saved), shared="details")


def saved_graph(shown: Snapshot, source: bool = True, most: int = MOST_DETAILED) -> SavedGraphModel:
    """Collect the contents of the file; ``source``: whether to include lines of the program."""
    origin = shown.source
    total = len(origin.drawn)
    every = total <= MOST_AT_EVERY_CURSOR
    details = _details(origin, min(total, most), every)
    findings = shown.findings
    if findings is None:
        findings = finding_models(origin.findings())
    network = beyond_drawn(graph_to_data(origin.drawn))
    if not origin.model["checkpoints"]:  # nothing describes the regions that nodes are in
        for node in network["nodes"]:
            if node.get("checkpoint") is not None:
                node["checkpoint"] = None
    saved: SavedGraphModel = {
        "format": FORMAT,  # type: ignore[typeddict-item]
        "version": VERSION,
        "graph": origin.model,
        "network": network,  # type: ignore[typeddict-item]
        "dtypes": dtypes_model(origin.drawn),
        "overlays": list(origin.overlays),
        "watched": origin.is_watched,
        "memory": origin.memory(),
        "findings": findings,
        "direction": shown.direction,  # type: ignore[typeddict-item]
        "constants": shown.constants,
        "selected": shown.selected,
        "cursor": origin.cursor,
        "inner": shown.inner,
        "state": origin.state(),
        "steps": origin.steps,
        "run": origin.run,
        "transport": origin.reopened(),
        "details": [*details, *[None] * (total - len(details))],
        "undetailed": undetailed(origin.drawn, len(details)) if len(details) < total else None,
        "all_cursors": every,
    }
    return saved if source else without_source(saved)


def _details(source: GraphSource, nodes: int, every: bool) -> list[list[StageModel]]:
    """Return, per node, its details at the start, then each change with its cursor."""
    details = source.details_reader()
    end = len(source.steps)
    last = end if source.cursor == end else None

    def stages(node: int) -> list[StageModel]:
        if every:
            return _stages(details, node, source.changes(node), last)
        return [{"from_step": 0, "fields": cast(dict[str, Any], details(node, None))}]

    found: list[list[StageModel]] = []
    with progress("details of nodes", lambda: len(found), nodes):
        found.extend(map(stages, range(nodes)))  # it grows with each
    return found


def _stages(
    details: Callable[[int, int | None], DetailsModel],
    node: int,
    cursors: list[int],
    end: int | None,
) -> list[StageModel]:
    """Collect the changes of a node's details; at the ``end`` a ``.grad`` is what it is now."""
    found: dict[int, dict[str, Any]] = {}
    before: dict[str, Any] = {}

    def add(cursor: int, now: dict[str, Any]) -> None:
        changed = {name: value for name, value in now.items() if before.get(name, ...) != value}
        if changed:
            found.setdefault(cursor, {}).update(changed)
        before.update(now)

    for cursor in cursors:
        add(cursor, cast(dict[str, Any], details(node, cursor)))
    if end is not None and before.get("grad") is not None:
        add(end, cast(dict[str, Any], details(node, None)))
    return [{"from_step": cursor, "fields": fields} for cursor, fields in found.items()]
