"""Show backward: its steps, its gradients, and the freed saved tensors."""

from __future__ import annotations

from ..sources.graph_source import GraphSource
from .controllers import Controller
from .graph_traits import GraphTraits


class PassController(Controller[GraphTraits]):
    """Shows what has been seen of backward."""

    _shown: object | None = None  # the pass that `steps`, `run` and `cursor` are about

    def is_new(self, source: GraphSource) -> bool:
        """Return whether there is news of backward: a pass has ended, or another one is shown."""
        return source.poll() or source.recorded is not self._shown

    def show(self, source: GraphSource, is_other: bool) -> None:
        """Show news of backward."""
        widget, build = self.widget, self.widget._parts.build
        widget.set_trait("state", build("what has flowed", source.state, widget.state))
        if is_other or (source.recorded is not None and source.recorded is not self._shown):
            widget.set_trait("_steps", source.steps)
            widget._inner = [0, 0]
            widget.cursor = source.cursor
            widget.set_trait("run", build("what flowed", lambda: source.run, None))
        self._shown = source.recorded

    def show_changes(self, source: GraphSource) -> None:
        """Show what the program has changed since the last pass."""
        widget, build = self.widget, self.widget._parts.build
        if source.recorded is not None:
            run = build("what flowed", lambda: source.run, widget.run)
            if run is not widget.run:  # a .grad is not what the pass left in it any more
                widget.set_trait("run", run)
        else:  # leaves may hold something else
            widget.set_trait("state", build("what has flowed", source.state, widget.state))

    def show_transport(self, source: GraphSource) -> None:
        """Show whether the cursor moves ``.grad``."""
        widget = self.widget
        found = widget._parts.build("transport", source.transport, widget.transport)
        widget.set_trait("transport", found)

    def on_reopened(self, source: GraphSource) -> None:
        """Show what flowed through the edges that are drawn now."""
        widget, build = self.widget, self.widget._parts.build
        widget.set_trait("state", build("what has flowed", source.state, widget.state))
        widget.set_trait("run", build("what flowed", lambda: source.run, None))

    def close(self) -> None:
        """Let go of the pass."""
        self._shown = None
