"""Methods that write the graphs of a widget as pictures, pages, and files for other tools.

Several graphs are written side by side.
"""

from __future__ import annotations

import functools
import html
import inspect
import json
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from ..lazily import nx
from ..schema.graph import GraphModel
from ..schema.graph_json import graph_to_data
from ..schema.json_values import escaped, well_formed
from ..sources.graph_source import GraphSource, HasGraphs, Snapshot
from . import svg_engine as still
from .disk import read_path, write_file
from .html import (
    LIVE,
    PageParts,
    page,
    page_of_several,
    shared_script,
    write_shared_script,
)
from .plain_dot import dot_text

Theme = Literal["light", "dark", "auto"]
THEMES = ("light", "dark", "auto")
Assets = Literal["inline", "shared"]

_MOST_PIXELS = 2**27  # of a PNG: half a gigabyte while it is drawn
_PLAIN_FONTS = {"sans": "Arial", "mono": "monospace"}
"""For cairo, which tries the first of a list only."""

_GAP, _HEADING = 24, 28  # px around and above pictures side by side
_INK = {"light": "#1c2128", "dark": "#e6e9ee", "auto": "#7d8590"}
_PAGE = {"light": "#fbfbfc", "dark": "#131518", "auto": "none"}  # as in a picture of one graph
_FONT = "Arial, 'Liberation Sans', Arimo, Helvetica, sans-serif"

_P = ParamSpec("_P")
_T = TypeVar("_T", str, bytes)
_C_co = TypeVar("_C_co", str, bytes, covariant=True)


class ShowsGraphs(HasGraphs, Protocol):
    """A widget or a file, whose graphs the functions here write. Its class has them as methods."""

    def to_networkx(self) -> nx.MultiDiGraph: ...  # noqa: D102  documented where it is written


class _Written(Protocol[_P, _C_co]):
    """A method that returns its contents, or writes them into a file and returns the path."""

    @overload
    def __call__(self, path: None = None, *args: _P.args, **kwargs: _P.kwargs) -> _C_co: ...
    @overload
    def __call__(
        self, path: str | os.PathLike[str], *args: _P.args, **kwargs: _P.kwargs
    ) -> Path: ...


class _Export(Protocol[_P, _C_co]):
    def __get__(self, obj: ShowsGraphs, owner: type) -> _Written[_P, _C_co]: ...


def _to_file(make: Callable[Concatenate[ShowsGraphs, _P], _T]) -> _Export[_P, _T]:
    """Give a method that makes the contents of a file the argument ``path``."""

    @functools.wraps(make)
    def written(self: ShowsGraphs, path: Any = None, **options: Any) -> Any:
        if path is not None:
            read_path(path, make.__name__)
        contents: Any = make(self, **options)  # type: ignore[call-arg]
        return contents if path is None else write_file(path, contents, make.__name__)

    plain = inspect.signature(make)
    own, *options = plain.parameters.values()
    path = inspect.Parameter(
        "path",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation="str | os.PathLike[str] | None",
    )
    returns = f"{plain.return_annotation} | Path"
    written.__signature__ = plain.replace(  # type: ignore[attr-defined]
        parameters=[own, path, *options], return_annotation=returns
    )
    written.__annotations__ = {**make.__annotations__, "path": path.annotation, "return": returns}
    return written  # type: ignore[return-value]


@_to_file
def to_svg(
    self: ShowsGraphs,
    *,
    theme: Theme = "light",
    whole: bool = False,
    width: float | None = None,
    derivatives: bool = False,
) -> str:
    """Draw what is shown as SVG, with its selection and at its cursor.

    Args:
        path (str | os.PathLike[str], optional): The file to write; None for no file.
        theme (Theme, optional): "light", "dark", or "auto", which follows the reader's system.
            Default: ``"light"``.
        whole (bool, optional): Whether every node is drawn. Otherwise a large graph is drawn as
            the widget shows it at first, its modules closed. Default: ``False``.
        width (float, optional): The width of the page in px; None for 1,200. The picture has the
            form that a widget has first in a page of `to_html` of this width: a narrow page
            wraps rows and opens fewer modules. The picture itself may be of any size.
        derivatives (bool, optional): Whether the local derivative is written on every arrow
            that a gradient passed, in a picture of cards. Default: ``False``.

    Returns:
        The text of the file; with a path, the path.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed.
        ValueError: The theme is unknown, the width is not positive, or the widget is closed.
        OSError: The file cannot be written.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> GraphWidget(x**2).to_svg(theme="dark")[:4]
        '<svg'
    """
    return _drawn(self, theme, whole, width, derivatives=bool(derivatives))


