"""What cannot be drawn gets a sentence: what was given, and what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, capture, notebook


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
    "in a dict": (
        lambda: ({"a": torch.ones(1, requires_grad=True), "b": [7]},),
        TypeError,
        r"\['b'\]\[0\], the number 7",
    ),
}


@pytest.mark.parametrize("function", [GraphWidget, capture])
@pytest.mark.parametrize("case", BAD)
def test_bad_outputs(function, case):
    make, error, message = BAD[case]
    given = make()
    open_before = set(notebook.open_widgets())
    with pytest.raises(error, match=message) as raised:
        function(*given)
    text = str(raised.value)
    assert text.startswith(f"{function.__name__}() was given")
    assert text.endswith((".", "?"))
    assert set(notebook.open_widgets()) == open_before


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


def test_a_list_that_contains_itself_ends():
    x = torch.ones(1, requires_grad=True) * 2
    knot = [x]
    knot.append(knot)
    assert len(capture(knot)) == 2
