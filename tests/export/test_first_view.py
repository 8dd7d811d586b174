"""How large the first view of every example in the gallery is, and its smallest letters."""

from __future__ import annotations

import re
import warnings
from contextlib import closing

import pytest
import torch
from examples import EXAMPLES, Example
from test_public_models import IN_TIMM, IN_TRANSFORMERS, MORE_IN_TIMM, of_timm, of_transformers

from gradwalk import GraphWidget
from gradwalk.export.svg_engine import is_installed

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(not is_installed(), reason="needs gradwalk[export]"),
]

HEIGHT = 700
"""Of the page that a picture is made for, px."""
MARGIN = 16
"""Kept free around the picture in a widget, px."""
FRAME = 20
"""Kept free around what is drawn in a file, px."""
LARGEST = 1.2
"""Small graphs are not blown up further."""
NAME = 13.5
"""The names of boxes, px."""
LEGIBLE = 11
"""So large a name is read well, px."""
SMALLEST = 10
"""The smallest letters of a card, px."""


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


@pytest.mark.parametrize(("width", "least"), [(1366, 0.75), (766, 0.55)])
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_example_opens_whole_and_large(example: Example, width: int, least: float) -> None:
    with closing(example.shown(watched=True)) as widget:
        picture = widget.to_svg(width=width)
    large = scale(picture, width)
    assert large >= least
    assert min(sizes(picture)) * large >= least * SMALLEST


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("name", [*IN_TRANSFORMERS, *IN_TIMM, *MORE_IN_TIMM])
def test_every_public_model_opens_whole_with_names_that_can_be_read(name: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = of_transformers if name in IN_TRANSFORMERS else of_timm
        model, loss_of = make(name)
        loss = loss_of()
    with closing(GraphWidget(loss, names=model)) as widget:
        for width in (1366, 766):
            picture = widget.to_svg(width=width)
            large, written = scale(picture, width), sizes(picture).count(NAME)
            print(f"{name}, {width} px: {large:.0%}, {NAME * large:.1f} px, {written} names")
            assert NAME * large >= LEGIBLE
            assert written >= 4