@_to_file
def to_png(
    self: ShowsGraphs,
    *,
    scale: float = 2,
    theme: Theme = "light",
    whole: bool = False,
    width: float | None = None,
    derivatives: bool = False,
) -> bytes:
    """Draw what is shown as PNG, with its selection and at its cursor.

    Args:
        path (str | os.PathLike[str], optional): The file to write; None for no file.
        scale (float, optional): Pixels of the picture per px of the widget. Default: ``2``.
        theme (Theme, optional): "light" or "dark". Default: ``"light"``.
        whole (bool, optional): Whether every node is drawn, rather than the modules of a large
            graph closed. Default: ``False``.
        width (float, optional): The width of the page in px; None for 1,200.
        derivatives (bool, optional): Whether the local derivative is written on every arrow
            that a gradient passed. Default: ``False``.

    Returns:
        The contents of the file; with a path, the path.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed.
        ValueError: The theme is unknown, the scale or the width is not positive, or the picture
            would have more than 134 million pixels.
        OSError: The file cannot be written.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> GraphWidget(x**2).to_png(scale=1)[1:4]
        b'PNG'
    """
    _check_positive("scale", scale, 2)
    resvg = still.need("resvg_py", "resvg-py", "to_png")
    theme = _still_theme(theme, "to_png")
    text = _drawn(self, theme, whole, width, derivatives=bool(derivatives))
    width, height = _size(text)
    if width * height * scale * scale > _MOST_PIXELS:
        most = math.sqrt(_MOST_PIXELS / (width * height))
        raise ValueError(
            f"A PNG of this graph at scale {scale:g} would be {width * scale:,.0f} by "
            f"{height * scale:,.0f} pixels, which is more than memory should hold. Give a "
            f"scale of at most {math.floor(most * 100) / 100:g}, whole=False, or use to_svg()."
        )
    return bytes(resvg.svg_to_bytes(svg_string=text, zoom=scale))


@_to_file
def to_pdf(
    self: ShowsGraphs,
    *,
    theme: Theme = "light",
    whole: bool = False,
    width: float | None = None,
    derivatives: bool = False,
) -> bytes:
    """Draw what is shown as a PDF of one page, in vectors and with text to search.

    Args:
        path (str | os.PathLike[str], optional): The file to write; None for no file.
        theme (Theme, optional): "light" or "dark". Default: ``"light"``.
        whole (bool, optional): Whether every node is drawn, rather than the modules of a large
            graph closed. Default: ``False``.
        width (float, optional): The width of the page in px; None for 1,200.
        derivatives (bool, optional): Whether the local derivative is written on every arrow
            that a gradient passed. Default: ``False``.

    Returns:
        The contents of the file; with a path, the path.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed, or the cairo library that
            it needs is missing.
        ValueError: The theme is unknown, the width is not positive, or the widget is closed.
        OSError: The file cannot be written.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> GraphWidget(x**2).to_pdf()[:4]
        b'%PDF'
    """
    cairo = still.need("cairosvg", "CairoSVG", "to_pdf")
    theme = _still_theme(theme, "to_pdf")
    how = {"fonts": _PLAIN_FONTS, "derivatives": bool(derivatives)}
    text = _drawn(self, theme, whole, width, **how)
    return bytes(cairo.svg2pdf(bytestring=text.encode("utf-8")))


