"""Remove the lines of the program from a graph to save."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from ..schema.details import FunctionModel, SourceModel
from ..schema.file_format import SavedGraphModel

_LINE = SourceModel.__annotations__.keys()
_FUNCTION = FunctionModel.__annotations__.keys()
_LEFT_OUT = "Its source is left out."
_SOME_FILE = r"Cell In\[\d+\]|<[^<>\s]+>|[^\s`'\"(),;:]+\.\w+"
"""Matches file names in sentences, also of files that no node names."""


def without_source(saved: SavedGraphModel) -> SavedGraphModel:
    """Copy a graph without file names, line numbers and text of the program.

    Args:
        saved: The graph to save.

    Returns:
        A copy, whose sentences name no lines.
    """
    lines = list(_lines(saved))
    files = {line["file"] for line in lines}
    files |= {at.rpartition(":")[0] for at in _places(saved)}
    known = "|".join(map(re.escape, sorted(filter(None, files), key=len, reverse=True)))
    texts = sorted({line["text"] for line in lines if line["text"]}, key=len, reverse=True)
    said = "|".join([*map(re.escape, texts), ".*?"])
    named = "|".join(filter(None, (known, _SOME_FILE)))
    place = rf"(?:{named}):\d+(?: \(`(?:{said})`\))?"
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


def _places(saved: SavedGraphModel) -> Iterator[str]:
    """The lines that the nodes of the captured graph name, "net.py:7"."""
    for node in saved["network"]["nodes"]:
        if node.get("source"):
            yield str(node["source"])
