"""The demo's graphs can be opened by this version."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradwalk

FILES = sorted((Path(__file__).parents[2] / "js" / "demo" / "graphs").glob("*.gw"))


def test_there_are_graphs() -> None:
    assert [path.stem for path in FILES] == ["expression", "perceptron", "residual"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_graph_of_the_demo_can_be_opened_with_its_pass(path: Path) -> None:
    widget = gradwalk.load(path)
    assert widget.state["runs"] == 1
    assert widget.steps
    assert path.stat().st_size < 60_000
