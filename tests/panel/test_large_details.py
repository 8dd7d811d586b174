"""The panel of a node in a large graph: told in little, and counted in full."""

from __future__ import annotations

import gc
from contextlib import closing

import networkx as nx
import pytest
import torch
from programs import PROGRAMS, outputs_of
from torch import nn

from gradwalk import GraphWidget, capture
from gradwalk.derivatives.chain import LONGEST_PATH
from gradwalk.graph.adjacency import MOST_COUNTED, count_paths, distances

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize("name", PROGRAMS)
def test_reach_against_networkx(name):
    graph = capture(*outputs_of(name))
    roots = list(dict.fromkeys(graph.graph["roots"]))
    known = count_paths(graph, LONGEST_PATH)
    assert count_paths(graph, LONGEST_PATH) is known
    for node in graph:
        listed = [
            path
            for root, _ in roots
            for path in ([[]] if root == node else nx.all_simple_edge_paths(graph, root, node))
        ]
        assert known.paths[node] == len(listed)
        assert known.depths[node] == min(map(len, listed))
    for place, (source, target, arg_nr) in enumerate(graph.edges(data="arg_nr")):
        assert known.place(graph, source, target, arg_nr) == place


def test_distances_end_where_they_are_told_to():
    chain = {i: {i + 1: {}} for i in range(10)} | {10: {}}
    assert distances(chain, [2], 3) == {2: 0, 3: 1, 4: 2, 5: 3}
    assert distances(chain, [2, 5], 99) == {i: i - 2 if i < 5 else i - 5 for i in range(2, 11)}


@pytest.mark.parametrize("blocks", [49, 15_000])  # 2**15_000 has more digits than Python writes
def test_paths_are_counted_as_far_as_they_can_be_read(blocks):
    x = torch.ones(3, requires_grad=True)
    y = x
    for _ in range(blocks):
        y = y + y.sin()
    with closing(GraphWidget(y.sum(), names={"x": x})) as widget:
        widget.selected = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "leaf")
        chain = widget.details["chain"]
    total = min(2**blocks, MOST_COUNTED)
    assert chain["total_paths"] == total
    more = " or more" if total == MOST_COUNTED else ""
    assert chain["note"].startswith(f"{total:,}{more} paths lead to x")


def test_what_many_share_is_listed_in_part_and_counted_in_full():
    w = torch.ones(2, requires_grad=True)
    loss = torch.stack([w * i for i in range(150)]).sum()
    with closing(GraphWidget(loss, names={"w": w})) as widget:
        leaf = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "leaf")
        widget.selected = leaf
        assert widget.details["contribution_count"] == 0
        widget.backward()
        details = widget.details
        assert len(details["consumers"]) == len(details["contributions"]) == 100
        assert details["consumer_count"] == details["contribution_count"] == 150
        takers = sorted(e["source"] for e in widget.model["edges"] if e["target"] == leaf)
        assert [each["node"] for each in details["consumers"]] == takers[:100]
        steps = [step.step for step in widget.steps if step.node in takers]
        assert [each["step"] for each in details["contributions"]] == steps[:100]
        widget.cursor = steps[119]
        assert widget.details["contribution_count"] == 120
        widget.cursor = steps[19]
        assert len(widget.details["contributions"]) == widget.details["contribution_count"] == 20


@pytest.mark.parametrize(
    "count", [1, 100, 101, 1_000, pytest.param(10_000, marks=pytest.mark.full)]
)
def test_a_node_of_many_inputs_is_listed_in_part_and_counted_in_full(count):
    x = torch.ones(count, 2, requires_grad=True)
    frozen = [torch.ones(2)] * (count // 2)
    with closing(GraphWidget(torch.stack([*(x * 2).unbind(), *frozen]).sum())) as widget:
        widget.backward()
        found = {}
        for node in range(len(widget.model["nodes"])):
            widget.selected = node
            found[widget.details["op"]] = widget.details
        stack, unbind = found["StackBackward0"], found["UnbindBackward0"]
        listed = min(count, 100)
        assert stack["input_count"] == count + count // 2
        assert [each["arg_nr"] for each in stack["inputs"]] == list(range(listed))
        assert [each["arg_nr"] for each in stack["formula"]] == list(range(listed))
        assert len(stack["grad_input"]) == len(unbind["outputs"]) == listed
        assert len(stack["no_grad_inputs"]) == min(count // 2, 100)
        assert unbind["output_count"] == unbind["consumer_count"] == count
        assert len(unbind["grad_output"]) == listed
        assert all(each["failed"] == [] for each in found.values())


@pytest.mark.parametrize("count", [1, 200, 2_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_many_outputs_of_one_node(count):
    x = torch.ones(count, requires_grad=True)
    with closing(GraphWidget(*(x * 2).unbind())) as widget:
        assert len(widget.model["roots"]) == count
        for node in range(3):
            widget.selected = node
            assert widget.details["failed"] == []
        assert widget.transport["blocked"] is None


def test_a_graph_of_too_many_nodes_is_refused_with_what_to_do():
    x = y = torch.ones(1, requires_grad=True)
    for _ in range(300):
        y = y + 1
    with pytest.raises(ValueError, match=r"more than 300 nodes.* max_nodes") as told:
        GraphWidget(y, max_nodes=300)
    assert str(told.value).endswith(".")
    for most in (302, None):
        with closing(GraphWidget(y, max_nodes=most)) as widget:
            assert len(widget.model["nodes"]) == len(capture(y)) == 301
    for wrong in ("many", 1.5):
        with pytest.raises(TypeError, match="max_nodes"):
            GraphWidget(y, max_nodes=wrong)
    with pytest.raises(ValueError, match="max_nodes"):
        GraphWidget(x * 2, max_nodes=0)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with closing(GraphWidget(nn.Linear(2, 1)(torch.ones(1, 2)))):
            assert gc.isenabled() == enabled
        with pytest.raises(TypeError):
            GraphWidget("no tensor")
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
