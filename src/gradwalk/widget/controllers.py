"""`Controller`: one concern of a widget, such as its cursor or its edits."""

from __future__ import annotations

import weakref
from typing import Any, Generic, Literal, Protocol, TypeVar

from ..sources.graph_source import GraphSource
from .stage import Stage


class _Staged(Protocol):
    _stage: Stage[Any]


_W = TypeVar("_W", bound=_Staged)

Turn = Literal["expand", "collapse"]


class Controller(Generic[_W]):
    """One concern of a widget, which it holds weakly. A subclass overrides what it needs."""

    name = ""  # what `GraphWidget` finds it by, if it asks for it

    stage: Stage[GraphSource]
    """The graph that is shown, and how the picture comes up to date."""

    def __init__(self, widget: _W) -> None:
        self._widget = weakref.ref(widget)
        self.stage = widget._stage

    @property
    def widget(self) -> _W:
        """The widget."""
        widget = self._widget()
        assert widget is not None
        return widget

    def validate(self, trait: str, value: Any) -> Any:  # noqa: ARG002
        """Return a value that a trait is set to, checked."""
        return value

    def react(self, trait: str) -> None:
        """React to a trait that has changed."""

    def handle(self, message: dict[str, Any]) -> bool:  # noqa: ARG002
        """Do what a message of the browser asks for; return whether it was for this controller."""
        return False

    def on_source(self, source: GraphSource) -> None:
        """Note another graph at once: it may never be drawn."""

    def on_graph(self, source: GraphSource) -> None:
        """React to another graph in the picture."""

    def on_reopened(self, source: GraphSource) -> None:
        """React to a node of the same graph that was expanded or collapsed."""

    def on_pass(self, source: GraphSource) -> None:
        """React to news of a backward pass, after `on_graph` where the graph is new, too."""

    def describe(self, source: GraphSource) -> None:
        """Describe the selected node."""

    def mask(self, trait: str, value: Any) -> Any:  # noqa: ARG002
        """Return what may be shown of the value of a trait."""
        return value

    def let_go(self) -> None:
        """Let go of the graph: another one takes its place, or the widget closes."""

    def close(self) -> None:
        """Let go of the graph, and clear the traits that describe it: the widget closes."""
        self.let_go()
