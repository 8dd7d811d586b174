"""`GraphWidget.quiz`: what travels while it is on, what counts as right, hints and the score."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradwalk import GraphWidget
from gradwalk.features.quiz.quiz import is_near, read_number
from gradwalk.schema.columns import decode


@pytest.fixture
def widget():
    w, x, b = (torch.tensor(v, requires_grad=True) for v in (-1.5, 2.0, 1.0))
    y = torch.tensor(1.0)
    pred = w * x + b
    loss = (pred - y) ** 2
    made = GraphWidget(loss)
    yield made
    made.close()


def travelled(widget):
    """Everything that the browser has, as text."""
    state = widget.get_state()
    for name in ("_esm", "_css"):
        state.pop(name)
    return {
        name: decode(value) if isinstance(value, bytes) else value
        for name, value in state.items()
        if isinstance(value, (bytes, dict, list, int, float, str, type(None)))
    }


def node_of(widget, name):
    return next(node["id"] for node in widget.model["nodes"] if node["name"] == name)


def test_a_hidden_gradient_travels_nowhere(widget):
    widget.backward()
    assert "-12.0" in json.dumps(travelled(widget))
    widget.quiz("grad", nodes=["w"])
    widget.selected = node_of(widget, "w")
    assert "12.0" not in json.dumps(travelled(widget))
    assert widget.details["grad"] is None
    assert "hidden" in widget.details["grad_note"]["grad"]
    # Others are still told.
    assert "9.0" in json.dumps(travelled(widget)["run"])
    assert widget.answer("w", "-12")
    assert "-12.0" in json.dumps(travelled(widget))
    assert widget.details["grad"]["values"] == -12.0


def test_nothing_beside_the_picture_gives_a_hidden_number_away(widget):
    widget.backward()
    widget.edits = [{"kind": "scale", "edge": "w", "value": 2}]
    widget.quiz("grad", nodes=["w"])
    assert "12.0" not in json.dumps(travelled(widget))
    told = json.dumps(widget._repr_mimebundle_(), default=str) + str(widget)
    assert "−12" not in told
    assert "-12" not in told
    widget.quiz(None)
    assert "-12.0" in json.dumps(travelled(widget)["effect"])


def test_a_hidden_value_travels_nowhere(widget):
    widget.quiz("value", nodes=["pred"])
    pred = node_of(widget, "pred")
    state = travelled(widget)
    assert state["model"]["nodes"][pred]["value"] is None
    assert state["_values"][pred] is None
    widget.reveal("pred")
    assert travelled(widget)["_values"][pred] == -2.0


def test_the_order_travels_nowhere_and_is_that_of_the_engine(widget):
    widget.quiz("order")
    order = [step.node for step in widget.steps]
    assert travelled(widget)["_steps"] == []
    assert travelled(widget)["run"] is None
    for node in reversed(order[1:]):
        assert not widget.answer(node)
    assert widget.score == {"right": 0, "wrong": len(order) - 1, "revealed": 0, "of": len(order)}
    assert all(widget.answer(node) for node in order)
    assert widget.score["right"] == len(order)
    assert travelled(widget)["_steps"] != []
    places = {one["node"]: one["answer"] for one in widget._quiz["questions"]}
    assert [places[node] for node in order] == [str(i + 1) for i in range(len(order))]


def test_every_number_of_every_node_is_a_right_answer(widget):
    widget.quiz("grad")
    grads = {}
    for step in widget.steps:
        widget_grad = widget._feature("quiz")._asked.questions[step.node].truth
        grads[step.node] = widget_grad
    assert grads[node_of(widget, "w")] == -12.0
    for node, grad in grads.items():
        assert not widget.answer(node, grad + 1)
        assert widget.answer(node, repr(grad))
    assert widget.score == {
        "right": len(grads),
        "wrong": len(grads),
        "revealed": 0,
        "of": len(grads),
    }


def test_hints_are_first_the_local_derivative_then_the_chain_rule(widget):
    widget.quiz("grad", nodes=["w", "x"])

    def hint(name, text):
        assert not widget.answer(name, text)
        found = {one["node"]: one for one in widget._quiz["questions"]}
        return found[node_of(widget, name)]["hint"]

    assert hint("w", "12") == "Not yet. Look at the sign. from ×: the local derivative is 2"
    assert hint("w", "11") == "Not yet. from ×: −6 × 2"
    assert hint("x", "1") == "Not yet. from ×: the local derivative is −1.5"
    assert hint("x", "one") == "'one' is not a number: type one such as -24, 2.5e-3 or 1/3."
    assert widget.score["wrong"] == 3  # what is no number is no answer


def test_the_second_hint_at_an_output_says_what_backward_starts_with(widget):
    widget.backward()
    widget.quiz("grad", nodes=["loss"])
    hints = []
    for _ in range(2):
        widget.answer("loss", "7")
        hints.append(widget._quiz["questions"][0]["hint"])
    ends = "the derivative of the output by itself"
    assert hints == [
        f"Not yet. backward starts here, with {ends}",
        f"Not yet. backward starts here, with 1, {ends}",
    ]


def test_a_gradient_that_adds_up_is_hinted_at_by_its_parts():
    x = torch.tensor(3.0, requires_grad=True)
    made = GraphWidget(x * 2 + x**2)
    made.quiz("grad", nodes=["x"])
    made.answer("x", "1")
    hint = made._quiz["questions"][0]["hint"]
    assert "add them up" in hint
    assert made.answer("x", "8")
    made.close()


@pytest.mark.parametrize("text", ["-24", "-24.0", "-2.4e1", "−24", "−2.4E1", " -48/2 ", "-24."])
def test_a_number_may_be_written_in_many_ways(text):
    assert read_number(text) == -24.0


@given(st.integers(-999, 999), st.integers(1, 999))
def test_fractions_are_read_as_they_are(above, below):
    assert read_number(f"{above}/{below}") == float(Fraction(above, below))


@pytest.mark.parametrize("text", ["", "x", "1/0", "1//2", "--1", "1 2", "0x10"])
def test_what_is_no_number_is_none(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("dtype", "off", "near"),
    [
        ("torch.float64", 1e-9, True),
        ("torch.float64", 1e-5, False),
        ("torch.float32", 1e-7, True),
        ("torch.float32", 1e-4, False),
        ("torch.float16", 5e-4, True),
        ("torch.bfloat16", 1e-2, True),
        ("torch.bfloat16", 1e-1, False),
    ],
)
def test_an_answer_is_as_near_as_its_dtype_is_exact(dtype, off, near):
    truth = -24.0
    assert is_near(truth * (1 + off), truth, dtype, repr(truth * (1 + off))) is near


def test_an_answer_may_be_rounded_to_three_digits_and_not_to_two():
    truth = torch.tanh(torch.tensor(0.5)).item()
    assert is_near(0.462, truth, "torch.float32", "0.462")
    assert is_near(0.46212, truth, "torch.float32", "0.46212")
    assert not is_near(0.46, truth, "torch.float32", "0.46")
    assert not is_near(0.463, truth, "torch.float32", "0.463")
    assert is_near(1 / 3, torch.tensor(1 / 3).item(), "torch.float32", "1/3")


def test_what_cannot_be_asked_is_a_sentence(widget):
    with pytest.raises(ValueError, match="one of 'grad', 'value', 'order'"):
        widget.quiz("loss")
    with pytest.raises(ValueError, match="no quiz is on"):
        widget.answer("w", "1")
    with pytest.raises(ValueError, match="weights"):
        widget.quiz("grad", nodes=["weights"])
    v = torch.ones(3, requires_grad=True)
    other = GraphWidget((v * 2).sum())
    with pytest.raises(
        ValueError, match="v, which is none whose gradient is known and is one number"
    ):
        other.quiz("grad", nodes=["v"])
    other.close()
    widget.quiz("grad", nodes=["w"])
    with pytest.raises(ValueError, match="asks nothing about x"):
        widget.answer("x", "1")


def test_the_quiz_ends_when_asked_and_with_its_graph(widget):
    widget.quiz("grad")
    widget.quiz(None)
    assert widget._quiz is None
    assert widget.score is None
    widget.quiz("grad", nodes=["w"])
    x = torch.tensor(2.0, requires_grad=True)
    widget.update(x * 3)
    assert widget.model["nodes"][1]["name"] == "x"
    assert widget._quiz is None


def test_the_browser_answers_by_messages(widget):
    widget.quiz("grad", nodes=["w", "x"])
    w, x = node_of(widget, "w"), node_of(widget, "x")
    widget._handle({"kind": "answer", "node": w, "text": "-12"})
    widget._handle({"kind": "reveal", "node": x})
    assert widget.score == {"right": 1, "wrong": 0, "revealed": 1, "of": 2}
    assert [one["answer"] for one in widget._quiz["questions"]] == ["−12", "9"]


@pytest.mark.parametrize("text", ["1e999999999/3", "1/1e-999999999", "9" * 5000 + "/7", "1/1e400"])
def test_a_fraction_of_enormous_numbers_is_none_at_once(text):
    assert read_number(text) is None


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.float64", "torch.bfloat16"])
@pytest.mark.parametrize("truth", [1e-8, -3e-9, 1e-12, 1e-30])
def test_of_a_tiny_gradient_another_tiny_number_is_not_right(dtype, truth):
    assert is_near(truth, truth, dtype)
    assert not is_near(5 * truth, truth, dtype)
    assert not is_near(-truth, truth, dtype)


def test_a_hint_tells_what_is_in_a_gradient_besides_the_chain_rule():
    x = torch.tensor(-3.0, requires_grad=True)
    (x * 10).backward()
    h = x * 2
    h.register_hook(lambda grad: grad * 5)
    widget = GraphWidget(h**2, names={"x": x, "h": h})
    widget.quiz("grad", nodes=["x", "h"])
    hints = {}
    for name, by_chain_rule in [("x", "-24"), ("h", "-12")]:
        assert not widget.answer(name, by_chain_rule)
        hints[name] = next(q["hint"] for q in widget._quiz["questions"] if q["name"] == name)
    assert ".grad held 10 before this pass" in hints["x"]
    assert "hook" not in hints["x"]
    assert "a hook changes what arrives" in hints["h"]
    assert widget.answer("x", str(x.grad.item()))
    assert widget.answer("h", "-60")
    widget.close()


def test_another_graph_ends_the_quiz_before_anything_is_answered():
    x = torch.tensor(-3.0, requires_grad=True)
    widget = GraphWidget(x**2)
    for value in (2.0, 3.0):
        widget.quiz("grad", nodes=["x"])
        widget.update((x * value) ** 2)
        with pytest.raises(ValueError, match="no quiz is on"):
            widget.answer("x", "-6")
        assert widget.score is None
        assert widget._quiz is None
    widget.close()


def test_a_name_that_no_node_has_is_answered_with_the_nearest():
    weight = torch.tensor(2.0, requires_grad=True)
    widget = GraphWidget((weight * 3).exp())
    for ask in (
        lambda: widget.quiz("grad", nodes=["wieght"]),
        lambda: widget.run_to("weigth"),
    ):
        with pytest.raises(ValueError, match=r"The nearest name is 'weight'\. Give the name"):
            ask()
    with pytest.raises(ValueError, match=r"called 'zzz' in this graph\. Give the name of a tensor"):
        widget.quiz("grad", nodes=["zzz"])
    widget.close()
