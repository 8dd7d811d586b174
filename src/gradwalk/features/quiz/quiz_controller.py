"""The quiz: the reader predicts numbers before they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...backward.recorded_pass import find_node
from ...panel.blank import blank_details
from ...sources.graph_source import GraphSource
from ...widget.controllers import Controller
from ...widget.graph_changes import values_of
from ...widget.graph_traits import GraphTraits
from .quiz import HIDDEN, KINDS, Quiz

_MASKED = ("run", "steps", "findings", "_values", "_differences", "_update", "what_if")


class QuizController(Controller[GraphTraits]):
    """Asks the reader, and masks the traits that would give an answer away."""

    name = "quiz"

    _asked: Quiz | None = None

    def start(self, what: str | None, nodes: Iterable[int | str] | None) -> None:
        """Start a quiz, or end it; see `GraphWidget.quiz`."""
        widget = self.widget
        source = widget._open()
        if what is None:
            self._end()
            return
        if not isinstance(what, str) or what not in KINDS:
            choices = ", ".join(map(repr, KINDS))
            raise ValueError(f"quiz() was given {what!r}; what can be asked is one of {choices}.")
        with widget._change():
            if what != "value":
                widget._start()
            asked = Quiz(
                what,  # type: ignore[arg-type]
                widget.graph,
                widget.run,
                widget.steps,
                dict(source.graph.nodes(data="dtype")),
            )
            given = None if nodes is None else [find_node(source.graph, node) for node in nodes]
            asked.ask(given)
            self._asked = asked
            widget.selected = None
            if what == "value":
                widget.set_trait("_values", values_of(widget.graph))
            self._show()

    def answer(self, node: int | str, text: str | float | None) -> bool:
        """Take an answer, and return whether it is right; see `GraphWidget.answer`."""
        asked = self._quiz_on("answer()")
        found = asked.answer(
            find_node(self.widget._open().graph, node), None if text is None else str(text)
        )
        self._show()
        return found

    def reveal(self, node: int | str | None) -> None:
        """Give up a question, or all; see `GraphWidget.reveal`."""
        asked = self._quiz_on("reveal()")
        asked.reveal(None if node is None else find_node(self.widget._open().graph, node))
        self._show()

    def handle(self, message: dict[str, Any]) -> bool:
        """Take the answer of a message, or reveal a node."""
        kind = message.get("kind")
        if kind == "answer":
            self.answer(int(message["node"]), message.get("text"))
        elif kind == "reveal":
            self.reveal(message.get("node"))
        else:
            return False
        return True

    def mask(self, trait: str, value: Any) -> Any:
        """Return what may be seen of the value of a trait while the quiz is on."""
        asked, source = self._asked, self.widget._source
        if asked is None:
            return value
        if trait == "_shares":
            return []
        if trait != "details":
            return asked.mask(trait, value)
        if source is None or not asked.hidden:
            return value
        return blank_details(source.drawn, value["id"], HIDDEN, HIDDEN)

    def on_graph(self, source: GraphSource) -> None:  # noqa: ARG002
        """End a quiz about another graph."""
        if self._asked is not None:
            self._asked = None
            self.widget.set_trait("_quiz", None)
            self.widget.set_trait("score", None)

    def _quiz_on(self, what: str) -> Quiz:
        _ = self.widget.graph  # another graph that is still to be drawn ends the quiz
        if self._asked is None:
            raise ValueError(f"{what} was called, but no quiz is on. Start one with quiz().")
        return self._asked

    def _end(self) -> None:
        if self._asked is not None:
            self._asked = None
            self.widget.set_trait("score", None)
            self._show()

    def _show(self) -> None:
        """Send the questions, and what may be seen now."""
        asked, widget = self._asked, self.widget
        with widget.hold_sync():
            widget.set_trait("_quiz", None if asked is None else asked.model)
            if asked is not None:
                widget.set_trait("score", asked.score)
            if widget.comm is not None:
                widget.send_state(list(_MASKED))
        widget._refresh()
