"""What stands in for a widget where there is no kernel: a picture and a readable tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import export, still
from .text import text_tree

if TYPE_CHECKING:
    from ..widget.graph_widget import GraphWidget

MOST_LINES = 200
"""Lines of the text of a widget."""

MOST_DRAWN = 300
"""Nodes of a graph whose picture goes along unasked: it is drawn each time a cell shows it."""

_PLAIN, _SVG = "text/plain", "image/svg+xml"


def text_of(widget: GraphWidget) -> str:
    """A widget's graph as a tree of at most 200 lines, for a terminal or a screen reader."""
    if widget._follower is None:
        return repr(widget)
    tree = text_tree(widget._open().captured.graph, most=MOST_LINES)
    return f"{widget!r}\n{tree}"


def with_fallbacks(widget: GraphWidget, bundle: Any) -> Any:
    """Add to a mime bundle what can be seen without a kernel.

    A notebook shows the richest kind that it knows, which is the widget itself while it is alive;
    GitHub, nbviewer and the like show the picture.

    Args:
        widget: Whose bundle.
        bundle: Of kinds to contents, or a pair of that and metadata, or None.

    Returns:
        The same, with a tree as text, and a picture where `gradwalk[export]` is installed and the
        graph has at most 300 nodes.
    """
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    if data is None or widget._follower is None:
        return bundle
    data[_PLAIN] = text_of(widget)
    if still.is_installed() and len(widget.graph["nodes"]) <= MOST_DRAWN:
        # Light, which is right wherever a page is white; "auto" would follow the reader's system
        # rather than the page.
        try:
            data[_SVG] = export.draw(widget, "light", whole=True)
        except (ImportError, RuntimeError) as error:
            data[_PLAIN] += f"\nThere is no picture: {error}"
    return bundle