@overload
def to_html(
    self: ShowsGraphs,
    path: None = None,
    *,
    title: str | None = None,
    source: bool = True,
    assets: Literal["inline"] = "inline",
    live: bool = False,
    quiz: str | None = None,
) -> str: ...
@overload
def to_html(
    self: ShowsGraphs,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    source: bool = True,
    assets: Assets = "inline",
    live: bool = False,
    quiz: str | None = None,
) -> Path: ...
def to_html(
    self: ShowsGraphs,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    source: bool = True,
    assets: Assets = "inline",
    live: bool = False,
    quiz: str | None = None,
) -> str | Path:
    """Write what is shown as an interactive HTML file that works offline.

    Above 500 nodes the file has the details at the cursor only, and above 2,000 nodes only for
    the first 2,000. The page's content policy forbids requests to any other server.

    A page inside another one, in an ``<iframe>``, follows a message of the outer page:
    ``frame.contentWindow.postMessage({ gradwalk: { theme: "dark", bare: true } }, "*")``.
    A bare page has no heading and no margin, and answers with its height in px, again when it
    changes: ``{ gradwalk: { height: 480 } }``.

    A live page computes: the reader changes the numbers of leaves and constants, and values and
    gradients follow, without Python. It runs the calls that `gradwalk.watch` saw, forward and
    backward, with torch's rounding; `gradwalk.interact` makes such pages of functions. A program
    with a call that the page cannot compute is refused. In the page ``window.gradwalk.set("w",
    [2])`` and ``window.gradwalk.values()`` do the same for scripts.

    Args:
        path (str | os.PathLike[str], optional): The file to write; None for no file.
        title (str, optional): The title of the page; None for the size of the graph.
        source (bool, optional): Whether to include lines of the program, as for
            `gradwalk.save`. Default: ``True``.
        assets (Assets, optional): "inline" for one file with everything in it; "shared" for a
            small page beside one script of 0.4 MB, which all pages of a folder share and the
            first one writes. Default: ``"inline"``.
        live (bool, optional): Whether the page computes the numbers again. It needs a loss that was
            computed under `gradwalk.watch`. Backward runs if no pass was recorded; every ``.grad``
            is as before then. Default: ``False``.
        quiz (str, optional): The quantity that a live page asks for and marks: "grad" or "value";
            None for no quiz.

    Returns:
        The text of the file; with a path, the path.

    Raises:
        ValueError: ``assets`` is neither, or is "shared" without a path; the widget is closed; or
            a live page cannot compute this program, and why.
        OSError: The file cannot be written.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> "<title>A square</title>" in GraphWidget(x**2).to_html(title="A square")
        True
    """
    if assets not in ("inline", "shared"):
        raise ValueError(f"assets was given {assets!r}. Give 'inline' or 'shared'.")
    if assets == "shared" and path is None:
        raise ValueError(
            "to_html() was given assets='shared' and no path, but the shared script is written "
            "beside the page. Give a path, such as 'pages/graph.html'."
        )
    if quiz is not None and not live:
        raise ValueError(f"to_html() was given quiz={quiz!r} without live=True. Give both.")
    to = None if path is None else read_path(path, "to_html")
    kind = "live" if live else "page"
    shared = shared_script(kind)[0] if assets == "shared" else None
    shown = self._graphs_shown()
    if live:
        text = live_page(self, title, source, quiz, shared=shared)
    elif len(shown) > 1:
        text = page_of_several(shown, title, source, shared)
    else:
        (only,) = shown.values()
        text = page(only, title, source, shared)
    if to is None:
        return text
    if shared is not None:
        write_shared_script(to.parent, kind)
    return write_file(to, text, "to_html")


def embed(
    self: ShowsGraphs,
    *,
    live: bool = False,
    quiz: str | None = None,
    title: str | None = None,
    height: int = 560,
) -> str:
    """Return the interactive page as a fragment of HTML, for a site, a book or slides.

    The fragment is one ``<iframe>`` with the whole page in it. It loads nothing.

    Args:
        live (bool, optional): Whether the page computes. Default: ``False``.
        quiz (str, optional): The quantity that a live page asks for: "grad" or "value"; None for
            no quiz.
        title (str, optional): The title of the page; None for the size of the graph.
        height (int, optional): The height of the frame in px. Default: ``560``.

    Returns:
        The HTML of the frame.

    Raises:
        ValueError: The widget is closed, or a live page cannot compute this program.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> GraphWidget(x**2).embed()[:7]
        '<iframe'
    """
    text = to_html(self, title=title, live=live, quiz=quiz)
    named = html.escape(well_formed(title or "Autograd graph"))
    return (
        f'<iframe title="{named}" style="width:100%;height:{int(height)}px;border:0" '
        f'srcdoc="{html.escape(text)}"></iframe>'
    )


def live_page(
    self: ShowsGraphs,
    title: str | None,
    source: bool,
    quiz: str | None = None,
    *,
    make: Callable[[GraphSource, str | None], PageParts] | None = None,
    shared: str | None = None,
) -> str:
    """Return a page that computes; ``make``: how, by default from what `watch` saw."""
    making = make or LIVE.first()
    start, reset = getattr(self, "_start", None), getattr(self, "reset", None)
    started = bool(start()) if start is not None else False
    try:
        shown = self._graphs_shown()
        if len(shown) > 1 or making is None:
            raise ValueError(
                f"A live page shows one graph, and this has {len(shown)}. Write a page of each."
            )
        (only,) = shown.values()
        return page(only, title, source, shared, making(only.source, quiz))
    finally:
        if started and reset is not None:
            reset()


