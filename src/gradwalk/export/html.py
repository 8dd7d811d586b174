"""Interactive HTML pages that work offline."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..english import plural
from ..plugins import Hook
from ..schema.file_format import SavedGraphModel
from ..schema.json_values import well_formed
from ..sources.graph_source import GraphSource, Snapshot
from .contents import packed_graph
from .disk import bundle, write_file
from .text import text_tree

_MOST_LINES = 200  # of the text that is shown where scripts are off

_STYLE = """
html { color-scheme: light dark; }
html[data-theme=light] { color-scheme: light; }
html[data-theme=dark] { color-scheme: dark; }
body { margin: 0 auto; padding: 16px; max-width: 1400px; }
body { color: light-dark(#1c2128, #e6e9ee); background: light-dark(#fff, #0d0f11); }
h1 { margin: 0 0 12px; font: 600 18px/1.3 Arial, Helvetica, sans-serif; overflow-wrap: anywhere; }
pre { overflow: auto; }
html[data-bare] h1 { display: none; }
html[data-bare] body { padding: 0; max-width: none; }
"""

# The style sheet of a shared script; the script also runs in workers, which have no document.
_ADD_STYLE = """\
if (typeof document !== "undefined")
  document.head.append(
    Object.assign(document.createElement("style"), { textContent: %s }),
  );
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
{data}{script}
</body>
</html>
"""


_FRAMES = (
    _PAGE.partition("<link")[0]
    + """<style>
html {{ color-scheme: light dark; }}
body {{ display: flex; margin: 0; height: 100vh; }}
iframe {{ flex: 1; min-width: 0; border: 0; }}
</style>
</head>
<body>{frames}</body>
</html>
"""
)


class PageParts(NamedTuple):
    """The parts that a feature adds to a page."""

    name: str  # of the script in place of "page.js", and of a style sheet
    data: Mapping[str, str]  # texts for the script, by the id of their element; without "<"
    prepare: Callable[[SavedGraphModel], SavedGraphModel]  # changes what the page shows
    has_text: bool = True  # whether the page has the graph as text where scripts are off


LIVE: Hook[Callable[[GraphSource, str | None], PageParts]] = Hook()
"""Makes the page of a graph one that computes; the text is what its quiz asks."""


def page(
    shown: Snapshot,
    title: str | None,
    source: bool,
    shared: str | None = None,
    parts: PageParts | None = None,
) -> str:
    """Return an interactive page; ``shared``: the file of `shared_script`, None to include it."""
    graph = shown.source.graph
    nodes, edges = len(graph), graph.number_of_edges()
    counts = f"{plural(nodes, 'node')}, {plural(edges, 'edge')}"
    kind = "Static" if graph.graph.get("static") else "Autograd"
    style, policy, script = _STYLE, _SHARED_POLICY, f'<script src="{shared}"></script>'
    if shared is None:
        text = bundle("page.js" if parts is None else f"{parts.name}.js")
        added = "" if parts is None else bundle(f"{parts.name}.css")
        style, policy, script = (
            bundle("widget.css") + added + style,
            _policy(text),
            f"<script>{text}</script>",
        )
    return _PAGE.format(
        policy=policy,
        title=html.escape(well_formed(title or f"{kind} graph of {counts}")),
        style=style,
        text=""
        if parts is not None and not parts.has_text
        else html.escape(text_tree(graph, _MOST_LINES, shown.source.model)),
        model=base64.b64encode(
            packed_graph(shown, source, prepare=None if parts is None else parts.prepare)
        ).decode("ascii"),
        data="".join(
            f'<script type="application/json" id="{name}">{text}</script>\n'
            for name, text in ({} if parts is None else parts.data).items()
        ),
        script=script,
    )


def page_of_several(
    shown: Mapping[str, Snapshot], title: str | None, source: bool, shared: str | None = None
) -> str:
    """Return a page with the page of each graph in a frame, next to each other."""
    frames = "".join(
        f'<iframe title="{html.escape(well_formed(label))}" srcdoc="{html.escape(text)}"></iframe>'
        for label, each in shown.items()
        for text in (page(each, label, source, shared),)
    )
    return _FRAMES.format(
        policy=_policy(bundle("page.js")) if shared is None else _SHARED_POLICY,
        title=html.escape(well_formed(title or " and ".join(shown))),
        frames=frames,
    )


def shared_script(name: str = "page") -> tuple[str, str]:
    """Return name and text of the script that pages of one folder, kind and release share."""
    style = bundle("widget.css") + ("" if name == "page" else bundle(f"{name}.css"))
    script = _ADD_STYLE % json.dumps(style) + bundle(f"{name}.js")
    return f"gradwalk-{hashlib.sha256(script.encode('utf-8')).hexdigest()[:12]}.js", script


def write_shared_script(folder: Path, name: str = "page") -> None:
    """Write the shared script into a folder, unless it is there."""
    file, script = shared_script(name)
    if not (folder / file).exists():
        write_file(folder / file, script, "to_html")


_SHARED_POLICY = (
    "default-src 'none'; img-src data:; script-src 'self'; worker-src 'self'; "
    "style-src 'unsafe-inline'"
)


def _policy(script: str) -> str:
    """Return a Content-Security-Policy that allows this script only."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; script-src 'sha256-{digest}'; worker-src blob:; "
        "style-src 'unsafe-inline'"
    )
