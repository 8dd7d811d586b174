"""How large the first view of every example in the gallery is, and its smallest letters."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from examples import EXAMPLES, Example

from gradwalk.files.still import is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason="needs gradwalk[export]")

HEIGHT = 700
"""Of the page that a picture is made for, px."""
MARGIN = 16
"""Kept free around the picture in a widget, px."""
FRAME = 20
"""Kept free around what is drawn in a file, px."""
LARGEST = 1.2
"""Small graphs are not blown up further."""
SMALLEST = 10
"""The smallest letters of a card, px."""


def scale(picture: str, width: float) -> float:
    """How large a picture is when a page of this width opens it whole."""
    found = re.match(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', picture)
    assert found
    across, high = float(found[1]) - 2 * FRAME, float(found[2]) - 2 * FRAME
    return min(LARGEST, (width - 2 * MARGIN) / across, (HEIGHT - 2 * MARGIN) / high)


def smallest_text(picture: str) -> float:
    """The size of the smallest letters in a picture, px."""
    sizes = dict(re.findall(r"\.(\w+)\{[^}]*?font-size:([\d.]+)px", picture))
    used = set(re.findall(r'<text class="(\w+)"', picture))
    return min(float(sizes[kind]) for kind in used)


@pytest.mark.parametrize(("width", "least"), [(1366, 0.75), (766, 0.55)])
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_example_opens_whole_and_large(example: Example, width: int, least: float) -> None:
    with closing(example.shown(watched=True)) as widget:
        picture = widget.to_svg(width=width)
    large = scale(picture, width)
    assert large >= least
    assert smallest_text(picture) * large >= least * SMALLEST
