"""Older versions of the file format open, with defaults for newer fields."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, TypedDict

import pytest

from gradwalk import load
from gradwalk.schema import file_format as saved_file
from gradwalk.schema.columns import decode, encode
from gradwalk.schema.validate import check

pytestmark = pytest.mark.one_python

VERSION_18 = Path(__file__).with_name("version_18.gw")
"""A small model with ReLU, watched, with a recorded pass and its cursor after 3 of 13 steps."""


@pytest.fixture
def saved() -> dict[str, Any]:
    return decode(VERSION_18.read_bytes())


def test_a_file_of_version_18_opens(saved):
    assert saved["version"] == 18
    with contextlib.closing(load(VERSION_18)) as widget:
        assert repr(widget) == "GraphWidget(13 nodes, 12 edges, 5 leaves)"
        assert (widget.cursor, len(widget.steps), widget.selected) == (3, 13, 2)
        assert {node["op"] for node in widget.model["nodes"]} >= {"AddmmBackward0", "ReluBackward0"}
        graph = widget.to_networkx()
        assert graph.nodes[0]["source"] == "train.py:9"
        assert {nr for *_, nr in graph.edges(data="arg_nr")} >= {0, 1, 2}
        for cursor in range(14):
            widget.cursor = cursor
            for node in range(13):
                widget.selected = node
                assert widget.details["id"] == node
        assert widget.details["name"] == "0.weight"
        assert widget.details["grad"]["shape"] == [2, 2]
        assert "0.weight" in widget.to_html()


def records(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(each for inner in value.values() for each in records(inner))]
    return [each for inner in value for each in records(inner)] if isinstance(value, list) else []


def test_unknown_fields_are_ignored(saved):
    plain = saved_file.unpack(encode(saved), "run")
    for record in records(saved):
        record["node_for_adding"] = {"deep": [[1], {"x": None}]} if len(record) < 5 else 3
    assert saved_file.unpack(encode(saved), "run") == plain


@pytest.mark.parametrize(
    ("place", "default"),
    [
        (("graph", "ranks"), None),
        (("graph", "derivatives"), []),
        (("graph", "nodes", 4, "recomputed"), False),
        (("graph", "nodes", 4, "checkpoint"), None),
        (("network", "nodes", 2, "outputs"), []),
        (("details", 3, 0, "fields", "chain"), None),
        (("watched",), False),
        (("findings",), []),
    ],
)
def test_a_missing_field_has_its_default(saved, place, default):
    parent: Any = saved
    for key in place[:-1]:
        parent = parent[key]
    del parent[place[-1]]
    found: Any = saved_file.unpack(encode(saved), "run")
    for key in place:
        found = found[key]
    assert found == default
    assert type(found) is type(default)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("graph", "nodes", 4, "op"), "the file.graph.nodes[4] lacks 'op'"),
        (("graph",), "the file lacks 'graph'"),
        (("details", 3, 0, "fields", "id"), "the first stage lacks 'id'"),
        (("graph", "nodes"), "which is none of the 0 nodes"),  # its default disagrees with the rest
    ],
)
def test_what_has_no_default_is_refused(saved, place, words):
    parent: Any = saved
    for key in place[:-1]:
        parent = parent[key]
    del parent[place[-1]]
    with pytest.raises(ValueError, match=r"is damaged") as caught:
        saved_file.unpack(encode(saved), "run")
    assert words in str(caught.value)


class Added(TypedDict):
    maybe: int | None
    many: list[int]
    flag: bool


def test_defaults_are_not_shared():
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    check([first, second], list[Added], "it")
    assert first == second == {"maybe": None, "many": [], "flag": False}
    assert first["many"] is not second["many"]


def test_versions(saved):
    def refused(version: Any, **more: Any) -> str:
        with pytest.raises(ValueError, match=r"^'run' has version") as caught:
            saved_file.unpack(encode({**saved, **more, "version": version}), "run")
        return str(caught.value)

    newest, oldest = saved_file.VERSION, saved_file.OLDEST_VERSION
    reads = f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"
    for version in range(oldest, newest + 1):
        saved_file.unpack(encode({**saved, "version": version}), "run")
    assert refused(newest + 1, graph={}) == (
        f"'run' has version {newest + 1} of the file format, but this gradwalk reads "
        f"{reads}. Update gradwalk to open it."
    )
    for older in (0, 1, oldest - 1, True, None, "11", 10.0):
        assert "Open it with the gradwalk that wrote it, or save" in refused(older, graph={})
