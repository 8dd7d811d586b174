"""What cannot be drawn gets a sentence: what was given, and what to do."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
import torch
from torch import nn

from gradwalk import (
    GraphWidget,
    capture,
    compare,
    contributions,
    diagnose,
    interact,
    record,
    what_if,
)
from gradwalk.hosts.host import open_widgets


def under(mode):
    x = torch.ones(2, requires_grad=True)
    with mode():
        return x * 2


BAD = {
    "None": (lambda: (None,), TypeError, r"None\..*return"),
    "a number": (lambda: (3.5,), TypeError, r"the number 3\.5.*Pass the tensor"),
    "a string": (lambda: ("loss",), TypeError, r"a str.*Pass a tensor"),
    "an array": (lambda: (np.ones(3),), TypeError, r"numpy\.ndarray.*torch tensors"),
    "a module": (lambda: (nn.Linear(1, 1),), TypeError, r"module Linear.*Pass what it returns"),
    "no grad": (lambda: (torch.ones(2),), ValueError, r"shape \(2,\).*requires_grad=True"),
    "integers": (lambda: (torch.arange(3),), ValueError, r"int64.*floating point"),
    "nothing": (lambda: (), ValueError, r"no output.*\(loss\)"),
    "an empty list": (lambda: ([],), ValueError, r"no output"),
    "no_grad": (lambda: (under(torch.no_grad),), ValueError, r"no_grad\(\).*compute it again"),
    "inference": (
        lambda: (under(torch.inference_mode),),
        ValueError,
        r"inference tensor.*outside inference_mode",
    ),
    "one of several": (
        lambda: (torch.ones(1, requires_grad=True) * 2, None),
        TypeError,
        r"as argument 2, None",
    ),
    "in a dict": (lambda: ({"b": [7]},), TypeError, r"\['b'\]\[0\], the number 7"),
}


@pytest.mark.parametrize("function", [GraphWidget, capture])
@pytest.mark.parametrize("case", BAD)
def test_bad_outputs(function, case):
    make, error, message = BAD[case]
    given = make()
    open_before = set(open_widgets())
    with pytest.raises(error, match=message) as raised:
        function(*given)
    text = str(raised.value)
    assert text.startswith(f"{function.__name__}() was given")
    assert text.endswith((".", "?"))
    assert set(open_widgets()) == open_before


@pytest.mark.parametrize("direction", ["sideways", "", 3])
def test_an_unknown_direction(direction):
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="it is one of 'auto', 'down', 'right', 'up', 'left'"):
        GraphWidget(x * 2, direction=direction)
    widget = GraphWidget(x * 2)
    with pytest.raises(ValueError, match="direction was given"):
        widget.direction = direction
    with pytest.raises(ValueError, match="direction was given None"):
        widget.direction = None
    assert widget.direction == "auto"


@pytest.mark.parametrize(
    ("selected", "error", "message"),
    [
        (99, ValueError, "nodes 0 to 1 only"),
        (-1, ValueError, "nodes 0 to 1 only"),
        ("w", TypeError, "of type str"),
        (1.5, TypeError, "of type float"),
    ],
)
def test_an_impossible_selection(selected, error, message):
    widget = GraphWidget(torch.ones(1, requires_grad=True).exp())
    widget.selected = 1
    with pytest.raises(error, match=message):
        widget.selected = selected
    assert widget.selected == 1


def test_an_error_leaves_no_hook_behind():
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    with pytest.raises(TypeError):
        GraphWidget(y, None)
    with pytest.raises(TypeError):
        GraphWidget(y, names=7)
    y.backward()
    assert x.grad.item() == 2.0


W = torch.tensor([1.0, 2.0], requires_grad=True)
ODD = {
    "an array": np.ones(2),
    "a tensor": torch.ones(2),
    "a class": object,
    "a huge number": 10**400,
    "a text": "w",
}
BACKWARD = {
    "retain_graph": r"retain_graph was given .*, of type \w+\. Give True, .* or .if_possible.\.$",
    "create_graph": r"create_graph was given .*, of type \w+\. Give True or False\.$",
    "inputs": r"inputs was given .*Give (the )?tensors",
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("argument", BACKWARD)
def test_what_backward_cannot_take(argument, odd):
    asked = {argument: ODD[odd]}
    for run in (record, lambda loss, **how: GraphWidget(loss).backward(**how)):
        with pytest.raises((TypeError, ValueError), match=BACKWARD[argument]):
            run((W * 2).sum(), **asked)
        assert W.grad is None


def test_retain_graph_is_what_torch_takes():
    for given in (1, 0, True, None, "if_possible"):
        record((W * 2).sum(), retain_graph=given, inputs=iter([W]))
        assert W.grad.tolist() == [2.0, 2.0]
        W.grad = None


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda g: GraphWidget(W * 2, constants=g), "constants was given"),
        (lambda g: compare(W * 2, W * 3, constants=g), "constants was given"),
        (lambda g: setattr(GraphWidget(W * 2), "constants", g), "constants was given"),
        (lambda g: setattr(GraphWidget(W * 2), "direction", g), "direction was given"),
        (lambda g: GraphWidget(W * 2).to_svg(theme=g), "theme was given"),
        (lambda g: GraphWidget(W * 2).to_svg(width=g), "width was given"),
        (lambda g: GraphWidget(W * 2).to_png(scale=g), "scale was given"),
        (lambda g: GraphWidget(W * 2).quiz(g), r"quiz\(\) was given"),
        (lambda g: contributions("w", W * 2, by=g), "by was given"),
        (lambda g: setattr(record((W * 2).sum()), "cursor", g), "cursor was given"),
        (lambda g: diagnose((W * 2).sum(), vanishing=g), "vanishing was given"),
        (lambda g: diagnose((W * 2).sum(), dead=g), "dead was given"),
    ],
)
def test_what_no_choice_is_made_of(use, message, odd):
    with pytest.raises((TypeError, ValueError), match=f"^{message} .*\\.$"):
        use(ODD[odd])
    W.grad = None


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (torch.ones(2, device="meta"), "a meta tensor"),
        (torch.ones(2).to_sparse(), "a sparse tensor"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "a nested tensor"),
        (10**400, "a whole number for w"),
    ],
    ids=["meta", "sparse", "nested", "huge"],
)
def test_what_no_control_can_hold(given, kind):
    with pytest.raises(ValueError, match=rf"was given .*{kind}.*fixed\("):
        interact(lambda w: w * 2, w=given)


@pytest.mark.parametrize("is_module", [True, False])
def test_what_has_no_name_can_be_called_by_interact(is_module):
    linear = nn.Linear(2, 1)
    called = linear if is_module else functools.partial(linear)
    box = interact(called, input=torch.ones(2))
    assert torch.equal(box.leaves["input"].grad, linear.weight[0])
    box.close()


def test_a_sparse_gradient_can_be_experimented_with():
    table = nn.Embedding(4, 2, sparse=True)
    loss = table(torch.tensor([1, 2, 1])).sum()
    found = what_if(loss, scale={"table.weight": 2})
    assert repr(found) == "<WhatIf: 1 of 1 gradients change>"
    expected = torch.tensor([[0.0, 0], [2, 2], [1, 1], [0, 0]])
    assert torch.equal(found.difference["table.weight"].to_dense(), expected)
    replaced = what_if(loss, replace={"table.weight": torch.ones(4, 2)})
    assert torch.equal(replaced.difference["table.weight"], 1 - expected)
    table = nn.Embedding(4, 2)
    loss = table(torch.tensor([1, 2, 1])).sum()
    back = what_if(loss, replace={"table.weight": expected.to_sparse()})
    assert torch.equal(back.difference["table.weight"], 0 * expected)
    assert "0 of 1" in repr(back)
    assert "0 of 1" in repr(what_if(loss, scale={"table.weight": 1}))


def test_a_quiz_says_what_it_can_ask_about():
    y = W.sum()
    loss = y * y
    widget = GraphWidget(loss)
    with pytest.raises(
        ValueError, match=r"given W, which is none whose gradient .* about loss and y\.$"
    ):
        widget.quiz("grad", nodes=["W"])
    widget.quiz("grad", nodes=["y"])
    for ask in (widget.answer, widget.reveal):
        with pytest.raises(ValueError, match=r"nothing about loss\. It can ask about y\.$"):
            ask("loss")
    W.grad = None
    with pytest.raises(ValueError, match=r"nothing to ask.*quiz\('order'\)\.$"):
        GraphWidget(W.exp()).quiz("value")


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_what_a_missing_gradient_is_told_to_be_works(dtype):
    y = torch.ones(2, dtype=dtype, requires_grad=True) * 2
    widget = GraphWidget(y)
    with pytest.raises(ValueError, match="y has shape") as raised:
        widget.backward()
    advice = re.findall(r"gradient=(torch.*?\)) *\)|such as (y.*?)\.$", str(raised.value))
    (ones, _), (_, number) = advice
    widget.backward(gradient=eval(ones))
    eval(number).backward()


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (lambda box: box.descend("x"), TypeError, r"lr='x', of type str\. Give a number"),
        (lambda box: box.descend(None), TypeError, "lr=None"),
        (lambda box: box.descend(names=3), TypeError, r"names=3.*names=\['w'\]"),
        (
            lambda box: box.descend(names="weight"),
            ValueError,
            r"given .weight., which .* Give one of: w\.",
        ),
        (lambda box: (box.close(), box.descend()), ValueError, "is closed"),
        (lambda box: (box.close(), box.differences()), ValueError, "is closed"),
    ],
)
def test_a_step_that_cannot_be_taken(use, kind, message):
    box = interact(lambda w: w * 2, w=(0.0, 1.0))
    with pytest.raises(kind, match=message):
        use(box)
    assert box.kwargs["w"] == 0.5
    box.close()


def test_contributions_say_what_comes_first():
    with pytest.raises(ValueError, match=r"no output.*contributions\('w', loss\)\.$"):
        contributions("w")


def test_a_recording_without_names_says_that_they_have_to_be_given():
    with pytest.raises(ValueError, match=r"no tensor of this graph has a name.*names=\{'w': w\}"):
        record((W * 2).sum(), names={}).run_to("W")
    W.grad = None
    record((W * 2).sum()).run_to("W")
    assert W.grad.tolist() == [2.0, 2.0]
    W.grad = None


@pytest.mark.parametrize("move", ["step_back", "reset"])
def test_a_closed_widget_does_not_step(move):
    for made in (GraphWidget(W * 2), compare(W * 2, W * 3)):
        made.close()
        with pytest.raises(ValueError, match="is closed"):
            getattr(made, move)()


def test_an_output_without_a_name_is_called_output_in_code():
    widget = GraphWidget(W * 2)
    with pytest.raises(
        ValueError, match=r"^the output has shape \(2,\).*such as output\.sum\(\)\.$"
    ):
        widget.backward()
