"""Predict, then reveal: what the reader is asked about a graph, and how the answers fare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...english import join_words, list_some
from ...graph.arguments import find_node
from ...panel.blank import blank_details
from ...schema.backward import RunModel, StepModel
from ...schema.graph import GraphModel
from ...schema.updates import QuestionModel, QuizModel, ScoreModel
from ...schema.values import Values
from ...sources.graph_source import GraphSource
from ...widget.controllers import Controller
from ...widget.graph_traits import GraphTraits

_MASKED = ("run", "_steps", "_findings", "_values", "_differences", "_update", "effect")


class QuizController(Controller[GraphTraits]):
    """Asks the reader, and masks the traits that would give an answer away."""

    name = "quiz"

    _asked: Quiz | None = None

    def start(self, what: str | None, nodes: Iterable[int | str] | None) -> None:
        """Start a quiz, or end it; see `GraphWidget.quiz`."""
        widget = self.widget
        source = self.stage.open()
        if what is None:
            self._end()
            return
        if not isinstance(what, str) or what not in KINDS:
            choices = ", ".join(map(repr, KINDS))
            raise ValueError(f"quiz() was given {what!r}; what can be asked is one of {choices}.")
        with self.stage.change():
            if what != "value":
                self.stage.start()
            dtypes = dict(source.graph.nodes(data="dtype"))
            asked = Quiz(what, widget.model, widget.run, widget._steps, dtypes)  # type: ignore[arg-type]
            given = None if nodes is None else [find_node(source.graph, node) for node in nodes]
            asked.ask(given)
            self._asked = asked
            widget.selected = None
            if what == "value":
                widget.set_trait("_values", [node["value"] for node in widget.model["nodes"]])
            self._show()

    def answer(self, node: int | str, text: str | float | None) -> bool:
        """Take an answer, and return whether it is right; see `GraphWidget.answer`."""
        asked = self._quiz_on("answer()")
        found = asked.answer(
            find_node(self.stage.open().graph, node), None if text is None else str(text)
        )
        self._show()
        return found

    def reveal(self, node: int | str | None) -> None:
        """Give up a question, or all; see `GraphWidget.reveal`."""
        asked = self._quiz_on("reveal()")
        asked.reveal(None if node is None else find_node(self.stage.open().graph, node))
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
        asked, source = self._asked, self.stage.source
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
        _ = self.widget.model  # another graph that is still to be drawn ends the quiz
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
        self.stage.refresh()


# Relative, as torch.testing has them.
_TOLERANCES = {"torch.float64": 1e-7, "torch.float16": 1e-3, "torch.bfloat16": 1.6e-2}
_TOLERANCE = 1.3e-6
NOTHING = 1e-7  # less than this is left of numbers that cancel
_LEAST_DIGITS = 3


def read_number(text: str) -> float | None:
    """A number as a reader types it; None for what is none."""
    plain = text.strip().replace("\N{MINUS SIGN}", "-").replace("\N{EN DASH}", "-")
    try:
        above, slash, below = plain.partition("/")
        if slash:
            # Of floats: a Fraction would write out every digit of 1e999999999.
            found = float(above) / float(below)
            return found if math.isfinite(found) and math.isfinite(float(below)) else None
        return float(plain)
    except (ValueError, ZeroDivisionError):
        return None


def is_near(number: float, truth: float, dtype: str | None, text: str = "") -> bool:
    """Whether an answer is right: as exact as the dtype, or rounded to three digits or more."""
    if math.isnan(truth) or math.isinf(truth):
        return math.isnan(number) if math.isnan(truth) else number == truth
    tolerance = _TOLERANCES.get(dtype or "", _TOLERANCE)
    if abs(number - truth) <= tolerance * abs(truth):
        return True
    # The rest of numbers that cancel counts as zero; but 5e-8 is not 1e-8.
    nothing = NOTHING * min(1, tolerance / _TOLERANCE)
    if 0 in (number, truth) and abs(number - truth) <= nothing:
        return True
    digits = "" if "/" in text else text.lower().partition("e")[0]
    count = len("".join(c for c in digits if c.isdigit()).lstrip("0"))
    if count < _LEAST_DIGITS:
        return False
    return float(f"{truth:.{count - 1}e}") == number


def written(number: float) -> str:
    """A number as on a board: four digits, a true minus sign."""
    return f"{number:.4g}".replace("-", "\N{MINUS SIGN}")


def single_numbers(found: Mapping[int, Values | None]) -> Iterator[tuple[int, float]]:
    """The nodes that have one number, and the number."""
    for node, values in found.items():
        number = single_number(values)
        if number is not None:
            yield node, number


def single_number(values: Values | None) -> float | None:
    """The one number among values; None where there are none or several."""
    while isinstance(values, list) and len(values) == 1:
        values = values[0]
    if isinstance(values, (list, bool)) or values is None:
        return None
    try:
        return float(values)
    except ValueError:  # a complex number
        return None


KINDS = ("grad", "value", "order")

HIDDEN = "It is hidden while the quiz is on."


@dataclass
class Question:
    """One node that is asked about."""

    node: int  # which
    truth: float  # the number; for "order", which of the asked nodes runs before it
    state: Literal["open", "wrong", "right", "revealed"] = "open"  # where it stands
    hint: str | None = None  # a hint after a wrong answer
    tries: int = 0  # how many answers were wrong

    @property
    def is_hidden(self) -> bool:
        """Whether its number may not be shown yet."""
        return self.state in ("open", "wrong")


@dataclass
class Quiz:
    """The questions about one graph, in plain values only."""

    what: Literal["grad", "value", "order"]  # "grad", "value" or "order"
    drawn: GraphModel  # the drawn graph
    run: RunModel | None  # what flowed in the pass that is asked about
    steps: list[StepModel]  # what ran in it
    dtypes: dict[int, str | None]  # the dtype of each node, as torch calls it
    questions: dict[int, Question] = field(default_factory=dict)  # by node
    wrong: int = 0  # how many answers were wrong

    def ask(self, nodes: Iterable[int] | None) -> None:
        """Make questions about some nodes; None for all about which something is known."""
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
            found = {node["id"]: node["value"] for node in self.drawn["nodes"]}
            return dict(single_numbers(found))
        return dict(single_numbers(gradients(self.drawn, self.run)))

    def _not_asked(self, node: int) -> str:
        named = self._named(self.questions)
        return f"The quiz asks nothing about {self._name(node)}. {named}"

    def _named(self, nodes: Iterable[int]) -> str:
        named = self.drawn["nodes"]
        names = [named[node]["name"] or f"node {node}" for node in nodes]
        return f"It can ask about {list_some(names)}." if names else ""

    def _why_not(self) -> str:
        if self.what == "order":
            return "that ran in the backward pass that is shown."
        word = "gradient" if self.what == "grad" else "value"
        return f"whose {word} is known and is one number."

    def answer(self, node: int, text: str | None) -> bool:
        """Take an answer: the typed text, or None for a click in a quiz about the order."""
        question = self.questions.get(node)
        if question is None:
            raise ValueError(self._not_asked(node))
        if not question.is_hidden:
            return question.state == "right"
        if self.what == "order":
            is_right = self._next() == node
            hint = None if is_right else self._order_hint(node)
        else:
            typed = (text or "").strip()
            number = read_number(typed)
            if number is None:
                reason = f"{typed!r} is not a number: " if typed else ""
                question.hint = f"{reason}type one such as -24, 2.5e-3 or 1/3."
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

        def answer(each: Question) -> str:
            return places[each.node] if self.what == "order" else written(each.truth)

        questions: list[QuestionModel] = [
            {
                "node": each.node,
                "name": self._name(each.node),
                "state": each.state,
                "hint": each.hint,
                "answer": None if each.is_hidden else answer(each),
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
        if trait in ("_findings", "_differences", "effect"):
            return None
        if self.what == "order":
            return {"_steps": [], "run": None}.get(trait, value)
        if trait == "run" and self.what == "grad":
            return masked_run(value, self.drawn, hidden)
        if self.what == "value":
            return _masked_values(trait, value, hidden)
        return value

    def _in_order(self) -> list[int]:
        return sorted(self.questions, key=lambda node: self.questions[node].truth)

    def _next(self) -> int | None:
        return next((n for n in self._in_order() if self.questions[n].is_hidden), None)

    def _order_hint(self, node: int) -> str:
        ran = {n for n in self.questions if not self.questions[n].is_hidden}
        takers = [edge["source"] for edge in self.drawn["edges"] if edge["target"] == node]
        waits = [taker for taker in takers if taker in self.questions and taker not in ran]
        if waits:
            return f"Not yet: {self._name(node)} waits for the gradient of {self._name(waits[0])}."
        return (
            f"Not yet: something else runs before {self._name(node)}. Among the ready nodes, the "
            "engine takes leaves first, then those that the forward pass made last."
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
        grads = dict(single_numbers(gradients(self.drawn, run)))
        lines = []
        for edge, values in zip(run["edges"], run["values"], strict=True) if run else ():
            between = self.drawn["edges"][edge]
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
                factor = f"the grad of {word}" if came and came.is_hidden else written(above or 0)
                lines.append(f"from {word}: {factor} × {written(local)}")
        if not lines:
            given = f" {written(question.truth)}," if question.tries > 0 else ""
            return [f"backward starts here, with{given} the derivative of the output by itself"]
        if len(lines) > 1:
            lines.append("add them up")
        return lines + self._besides(question)

    def _besides(self, question: Question) -> list[str]:
        """Explain the part of a gradient that did not come along its edges."""
        run, node = self.run, question.node
        if run is None:
            return []
        found, total = [], 0.0
        targets = [self.drawn["edges"][edge]["target"] for edge in run["edges"]]
        came: list[Values | None] = [
            values for at, values in zip(targets, run["values"], strict=True) if at == node
        ]
        came += [seed["values"] for seed in run["seeds"] if seed["node"] == node]
        numbers = [single_number(values) for values in came]
        for one in run["grads"]:
            if one["node"] == node and one["before"] is not None:
                held = single_number(one["before"]["values"])
                numbers.append(held)
                before = "something" if held is None else written(held)
                found.append(f".grad held {before} before this pass, which adds to it")
        if any(number is None for number in numbers):
            return found
        total = sum(number for number in numbers if number is not None)
        if not math.isclose(total, question.truth, rel_tol=1e-2, abs_tol=NOTHING):
            found.append("a hook changes what arrives")
        return found

    def _value_hints(self, question: Question) -> list[str]:
        inputs = [e["target"] for e in self.drawn["edges"] if e["source"] == question.node]
        if not inputs:
            return ["it is an input: look at what its operation gives"]
        hidden, nodes = self.hidden, self.drawn["nodes"]
        parts = []
        for node in inputs:
            value = single_number(nodes[node]["value"])
            is_told = question.tries > 0 and value is not None and node not in hidden
            parts.append(
                self._name(node) + (f" = {written(value)}" if is_told and value is not None else "")
            )
        return [f"it is {self._sign(question.node)} of {join_words(parts)}"]

    def _sign(self, node: int) -> str:
        found = self.drawn["nodes"][node]
        return found["sign"] or found["label"]

    def _name(self, node: int) -> str:
        nodes = self.drawn["nodes"]
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
    shown = [graph["edges"][edge]["target"] not in hidden for edge in run["edges"]]
    nothing: Any = {"values": None, "norm": None}
    return {
        **run,
        "values": [
            v if is_shown else None for v, is_shown in zip(run["values"], shown, strict=True)
        ],
        "norms": [n if is_shown else None for n, is_shown in zip(run["norms"], shown, strict=True)],
        "seeds": [{**s, **nothing} if s["node"] in hidden else s for s in run["seeds"]],
        "arrived": [{**a, **nothing} if a["node"] in hidden else a for a in run["arrived"]],
        "grads": [g for g in run["grads"] if g["node"] not in hidden],
    }


def _masked_values(trait: str, value: Any, hidden: set[int]) -> Any:
    if trait == "_values" and value is not None:
        return [None if node in hidden else each for node, each in enumerate(value)]
    if trait == "model":
        nodes = [{**n, "value": None} if n["id"] in hidden else n for n in value["nodes"]]
        return {**value, "nodes": nodes}
    if trait == "_update" and value is not None:
        return {**value, "changes": []}
    return value
