"""A widget whose numbers the reader predicts before they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import traitlets

from ..backward.recorded_pass import find_node
from ..panel.blank import blank_details
from ..schema import DetailsModel, QuizModel, ScoreModel
from ..sources.graph_source import GraphSource
from ..torch_api.modes import grad_mode_kept
from .graph_changes import values_of
from .quiz import HIDDEN, KINDS, Quiz
from .ranking import RankingWidget

_MASKED = ("run", "steps", "findings", "_values", "_differences", "_update", "what_if")


class QuizzingWidget(RankingWidget):
    """A widget that asks its reader. Base of `GraphWidget`.

    Attributes:
        score: While a quiz is on, how the reader fares: ``right``, ``wrong`` (answers),
            ``revealed`` and ``of``; None before any.
    """

    _quiz: QuizModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    score: ScoreModel | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]

    _asked: Quiz | None = None

    @grad_mode_kept
    def quiz(self, what: str | None = "grad", nodes: Iterable[int | str] | None = None) -> None:
        """Hide numbers, for the reader to predict; or the order in which backward runs.

        The numbers leave the picture, the panel, the bar and what a screen reader is told. The
        reader types them at the nodes, or clicks the nodes in the engine's order. A wrong answer
        brings a hint: first the local derivative, then the chain rule. `score` says how many are
        right. Numbers are accepted as ``-24``, ``-2.4e1`` or ``1/3``, as exactly as the dtype has
        them, or rounded to three digits or more.

        Args:
            what: "grad", "value" or "order"; None ends the quiz. For the first and the last the
                real backward is run, if there was none yet.
            nodes: Which nodes, by id or name; None for all that have one known number.

        Raises:
            ValueError: ``what`` is nothing that can be asked, or a node has no such number.
            Exception: What `backward` raises.

        Example::

            >>> import torch
            >>> from gradwalk import GraphWidget
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(x**2)
            >>> widget.quiz("grad", nodes=["x"])
            >>> widget.answer("x", "3"), widget.answer("x", "6")
            (False, True)
            >>> widget.score
            {'right': 1, 'wrong': 1, 'revealed': 0, 'of': 1}
        """
        subject = self._open()
        if what is None:
            self._end_quiz()
            return
        if not isinstance(what, str) or what not in KINDS:
            choices = ", ".join(map(repr, KINDS))
            raise ValueError(f"quiz() was given {what!r}; what can be asked is one of {choices}.")
        with self._change():
            if what != "value":
                self._started()
            asked = Quiz(
                what,  # type: ignore[arg-type]
                self.graph,
                self.run,
                self.steps,
                dict(subject.graph.nodes(data="dtype")),
            )
            given = None if nodes is None else [find_node(subject.graph, node) for node in nodes]
            asked.ask(given)
            self._asked = asked
            self.selected = None
            if what == "value":
                self.set_trait("_values", values_of(self.graph))
            self._tell_quiz()

    def answer(self, node: int | str, text: str | float | None = None) -> bool:
        """Answer a question of the quiz, as the reader does in the picture.

        Args:
            node: Which node, by id or name.
            text: The number, as it would be typed; left out where the order is asked.

        Returns:
            Whether it is right.

        Raises:
            ValueError: No quiz is on, or it asks nothing about the node.
        """
        asked = self._quiz_on("answer()")
        found = asked.answer(
            find_node(self._open().graph, node), None if text is None else str(text)
        )
        self._tell_quiz()
        return found

    def reveal(self, node: int | str | None = None) -> None:
        """Give up a question of the quiz, or all.

        Args:
            node: Which node, by id or name; None for all that are open.

        Raises:
            ValueError: No quiz is on, or it asks nothing about the node.
        """
        asked = self._quiz_on("reveal()")
        asked.reveal(None if node is None else find_node(self._open().graph, node))
        self._tell_quiz()

    def _quiz_on(self, what: str) -> Quiz:
        _ = self.graph  # another graph that is still to be drawn ends the quiz
        if self._asked is None:
            raise ValueError(f"{what} was called, but no quiz is on. Start one with quiz().")
        return self._asked

    def _end_quiz(self) -> None:
        if self._asked is not None:
            self._asked = None
            self.set_trait("score", None)
            self._tell_quiz()

    def _tell_quiz(self) -> None:
        """Tell the browser how the quiz stands, and what may be seen now."""
        asked = self._asked
        with self.hold_sync():
            self.set_trait("_quiz", None if asked is None else asked.model)
            if asked is not None:
                self.set_trait("score", asked.score)
            if self.comm is not None:
                self.send_state(list(_MASKED))
        self._refresh()

    def _masked(self, trait: str, value: Any) -> Any:
        """A trait as it may travel now."""
        return value if self._asked is None else self._asked.mask(trait, value)

    def _masked_details(self, subject: GraphSource, details: DetailsModel) -> DetailsModel:
        if self._asked is None or not self._asked.hidden:
            return details
        return blank_details(subject.drawn, details["id"], HIDDEN, HIDDEN)

    def _draw(self, subject: GraphSource) -> bool:
        is_other = super()._draw(subject)
        if is_other and self._asked is not None:  # it was about another graph
            self._asked = None
            self.set_trait("_quiz", None)
            self.set_trait("score", None)
        return is_other

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") == "answer":
            self.answer(int(asked["node"]), asked.get("text"))
        elif asked.get("kind") == "reveal":
            self.reveal(asked.get("node"))
        else:
            super()._answer(asked)
