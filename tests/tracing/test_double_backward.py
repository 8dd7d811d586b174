"""Which node gave the derivative of what which other gave, compared with the program itself."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from gradwalk import GraphWidget, capture, load, save, watch
from gradwalk.export.text import text_tree
from gradwalk.tracing import double_backward

Pairs = list[tuple[Tensor, Tensor]]
Program = Callable[[], tuple[list[Tensor], Pairs]]
"""Gives outputs to show, and pairs of a derivative with what it is the derivative of."""


def cube() -> tuple[list[Tensor], Pairs]:
    x = torch.tensor(2.0, requires_grad=True)
    y = x**3
    (dy,) = torch.autograd.grad(y, x, create_graph=True)
    (d2y,) = torch.autograd.grad(dy, x, create_graph=True)
    return [y + dy * d2y], [(dy, y), (d2y, dy)]


def hessian_by_hand() -> tuple[list[Tensor], Pairs]:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    f = x[0] ** 2 * x[1] + x[1] ** 3
    (gradient,) = torch.autograd.grad(f, x, create_graph=True)
    rows = [torch.autograd.grad(each, x, create_graph=True)[0] for each in gradient]
    return [torch.stack(rows), f, gradient], [(gradient, f)]


def gradient_penalty() -> tuple[list[Tensor], Pairs]:
    critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    mix = torch.randn(3, 2, requires_grad=True)
    scores = critic(mix)
    weights = torch.ones_like(scores)
    (slope,) = torch.autograd.grad(scores, mix, grad_outputs=weights, create_graph=True)
    return [scores.mean() + ((slope.norm(2, dim=1) - 1) ** 2).mean()], [(slope, scores)]


def inner_step() -> tuple[list[Tensor], Pairs]:
    model, x = nn.Linear(2, 1), torch.randn(3, 2)
    inner = (model(x) ** 2).mean()
    slopes = torch.autograd.grad(inner, list(model.parameters()), create_graph=True)
    weight, bias = (p - 0.1 * slope for p, slope in zip(model.parameters(), slopes, strict=True))
    outer = (nn.functional.linear(x, weight, bias) ** 2).mean()
    return [outer, inner], [(slope, inner) for slope in slopes]


def two_of_several() -> tuple[list[Tensor], Pairs]:
    a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    y, z = (a * b).exp(), (a * b * b).sin()
    da, db = torch.autograd.grad([y, z], [a, b], create_graph=True)
    return [da, db, y, z], [(da, y), (da, z), (db, y), (db, z)]


def through_backward() -> tuple[list[Tensor], Pairs]:
    w = torch.randn(3, requires_grad=True)
    y = (w**3).sum()
    y.backward(create_graph=True)
    assert w.grad is not None
    return [(w.grad**2).sum(), y], [(w.grad, y)]


def through_functional() -> tuple[list[Tensor], Pairs]:
    x = torch.tensor(2.0, requires_grad=True)
    slope, y = torch.func.grad_and_value(lambda t: t.exp() * 2)(x)
    return [slope, y], [(slope, y)]


PROGRAMS: list[Program] = [
    cube,
    hessian_by_hand,
    gradient_penalty,
    inner_step,
    two_of_several,
    through_backward,
    through_functional,
]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_derivatives_are_tied_to_what_they_are_derivatives_of(program: Program) -> None:
    with watch():
        outputs, pairs = program()
    names = {f"t{id(each)}": each for pair in pairs for each in pair}
    widget = GraphWidget(*outputs, names=names)
    place = {
        output["name"]: node
        for node, outputs in widget.to_networkx().nodes(data="outputs")
        for output in outputs
    }
    expected = {(place[f"t{id(dy)}"], place[f"t{id(y)}"]) for dy, y in pairs}
    found = [(each["node"], each["of"]) for each in widget.model["derivatives"]]
    assert len(found) == len(set(found))
    # Other pairs are of tensors that are not among these.
    assert expected == {pair for pair in found if set(pair) <= {place[name] for name in names}}
    assert capture(*outputs).graph["derivatives"] == found
    text = text_tree(widget.to_networkx(), model=widget.model)
    for dy, y in expected:
        assert re.search(rf"\b{dy} \w+ .*derivative of ([\d, ]+, )?{y}\b", text)
        widget.selected = dy
        assert " is the derivative of " in widget.details["about"]
        assert f"(node {y})" in widget.details["about"]
        widget.selected = y
        assert f"(node {dy})" in widget.details["about"]
    widget.close()


def test_only_what_is_known_for_certain_is_a_derivative() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    with watch():
        y = x * 3
        v = x.exp()
        (handed_on,) = torch.autograd.grad(x + 0, x, grad_outputs=v, create_graph=True)
        (first_order,) = torch.autograd.grad(y, x, retain_graph=True)
        (x**2).backward(create_graph=True)
        (x**3).backward(create_graph=True)  # adds to what is there
    (unwatched,) = torch.autograd.grad((z := x**3), x, create_graph=True)
    graph = capture(y, handed_on, x.grad, unwatched, z)
    assert not first_order.requires_grad
    assert graph.nodes[1]["op"] == "ExpBackward0"
    assert graph.graph.get("derivatives") is None or all(
        graph.nodes[node]["op"] == "CopyBackwards" for node, _ in graph.graph["derivatives"]
    )
    x.grad = None


def test_what_ran_inside_backward_is_said_to_be_unseen() -> None:
    with watch():
        x = torch.tensor(2.0, requires_grad=True)
        y = x**3
        (dy,) = torch.autograd.grad(y, x, create_graph=True)
        loss = (dy * 3).exp()
    widget = GraphWidget(loss)
    found = {node["op"]: node["in_backward"] for node in widget.model["nodes"]}
    named = {node["id"] for node in widget.model["nodes"] if node["name"] == "dy"}
    assert found.pop("MulBackward1")
    assert found.pop("PowBackward0")
    inside = {node["id"] for node in widget.model["nodes"] if node["in_backward"]}
    assert named < inside
    assert not found["ExpBackward0"]
    values = {node["id"]: node["value"] for node in widget.model["nodes"]}
    assert values[named.pop()] == 12
    assert all(values[node] is not None for node in inside)  # computed again from x
    with torch.no_grad():
        x += 1
    widget = GraphWidget(loss)
    values = {node["id"]: node["value"] for node in widget.model["nodes"]}
    widget.selected = next(i for i in inside if values[i] is None)
    assert "inside backward" in (widget.details["value_note"] or "")
    (again,) = torch.autograd.grad(x**3, x, create_graph=True)
    assert not any(node["in_backward"] for node in GraphWidget(again).model["nodes"])


def test_what_is_not_shown_is_told_all_the_same() -> None:
    def slope(x: Tensor) -> Tensor:
        hidden = x**3
        return torch.autograd.grad(hidden, x, create_graph=True)[0]

    x = torch.tensor(2.0, requires_grad=True)
    with watch():
        widget = GraphWidget(slope(x) * 2, names={"x": x})
    assert widget.model["derivatives"] == []
    said = []
    for node in widget.to_networkx():
        widget.selected = node
        said.append(
            "is the derivative of a tensor of shape () that has no name here "
            "with respect to x: torch.autograd.grad computed it at " in widget.details["about"]
        )
    assert said.count(True) == 1
    widget.close()


def test_links_are_saved_and_drawn(tmp_path: Path) -> None:
    with watch():
        outputs, _ = cube()
    widget = GraphWidget(*outputs)
    save(widget, tmp_path / "run.gw")
    again = load(tmp_path / "run.gw")
    assert again.model["derivatives"] == widget.model["derivatives"] != []
    assert "derivative of" in text_tree(again.to_networkx(), model=again.model)
    for shown in (widget, again):
        picture = shown.to_svg()
        assert picture.count("The derivative of this, as the program computed it") == 2
        assert ">derivative of</text>" in picture  # where a link is too short, nothing is covered
        described = picture.replace("The derivative of this", "")
        assert described.count("derivative of ") == 2  # for screen readers
    widget.close()
    again.close()


def test_what_is_known_dies_with_the_graph() -> None:
    with watch():
        outputs, pairs = hessian_by_hand()
    before = len(double_backward._known)
    del outputs, pairs
    gc.collect()
    assert len(double_backward._known) <= before - 3


def test_programs_that_run_again_and_again_keep_their_links() -> None:
    def links() -> int:
        for _ in range(1_000):  # nodes that are gone count no more
            with watch():
                outputs, _ = cube()
        return len(capture(*outputs).graph["derivatives"])

    with ThreadPoolExecutor(1) as thread:  # what is noted is counted thread by thread
        assert thread.submit(links).result() == 2


def test_a_call_with_many_inputs_has_one_link_for_each() -> None:
    weights = [torch.tensor(float(i), requires_grad=True) for i in range(200)]
    with watch():
        y = torch.stack(weights).pow(3).sum()
        slopes = torch.autograd.grad(y, weights, create_graph=True)
        total = torch.stack(slopes).sum() + y
    graph = capture(total)
    (of,) = {of for _, of in graph.graph["derivatives"]}
    assert graph.nodes[of]["op"] == "SumBackward0"
    widget = GraphWidget(total)
    widget.selected = of
    assert "more" in widget.details["about"]
    assert len(widget.details["about"]) < 1_000
    widget.close()
