"""`interact`: controls for a function's arguments, and its graph, compared with torch itself."""

from __future__ import annotations

import gc
import math
import sys
import weakref
from typing import Any

import ipywidgets
import pytest
import torch

import gradwalk
from gradwalk import GraphWidget, interact


def neuron(w, x, b, y):
    pred = w * x + b
    loss = (pred - y) ** 2
    return loss  # noqa: RET504  the name is what is tested


@pytest.fixture
def box():
    made = interact(neuron, w=(-5.0, 5.0), x=2.0, b=(-5.0, 5.0), y=1.0)
    yield made
    made.close()


def truth(function, **values):
    """What torch itself gives: the output and each gradient."""
    leaves = {
        name: torch.tensor(value, requires_grad=True) if isinstance(value, float) else value
        for name, value in values.items()
    }
    loss = function(**leaves)
    loss.backward()
    return loss, {name: leaf.grad for name, leaf in leaves.items() if hasattr(leaf, "grad")}


def test_every_change_is_a_forward_a_backward_and_a_picture(box):
    values = {name: control.value for name, control in box.controls.items()}
    for name, value in [("w", -1.5), ("b", 1.0), ("x", -1.25), ("y", 0.0), ("w", 4.0)]:
        box.controls[name].value = values[name] = value
        loss, grads = truth(neuron, **values)
        assert torch.equal(box.result, loss)
        shown = {node["name"]: node for node in box.widget.model["nodes"]}
        held = {
            box.widget.model["nodes"][one["node"]]["name"]: one for one in box.widget.run["grads"]
        }
        assert shown["loss"]["value"] == loss.item()
        assert shown["pred"]["value"] == pytest.approx(values["w"] * values["x"] + values["b"])
        for each, grad in grads.items():
            assert torch.equal(box.leaves[each].grad, grad)
            assert shown[each]["value"] == values[each]
            assert held[each]["values"] == grad.item()
        assert box.widget.cursor == len(box.widget.steps)


def test_a_branch_taken_otherwise_is_another_graph_and_the_picture_says_so():
    def kink(x):
        return torch.relu(x * 2) if x > 0 else x.exp()

    made = interact(kink, x=(-1.0, 1.0, 0.1))
    made.controls["x"].value = 0.5
    assert made.widget._update["words"] == "new: relu and × 2; gone: exp"
    made.controls["x"].value = 0.75
    assert made.widget._update["words"] == "graph unchanged"
    made.close()


@pytest.mark.parametrize(
    ("given", "control", "reaches"),
    [
        ((-1.0, 3.0), ipywidgets.FloatSlider, torch.Tensor),
        ((0.0, 3.0, 0.5), ipywidgets.FloatSlider, torch.Tensor),
        ((0, 4), ipywidgets.IntSlider, torch.Tensor),
        (2.5, ipywidgets.FloatSlider, torch.Tensor),
        (2, ipywidgets.IntSlider, torch.Tensor),
        (True, ipywidgets.Checkbox, bool),
        ("tanh", ipywidgets.Text, str),
        ([1, 2], ipywidgets.Dropdown, int),
        ([0.5, 2.0], ipywidgets.Dropdown, torch.Tensor),
        ({"a": "one", "b": "two"}, ipywidgets.Dropdown, str),
        (lambda: ipywidgets.FloatText(3.0), ipywidgets.FloatText, torch.Tensor),
        (lambda: ipywidgets.IntSlider(3), ipywidgets.IntSlider, torch.Tensor),
    ],
)
def test_arguments_follow_the_rules_of_ipywidgets(given, control, reaches):
    seen = []

    def function(a, w):
        seen.append(a)
        return w * 2

    # A widget is made here: other tests close all that there are.
    made = interact(function, a=given() if callable(given) else given, w=(0.0, 1.0))
    assert isinstance(made.controls["a"], control)
    assert type(seen[-1]) is reaches
    if reaches is torch.Tensor:
        assert seen[-1].is_leaf
        assert seen[-1].requires_grad
        assert seen[-1].item() == made.controls["a"].value
    made.close()


def test_what_is_fixed_reaches_the_function_as_it_is_and_has_no_control():
    data = torch.ones(3)
    made = interact(lambda w, x: (w * x).sum(), w=(0.0, 1.0), x=ipywidgets.fixed(data))
    assert made.kwargs["x"] is data
    assert list(made.controls) == ["w"]
    made.close()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2), (2, 1, 3), (16,)])
