"""How large the first view of every example in the gallery is, and its smallest letters."""

from __future__ import annotations

import re
import warnings
from contextlib import closing

import pytest
import torch
from examples import EXAMPLES, Example
from test_public_models import IN_TIMM, IN_TRANSFORMERS, MORE_IN_TIMM, of_timm, of_transformers

from gradwalk import GraphWidget, watch
from gradwalk.export.svg_engine import is_installed

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(not is_installed(), reason="needs gradwalk[export]"),
]

HEIGHT = 900
"""Of the highest page that a picture is made for, px."""
MARGIN = 16
"""Kept free around the picture in a widget, px."""
FRAME = 20
"""Kept free around what is drawn in a file, px."""
LARGEST = 1.2
"""Small graphs are not blown up further."""
NAME = 13.5
"""The names of boxes, px."""
LEGIBLE = 11
"""The smallest letters of a picture at rest, px."""
WIDTHS = (1366, 766)
"""Of the drawing in windows of 1,400 and 800 px."""


def scale(picture: str, width: float) -> float:
    """How large a picture is when a page of this width opens it whole."""
    found = re.match(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', picture)
    assert found
    across, high = float(found[1]) - 2 * FRAME, float(found[2]) - 2 * FRAME
    return min(LARGEST, (width - 2 * MARGIN) / across, (HEIGHT - 2 * MARGIN) / high)


def sizes(picture: str) -> list[float]:
    """How large each text of a picture is, px."""
    known = dict(re.findall(r"\.(\w+)\{[^}]*?font-size:([\d.]+)px", picture))
    return [float(known[kind]) for kind in re.findall(r'<text class="(\w+)"', picture)]


def smallest(picture: str, width: float) -> float:
    """How large the smallest letters are when a page of this width opens the picture, px."""
    return round(min(sizes(picture)) * scale(picture, width), 1)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_example_opens_whole_and_legible(example: Example, width: int) -> None:
    with closing(example.shown(watched=True)) as widget:
        picture = widget.to_svg(width=width)
    assert smallest(picture, width) >= LEGIBLE


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("name", [*IN_TRANSFORMERS, *IN_TIMM, *MORE_IN_TIMM])
def test_every_public_model_opens_whole_and_legible(name: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = of_transformers if name in IN_TRANSFORMERS else of_timm
        model, loss_of = make(name)
        loss = loss_of()
    with closing(GraphWidget(loss, names=model)) as widget:
        for width in WIDTHS:
            picture = widget.to_svg(width=width)
            assert smallest(picture, width) >= LEGIBLE
            assert sizes(picture).count(NAME) >= 4


@pytest.mark.parametrize("times", [3, 5, 8])
def test_a_layer_used_again_is_drawn(times: int) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    h, results = torch.ones(2, 4), []
    with watch():
        for _ in range(times):
            h = net(h)
            results.append(h)
        loss = sum(results, torch.zeros(2, 4)).sum()
    with closing(GraphWidget(loss)) as widget:
        for width in WIDTHS:
            assert widget.to_svg(width=width).startswith("<svg")
