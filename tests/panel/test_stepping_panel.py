"""What the panel and the bar say while stepping: numbers are torch's, sentences are true."""

from __future__ import annotations

import pytest
import torch
from engine import same
from test_stepping import details_of, two_ways

from gradwalk import GraphWidget


@pytest.fixture
def example():
    x, y1, y2, loss = two_ways()
    widget = GraphWidget(loss, names={"x": x, "y1": y1, "y2": y2, "loss": loss})
    yield widget, x
    widget.close()


class TestThePanelAtTheCursor:
    def test_states(self, example):
        widget, _ = example
        assert details_of(widget, "x")["state"] == "waiting"
        widget.step(2)
        states = {name: details_of(widget, name)["state"] for name in ("loss", "y1", "y2", "x")}
        assert states == {"loss": "done", "y1": "ready", "y2": "ready", "x": "waiting"}
        assert details_of(widget, "SubBackward0")["state"] == "running"

    def test_nothing_is_shown_before_it_flowed(self, example):
        widget, _ = example
        widget.step(2)
        shown = details_of(widget, "y1")
        assert (shown["grad_output"], shown["grad_input"]) == (None, None)
        assert "has not run yet" in shown["grad_note"]["grad_output"]
        widget.run_to("y1")
        assert widget.details["grad_output"][0]["values"] == -4.0
        assert widget.details["grad_input"][0]["values"] == -4.0

    def test_gradients_are_torchs(self):
        torch.manual_seed(0)
        x = torch.randn(3, 4, requires_grad=True)
        w = torch.randn(4, 2, requires_grad=True)
        product = x @ w
        active = product.relu()
        loss = active.pow(2).sum()
        for tensor in (product, active):
            tensor.retain_grad()
        widget = GraphWidget(loss)
        widget.backward()
        assert details_of(widget, "product")["grad_output"][0]["values"] == product.grad.tolist()
        passed = [part["values"] for part in widget.details["grad_input"]]
        assert passed == [x.grad.tolist(), w.grad.tolist()]
        assert details_of(widget, "active")["grad_output"][0]["values"] == active.grad.tolist()

    def test_contributions_arrive_one_by_one(self, example):
        widget, x = example
        shares = []
        for cursor in range(6):
            if cursor:
                widget.step()
            found = details_of(widget, "x")["contributions"] or []
            shares.append([(part["label"], part["grad"]["values"]) for part in found])
        both = [("y2", 8.0), ("y1", -4.0)]
        assert shares == [[], [], [], both[:1], both, both]
        assert widget.details["contributions"][-1]["total"]["values"] == x.grad.item()

    def test_formulas_with_their_numbers(self, example):
        widget, _ = example
        widget.step(2)
        (formula,) = details_of(widget, "y2")["formula"]
        assert formula["code"] == "grad * other"
        assert formula["numbers"] is None
        widget.run_to("y2")
        (formula,) = widget.details["formula"]
        assert eval(formula["numbers"].split("=")[0]) == 8.0

    def test_the_chain_rule_ends_in_the_gradient(self, example):
        widget, x = example
        widget.backward()
        chain = details_of(widget, "x")["chain"]
        assert sorted(path["product"] for path in chain["paths"]) == [-4.0, 8.0]
        assert chain["sum"] == x.grad.item()


class TestExplanations:
    def test_the_digit_of_an_overload(self):
        x = torch.ones(2, 3, requires_grad=True)
        about = details_of(GraphWidget(x.sum(0).sum()), "SumBackward1")["about"]
        assert "SumBackward1 numbers the overload (sum.dim_IntList)" in about
        assert "not a depth" in about

    def test_what_accumulate_grad_is(self, example):
        widget, _ = example
        about = details_of(widget, "x")["about"]
        assert "AccumulateGrad node adds every gradient that arrives to x.grad" in about
        assert "zero_grad()" in about

    def test_why_an_intermediate_has_no_grad(self, example):
        widget, _ = example
        widget.backward()
        assert "call y1.retain_grad()" in details_of(widget, "y1")["grad_note"]["grad"]

    def test_that_grad_adds_up(self, example):
        widget, x = example
        widget.backward()
        assert widget.transport["note"] is None
        widget.backward()
        assert x.grad.item() == 8.0
        assert "x.grad was not empty before this pass" in widget.transport["note"]
        assert "zero_grad()" in widget.transport["note"]
        widget.reset()
        assert x.grad.item() == 4.0

    def test_that_several_grads_add_up(self):
        a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
        widget = GraphWidget(a * b)
        widget.backward()
        widget.backward()
        assert ".grad and 1 more were not empty before" in widget.transport["note"]

    def test_what_gradient_does(self):
        widget = GraphWidget(torch.ones(2, requires_grad=True) * 2)
        assert "so it has no one gradient" in widget.transport["blocked"]
        widget.backward(torch.tensor([1.0, 3.0]))
        assert "the weights with which the output's numbers count" in widget.transport["note"]

    # torch says so once per process
    @pytest.mark.filterwarnings("ignore:.*create_graph=True:UserWarning")
    def test_that_create_graph_gives_the_gradient_a_graph(self):
        x = torch.tensor(2.0, requires_grad=True)
        widget = GraphWidget(x**3)
        widget.backward(create_graph=True)
        assert "GraphWidget(x.grad)" in widget.transport["note"]
        before = x.grad.detach().clone()
        (expected,) = torch.autograd.grad(x.grad, x, retain_graph=True)
        second = GraphWidget(x.grad)
        second.run_to("x")
        assert same(x.grad.detach(), before + expected)
        x.grad = None  # the gradient's graph holds x: torch asks to break the circle
