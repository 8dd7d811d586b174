"""Export a widget as one HTML file that works offline."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from pathlib import Path
from typing import overload

from ..bundle import bundle
from ..english import plural
from ..schema.surrogates import well_formed
from ..sources.snapshot import TakesSnapshots
from .disk import read_path, write_file
from .save import packed_graph
from .text import text_tree

_MOST_LINES = 200  # of the text that is shown where scripts are off

_STYLE = """
html { color-scheme: light dark; }
body { margin: 0 auto; padding: 16px; max-width: 1400px; color: #1c2128; background: #fff; }
h1 { margin: 0 0 12px; font: 600 18px/1.3 Arial, Helvetica, sans-serif; overflow-wrap: anywhere; }
pre { overflow: auto; }
@media (prefers-color-scheme: dark) { body { color: #e6e9ee; background: #0d0f11; } }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="gradwalk"></div>
<noscript><p>This page draws the graph where scripts are allowed.</p><pre>{text}</pre></noscript>
</main>
<script type="text/plain" id="gradwalk-model">{model}</script>
<script>{script}</script>
</body>
</html>
"""


@overload
def to_html(
    widget: TakesSnapshots, path: None = None, *, title: str | None = ..., source: bool = ...
) -> str: ...
@overload
def to_html(
    widget: TakesSnapshots,
    path: str | os.PathLike[str],
    *,
    title: str | None = ...,
    source: bool = ...,
) -> Path: ...
def to_html(
    widget: TakesSnapshots,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    source: bool = True,
) -> str | Path:
    """Export the widget as one interactive HTML file that works offline.

    Args:
        widget: The widget, in its current state. Above 500 nodes the file has the details at the
            cursor only, and above 2,000 nodes only for the first 2,000.
        path: The file to write; None for no file.
        title: The title of the page; by default the size of the graph.
        source: Whether to include lines of the program, as for `gradwalk.save`.

    Returns:
        The text of the file; with a path, the path. The page's content policy forbids requests to
        any server.

    Raises:
        ValueError: The widget is closed.
        OSError: The file cannot be written.
    """
    if path is not None:
        read_path(path, "to_html")
    shown = widget._shown()
    graph = shown.subject.graph
    nodes, edges = len(graph), graph.number_of_edges()
    counts = f"{plural(nodes, 'node')}, {plural(edges, 'edge')}"
    kind = "Static" if graph.graph.get("static") else "Autograd"
    script = bundle("page.js")
    style = bundle("widget.css") + _STYLE
    text = _PAGE.format(
        policy=f"default-src 'none'; img-src data:; script-src {_digest(script)}; "
        "worker-src blob:; style-src 'unsafe-inline'",
        title=html.escape(well_formed(title or f"{kind} graph of {counts}")),
        style=style,
        text=html.escape(text_tree(graph, _MOST_LINES, shown.subject.model)),
        model=base64.b64encode(packed_graph(shown, source)).decode("ascii"),
        script=script,
    )
    return text if path is None else write_file(path, text, "to_html")


def _digest(script: str) -> str:
    """The source of a Content-Security-Policy that allows this script only."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