def test_a_tensor_has_a_control_for_each_number_and_keeps_its_shape(shape):
    start = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
    made = interact(lambda t: (t**2).sum(), t=start.double())
    control = made.controls["t"]
    assert len(control.children) == start.numel()
    control.children[-1].value = 2.0
    leaf = made.leaves["t"]
    assert (leaf.shape, leaf.dtype) == (start.shape, torch.float64)
    assert leaf.flatten()[-1] == 2.0
    assert torch.equal(leaf.grad, 2 * leaf.detach())
    control.value = start.tolist()
    assert torch.equal(made.leaves["t"].detach(), start.double())
    made.close()


def test_a_tensor_of_too_many_numbers_is_a_sentence():
    with pytest.raises(ValueError, match=r"17 numbers.*t=fixed"):
        interact(lambda t: t.sum(), t=torch.ones(17))


def failing(x):
    if x > 2:
        raise KeyError("no such thing")
    if x > 1:
        return None
    if x < -1:
        return x * 2, x + 1
    return x * 3


@pytest.mark.parametrize(
    ("value", "sentence", "stays"),
    [
        (2.5, "failing did not work with x = 2.5: KeyError: 'no such thing'.", True),
        (1.5, "failing returned None, and nothing in it requires grad", True),
        (-2.0, "failing returned a tuple of 2 now, and a tensor of one number", False),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_the_last_good_picture_stays(value, sentence, stays):
    made = interact(failing, x=(-3.0, 3.0))
    made.controls["x"].value = 0.5
    before = made.widget.model
    made.controls["x"].value = value
    assert made.error.startswith(sentence)
    assert made.widget._fault == made.error
    assert (made.widget.model == before) is stays
    made.controls["x"].value = 0.25
    made.controls["x"].value = 0.75
    assert made.error is None
    assert made.widget._fault is None
    assert made.leaves["x"].grad == 3
    made.close()


def test_what_fails_at_first_is_raised():
    with pytest.raises(ZeroDivisionError):
        interact(lambda x: x * (1 / 0), x=1.0)
    with pytest.raises(ValueError, match="nothing in it requires grad"):
        interact(lambda x: x.detach(), x=1.0)
    with pytest.raises(TypeError, match="was given 3"):
        interact(3)


def test_the_gradients_of_a_model_do_not_add_up_and_outer_names_are_known():
    model = torch.nn.Linear(1, 1)

    def function(x):
        return model(x.reshape(1, 1)).sum()

    made = interact(function, x=(0.0, 4.0))
    for value in (1.0, 3.0):
        made.controls["x"].value = value
    assert model.weight.grad.item() == 3.0
    assert "model.weight" in {node["name"] for node in made.widget.model["nodes"]}
    made.close()


def test_a_step_is_that_of_gradient_descent(box):
    box.controls["w"].value, box.controls["b"].value = -1.5, 1.0
    before, grads = truth(neuron, w=-1.5, x=2.0, b=1.0, y=1.0)
    step = box.descend(0.05)
    w, b = -1.5 - 0.05 * grads["w"].item(), 1.0 - 0.05 * grads["b"].item()
    after, _ = truth(neuron, w=w, x=2.0, b=b, y=1.0)
    assert step.before == before.item()
    assert step.after == pytest.approx(after.item(), rel=1e-6)
    assert box.controls["w"].value == pytest.approx(w)
    assert box.controls["x"].value == 2.0  # a plain number is data
    assert set(box.descend(0.05, names=["x"]).moved) == {"x"}
    with pytest.raises(ValueError, match=r"Give one of: w, x, b, y\."):
        box.descend(0.1, names=["z"])


def test_a_step_widens_a_range_rather_than_stop_at_its_end():
    made = interact(lambda w: (w - 10) ** 2, w=(-1.0, 1.0))
    made.descend(0.5)
    assert made.controls["w"].value == pytest.approx(10.0)
    assert made.result.item() == pytest.approx(0.0, abs=1e-6)
    made.close()


def test_a_number_set_in_the_picture_sets_its_control(box):
    entry = next(entry for entry in box.widget._number_inputs if entry["name"] == "w")
    assert (entry["min"], entry["max"]) == (-5.0, 5.0)
    box.widget._handle({"kind": "turn", "node": entry["node"], "at": [], "value": 2.5})
    assert box.controls["w"].value == 2.5
    assert box.leaves["w"].item() == 2.5
    box.widget._handle({"kind": "turn", "node": entry["node"], "at": [], "value": 99})
    assert box.controls["w"].value == 5.0


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2), (2, 1, 3), (16,)])
def test_each_number_of_a_tensor_is_set_in_the_picture(shape):
    made = interact(lambda t: (t**3).sum(), t=torch.ones(shape, dtype=torch.float64))
    inputs = made.widget._number_inputs
    assert [tuple(entry["at"]) for entry in inputs] == made.controls["t"].places
    assert len(inputs) == made.leaves["t"].numel()
    expected = torch.ones(shape, dtype=torch.float64)
    for i, entry in enumerate(inputs):
        number = entry["min"] + (i + 1) * entry["step"]
        asked = {"kind": "turn", "node": entry["node"], "at": entry["at"], "value": number}
        made.widget._handle(asked)
        expected[tuple(entry["at"])] = number
        truth = expected.clone().requires_grad_()
        (truth**3).sum().backward()
        assert torch.equal(made.leaves["t"].detach(), expected)
        assert torch.equal(made.leaves["t"].grad, truth.grad)
    made.close()


