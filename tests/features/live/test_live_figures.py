"""The live figures of the documentation, and what their sentences say."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from test_writing_live import program_in

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
from live_figures import FIGURES  # noqa: E402  it is no package


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_a_page(name):
    widget = FIGURES[name]()
    program = program_in(widget.to_html(live=True))
    assert any(one["leaf"] and one["ranges"] for one in program["inputs"])
    widget.close()


def test_the_page_shows_each_figure():
    text = (ROOT / "docs" / "live-figures.md").read_text(encoding="utf-8")
    assert re.findall(r'data-live="figure-([\w-]+)"', text) == list(FIGURES)


def test_zero_grad_adds_to_what_was_there():
    program = program_in(FIGURES["zero-grad"]().to_html(live=True))
    assert [one["before"] for one in program["inputs"] if one["leaf"]] == [[3.0]]


def test_five_sigmoids_leave_less_than_a_thousandth():
    widget = FIGURES["vanishing"]()
    widget.backward()
    (leaf,) = (one for one in widget.model["nodes"] if one["name"] == "x")
    run = widget._open().run
    (grad,) = (one["values"] for one in run["grads"] if one["node"] == leaf["id"])
    assert 0 < grad < 1e-3
