"""Saving a graph and its recording to a file, and opening it far from where it was made."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ipywidgets
import torch

from .. import notebook
from ..findings.finding import finding_models
from ..findings.judge import Limits, judge
from ..graph.names import read_names
from ..graph.outputs import is_program
from ..subject.follower import Follower
from ..subject.model import dtypes_model
from ..subject.replay import Replay, replayed, undetailed
from ..subject.stages import stage_now, stages
from ..subject.static_follower import StaticFollower
from ..wire import FindingModel, StageModel
from ..wire.columns import encode
from ..wire.graph_json import beyond_drawn, graph_to_data
from ..wire.saved_graph import FORMAT, VERSION, SavedGraph, read_saved
from .write_file import read_path, write_file

if TYPE_CHECKING:
    from ..widget.graph_widget import GraphWidget

MOST_AT_EVERY_CURSOR = 500
"""Nodes of a graph whose details are saved at every cursor; of a larger one, at its own only."""

MOST_DETAILED = 2_000
"""Nodes whose details are saved: of a larger graph the first ones from the outputs."""


def save(outputs: Any, path: Any, names: Mapping[str, Any] | torch.nn.Module | None = None) -> Path:
    """Save a graph, and what a widget has recorded of it, to a file.

    The file holds plain values: structure, names, modules and source lines, the recorded pass, what
    `gradwalk.diagnose` finds in it, the memory held for backward, and of every node what the panel
    shows, tensors with at most 64 of their numbers. It is read without
    the model, without its devices and without pickle. Saving runs nothing and moves nothing: to
    save gradients, call ``widget.backward()`` first.

    Args:
        outputs: A `GraphWidget`, or what `GraphWidget` takes: tensors that require grad, also in
            lists, tuples and dicts; or a static graph of torch.export or torch.fx.
        path: Where to, such as "run.gw.json.gz"; an existing file is replaced, with a warning.
        names: What to call tensors, as for `GraphWidget`; not with a widget, which has its names.

    Returns:
        The path. `GraphWidget.open` opens it.

    Raises:
        TypeError: ``outputs`` is of a kind that carries no autograd graph.
        ValueError: An output does not require grad, the widget is closed, or it comes with names.
        OSError: The file cannot be written.

    Example::

        >>> import tempfile
        >>> from gradwalk import GraphWidget
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> widget = GraphWidget(x**2)
        >>> widget.backward()
        >>> path = save(widget, Path(tempfile.mkdtemp()) / "run.gw.json.gz")
        >>> GraphWidget.open(path).run["grads"][0]["values"]
        6.0
    """
    from ..widget.graph_widget import GraphWidget  # noqa: PLC0415  it has `open`, which is in this file

    read_path(path, "save")
    if isinstance(outputs, GraphWidget):
        if names is not None:
            raise ValueError(
                "save() was given names along with a widget, which has its own. Leave them out."
            )
        return write_file(path, encode(saved_graph(outputs)), "save")
    if is_program(outputs):
        pass  # it has names of its own
    elif names is None:
        names = _tensors_among(notebook.caller_variables(sys._getframe(1)))
    else:
        read_names(names, "save")
    widget = GraphWidget(outputs, names=names)
    try:
        return write_file(path, encode(saved_graph(widget)), "save")
    finally:
        widget.close()


def saved_graph(widget: GraphWidget) -> SavedGraph:
    """Everything that goes into the file.

    Args:
        widget: What to save.

    Returns:
        Plain values.

    Raises:
        ValueError: The widget is closed.
    """
    follower = widget._open()
    opened = getattr(follower, "saved", None)
    if opened is not None:
        moved = {"cursor": widget.cursor, "selected": widget.selected}
        shown = {"direction": widget.direction, "constants": widget.constants}
        return cast(SavedGraph, {**opened(), **moved, **shown})
    with widget._lock:
        return _saved_live(widget, follower)


def _saved_live(widget: GraphWidget, follower: Follower | StaticFollower) -> SavedGraph:
    state = widget.state  # brings everything up to date
    captured, recording = follower.captured, follower.recording
    total = len(captured.drawn)
    every = total <= MOST_AT_EVERY_CURSOR
    details = [_details(follower, node, every) for node in range(min(total, MOST_DETAILED))]
    return {
        "format": FORMAT,  # type: ignore[typeddict-item]
        "version": VERSION,
        "graph": widget.graph,
        "network": beyond_drawn(graph_to_data(captured.drawn)),  # type: ignore[typeddict-item]
        "dtypes": dtypes_model(captured.drawn),
        "watched": bool(captured.annotations),
        "memory": follower.memory(),
        "findings": _findings(widget, follower),
        "direction": widget.direction,  # type: ignore[typeddict-item]
        "constants": widget.constants,
        "selected": widget.selected,
        "cursor": widget.cursor,
        "state": state,
        "steps": widget.steps,
        "run": widget.run,
        "transport": replayed(captured.drawn, recording),
        "details": [*details, *[None] * (total - len(details))],
        "undetailed": undetailed(captured.drawn, len(details)) if len(details) < total else None,
        "all_cursors": every,
    }


def _details(
    follower: Follower | StaticFollower, node: int, every: bool
) -> list[StageModel] | None:
    """What the panel shows of a node; ``every`` asks for it at every cursor."""
    if isinstance(follower, StaticFollower):
        return [{"from_step": 0, "fields": dict(follower.describe(node) or {})}]
    describe = stages if every else stage_now
    return describe(follower.captured, node, follower.recording)


def _findings(widget: GraphWidget, follower: Follower | StaticFollower) -> list[FindingModel]:
    """What `gradwalk.diagnose` has found, or would; nothing in a static graph."""
    if isinstance(follower, StaticFollower):
        return []
    if widget.findings is not None:
        return widget.findings
    found = judge(
        follower.captured,
        follower.recording,
        follower.namespaces,
        read_names({}, "save"),
        limits=Limits(),
        is_explicit=False,
    )
    return finding_models(found)


def open_widget(cls: type[GraphWidget], path: Any) -> GraphWidget:
    """Open a file that `gradwalk.save` wrote.

    Args:
        cls: The class of the widget.
        path: The file's name.

    Returns:
        A widget that shows what was saved. Its cursor moves over what was recorded and never
        touches a ``.grad``; what needs the live graph raises an error that says so.

    Raises:
        TypeError: ``path`` is no path.
        OSError: The file cannot be read.
        ValueError: It is damaged, cut off, of another version, or not a file of ours.
    """
    saved = read_saved(path)
    replay = Replay(saved)
    widget = cls.__new__(cls)
    widget._show(
        cast(Follower, replay),
        saved["graph"],
        direction=saved["direction"],
        constants=saved["constants"],
    )
    widget.set_trait("steps", saved["steps"])
    widget.set_trait("run", saved["run"])
    widget.cursor = saved["cursor"]
    widget.selected = saved["selected"]
    return widget


class Opener:
    """``GraphWidget.open(path)``; on a widget, what ipywidgets calls so: opening its channel."""

    def __get__(self, widget: GraphWidget | None, cls: type[GraphWidget]) -> Callable[..., Any]:
        """The one or the other."""
        if widget is None:
            return types.MethodType(open_widget, cls)
        return cast(Callable[..., Any], ipywidgets.Widget.open.__get__(widget))


def _tensors_among(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that have a name to give, public ones first."""
    kinds = (torch.Tensor, torch.nn.Module)
    named = [(name, value) for name, value in variables.items() if isinstance(value, kinds)]
    return dict(sorted(named, key=lambda item: item[0].startswith("_")))