def test_it_is_a_box_of_controls_and_picture():
    made = gradwalk.interact(lambda w: w * 2, w=1.5)
    assert isinstance(made, ipywidgets.Box)
    assert isinstance(made.widget, GraphWidget)
    assert made.controls["w"] in made.children
    assert made.widget in made.children
    made.close()
    assert made.widget.comm is None


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_function_runs_without_a_trace_and_nothing_keeps_its_variables(is_wrong):
    class Thing:
        pass

    seen, alive = [], []

    def function(w):
        thing = Thing()
        alive.append(weakref.ref(thing))
        seen.append(sys.gettrace())
        if is_wrong and len(seen) > 1:
            raise ValueError("no")
        return w * 2

    box = interact(function, w=(-5.0, 5.0))
    gc.disable()
    try:
        box.controls["w"].value = 1.0
        assert [each() for each in alive] == [None, None]
    finally:
        gc.enable()
    assert seen == [None, None]
    assert sys.gettrace() is None
    assert (box.error is not None) is is_wrong
    box.close()


@pytest.mark.parametrize("at_first", [False, True])
@pytest.mark.parametrize("fails", ["raises", "constant"])
def test_nothing_of_a_call_that_fails_outlives_it(fails, at_first):
    """An exception knows the frames that it went through, and these what they hold."""
    nodes = []

    def function(w):
        if not (at_first or w > 0):
            return w * 2
        h = w.exp()
        nodes.append(weakref.ref(h))
        if fails == "raises":
            raise ValueError("no number")
        return h.detach()

    box = None if at_first else interact(function, w=(-5.0, 5.0, 1.0))
    gc.disable()
    try:
        if box is None:
            with pytest.raises(ValueError, match=r"no number|requires grad"):
                interact(function, w=(-5.0, 5.0))
        else:
            box.controls["w"].value = 1.0
            box.controls["w"].value = 2.0
            assert box.error is not None
        assert [each() for each in nodes] == [None] * (1 if at_first else 2)
    finally:
        gc.enable()
    if box is not None:
        box.close()


@pytest.mark.parametrize("fails", ["raises", "constant", "none"])
def test_a_call_that_fails_leaves_the_gradients_of_the_one_that_is_shown(fails):
    model = torch.nn.Linear(1, 1)

    def function(w):
        if w > 0:
            if fails == "raises":
                raise ValueError("no")
            return 3.0 if fails == "constant" else None
        return model(w.reshape(1, 1) ** 2).sum()

    made = interact(function, w=(-5.0, 5.0))
    made.controls["w"].value = -2.0
    before = made.leaves["w"].grad.clone(), model.weight.grad.clone()
    made.controls["w"].value = 2.0
    assert made.error is not None
    assert torch.equal(made.leaves["w"].grad, before[0])
    assert torch.equal(model.weight.grad, before[1])
    # They are taken back before the next call all the same, as they would add up.
    made.controls["w"].value = -1.0
    assert torch.equal(model.weight.grad, torch.ones(1, 1))
    made.close()


def test_arguments_may_be_called_as_ours_are():
    made = interact(lambda function, graph: function * graph, function=(0.0, 2.0), graph=2.0)
    assert set(made.leaves) == {"function", "graph"}
    made.close()


@pytest.mark.parametrize("lr", [0.05, 1e-4, 0.3])
def test_a_slider_can_hold_what_a_step_sets_it_to(lr):
    """The browser rounds a slider to its steps, and sends that back."""
    made = interact(lambda w, v: (w * 3 - 1) ** 2 + v**2, w=(-5.0, 5.0), v=(-1.0, 1.0, 0.5))
    made.controls["v"].value = 0.5
    steps = {entry["name"]: entry["step"] for entry in made.widget._number_inputs}
    for _ in range(3):
        expected = {name: leaf.detach() - lr * leaf.grad for name, leaf in made.leaves.items()}
        made.descend(lr)
        for name, control in made.controls.items():
            count = round((control.value - control.min) / control.step)
            rounded = control.min + count * control.step
            assert rounded == pytest.approx(expected[name].item(), rel=1e-7, abs=1e-8)
            assert torch.equal(made.leaves[name].detach(), expected[name])
    # In the picture it moves as it did.
    assert {entry["name"]: entry["step"] for entry in made.widget._number_inputs} == steps
    made.close()


