"""What leaves hold after passes that the program runs itself."""

import pytest
import torch

from gradwalk import GraphWidget


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers if len(numbers) > 1 else numbers[0], requires_grad=True)


def grown(widget: GraphWidget) -> dict[int, tuple[object, object]]:
    grads = widget.run["grads"]
    return {
        one["node"]: (one["before"] and one["before"]["values"], one["values"]) for one in grads
    }


def test_a_grad_that_was_empty():
    w, b = leaf(-3.0), leaf(1.0)
    loss = (w * 2 + b - 1) ** 2
    widget = GraphWidget(loss, names={"w": w, "b": b})
    loss.backward()
    names = {node["id"]: node["name"] for node in widget.graph["nodes"]}
    found = {names[node]: values for node, values in grown(widget).items()}
    assert found == {"w": (None, w.grad.item()), "b": (None, b.grad.item())}


@pytest.mark.parametrize("numbers", [(2.0,), (2.0, 3.0)])
def test_what_was_there_from_an_earlier_pass(numbers):
    w = leaf(*numbers)
    (w**2).sum().backward()
    before = w.grad.tolist()
    loss = (w**3).sum()
    widget = GraphWidget(loss)
    loss.backward()
    assert list(grown(widget).values()) == [(before, w.grad.tolist())]


def test_it_is_noted_before_the_program_goes_on():
    w = leaf(2.0)
    loss = w**3
    widget = GraphWidget(loss)
    loss.backward()
    w.grad = None
    assert list(grown(widget).values()) == [(None, 12.0)]


def test_of_several_passes_the_last():
    w = leaf(2.0)
    loss = w**3
    widget = GraphWidget(loss)
    for _ in range(3):
        loss.backward(retain_graph=True)
    assert list(grown(widget).values()) == [(24.0, 36.0)]


def test_a_grad_that_a_hook_changes():
    w = leaf(2.0)

    def scale(tensor: torch.Tensor) -> None:
        tensor.grad.mul_(10)

    w.register_post_accumulate_grad_hook(scale)
    loss = w**3
    widget = GraphWidget(loss)
    loss.backward()
    assert list(grown(widget).values()) == [(None, 120.0)]


def test_larger_leaves_are_not_read():
    w = torch.ones(5, requires_grad=True)
    loss = (w**2).sum()
    widget = GraphWidget(loss)
    loss.backward()
    assert grown(widget) == {}


def test_a_pass_of_the_widgets_own_knows_it_anyway():
    w = leaf(2.0)
    (w**2).backward()
    widget = GraphWidget(w**3)
    widget.backward()
    assert list(grown(widget).values()) == [(4.0, 16.0)]
