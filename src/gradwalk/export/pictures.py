"""Export the graph of a widget as a picture, or as a file for other tools."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, overload

from ..schema.graph import GraphModel
from ..schema.graph_json import graph_to_data
from ..schema.surrogates import escaped
from ..sources.snapshot import Snapshot, TakesSnapshots
from . import svg_engine as still
from .disk import read_path, write_file
from .plain_dot import dot_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

Theme = Literal["light", "dark", "auto"]
THEMES = ("light", "dark", "auto")

_MOST_PIXELS = 2**27  # of a PNG: half a gigabyte while it is drawn
_PLAIN_FONTS = {"sans": "Arial", "mono": "monospace"}
"""For cairo, which tries the first of a list only."""

_Content = TypeVar("_Content", str, bytes)
_Written = str | os.PathLike[str]


class _Picture(TypedDict, total=False):
    theme: Theme
    whole: bool
    width: float | None
    derivatives: bool


class _Png(_Picture, total=False):
    scale: float


@overload
def to_svg(widget: TakesSnapshots, path: None = None, **how: Unpack[_Picture]) -> str: ...
@overload
def to_svg(widget: TakesSnapshots, path: _Written, **how: Unpack[_Picture]) -> Path: ...
def to_svg(
    widget: TakesSnapshots,
    path: _Written | None = None,
    *,
    theme: Theme = "light",
    whole: bool = False,
    width: float | None = None,
    derivatives: bool = False,
) -> str | Path:
    """Draw what the widget draws, as SVG.

    Args:
        widget: The widget, drawn with its selection and at its cursor.
        path: The file to write; None for no file.
        theme: "light", "dark", or "auto": as the reader's system is set.
        whole: Whether every node is drawn. Otherwise a large graph is drawn as the widget shows it
            at first, its modules closed.
        width: The width of the page in px; None for 1,200. A narrow page wraps rows and opens
            fewer modules. The picture itself may be of any size.
        derivatives: Whether the local derivative is written on every arrow that a gradient passed,
            in a picture of cards.

    Returns:
        The text of the file; with a path, the path.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed.
        ValueError: The theme is unknown, the width is not positive, or the widget is closed.
        OSError: The file cannot be written.
    """
    if path is not None:
        read_path(path, "to_svg")
    return _deliver(
        draw(widget._shown(), theme, whole, width, derivatives=bool(derivatives)), path, "to_svg"
    )


@overload
def to_png(widget: TakesSnapshots, path: None = None, **how: Unpack[_Png]) -> bytes: ...
@overload
def to_png(widget: TakesSnapshots, path: _Written, **how: Unpack[_Png]) -> Path: ...
def to_png(
    widget: TakesSnapshots,
    path: _Written | None = None,
    *,
    scale: float = 2,
    theme: Theme = "light",
    whole: bool = False,
    width: float | None = None,
    derivatives: bool = False,
) -> bytes | Path:
    """Draw what the widget draws, as PNG.

    Args:
        widget: The widget, drawn with its selection and at its cursor.
        path: The file to write; None for no file.
        scale: Pixels of the picture per pixel of the widget.
        theme: "light" or "dark".
        whole: As for `to_svg`.
        width: As for `to_svg`.
        derivatives: As for `to_svg`.

    Returns:
        The contents of the file; with a path, the path.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed.
        ValueError: The theme is unknown, the scale or the width is not positive, or the picture
            would have more than 134 million pixels.
        OSError: The file cannot be written.
    """
    _check_positive("scale", scale, 2)
    if path is not None:
        read_path(path, "to_png")
    resvg = still.need("resvg_py", "resvg-py", "to_png")
    text = draw(
        widget._shown(),
        _still_theme(theme, "to_png"),
        whole,
        width,
        derivatives=bool(derivatives),
    )
    width, height = _size(text)
    if width * height * scale * scale > _MOST_PIXELS:
        most = math.sqrt(_MOST_PIXELS / (width * height))
        raise ValueError(
            f"A PNG of this graph at scale {scale:g} would be {width * scale:,.0f} by "
            f"{height * scale:,.0f} pixels, which is more than memory should hold. Give a scale of "
            f"at most {math.floor(most * 100) / 100:g}, whole=False, or use to_svg()."
        )
    return _deliver(bytes(resvg.svg_to_bytes(svg_string=text, zoom=scale)), path, "to_png")


@overload
def to_pdf(widget: TakesSnapshots, path: None = None, **how: Unpack[_Picture]) -> bytes: ...
@overload
def to_pdf(widget: TakesSnapshots, path: _Written, **how: Unpack[_Picture]) -> Path: ...
def to_pdf(
    widget: TakesSnapshots,
    path: _Written | None = None,
    *,
    theme: Theme = "light",
    whole: bool = False,
    width: float | None = None,
    derivatives: bool = False,
) -> bytes | Path:
    """Draw what the widget draws, as a PDF of one page, in vectors and with text to search.

    Args:
        widget: The widget, drawn with its selection and at its cursor.
        path: The file to write; None for no file.
        theme: "light" or "dark".
        whole: As for `to_svg`.
        width: As for `to_svg`.
        derivatives: As for `to_svg`.

    Returns:
        The contents of the file; with a path, the path.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed, or the cairo library that it
            needs is missing.
        ValueError: The theme is unknown, the width is not positive, or the widget is closed.
        OSError: The file cannot be written.
    """
    if path is not None:
        read_path(path, "to_pdf")
    cairo = still.need("cairosvg", "CairoSVG", "to_pdf")
    plain = _still_theme(theme, "to_pdf")
    text = draw(
        widget._shown(), plain, whole, width, fonts=_PLAIN_FONTS, derivatives=bool(derivatives)
    )
    return _deliver(bytes(cairo.svg2pdf(bytestring=text.encode("utf-8"))), path, "to_pdf")


@overload
def to_json(widget: TakesSnapshots, path: None = None, *, source: bool = ...) -> str: ...
@overload
def to_json(widget: TakesSnapshots, path: _Written, *, source: bool = ...) -> Path: ...
def to_json(
    widget: TakesSnapshots, path: _Written | None = None, *, source: bool = True
) -> str | Path:
    """The graph as JSON that networkx reads.

    Args:
        widget: The widget; constants and cuts are included.
        path: The file to write; None for no file.
        source: Whether each node says which line of the program made it, as far as is known.

    Returns:
        The text of the file; with a path, the path.
        ``networkx.node_link_graph(json.loads(text), edges="edges")`` is the graph again.

    Raises:
        ValueError: The widget is closed.
        OSError: The file cannot be written.
    """
    data = graph_to_data(widget._shown().subject.drawn)
    if not source:
        for node in data["nodes"]:
            node.pop("source", None)
    # JSON escapes lone surrogates, so that names are read back unchanged.
    text = escaped(json.dumps(data, ensure_ascii=False))
    return _deliver(text, path, "to_json")


@overload
def to_dot(widget: TakesSnapshots, path: None = None) -> str: ...
@overload
def to_dot(widget: TakesSnapshots, path: _Written) -> Path: ...
def to_dot(widget: TakesSnapshots, path: _Written | None = None) -> str | Path:
    """The graph that is drawn, in Graphviz' DOT language; needs no package.

    Args:
        widget: The widget with the graph.
        path: The file to write; None for no file.

    Returns:
        The text of the file; with a path, the path. `gradwalk.make_dot` draws as torchviz does
        instead.

    Raises:
        ValueError: The widget is closed.
        OSError: The file cannot be written.
    """
    shown = widget._shown()
    return _deliver(dot_text(shown_graph(shown), shown.direction), path, "to_dot")


def draw(shown: Snapshot, theme: str, whole: bool, width: float | None = None, **more: Any) -> str:
    """The SVG of what a widget shows.

    Args:
        shown: The state to draw.
        theme: "light", "dark" or "auto".
        whole: As for `to_svg`.
        width: As for `to_svg`.
        **more: Further options of ``js/export/svg.ts``.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed.
        ValueError: The theme is unknown, or the width is not positive.
    """
    if width is not None:
        _check_positive("width", width, 800)
    if not isinstance(theme, str) or theme not in THEMES:
        raise ValueError(f"theme was given {theme!r}; it is one of {', '.join(map(repr, THEMES))}.")
    subject = shown.subject
    return still.draw_svg(
        subject.model,
        theme=theme,
        whole=bool(whole),
        width=width,
        direction=shown.direction,
        constants=shown.constants,
        selected=shown.selected,
        state=subject.state(),
        steps=subject.steps,
        run=subject.run,
        cursor=subject.cursor,
        inner=shown.inner,
        **more,
    )


def shown_graph(shown: Snapshot) -> GraphModel:
    """The wire model of what is drawn: without constants and cuts where they are hidden."""
    graph = shown.subject.model
    if shown.constants:
        return graph
    nodes = [node for node in graph["nodes"] if node["kind"] in {"op", "leaf", "call"}]
    drawn = {node["id"] for node in nodes}
    return {
        **graph,
        "nodes": nodes,
        "edges": [edge for edge in graph["edges"] if {edge["source"], edge["target"]} <= drawn],
    }


def _check_positive(what: str, given: Any, such_as: float) -> None:
    if not (isinstance(given, (int, float)) and 0 < given <= sys.float_info.max):
        raise ValueError(f"{what} was given {given!r}. Give a number above 0, such as {such_as}.")


def _still_theme(theme: str, caller: str) -> str:
    if theme == "auto":
        raise ValueError(
            f"{caller}() was given the theme 'auto', but such a file cannot follow its reader's "
            "system. Give 'light' or 'dark'."
        )
    return theme


def _size(svg: str) -> tuple[float, float]:
    found = re.match(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


def _deliver(content: _Content, path: Any, caller: str) -> _Content | Path:
    return content if path is None else write_file(path, content, caller, between=2)