@pytest.mark.parametrize("lr", [1e30, 1e300, math.inf, math.nan])
@pytest.mark.parametrize("start", [3.0, torch.tensor([1.0, -2.0])])
def test_a_step_to_what_is_no_number_is_refused_and_nothing_moves(lr, start):
    box = interact(lambda w: (w * w * w * w).sum(), w=start)
    for _ in range(4):
        before, gradient = box.controls["w"].value, box.leaves["w"].grad.clone()
        stepped = box.leaves["w"].detach() - lr * gradient
        if stepped.isfinite().all():
            box.descend(lr)
            continue
        with pytest.raises(ValueError, match=r"no control can hold\. Nothing moved"):
            box.descend(lr)
        assert box.controls["w"].value == before
        assert torch.equal(box.leaves["w"].grad, gradient)
    assert all(
        math.isfinite(entry[part])
        for entry in box.widget._number_inputs
        for part in ("min", "max", "step")
    )
    box.close()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_control(number):
    for given in (number, torch.tensor([1.0, number])):
        with pytest.raises(ValueError, match=r"no control holds NaN(,| or) infinity.*fixed\("):
            interact(lambda w: (w * 2).sum(), w=given)
    box = interact(lambda w: (w * 2).sum(), w=torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"no control holds NaN"):
        box.controls["w"].value = [1.0, number]
    assert box.controls["w"].value == [1.0, 2.0]
    box.close()


@pytest.mark.parametrize(("choices", "is_leaf"), [([1.0, 2.0], True), ([1, 2], False)])
def test_of_what_is_chosen_a_float_is_a_leaf_and_a_whole_number_stays_one(choices, is_leaf):
    seen = []

    def function(w, k):
        seen.append(k)
        return w * k

    box = interact(function, w=3.0, k=choices)
    box.controls["k"].value = choices[1]
    assert ("k" in box.leaves) is is_leaf
    assert isinstance(seen[-1], torch.Tensor if is_leaf else int)
    assert float(box.leaves["w"].grad) == 2.0
    box.close()


def needs_two(w, b, k=3, mode="plain", extra=None):
    return w * b + k * (1 if mode == "plain" else 2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"w": 1.0}, r"not given b, which needs_two needs\. Give all that it takes: w, b, k, mode"),
        ({"w": 1.0, "bb": 2.0}, r"given bb, and needs_two takes no such.*nearest name is 'b'"),
        ({"w": 1.0, "b": 2.0, "zzz": 1}, r"given zzz, and .*It takes w, b, k, mode, extra"),
        ({"w": (5.0, -5.0), "b": 1.0}, r"w=\(5\.0, -5\.0\), for which .*min below max"),
        ({"w": (1, 2, 3, 4), "b": 1.0}, r"w=\(1, 2, 3, 4\), for which no control exists"),
        ({"w": [], "b": 1.0}, r"w=\[\], for which no control exists"),
        ({"w": object(), "b": 1.0}, r"w=<object .*for which no control exists.*w=fixed\("),
    ],
)
def test_arguments_that_do_not_fit_are_sentences(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        interact(needs_two, **given)


def test_what_has_a_default_need_not_be_given_and_any_name_goes_where_the_function_takes_any():
    box = interact(needs_two, w=2.0, b=(0.0, 1.0))
    assert list(box.controls) == ["w", "b", "k", "mode"]
    assert box.controls["k"].value == 3
    box.controls["k"].value = 4
    assert box.result.item() == 2.0 * box.controls["b"].value + 4
    box.close()
    box = interact(lambda **numbers: numbers["a"] * numbers["b"], a=2.0, b=3.0)
    assert box.leaves["a"].grad.item() == 3.0
    box.close()


@pytest.mark.parametrize("beside", [3, "text", None, [1, {"n": 2}], torch.ones(2)])
def test_values_without_a_graph_may_be_returned_beside_the_loss(beside: Any):
    for returned in (
        lambda a: {"loss": a**2, "beside": beside},
        lambda a: (a**2, beside),
        lambda a: [beside, [a**2, beside]],
    ):
        box = interact(returned, a=(-5.0, 5.0))
        box.controls["a"].value = 3.0
        assert box.error is None
        assert box.leaves["a"].grad == 6
        assert box.differences()["a"].agrees
        box.close()
