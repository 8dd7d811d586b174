"""`GraphWidget`: the autograd graph behind a tensor, drawn in a notebook."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import networkx as nx
import torch
import traitlets

from . import notebook, release
from .capture import Capture, capture_nodes
from .details import details
from .model import graph_model, state_model
from .names import names_among, read_names
from .observe import Observer, Run
from .outputs import read_outputs
from .saved import is_freed
from .wire import DetailsModel, GraphModel, StateModel

DIRECTIONS = ("down", "right", "up", "left")

_STATIC = Path(__file__).parent / "static"


def _bundle(name: str) -> str:
    path = _STATIC / name
    if not path.exists():
        raise ImportError(
            f"gradwalk's browser bundle {path} is missing: this is a source checkout that has not "
            "been built. Run `make build` in its root, or `npm ci && npm run build` in js."
        )
    return path.read_text(encoding="utf-8")


class _Fresh(traitlets.Any):
    """A trait whose owner brings it up to date before it is read."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        obj._refresh()
        return super().get(obj, cls)


class _Direction(traitlets.TraitType[str, str]):
    """One of `DIRECTIONS`."""

    def validate(self, obj: Any, value: Any) -> str:  # noqa: ARG002
        if value not in DIRECTIONS:
            raise ValueError(
                f"direction was given {value!r}; it is one of {', '.join(map(repr, DIRECTIONS))}."
            )
        return str(value)


