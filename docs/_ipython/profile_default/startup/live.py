"""Shows a widget in the site as a page of its own, which steps and selects without a kernel."""

import hashlib
import html
import json
import os
import warnings
from pathlib import Path
from typing import Any

from IPython import get_ipython

LIVE = Path(os.environ["GRADWALK_LIVE"])
FRAME = (
    '<iframe class="live" data-live="{name}" title="{title}" loading="lazy" height="{height}">'
    "</iframe>"
)
CLASSES = (
    ("gradwalk.widget.graph_widget", "GraphWidget"),
    ("gradwalk.comparison.compare_widget", "CompareWidget"),
)
shown: dict[str, Any] = {}
written: dict[str, str] = {}


def show(widget: Any) -> dict[str, str]:
    """Return the frame that a cell shows."""
    programs = "\n".join(get_ipython().user_ns["In"])
    name = hashlib.sha256(f"{programs} {len(shown)}".encode()).hexdigest()[:16]
    shown[name] = widget
    write()
    title = html.escape(f"Interactive graph: {widget!r}")
    return {
        "text/html": FRAME.format(name=name, title=title, height=460),
        "text/plain": repr(widget),
    }


def write() -> None:
    """Write each page whose widget has changed: like in a notebook, it follows later cells."""
    for name, widget in shown.items():
        try:
            state = json.dumps([getattr(widget, "state", 0), widget.cursor, widget.selected])
        except Exception:  # a closed widget keeps its last page
            continue
        if written.get(name) != state:
            written[name] = state
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a page is replaced
                widget.to_html(LIVE / f"{name}.html", assets="shared", title=repr(widget))


mimebundles = get_ipython().display_formatter.mimebundle_formatter
for module, kind in CLASSES:
    mimebundles.for_type_by_name(module, kind, show)
mimebundles.for_type_by_name("gradwalk.features.plan.plan", "Plan", lambda plan: show(plan.widget))
get_ipython().events.register("post_run_cell", lambda *_: write())