@_to_file
def to_json(self: ShowsGraphs, *, source: bool = True) -> str:
    """Write the graph as JSON that networkx reads, with constants and cuts.

    ``networkx.node_link_graph(json.loads(text), edges="edges")`` is the graph again.

    Args:
        path (str | os.PathLike[str], optional): The file to write; None for no file.
        source (bool, optional): Whether each node says which line of the program made it, as
            far as is known. Default: ``True``.

    Returns:
        The text of the file; with a path, the path.

    Raises:
        ValueError: The widget is closed.
        OSError: The file cannot be written.

    Example::

        >>> import json
        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> [node["op"] for node in json.loads(GraphWidget(x**2).to_json())["nodes"]]
        ['PowBackward0', 'AccumulateGrad']
    """
    shown = self._graphs_shown()
    drawn = [each.source.drawn for each in shown.values()]
    data = graph_to_data(drawn[0] if len(drawn) == 1 else self.to_networkx())
    if not source:
        for node in data["nodes"]:
            node.pop("source", None)
    # JSON escapes lone surrogates, so that names are read back unchanged.
    return escaped(json.dumps(data, ensure_ascii=False))


@_to_file
def to_dot(self: ShowsGraphs) -> str:
    """Write the graph that is drawn in Graphviz' DOT language; needs no package.

    Args:
        path (str | os.PathLike[str], optional): The file to write; None for no file.

    Returns:
        The text of the file; with a path, the path. `gradwalk.make_dot` draws as torchviz does
        instead.

    Raises:
        ValueError: The widget is closed.
        OSError: The file cannot be written.

    Example::

        >>> import torch
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> GraphWidget(x**2).to_dot().splitlines()[0]
        'digraph gradwalk {'
    """
    shown = self._graphs_shown()
    direction = next(each.direction for each in shown.values())
    return dot_text({label: shown_graph(each) for label, each in shown.items()}, direction)


def _drawn(self: ShowsGraphs, theme: str, whole: bool, width: float | None, **more: Any) -> str:
    """Draw every graph, next to each other."""
    shown = self._graphs_shown()
    drawn = {label: draw(each, theme, whole, width, **more) for label, each in shown.items()}
    if len(drawn) == 1:
        return drawn.popitem()[1]
    parts, x, height = [], 0.0, 0.0
    for label, svg in drawn.items():
        wide, high = _size(svg)
        name = html.escape(well_formed(label))
        parts.append(
            f'<text x="{x + 12:g}" y="20" font-family="{_FONT}" font-size="14" '
            f'font-weight="600" fill="{_INK[theme]}">{name}</text>'
            + svg.replace("<svg ", f'<svg x="{x}" y="{_HEADING}" ', 1)
        )
        x, height = x + wide + _GAP, max(height, high + _HEADING)
    wide = x - _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{height:g}" '
        f'viewBox="0 0 {wide:g} {height:g}">'
        f'<rect width="{wide:g}" height="{height:g}" fill="{_PAGE[theme]}"/>'
        f"{''.join(parts)}</svg>"
    )


def draw(shown: Snapshot, theme: str, whole: bool, width: float | None = None, **more: Any) -> str:
    """The SVG of what a widget shows.

    Args:
        shown: The state to draw.
        theme: "light", "dark" or "auto".
        whole: Whether every node is drawn.
        width: The width of the page in px; None for 1,200.
        **more: Further options of ``js/export/svg.ts``.

    Raises:
        ImportError: The extra ``gradwalk[export]`` is not installed.
        ValueError: The theme is unknown, or the width is not positive.
    """
    if width is not None:
        _check_positive("width", width, 800)
    if not isinstance(theme, str) or theme not in THEMES:
        raise ValueError(f"theme was given {theme!r}; it is one of {', '.join(map(repr, THEMES))}.")
    source = shown.source
    return still.draw_svg(
        source.model,
        theme=theme,
        whole=bool(whole),
        width=width,
        direction=shown.direction,
        constants=shown.constants,
        selected=shown.selected,
        overlays=list(source.overlays),
        memory=source.memory() if source.model["plan"] is not None else None,
        state=source.state(),
        steps=source.steps,
        run=source.run,
        cursor=source.cursor,
        inner=shown.inner,
        **more,
    )


def shown_graph(shown: Snapshot) -> GraphModel:
    """The wire model of what is drawn: without constants and cuts where they are hidden."""
    graph = shown.source.model
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


def _still_theme(theme: Theme, caller: str) -> Theme:
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
