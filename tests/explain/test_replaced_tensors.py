"""Tensors that others were put in the place of, by `.data` or `half()`, since they were taken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import closing, nullcontext

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

from gradwalk import GraphWidget, capture, record, watch


def put(tensor: Tensor, other: Tensor) -> None:
    tensor.data = other


CHANGES: dict[str, Callable[[nn.Linear], object]] = {
    "half": lambda model: model.half(),
    "double": lambda model: model.double(),
    "complex": lambda model: model.to(torch.complex64),
    "more numbers": lambda model: put(model.weight, torch.full((2, 3), 7.0)),
    "fewer": lambda model: put(model.weight, torch.tensor(7.0)),
    "meta": lambda model: put(model.weight, torch.empty(2, 1, device="meta")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.filterwarnings("ignore:Complex modules")
def test_a_graph_that_is_asked_for_later_is_that_of_the_forward_pass(
    change: Callable[[nn.Linear], object],
) -> None:
    def told(graph: nx.MultiDiGraph) -> list[tuple[object, ...]]:
        return [(n["op"], n["shape"], n["dtype"], n["device"]) for _, n in graph.nodes(data=True)]

    model, x = nn.Linear(1, 2), torch.ones(3, 1)
    loss = model(x).sum()
    at_once, recording = told(capture(loss)), record(loss)
    model.zero_grad()
    with contextlib.suppress(RuntimeError, TypeError):  # torch refuses some
        change(model)
    assert told(recording.graph) == at_once


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("shown_first", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.filterwarnings("ignore:Complex modules")
def test_what_has_been_put_in_the_place_of_a_leaf_is_not_what_went_in(
    change: Callable[[nn.Linear], object], shown_first: bool, watched: bool
) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(1, 2), torch.ones(3, 1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with watch() if watched else nullcontext():
        loss = model(x).sum()
    widget = GraphWidget(loss, names=model) if shown_first else None
    with contextlib.suppress(RuntimeError, TypeError):  # torch refuses some
        change(model)
    for name, parameter in model.named_parameters():
        was = before[name]
        is_other = (parameter.shape, parameter.dtype) != (was.shape, was.dtype)
        widget = widget or GraphWidget(loss, names=model)
        (node,) = (each for each in widget.model["nodes"] if each["name"] == name)
        widget.selected = node["id"]
        value, note = widget.details["value"], widget.details["value_note"]
        assert tuple(node["shape"]) == was.shape
        assert widget.details["dtype"] == str(was.dtype)
        if is_other and not (watched or shown_first):
            assert node["value"] is None
            assert node["changed"] is True
            assert value is None
        else:
            assert node["value"] == was.tolist()
            assert value is not None
            assert value["values"] == was.tolist()
            assert value["dtype"] == str(was.dtype)
        assert (f"It is a {parameter.dtype} tensor of shape" in (note or "")) == is_other
    assert widget is not None
    widget.close()


@pytest.mark.parametrize("other", [torch.zeros(3), torch.zeros(2).half(), torch.tensor(0.0)])
def test_what_has_been_put_in_the_place_of_a_result_is_not_what_the_node_gave(
    other: Tensor,
) -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    h = w * 3
    total = h.sum()
    put(h, other)
    with closing(GraphWidget(total, names={"h": h})) as widget:
        (node,) = (each for each in widget.model["nodes"] if each["name"] == "h")
        assert node["value"] is None
