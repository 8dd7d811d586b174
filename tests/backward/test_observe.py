"""What flowed through each node is what torch says, however backward was run."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from programs import PROGRAMS, MultiplyAdd, backward, outputs_of
from test_capture import random_programs, walked

from gradwalk import GraphWidget
from gradwalk.backward.observe import Observer


def values(summary):
    return None if summary is None else summary["values"]


def at(widget, op, nth=0):
    """Select the nth node of an op and give its details."""
    ids = [node["id"] for node in widget.model["nodes"] if node["op"] == op]
    widget.selected = ids[nth]
    return widget.details


def named(widget, name):
    (node,) = [node["id"] for node in widget.model["nodes"] if node["name"] == name]
    widget.selected = node
    return widget.details


def test_gradients_of_the_example():
    w, x, b = (torch.tensor([v], requires_grad=True) for v in (4.0, 1.0, 0.5))
    h = w * x + b
    widget = GraphWidget(h)
    h.backward()
    product = at(widget, "MulBackward0")
    assert [values(g) for g in product["grad_output"]] == [[1.0]]
    assert [values(g) for g in product["grad_input"]] == [[1.0], [4.0]]
    assert values(named(widget, "w")["grad"]) == w.grad.tolist() == [1.0]
    assert values(named(widget, "x")["grad"]) == x.grad.tolist() == [4.0]


@settings(max_examples=40, deadline=None)
@given(random_programs())
def test_what_flowed_is_what_torch_computes(programs_values):
    output = (programs_values[-1] + programs_values[0]).sum()
    widget = GraphWidget(output, names={})
    seen = {}

    def note(node):
        return lambda inputs, outputs: seen.__setitem__(node, (inputs, outputs))

    order, _ = walked(output)
    handles = [node.register_hook(note(i)) for i, node in enumerate(order)]
    output.backward()
    assert set(widget.state["reached"]) == set(seen)
    for i, (inputs, outputs) in seen.items():
        widget.selected = i
        details = widget.details
        assert [values(g) for g in details["grad_output"]] == [t.tolist() for t in outputs]
        passed = [inputs[edge["arg_nr"]] for edge in details["inputs"]]
        assert [values(g) for g in details["grad_input"] or []] == [t.tolist() for t in passed]
    for handle in handles:
        handle.remove()
    widget.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_followed(name):
    outputs = outputs_of(name)
    widget = GraphWidget(outputs, names={})
    backward(outputs)
    assert widget._fault is None
    assert widget.state["runs"] == 1
    leaves = [n["id"] for n in widget.model["nodes"] if n["kind"] == "leaf"]
    for i in leaves:
        widget.selected = i
        tensor = widget._source.captured.nodes[i].variable
        assert (widget.details["grad"] is None) == (tensor.grad is None)
        assert (i in widget.state["reached"]) == (tensor.grad is not None)
    widget.close()


def test_several_backwards_accumulate_as_torch_does():
    x = torch.tensor(3.0, requires_grad=True)
    y = x * x
    widget = GraphWidget(y)
    for times in (1, 2, 3):
        y.backward(retain_graph=True)
        assert values(named(widget, "x")["grad"]) == x.grad.item() == 6.0 * times
        assert [values(g) for g in widget.details["grad_output"]] == [6.0]
    assert widget.state["runs"] == 3
    x.grad = None
    assert widget.details["grad"] is None
    assert "cleared since" in widget.details["grad_note"]["grad"]
    torch.autograd.backward(y)
    assert values(widget.details["grad"]) == 6.0


def test_the_gradient_that_flowed_is_not_the_one_that_accumulates():
    x = torch.ones(100, requires_grad=True)  # large enough to be referenced rather than copied
    y = (x * 2).sum()
    widget = GraphWidget(y)
    y.backward(retain_graph=True)
    x.grad.add_(40)
    assert named(widget, "x")["grad"]["max"] == 42.0
    assert widget.details["grad_output"][0]["max"] == 2.0
    (passed_on,) = at(widget, "MulBackward0")["grad_input"]
    assert passed_on["max"] == 2.0
    assert passed_on["note"] is None


def test_autograd_grad_hands_back_and_stores_nothing():
    x = torch.tensor(3.0, requires_grad=True)
    y = x * x
    widget = GraphWidget(y)
    torch.autograd.grad(y, x)
    details = named(widget, "x")
    assert details["grad"] is None
    assert "returns gradients" in details["grad_note"]["grad"]
    assert at(widget, "MulBackward0")["grad_input"][0]["values"] == 3.0


def test_inputs_limits_what_is_reached():
    a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    y = a * b
    widget = GraphWidget(y)
    y.backward(inputs=[a])
    assert values(named(widget, "a")["grad"]) == 5.0
    details = named(widget, "b")
    assert details["grad"] is None
    assert "did not reach b" in details["grad_note"]["grad"]
    assert [node for node in (0, 1, 2) if node not in widget.state["reached"]] == [details["id"]]


def test_create_graph_and_a_graph_of_the_gradient():
    x = torch.tensor(3.0, requires_grad=True)
    y = x**3
    widget = GraphWidget(y)
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    second = GraphWidget(slope)
    slope.backward()
    assert x.grad.item() == 18.0
    assert values(named(second, "x")["grad"]) == 18.0
    assert widget._fault is None


def test_a_none_gradient_is_said_to_be_none():
    x, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = MultiplyAdd.apply(2.0, x, b).sum()
    widget = GraphWidget(y)
    y.backward()
    custom = at(widget, "MultiplyAddBackward")
    by_argument = dict(
        zip((e["argument"] for e in custom["inputs"]), custom["grad_input"], strict=True)
    )
    assert by_argument["b"] is None
    assert by_argument["x"]["values"] == [2.0, 2.0]
    assert "was None" in named(widget, "b")["grad_note"]["grad"]
    places = {(e["source"], e["argument"]): i for i, e in enumerate(widget.model["edges"])}
    assert places[custom["id"], "x"] in widget.state["flowed"]
    assert places[custom["id"], "b"] not in widget.state["flowed"]


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no gradient today")


def test_a_backward_that_stops_is_shown_as_far_as_it_came():
    x = torch.ones(2, requires_grad=True)
    y = (Fails.apply(x * 2) * 3).sum()
    widget = GraphWidget(y)
    with pytest.raises(ValueError, match="no gradient today"):
        y.backward()
    assert at(widget, "MulBackward0")["grad_output"][0]["values"] == [1.0, 1.0]
    assert "stopped with an error" in at(widget, "MulBackward0", 1)["grad_note"]["grad_output"]
    assert x.grad is None
    z = (x * 2).sum()
    again = GraphWidget(z)
    z.backward()
    assert again.state["runs"] == 1


def test_another_graphs_backward_changes_grad_but_not_what_flowed_here():
    x = torch.tensor(3.0, requires_grad=True)
    here, elsewhere = x * 2, x * 10
    widget = GraphWidget(here, names={"x": x})
    here.backward()
    elsewhere.backward()
    assert widget.state["runs"] == 1
    details = named(widget, "x")
    assert values(details["grad"]) == 12.0
    assert values(details["grad_output"][0]) == 2.0


def test_two_widgets_on_one_graph_see_the_same():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    widgets = [GraphWidget(y), GraphWidget(y)]
    y.backward()
    states = [widget.state for widget in widgets]
    assert states[0] == states[1]
    widgets[0].close()
    (x * 2).sum().backward()
    assert values(named(widgets[1], "x")["grad"]) == [4.0, 4.0]


def test_beyond_the_budget_only_summaries_are_kept():
    x = torch.ones(1000, requires_grad=True)
    y = (x * 2).exp().sum()
    nodes = [y.grad_fn, y.grad_fn.next_functions[0][0]]
    observer = Observer(nodes, lambda: None, max_bytes=0)
    y.backward()
    assert observer.fault is None
    kept = observer.last.steps[1].grad_inputs[0]
    assert kept.tensor is None
    assert kept.summarise()["max"] == pytest.approx(float(torch.tensor(2.0).exp()))
    assert "max_bytes" in kept.summarise()["note"]
    observer.close()


def test_a_stopped_backward_is_told_and_what_it_freed_is_marked():
    x = torch.ones(2, requires_grad=True)
    y = (Fails.apply(x * 2) * x).sum()
    widget = GraphWidget(y)
    with pytest.raises(ValueError, match="no gradient today"):
        y.backward()
    assert "before it stopped with an error" in widget.state["note"]
    product = at(widget, "MulBackward0")
    assert widget.state["freed"] == [product["id"]]


def test_a_leaf_beside_another_output_gets_what_flowed_into_it():
    #   a (leaf, itself an output)      x ─► y = 2 x
    a, x = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = x * 2
    widget = GraphWidget(a, y)
    torch.autograd.backward([a, y], [torch.full((2,), 5.0), torch.ones(2)])
    details = named(widget, "a")
    assert values(details["grad"]) == a.grad.tolist() == [5.0, 5.0]
    assert values(details["grad_output"][0]) == [5.0, 5.0]
    assert details["id"] in widget.state["reached"]


def test_batched_gradients_are_followed_as_far_as_they_can_be_read():
    # torch.autograd.grad(is_grads_batched=True) is how jacobian(vectorize=True) runs backward
    x = torch.arange(1.0, 4.0, requires_grad=True)
    y = x * x
    widget = GraphWidget(y)
    (jacobian,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    assert jacobian.tolist() == torch.diag(2 * x).tolist()
    assert widget._fault is None
    assert widget.state["runs"] == 1
    assert at(widget, "MulBackward0")["grad_output"] is not None
