"""Updates: another graph takes the place of the one in the picture."""

from __future__ import annotations

import time

from ..hosts.event_loop import is_heard
from ..schema.graph_json import dtypes_model
from ..schema.updates import UpdateModel
from ..sources.graph_source import GraphSource
from ..sources.snapshot import are_small
from .controllers import Controller
from .drawing import State
from .graph_changes import Pictured, opened_model, pictured, update_model, values_of
from .graph_traits import GraphTraits

AT_MOST_EVERY = 1 / 30
"""Seconds between two updates that are shown while the program does not rest."""


class UpdateController(Controller[GraphTraits]):
    """Puts graphs into the picture, one in place of the other.

    Attributes:
        sends_graph: Whether a change of the graph is sent: not where only its numbers differ.
        has_run: Whether backward has run since the last update.
    """

    def __init__(self, widget: GraphTraits) -> None:
        super().__init__(widget)
        self.sends_graph = True
        self.has_run = True
        self._number = 0  # of updates
        self._drawn: Pictured | None = None  # what is in the picture
        self._drawn_at = 0.0

    def replace(self, source: GraphSource) -> None:
        """Show another graph: now, soon, or as soon as somebody asks."""
        widget = self.widget
        if are_small([source]):
            source.read_now()
        if self._drawn is None:  # the update is compared with it
            widget._refresh(describe=False)
        with widget._lock:
            before = widget._source
            if before is None:  # closed meanwhile
                return
            had_run, self.has_run = self.has_run, False
            widget._source = source
            widget._notice = None
            self._number += 1
            widget._mark(State.GRAPH_PENDING)
            for controller in widget._controllers:
                controller.let_go()
            before.close()
        source.follow(widget._pass_ended)
        for controller in widget._controllers:
            controller.on_source(source)
        # A program that runs backward each time is shown then, with the gradients.
        self._show_in_time(is_complete=not had_run)

    def pass_ended(self) -> bool:
        """Show a pass of a graph that an update has brought; return whether it is one."""
        self.has_run = True
        if not self._number:
            return False
        self.widget._mark(State.PASS_PENDING)
        self._show_in_time(is_complete=True)
        return True

    def _show_in_time(self, *, is_complete: bool) -> None:
        """Show an update at once where the last one is long enough ago, else when idle."""
        widget = self.widget
        will_arrive = widget._idle.wait() or is_heard(widget.comm)
        is_due = time.monotonic() - self._drawn_at >= AT_MOST_EVERY
        if widget._is_observed or (is_complete and will_arrive and is_due):
            widget._refresh()

    def draw(self, source: GraphSource) -> None:
        """Put a graph into the picture, unless it is there."""
        was, now = self._drawn, pictured(source)
        if was is None:
            self._put_graph(now, source)
        elif was.model is not now.model:
            self._put(update_model(self._number, was, now), now, source)

    def is_drawn_otherwise(self, source: GraphSource) -> bool:
        """Whether what is open of the graph is not what the picture shows."""
        return self._drawn is not None and source.model is not self._drawn.model

    def draw_again(self, source: GraphSource) -> None:
        """Draw the same graph with more or less of it open."""
        was, now = self._drawn, pictured(source)
        assert was is not None
        self._number += 1
        self._drawn = now  # reading a trait meanwhile must not draw it again
        self._put(opened_model(self._number, was, now), now, source)
        for controller in self.widget._controllers:
            controller.on_reopened(source)

    def _put_graph(self, now: Pictured, source: GraphSource) -> None:
        widget = self.widget
        widget.set_trait("model", now.model)
        widget.set_trait("_dtypes", dtypes_model(source.drawn))
        widget.set_trait("_openable", list(source.openable) or None)
        self._drawn = now

    def _put(self, update: UpdateModel, now: Pictured, source: GraphSource) -> None:
        """Put a graph into the picture, in place of the one before."""
        widget, before = self.widget, update["before"]
        selected = widget.selected
        if before is not None and selected is not None:
            selected = before.index(selected) if selected in before else None
        self.sends_graph = before is not None
        try:
            self._put_graph(now, source)
        finally:
            self.sends_graph = True
        widget.set_trait("_values", None if before is not None else values_of(now.model))
        widget.set_trait("_update", update)
        widget.set_trait("_differences", None)  # they were about other numbers
        self._drawn_at = time.monotonic()
        widget.selected = selected
