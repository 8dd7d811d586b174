"""Still pictures: the widget's own drawing code, run without a browser in an embedded engine."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from .traits import bundle
from .wire import GraphModel

_SECONDS = 120  # until a picture is given up


def draw_svg(graph: GraphModel, **options: Any) -> str:
    """Draw a graph.

    Args:
        graph: The wire model.
        **options: As in ``js/export/svg.ts``, but for the style sheet.

    Returns:
        The text of an SVG file.

    Raises:
        ImportError: The extra packages are not installed.
        RuntimeError: The graph cannot be drawn; the message is a sentence that says why.
    """
    racer = need("py_mini_racer", "mini-racer", "to_svg")
    engine = racer.MiniRacer()
    try:
        engine.eval(bundle("export.js"))
        options["css"] = bundle("widget.css")
        drawn = engine.call("gradwalk.svg", graph, options, timeout_sec=_SECONDS)
    except Exception as error:
        raise RuntimeError(
            f"The picture of this graph of {len(graph['nodes']):,} nodes could not be drawn: "
            f"{error}. Give whole=False for an overview, or draw a smaller part of the graph."
        ) from error
    finally:
        engine.close()  # its thread would keep Python from ending
    if drawn.get("fault") is not None:
        raise RuntimeError(drawn["fault"])
    return str(drawn["svg"])


def need(module: str, package: str, caller: str) -> ModuleType:
    """A module of the optional extra.

    Args:
        module: What to import.
        package: What pip calls it.
        caller: Who needs it, for the error: "to_png".

    Returns:
        The module.

    Raises:
        ImportError: It is not installed, or cannot be loaded here.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
        raise ImportError(
            f"{caller}() needs the package {package}, which cannot be loaded here ({error}). "
            "Install what pictures need with: pip install 'gradwalk[export]'"
        ) from error


def is_installed() -> bool:
    """Whether pictures can be drawn here."""
    return importlib.util.find_spec("py_mini_racer") is not None
