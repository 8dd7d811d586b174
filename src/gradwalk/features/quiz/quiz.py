"""Predict, then reveal: what the reader is asked about a graph, and how the answers fare."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from ...english import join_words
from ...schema.backward import RunModel, StepModel
from ...schema.graph import GraphModel
from ...schema.updates import QuestionModel, QuizModel, ScoreModel
from ...schema.values import Values
from .typed_numbers import NOTHING, is_near, read_number, single_number, single_numbers, written

KINDS = ("grad", "value", "order")

_MOST_NAMED = 8

HIDDEN = "It is hidden while the quiz is on."


@dataclass
class Question:
    """One node that is asked about.

    Attributes:
        node: Which.
        truth: The number; for "order", which of the asked nodes runs before it.
        state: Where it stands.
        hint: A hint after a wrong answer.
        tries: How many answers were wrong.
    """

    node: int
    truth: float
    state: Literal["open", "wrong", "right", "revealed"] = "open"
    hint: str | None = None
    tries: int = 0

    @property
    def is_hidden(self) -> bool:
        """Whether its number may not be shown yet."""
        return self.state in ("open", "wrong")


@dataclass
class Quiz:
    """The questions about one graph, in plain values only.

    Attributes:
        what: "grad", "value" or "order".
        graph: The graph.
        run: What flowed in the pass that is asked about.
        steps: What ran in it.
        dtypes: The dtype of each node, as torch calls it.
        questions: By node.
        wrong: How many answers were wrong.
    """

    what: Literal["grad", "value", "order"]
    graph: GraphModel
    run: RunModel | None
    steps: list[StepModel]
    dtypes: dict[int, str | None]
    questions: dict[int, Question] = field(default_factory=dict)
    wrong: int = 0

    def ask(self, nodes: Iterable[int] | None) -> None:
        """Make the questions.

        Args:
            nodes: About which nodes; None for all about which something is known.

        Raises:
            ValueError: Nothing is known about one of them, or about any.
        """
        known = self._known()
        asked = list(known) if nodes is None else list(nodes)
        for node in asked:
            if node not in known:
                raise ValueError(
                    f"quiz() was given {self._name(node)}, which is none {self._why_not()} "
                    f"{self._named(known)}"
                )
        if not asked:
            raise ValueError(
                f"quiz({self.what!r}) has nothing to ask: no node is one {self._why_not()} Show a "
                "graph of single numbers, under watch() for the value of every operation, or ask "
                "for the order in which nodes run with quiz('order')."
            )
        self.questions = {node: Question(node, known[node]) for node in asked}

    def _known(self) -> dict[int, float]:
        if self.what == "order":
            return {step["node"]: i for i, step in enumerate(self.steps)}
        if self.what == "value":
            found = {node["id"]: node["value"] for node in self.graph["nodes"]}
            return dict(single_numbers(found))
        return dict(single_numbers(gradients(self.graph, self.run)))

    def _not_asked(self, node: int) -> str:
        named = self._named(self.questions)
        return f"The quiz asks nothing about {self._name(node)}. {named}"

    def _named(self, nodes: Iterable[int]) -> str:
        named = self.graph["nodes"]
        names = [named[node]["name"] or f"node {node}" for node in nodes]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"It can ask about {', '.join(names[:_MOST_NAMED])}{more}." if names else ""

    def _why_not(self) -> str:
        if self.what == "order":
            return "that ran in the backward pass that is shown."
        word = "gradient" if self.what == "grad" else "value"
        return f"whose {word} is known and is one number."

    def answer(self, node: int, text: str | None) -> bool:
        """Take an answer.

        Args:
            node: The node it is about.
            text: The typed text; None for a click in a quiz about the order.

        Returns:
            Whether it is right.

        Raises:
            ValueError: Nothing is asked about the node, or nothing any more.
        """
        question = self.questions.get(node)
        if question is None:
            raise ValueError(self._not_asked(node))
        if not question.is_hidden:
            return question.state == "right"
        if self.what == "order":
            is_right = self._next() == node
            hint = None if is_right else self._order_hint(node)
        else:
            number = read_number(text or "")
            if number is None:
                said = f"{(text or '').strip()!r} is no number: " if (text or "").strip() else ""
                question.hint = f"{said}type one such as -24, 2.5e-3 or 1/3."
                return False
            is_right = is_near(number, question.truth, self.dtypes.get(node), text or "")
            hint = None if is_right else self._hint(question, number)
        question.hint = hint
        question.state = "right" if is_right else "wrong"
        if not is_right:
            question.tries += 1
            self.wrong += 1
        return is_right

    def reveal(self, node: int | None) -> None:
        """Give up a question, or all that are open."""
        if node is not None and node not in self.questions:
            raise ValueError(self._not_asked(node))
        for question in self.questions.values() if node is None else [self.questions[node]]:
            if question.is_hidden:
                question.state, question.hint = "revealed", None

    @property
    def hidden(self) -> set[int]:
        """Nodes whose numbers may not be shown."""
        return {node for node, question in self.questions.items() if question.is_hidden}

    @property
    def model(self) -> QuizModel:
        """Return the model for the browser."""
        places = {node: str(i + 1) for i, node in enumerate(self._in_order())}
        questions: list[QuestionModel] = [
            {
                "node": each.node,
                "name": self._name(each.node),
                "state": each.state,
                "hint": each.hint,
                "answer": None
                if each.is_hidden
                else places[each.node]
                if self.what == "order"
                else written(each.truth),
            }
            for each in self.questions.values()
        ]
        return {"what": self.what, "questions": questions}

    @property
    def score(self) -> ScoreModel:
        """How the reader fares."""
        states = [question.state for question in self.questions.values()]
        return {
            "right": states.count("right"),
            "wrong": self.wrong,
            "revealed": states.count("revealed"),
            "of": len(states),
        }

    def mask(self, trait: str, value: Any) -> Any:
        """A trait as it may travel while the quiz is on."""
        hidden = self.hidden
        if not hidden:
            return value
        if trait in ("findings", "_differences", "what_if"):
            return None
        if self.what == "order":
            return {"steps": [], "run": None}.get(trait, value)
        if trait == "run" and self.what == "grad":
            return masked_run(value, self.graph, hidden)
        if self.what == "value":
            return _masked_values(trait, value, hidden)
        return value

    def _in_order(self) -> list[int]:
        return sorted(self.questions, key=lambda node: self.questions[node].truth)

    def _next(self) -> int | None:
        return next((n for n in self._in_order() if self.questions[n].is_hidden), None)

    def _order_hint(self, node: int) -> str:
        ran = {n for n in self.questions if not self.questions[n].is_hidden}
        takers = [edge["source"] for edge in self.graph["edges"] if edge["target"] == node]
        waits = [taker for taker in takers if taker in self.questions and taker not in ran]
        if waits:
            return f"Not yet: {self._name(node)} waits for the gradient of {self._name(waits[0])}."
        return (
            f"Not yet: something else runs before {self._name(node)}. Of what is ready, the engine "
            "takes leaves first, then what the forward pass made last."
        )

    def _hint(self, question: Question, number: float) -> str:
        """First the local derivative, then the chain rule; of a value, first what it is of."""
        start = "Not yet. "
        if question.truth and math.isclose(number, -question.truth, rel_tol=1e-3):
            start += "Look at the sign. "
        lines = self._grad_hints(question) if self.what == "grad" else self._value_hints(question)
        return start + "; ".join(lines)

    def _grad_hints(self, question: Question) -> list[str]:
        run = self.run
        grads = dict(single_numbers(gradients(self.graph, run)))
        lines = []
        for edge, values in zip(run["edges"], run["values"], strict=True) if run else ():
            between = self.graph["edges"][edge]
            source, passed = between["source"], single_number(values)
            if between["target"] != question.node or passed is None:
                continue
            above = grads.get(source)
            local = None if not above else passed / above
            word = self._sign(source)
            if local is None:
                lines.append(f"from {word}: see what it does with the gradient that arrives")
            elif question.tries == 0:
                lines.append(f"from {word}: the local derivative is {written(local)}")
            else:
                came = self.questions.get(source)
                told = f"the grad of {word}" if came and came.is_hidden else written(above or 0)
                lines.append(f"from {word}: {told} × {written(local)}")
        if not lines:
            return ["backward starts here, with the derivative of the output by itself"]
        if len(lines) > 1:
            lines.append("add them up")
        return lines + self._besides(question)

    def _besides(self, question: Question) -> list[str]:
        """Explain the part of a gradient that did not come along its edges."""
        run, node = self.run, question.node
        if run is None:
            return []
        found, total = [], 0.0
        targets = [self.graph["edges"][edge]["target"] for edge in run["edges"]]
        came: list[Values | None] = [
            values for at, values in zip(targets, run["values"], strict=True) if at == node
        ]
        came += [seed["values"] for seed in run["seeds"] if seed["node"] == node]
        numbers = [single_number(values) for values in came]
        for one in run["grads"]:
            if one["node"] == node and one["before"] is not None:
                held = single_number(one["before"]["values"])
                numbers.append(held)
                told = "something" if held is None else written(held)
                found.append(f".grad held {told} before this pass, which adds to it")
        if any(number is None for number in numbers):
            return found
        total = sum(number for number in numbers if number is not None)
        if not math.isclose(total, question.truth, rel_tol=1e-2, abs_tol=NOTHING):
            found.append("a hook changes what arrives")
        return found

    def _value_hints(self, question: Question) -> list[str]:
        inputs = [e["target"] for e in self.graph["edges"] if e["source"] == question.node]
        if not inputs:
            return ["it is an input: look at what its operation gives"]
        hidden, nodes = self.hidden, self.graph["nodes"]
        told = []
        for node in inputs:
            value = single_number(nodes[node]["value"])
            is_told = question.tries > 0 and value is not None and node not in hidden
            told.append(
                self._name(node) + (f" = {written(value)}" if is_told and value is not None else "")
            )
        return [f"it is {self._sign(question.node)} of {join_words(told)}"]

    def _sign(self, node: int) -> str:
        found = self.graph["nodes"][node]
        return found["sign"] or found["label"]

    def _name(self, node: int) -> str:
        nodes = self.graph["nodes"]
        if not 0 <= node < len(nodes):
            return f"node {node}"
        return nodes[node]["name"] or nodes[node]["sign"] or nodes[node]["label"]


def gradients(graph: GraphModel, run: RunModel | None) -> dict[int, Values | None]:
    """The gradient at each node, as the picture has it: of a leaf what its ``.grad`` holds."""
    found: dict[int, Values | None] = {}
    if run is None:
        return found
    uses: dict[int, int] = {}
    for edge in graph["edges"]:
        if edge["kind"] == "gradient":
            uses[edge["target"]] = uses.get(edge["target"], 0) + 1
    for seed in run["seeds"]:
        if not uses.get(seed["node"]):
            found[seed["node"]] = seed["values"]
    seeded = {seed["node"] for seed in run["seeds"]}
    for place, values in zip(run["edges"], run["values"], strict=True):
        target = graph["edges"][place]["target"]
        if uses[target] == 1 and target not in seeded:
            found[target] = values
    found.update({one["node"]: one["values"] for one in run["arrived"]})
    found.update({one["node"]: one["values"] for one in run["grads"]})
    return found


def masked_run(run: RunModel | None, graph: GraphModel, hidden: set[int]) -> RunModel | None:
    """What flowed, without what arrived at some nodes."""
    if run is None:
        return None
    told = [graph["edges"][edge]["target"] not in hidden for edge in run["edges"]]
    nothing: Any = {"values": None, "norm": None}
    return {
        **run,
        "values": [v if is_told else None for v, is_told in zip(run["values"], told, strict=True)],
        "norms": [n if is_told else None for n, is_told in zip(run["norms"], told, strict=True)],
        "seeds": [{**s, **nothing} if s["node"] in hidden else s for s in run["seeds"]],
        "arrived": [{**a, **nothing} if a["node"] in hidden else a for a in run["arrived"]],
        "grads": [g for g in run["grads"] if g["node"] not in hidden],
    }


def _masked_values(trait: str, value: Any, hidden: set[int]) -> Any:
    if trait == "_values" and value is not None:
        return [None if node in hidden else each for node, each in enumerate(value)]
    if trait == "graph":
        nodes = [{**n, "value": None} if n["id"] in hidden else n for n in value["nodes"]]
        return {**value, "nodes": nodes}
    if trait == "_update" and value is not None:
        return {**value, "changes": []}
    return value
