"""Boxes for the parts of a large graph without modules."""

from __future__ import annotations

import random

import pytest
import torch
from test_step_boxes import rnn
from torch import Tensor

from gradwalk import GraphWidget


def weights(count: int) -> list[Tensor]:
    return [torch.randn(4, 4, requires_grad=True) for _ in range(count)]


FUNCTIONS = (torch.tanh, torch.relu, torch.sin, torch.sigmoid, torch.exp)


def layers(x: Tensor, count: int) -> Tensor:
    """Layers in an order without repetitions."""
    chosen = random.Random(count)
    for weight in weights(count):
        x = chosen.choice(FUNCTIONS)(x @ weight)
        if chosen.random() < 0.3:
            x = x * 0.5
    return x


def chain(count: int) -> Tensor:
    return layers(torch.ones(2, 4), count).sum()


def one_skip(count: int) -> Tensor:
    x = layers(torch.ones(2, 4), count // 2)
    return (x + layers(x, count // 2)).sum()


def u_net(count: int) -> Tensor:
    x, kept = torch.ones(2, 4), []
    for level in range(4):
        x = layers(x, count // 8 + level)
        kept.append(x)
    for level, before in enumerate(kept[::-1]):
        x = layers(x + before, count // 8 + 5 + level)
    return x.sum()


def dense(count: int) -> Tensor:
    """Each layer uses the results of all before."""
    results = [torch.ones(2, 4)]
    chosen = random.Random(count)
    for weight in weights(count):
        results.append(chosen.choice(FUNCTIONS)(torch.stack(results).sum(0) @ weight))
    return results[-1].sum()


def two_losses(count: int) -> Tensor:
    x = layers(torch.ones(2, 4), count)
    return x.square().mean() + x.abs().mean()


PROGRAMS = [chain, one_skip, u_net, dense, two_losses]


def drawn(loss: Tensor) -> tuple[dict[int, str], list[tuple[int, int]]]:
    """The boxes of operations, and the edges of the graph."""
    widget = GraphWidget(loss)
    nodes, edges = widget.model["nodes"], widget.model["edges"]
    widget.close()
    boxes = {node["id"]: node["namespace"] or "" for node in nodes if node["kind"] == "op"}
    return boxes, [(edge["source"], edge["target"]) for edge in edges]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_large_graph_has_parts_of_which_none_uses_a_later_one(program):
    boxes, edges = drawn(program(40))
    outermost = {node: box.partition("/")[0] for node, box in boxes.items()}
    parts = sorted({box for box in outermost.values() if box}, key=lambda box: int(box[5:]))
    assert 2 <= len(parts) <= 24
    assert parts == [f"part {i + 1}" for i in range(len(parts))]
    place = {box: i for i, box in enumerate(parts)}
    for source, target in edges:
        after, before = outermost.get(source), outermost.get(target)
        if after and before:
            assert place[after] >= place[before]


@pytest.mark.parametrize("program", PROGRAMS)
def test_boxes_nest(program):
    for box in drawn(program(120))[0].values():
        around = ""
        for part in filter(None, box.split("/")):
            number = part.removeprefix("part ")
            assert number.rpartition(".")[0] == around
            around = number


def test_a_small_graph_and_one_of_steps_have_no_parts():
    assert set(drawn(chain(10))[0].values()) == {""}
    assert not any("part" in box for box in drawn(rnn(50, torch.zeros(1, 4)))[0].values())


def test_the_loss_is_outside():
    loss = (chain(40) - 1).square() * 3
    boxes, _ = drawn(loss)
    assert [box for _, box in sorted(boxes.items())][:3] == ["", "", ""]
    assert sum(box == "" for box in boxes.values()) <= 8


@pytest.mark.full
def test_parts_of_many_nodes():
    boxes, _ = drawn(chain(20_000))
    assert 2 <= len({box.partition("/")[0] for box in boxes.values() if box}) <= 24
