"""What stands in for a widget where there is no kernel: a picture and a readable tree."""

from __future__ import annotations

from typing import Any

from ..sources.snapshot import Snapshot
from . import pictures as export
from . import svg_engine as still
from .text import text_tree

MOST_LINES = 200
"""Lines of the text of a widget."""

MOST_DRAWN = 300
"""Nodes of a graph whose picture goes along unasked: it is drawn each time a cell shows it."""

_PLAIN, _SVG = "text/plain", "image/svg+xml"


def text_of(title: str, shown: Snapshot) -> str:
    """A graph as a tree of at most 200 lines, for a terminal or a screen reader.

    Args:
        title: The line above it.
        shown: Whose graph.
    """
    subject = shown.subject
    return f"{title}\n{text_tree(subject.graph, MOST_LINES, subject.model)}"


def with_fallbacks(bundle: Any, title: str, shown: Snapshot) -> Any:
    """Add to a mime bundle what can be seen without a kernel.

    A notebook shows the richest kind that it knows, which is the widget itself while it is alive;
    GitHub, nbviewer and the like show the picture.

    Args:
        bundle: Of kinds to contents, or a pair of that and metadata, or None.
        title: The line above the tree.
        shown: What the widget shows.

    Returns:
        The same, with a tree as text, and a picture where `gradwalk[export]` is installed and the
        graph has at most 300 nodes.
    """
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    if data is None:
        return bundle
    data[_PLAIN] = text_of(title, shown)
    if still.is_installed() and len(shown.subject.drawn) <= MOST_DRAWN:
        # Light, which is right wherever a page is white; "auto" would follow the reader's system
        # rather than the page.
        try:
            data[_SVG] = export.draw(shown, "light", whole=True)
        except (ImportError, RuntimeError) as error:
            data[_PLAIN] += f"\nThere is no picture: {error}"
    return bundle
