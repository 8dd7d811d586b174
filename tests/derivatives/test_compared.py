"""Code that does not give the recorded gradient is not shown as the derivative."""

from __future__ import annotations

import contextlib
import math
import threading

import pytest
import torch
import torch.nn.functional as F

from gradwalk import GraphWidget
from gradwalk.derivatives import evaluation
from gradwalk.derivatives import formulas as formulas_file
from gradwalk.derivatives.behaviour import Choice
from gradwalk.torch_api.signatures import signature

pytestmark = pytest.mark.one_python


def leaf(*numbers):
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def formula_at(output, op, *, before=None, gradient=None):
    """The first formula of the node of a class, after a pass; ``before`` gets the widget."""
    with contextlib.closing(GraphWidget(output)) as widget:
        if before is not None:
            before(widget)
        else:
            widget.backward(gradient=gradient)
        (node,) = [each["id"] for each in widget.model["nodes"] if each["op"] == op]
        widget.selected = node
        assert widget.details["failed"] == []
        return widget.details["formula"][0]


def test_code_that_gives_the_gradient_is_checked():
    formula = formula_at(leaf(1.0, 2.0).exp().sum(), "ExpBackward0")
    assert (formula["code"], formula["checked"]) == ("grad * result", True)


def test_code_that_gives_another_gradient_is_replaced_by_torchs_text(monkeypatch):
    rows = {**formulas_file.DERIVATIVES, "ExpBackward0": {"self": "grad * result * 1.001"}}
    monkeypatch.setattr(formulas_file, "DERIVATIVES", rows)
    formula = formula_at(leaf(1.0, 2.0).exp().sum(), "ExpBackward0")
    assert (formula["source"], formula["checked"]) == ("torch", False)
    assert formula["code"] == signature("ExpBackward0").formulas["self"]
    assert formula_at(leaf(1.0)[0].exp(), "ExpBackward0")["numbers"] is None
    with contextlib.closing(GraphWidget(leaf(1.0).exp())) as widget:  # and along the path
        widget.backward()
        widget.selected = 2 if len(widget.model["nodes"]) > 2 else 1
        ((factor,),) = [path["factors"] for path in widget.details["chain"]["paths"]]
        assert factor["code"] == signature("ExpBackward0").formulas["self"]
        assert factor["value"] == pytest.approx(math.e)


def test_before_a_pass_nothing_is_checked():
    formula = formula_at(leaf(1.0).exp(), "ExpBackward0", before=lambda widget: None)
    assert (formula["code"], formula["checked"]) == ("grad * result", False)


def test_what_was_freed_cannot_be_checked():
    loss = leaf(1.0, 2.0).exp().sum()
    formula = formula_at(loss, "ExpBackward0", before=lambda widget: loss.backward())
    assert (formula["code"], formula["checked"]) == ("grad * result", False)


def test_large_tensors_are_not_compared():
    x = torch.ones(evaluation._MOST_COMPARED, requires_grad=True)
    formula = formula_at(x.exp().sum(), "ExpBackward0")
    assert (formula["code"], formula["checked"]) == ("grad * result", False)


def test_a_hook_that_changes_the_gradient_leaves_the_formula_right():
    hidden = leaf(1.0, 2.0).exp()
    hidden.grad_fn.register_hook(lambda passed, came: (passed[0] * 7,))
    formula = formula_at(hidden.sum(), "ExpBackward0")
    assert (formula["code"], formula["checked"]) == ("grad * result", True)


def test_parts_that_cancel_leave_the_formula_right():
    x = leaf(0.1, 0.7, 0.3)
    formula = formula_at(x.softmax(0).sum(), "SoftmaxBackward0")
    assert formula["checked"], "the gradient is zero but for rounding errors"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_low_precision_is_allowed_for(dtype):
    torch.manual_seed(0)
    x = torch.randn(40, 50, dtype=dtype, requires_grad=True)
    w = torch.randn(50, 30, dtype=dtype, requires_grad=True)
    loss = F.gelu(F.layer_norm(x @ w, (30,))).softmax(-1).square().sum()
    with contextlib.closing(GraphWidget(loss)) as widget:
        widget.backward()
        for node in widget.model["nodes"]:
            widget.selected = node["id"]
            assert all(each["checked"] for each in widget.details["formula"]), node["op"]


def test_a_kernel_that_is_at_odds_with_itself_has_torchs_text():
    """At NaN, torch's vectorised part of elu gives NaN, and the rest a number."""
    x = torch.full((17,), math.nan, dtype=torch.float64, requires_grad=True)
    out = F.elu(x)
    (grad,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    formula = formula_at(out.sum(), "EluBackward0")
    assert formula["checked"] is (len(set(grad.isnan().tolist())) == 1 and not grad[0].isnan())


def test_a_gradient_that_is_none_is_zero():
    """torch passes none on for the norm of order 0."""
    x = leaf(1.0, 2.0)
    formula = formula_at(torch.linalg.vector_norm(x, 0), "LinalgVectorNormBackward0")
    assert (formula["code"], formula["checked"]) == ("torch.zeros_like(self)", True)


SQUARE = ((0.0,), (1.0,), (-2.0,))


def test_the_code_that_gives_torchs_gradient_is_chosen():
    codes = {"x": ("grad * x", "grad * 2 * x", "grad * x * 2")}
    assert Choice(torch.square, ("x",), SQUARE, codes).code("x") == "grad * 2 * x"


def test_where_no_code_gives_it_none_is_chosen():
    assert Choice(torch.square, ("x",), SQUARE, {"x": ("grad * x",)}).code("x") is None

    def gone(x):
        raise RuntimeError("this torch has no such call")

    assert Choice(gone, ("x",), SQUARE, {"x": ("grad",)}).code("x") is None


def test_torch_is_asked_once():
    asked = []

    def square(x):
        asked.append(x.item())
        return torch.square(x)

    choice = Choice(square, ("x",), SQUARE, {"x": ("grad * 2 * x",)})
    assert [choice.code("x") for _ in range(3)] == ["grad * 2 * x"] * 3
    assert asked == [0.0, 1.0, -2.0]


def test_asking_torch_is_not_seen_by_the_program():
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **kwargs or {})

    def note(value):
        seen.append(value)
        return value

    before = torch.ones(1, requires_grad=True).mul(1).grad_fn._sequence_nr()
    threads = threading.active_count()
    with (
        torch.inference_mode(),
        torch.autocast("cpu"),
        torch.autograd.graph.saved_tensors_hooks(note, note),
        Mode(),
    ):
        choice = Choice(torch.square, ("x",), SQUARE, {"x": ("grad * 2 * x",)})
        assert choice.code("x") == "grad * 2 * x"
    assert seen == []
    assert threading.active_count() == threads
    assert torch.ones(1, requires_grad=True).mul(1).grad_fn._sequence_nr() == before + 1