class GraphWidget(anywidget.AnyWidget):
    """The autograd graph behind some tensors: drawn, clickable, and following backward.

    Using the widget never changes a gradient, the random state or the graph. It keeps the graph
    alive, so `close` it when done with a large one.

    Attributes:
        graph: What is drawn, as plain JSON values (see `gradwalk.wire.GraphModel`). Read-only.
        selected: Id of the selected node, or None. Set it, or click a node.
        details: What the panel shows of the selected node (see `gradwalk.wire.DetailsModel`), or
            None. Up to date whenever it is read. Read-only.
        state: What has been seen of backward (see `gradwalk.wire.StateModel`). Read-only.
        direction: Which way gradients flow in the drawing: "down", "right", "up" or "left".
        fault: A sentence when something went wrong that the browser should show, or None.

    Example::

        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> h = w * 2
        >>> widget = GraphWidget(h)
        >>> widget
        GraphWidget(2 nodes, 1 edge, 1 leaf)
        >>> h.backward()
        >>> widget.selected = 1
        >>> widget.details["name"], widget.details["grad"]["values"]
        ('w', [2.0])
        >>> widget.close()
    """

    # As text: a path would make anywidget keep every widget alive through its file watcher.
    _esm = traitlets.Unicode(_bundle("widget.js")).tag(sync=True)
    _css = traitlets.Unicode(_bundle("widget.css")).tag(sync=True)

    graph: GraphModel = traitlets.Dict(read_only=True).tag(sync=True)  # type: ignore[assignment]
    selected = traitlets.Any(None, allow_none=True).tag(sync=True)
    details: DetailsModel | None = _Fresh(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    state: StateModel = _Fresh(read_only=True).tag(sync=True)  # type: ignore[assignment]
    direction = _Direction("down").tag(sync=True)
    fault = traitlets.Unicode(None, allow_none=True, read_only=True).tag(sync=True)

    _capture: Capture | None = None  # None before the widget is made and once it is closed

    def __init__(
        self,
        *outputs: Any,
        names: Mapping[str, Any] | torch.nn.Module | None = None,
        direction: str = "down",
    ) -> None:
        """Capture the graph and watch it.

        Args:
            *outputs: Tensors that require grad, ``GradientEdge``s or autograd ``Node``s, any
                number, also in lists, tuples and dicts (named by key).
            names: What to call tensors: a mapping from names to tensors or modules, or one module.
                By default names are looked up among the caller's variables.
            direction: Which way gradients flow in the drawing: "down", "right", "up" or "left".

        Raises:
            TypeError: An output is of a kind that carries no autograd graph, or ``names`` is not a
                mapping or module.
            ValueError: No output was given, one does not require grad, or ``direction`` is unknown.
        """
        _Direction().validate(self, direction)
        given = read_outputs(outputs, "GraphWidget")
        if names is None:
            found = names_among(notebook.caller_variables(sys._getframe(1)))
        else:
            found = read_names(names, "GraphWidget")
        captured = capture_nodes(given, found)
        graph = captured.graph

        self._lock = threading.RLock()
        self._refreshing = False
        self._shown: Run | None = None  # the run that `state` tells of
        self._freed = {i for i, node in enumerate(captured.nodes) if is_freed(node)}
        self._observer = Observer(
            captured.nodes,
            [kind == "leaf" for _, kind in graph.nodes(data="kind")],
            self._refresh,
            {node for node, _ in graph.graph["roots"]},
        )
        self._capture = captured
        try:
            self.set_trait("graph", graph_model(graph))
            self.set_trait("state", state_model(self._observer, self._freed, graph))
            super().__init__(direction=direction)
        except BaseException:
            self._let_go()
            raise
        self._stop_refreshing = notebook.after_each_cell(self._refresh)
        for replaced in notebook.replaced_by(self):
            replaced.close()

    def to_networkx(self) -> nx.MultiDiGraph:
        """The captured graph, as `gradwalk.capture` gives it.

        Returns:
            A copy; changing it does not change the widget.

        Raises:
            ValueError: The widget is closed.
        """
        return self._open().graph.copy()

    def close(self) -> None:
        """Let go of the graph, remove every hook and take the views away. Closing twice is fine."""
        self._let_go()
        super().close()
        release.sweep()

    def __repr__(self) -> str:
        if self._capture is None:
            return "GraphWidget(closed: make a new one to see the graph, as in GraphWidget(loss))"
        graph = self._capture.graph
        leaves = sum(kind == "leaf" for _, kind in graph.nodes(data="kind"))
        counts = (len(graph), "node"), (graph.number_of_edges(), "edge"), (leaves, "leaf")
        return f"GraphWidget({', '.join(_counted(*count) for count in counts)})"

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> int | None:
        value = proposal["value"]
        if value is None:
            return None
        total = len(self._open().graph)
        try:
            node = operator.index(value)
        except TypeError:
            raise TypeError(
                f"selected was given {value!r}, of type {type(value).__name__}. Give it the id of "
                f"a node, 0 to {total - 1}, or None."
            ) from None
        if not 0 <= node < total:
            raise ValueError(
                f"selected was given {node}, but this graph has nodes 0 to {total - 1} only."
            )
        return node

    @traitlets.observe("selected")
    def _on_selected(self, _: Any) -> None:
        self._refresh()

    def _open(self) -> Capture:
        if self._capture is None:
            raise ValueError(
                "This GraphWidget is closed and has let go of its graph. Make a new one, for "
                "example GraphWidget(loss)."
            )
        return self._capture

    def _let_go(self) -> None:
        if self._capture is None:
            return
        with self._lock:
            self._capture = None
            self._observer.close()
            getattr(self, "_stop_refreshing", lambda: None)()
            self.set_trait("details", None)
            self.set_trait("selected", None)

    def _refresh(self) -> None:
        """Bring ``details`` and ``state`` up to date with the tensors as they are now."""
        if self._capture is None or self._refreshing:
            return
        with self._lock:
            self._refreshing = True
            try:
                with self.hold_sync():  # what changed goes to the browser as one message
                    self._refresh_state(self._capture)
                    self.set_trait("details", self._describe(self.selected))
                    self.set_trait("fault", self._observer.fault)
            finally:
                self._refreshing = False

    def _refresh_state(self, captured: Capture) -> None:
        last = self._observer.last
        if last is None or last is self._shown or last.state == "running":
            return
        self._shown = last
        if not last.keeps_graph:
            self._freed.update(i for i in last.steps if is_freed(captured.nodes[i]))
        self.set_trait("state", state_model(self._observer, self._freed, captured.graph))

    def _describe(self, node: int | None) -> DetailsModel | None:
        if node is None or self._capture is None:
            return None
        # A click can be handled on another thread, in whatever grad mode that thread is in.
        with torch.no_grad():
            return details(self._capture, node, self._observer)


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {'leaves' if noun == 'leaf' else noun + 's'}"
