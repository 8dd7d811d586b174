"""Replace the widget by a picture and a text tree where no kernel runs."""

from __future__ import annotations

from typing import Any

from ..sources.graph_source import Snapshot
from . import pictures as export
from . import svg_engine as still
from .text import text_tree

MOST_LINES = 200  # most lines of the text of a widget

MOST_DRAWN = 300
"""Most nodes of a graph that gets a picture: it is drawn each time a cell shows the widget."""

_PLAIN, _SVG = "text/plain", "image/svg+xml"


def text_of(title: str, shown: Snapshot) -> str:
    """Return a graph as a tree of at most 200 lines below a title."""
    source = shown.source
    return f"{title}\n{text_tree(source.graph, MOST_LINES, source.model)}"


def with_fallbacks(bundle: Any, title: str, shown: Snapshot) -> Any:
    """Add a text and a picture to a mime bundle, for viewers without a kernel such as GitHub."""
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    if data is None:
        return bundle
    data[_PLAIN] = text_of(title, shown)
    if still.is_installed() and len(shown.source.drawn) <= MOST_DRAWN:
        # "auto" would follow the reader's system rather than the page, which is usually white.
        try:
            data[_SVG] = export.draw(shown, "light", whole=True)
        except (ImportError, RuntimeError) as error:
            data[_PLAIN] += f"\nThe picture is missing: {error}"
    return bundle
