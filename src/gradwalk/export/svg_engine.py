"""Draw pictures with the widget's own code in an embedded JavaScript engine."""

from __future__ import annotations

import importlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from ..schema.graph import GraphModel
from .disk import bundle

_SECONDS = 120  # timeout of a drawing


def draw_svg(graph: GraphModel, **options: Any) -> str:
    """Draw a graph."""
    racer = need("py_mini_racer", "mini-racer", "to_svg")
    # In its own thread: a notebook's thread has a running event loop, where the engine cannot wait.
    with ThreadPoolExecutor(1) as thread:
        try:
            drawn = thread.submit(_call, racer, graph, options).result()
        except Exception as error:
            raise RuntimeError(
                f"The picture of this graph of {len(graph['nodes']):,} nodes could not be drawn: "
                f"{error}. Give whole=False for an overview, or draw a smaller part of the graph."
            ) from error
    if drawn.get("fault") is not None:
        raise RuntimeError(drawn["fault"])
    return str(drawn["svg"])


def _call(racer: ModuleType, graph: GraphModel, options: dict[str, Any]) -> Any:
    engine = racer.MiniRacer()
    try:
        engine.eval(bundle("export.js"))
        return engine.call("gradwalk.svg", graph, options, timeout_sec=_SECONDS)
    finally:
        engine.close()  # its thread would keep Python from exiting


def need(module: str, package: str, caller: str) -> ModuleType:
    """Import a module of the optional extra."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
        raise ImportError(
            f"{caller}() needs the package {package}, which cannot be loaded here ({error}). "
            "Install what pictures need with: pip install 'gradwalk[export]'"
        ) from error


def is_installed() -> bool:
    """Return whether pictures can be drawn here."""
    return importlib.util.find_spec("py_mini_racer") is not None
