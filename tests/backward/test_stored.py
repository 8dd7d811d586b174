"""What leaves hold after passes that the program runs itself."""

import re

import pytest
import torch

from gradwalk import GraphWidget
from gradwalk.export.svg_engine import is_installed


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
    names = {node["id"]: node["name"] for node in widget.model["nodes"]}
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


def test_a_larger_grad_has_its_norm_before_and_after_the_pass():
    w = torch.ones(7, requires_grad=True)
    loss = (w**2).sum()
    widget = GraphWidget(loss)
    norms = []
    for _ in range(2):
        loss.backward(retain_graph=True)
        norms.append(w.grad.norm().item())
        (one,) = widget.run["grads"]
        assert (one["values"], one["norm"], one["changed"]) == (None, norms[-1], False)
    assert one["before"] == {"values": None, "norm": norms[0]}
    w.grad.mul_(3)
    (one,) = widget.run["grads"]
    assert (one["norm"], one["changed"]) == (norms[1], True)
    assert one["now"]["norm"] == w.grad.norm().item()
    w.grad = None
    (one,) = widget.run["grads"]
    assert (one["changed"], one["now"]) == (True, None)


def test_a_larger_grad_that_changed_before_it_was_read_has_no_norm():
    w, other = torch.ones(7, requires_grad=True), torch.ones(7, requires_grad=True)
    loss = (w * other.detach()).sum()
    widget = GraphWidget(loss)
    loss.backward()
    w.grad = None
    (one,) = widget.run["grads"]
    assert (one["norm"], one["changed"], one["now"]) == (None, True, None)


def test_a_pass_of_the_widgets_own_knows_it_anyway():
    w = leaf(2.0)
    (w**2).backward()
    widget = GraphWidget(w**3)
    widget.backward()
    assert list(grown(widget).values()) == [(4.0, 16.0)]


def _scale(w: torch.Tensor) -> None:
    w.grad = w.grad * 0.5


CHANGES = {
    "clipped": lambda w: torch.nn.utils.clip_grad_norm_([w], 0.25),
    "multiplied in place": lambda w: w.grad.mul_(3),
    "behind torch's back": lambda w: w.grad.data.fill_(7.0),
    "another tensor": _scale,
    "set to None": lambda w: torch.optim.SGD([w], 0.1).zero_grad(),
    "set to zero": lambda w: torch.optim.SGD([w], 0.1).zero_grad(set_to_none=False),
    "left alone": lambda w: w.grad.sum(),
}


@pytest.mark.parametrize("own", [True, False], ids=["its own pass", "the program's"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("numbers", [(2.0,), (2.0, 3.0, -1.0)])
def test_what_is_shown_as_grad_is_what_it_holds(change, own, numbers):
    w = leaf(*numbers)
    (w**2).sum().backward()
    loss = (w**3).sum()
    widget = GraphWidget(loss, names={"w": w})
    widget.backward() if own else loss.backward(retain_graph=True)
    after = w.grad.tolist()
    CHANGES[change](w)
    (one,) = widget.run["grads"]
    assert one["values"] == after
    assert one["changed"] == (change != "left alone")
    now = None if one["now"] is None else one["now"]["values"]
    assert now == (None if w.grad is None or not one["changed"] else w.grad.tolist())
    assert widget.run is widget.run  # nothing is sent where nothing has changed
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", widget.to_svg())
    assert (".grad now" in texts) == (one["changed"] and w.grad is not None)
    if isinstance(after, float):
        shown = after if w.grad is None else w.grad.item()
        if w.grad is not None:
            assert f"{shown:.4g}" in texts
            assert any("4 + 12" in text for text in texts) == (not one["changed"])
        else:  # what arrived in the pass, and not as a .grad
            assert "12" in texts
    widget.backward()
    (one,) = widget.run["grads"]
    assert (one["values"], one["changed"], one["now"]) == (w.grad.tolist(), False, None)


def held(widget: GraphWidget) -> dict[int, object]:
    return {one["node"]: one["values"] or one["norm"] for one in widget.state["held"]}


@pytest.mark.parametrize("numbers", [(2.0,), (2.0, 3.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)])
def test_what_leaves_hold_before_any_pass_is_seen(numbers):
    w, b = leaf(*numbers), leaf(1.0)
    loss = (w**3).sum()
    loss.backward()
    widget = GraphWidget(loss + b, names={"w": w, "b": b})
    (node,) = (node["id"] for node in widget.model["nodes"] if node["name"] == "w")

    def shown() -> object:
        return w.grad.tolist() if len(numbers) <= 6 else w.grad.norm().item()

    assert held(widget) == {node: shown()}
    assert widget.run is None

    w.grad.mul_(2)  # by whatever way it changes
    assert held(widget) == {node: shown()}
    w.grad.data.fill_(5.0)
    assert held(widget) == {node: shown()}
    w.grad = None
    assert held(widget) == {}


def test_a_pass_that_is_shown_tells_what_leaves_hold():
    w = leaf(2.0)
    (w**2).backward()
    widget = GraphWidget(w**3, names={"w": w})
    assert list(held(widget).values()) == [4.0]
    widget.backward()
    assert held(widget) == {}
    assert list(grown(widget).values()) == [(4.0, 16.0)]


@pytest.mark.skipif(not is_installed(), reason="needs gradwalk[export]")
def test_the_picture_has_what_leaves_hold():
    w = leaf(3.0)
    loss = w * 7
    loss.backward()
    picture = GraphWidget(loss, names={"w": w}).to_svg()
    assert ">7<" in picture
    assert ">7<" not in GraphWidget(leaf(3.0) * 7).to_svg().replace("× 7", "")


def test_a_tensor_that_retains_its_gradient_is_told_of_as_a_leaf_is():
    x, y = leaf(0.5), leaf(2.0)
    h, k = x.exp(), y.exp()
    h.retain_grad()
    loss = h.sin() * x * k
    widget = GraphWidget(loss, names={"h": h, "k": k, "x": x, "y": y})
    loss.backward()
    names = {node["id"]: node["name"] for node in widget.model["nodes"]}
    found = {names[node]: values for node, values in grown(widget).items()}
    retained = {"h": h, "x": x, "y": y}
    assert found == {name: (None, each.grad.item()) for name, each in retained.items()}
    h.grad.mul_(2)
    (changed,) = (one for one in widget.run["grads"] if one["changed"])
    assert (names[changed["node"]], changed["now"]["values"]) == ("h", h.grad.item())
    again = GraphWidget(h * 2, names={"h": h, "x": x})
    assert {names_of(again)[node]: values for node, values in held(again).items()} == {
        "h": h.grad.item(),
        "x": x.grad.item(),
    }


def names_of(widget: GraphWidget) -> dict[int, str | None]:
    return {node["id"]: node["name"] for node in widget.model["nodes"]}
