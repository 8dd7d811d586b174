"""The difference of several graphs, on programs of which it is known."""

from __future__ import annotations

import itertools
import json

import networkx as nx
import torch
from programs import PROGRAMS, leaf, outputs_of
from test_matching import EDITS, built, network

from gradwalk import capture
from gradwalk.comparison.difference import difference
from gradwalk.matching.match import match


def three():
    """The three graphs of h = w * x + b: with x, with x needing no gradient, with x detached."""
    w, x, b = (torch.tensor([v], requires_grad=True) for v in (4.0, 1.0, 0.5))
    names = {"w": w, "x": x, "b": b}
    return {
        "plain": capture(w * x + b, names=names),
        "requires_grad=False": capture(w * x.detach() + b, names=names),
        "x alone": capture(x * 2, names=names),
    }


def test_the_example_of_requires_grad_and_detach():
    #   0 AddBackward0 ── self ──► 1 MulBackward0 ── self ──► 3 w
    #         └── other ──► 2 b          └── other ──► 4 x, which only "plain" has
    found = difference(three())
    assert found["labels"] == ["plain", "requires_grad=False", "x alone"]
    assert found["reference"] == "plain"
    assert found["comparisons"]["requires_grad=False"] == {
        "pairs": [[0, 0], [1, 1], [2, 2], [3, 3]],
        "only_left": [4],
        "only_right": [],
    }
    ops = [node["op"] for node in found["nodes"]]
    assert ops == ["AddBackward0", "MulBackward0", *["AccumulateGrad"] * 3]
    x = found["nodes"][4]
    assert (x["id"], x["kind"], x["name"], x["shape"]) == (4, "leaf", "x", [1])
    assert x["nodes"] == {"plain": 4, "requires_grad=False": None, "x alone": 1}
    to_x = [edge for edge in found["edges"] if edge["target"] == 4]
    assert to_x[0] == {
        "source": 1,
        "target": 4,
        "arg_nr": 1,
        "argument": "other",
        "output_nr": 0,
        "labels": ["plain"],
    }


def test_the_leaf_table():
    rows = {row["name"]: row["graphs"] for row in difference(three())["leaves"]}
    assert rows.keys() == {"w", "x", "b"}
    there = {"node": 4, "present": True, "requires_grad": True, "is_leaf": True}
    missing = {"node": None, "present": False, "requires_grad": None, "is_leaf": None}
    assert rows["x"] == {
        "plain": there,
        "requires_grad=False": missing,
        "x alone": {**there, "node": 1},
    }
    assert [graph["present"] for graph in rows["w"].values()] == [True, True, False]


def test_leaves_share_a_row_by_name_or_else_by_position():
    a, b = leaf(3), leaf(3)
    graphs = {
        "first": capture(a.exp(), names={"a": a}),
        "second": capture(a.exp()),
        "third": capture(b.sin(), names={"z": b}),
        "fourth": capture(b.cos(), names={"z": b}),
    }
    rows = [
        (row["name"], [graph["node"] for graph in row["graphs"].values()])
        for row in difference(graphs)["leaves"]
    ]
    assert rows == [("a", [1, 1, None, None]), ("z", [None, None, 1, 1])]


def check_faithful(graphs):
    """Each graph can be read back from the united one, which has no cycle."""
    found = difference(graphs)
    assert json.loads(json.dumps(found)) == found
    assert [node["id"] for node in found["nodes"]] == list(range(len(found["nodes"])))
    united = nx.DiGraph((edge["source"], edge["target"]) for edge in found["edges"])
    assert nx.is_directed_acyclic_graph(united)
    reference = found["reference"]
    for label, graph in graphs.items():
        back = {
            node["id"]: node["nodes"][label]
            for node in found["nodes"]
            if node["nodes"][label] is not None
        }
        assert sorted(back.values()) == sorted(graph)
        for place, node in back.items():
            assert found["nodes"][place]["op"] == graph.nodes[node]["op"]
        edges = sorted(
            (back[edge["source"]], back[edge["target"]], edge["arg_nr"], edge["output_nr"])
            for edge in found["edges"]
            if label in edge["labels"]
        )
        assert edges == sorted(
            (a, b, data["arg_nr"], data["output_nr"]) for a, b, data in graph.edges(data=True)
        )
        leaves = [row["graphs"][label]["node"] for row in found["leaves"]]
        assert sorted(node for node in leaves if node is not None) == sorted(
            node for node, data in graph.nodes(data=True) if data["is_leaf"]
        )
        if label != reference:
            comparison = found["comparisons"][label]
            assert comparison["pairs"] == [
                [node["nodes"][reference], node["nodes"][label]]
                for node in found["nodes"]
                if None not in (node["nodes"][reference], node["nodes"][label])
            ]
            pairs = dict(comparison["pairs"])
            assert comparison["only_left"] == sorted(set(graphs[reference]) - pairs.keys())
            assert comparison["only_right"] == sorted(set(graph) - set(pairs.values()))
    return found


def test_edited_networks_can_be_read_back():
    graphs = {label: built(network, **edit)[0] for label, edit in EDITS.items()}
    check_faithful(graphs)


def test_pairs_are_those_of_matching():
    for one, other in itertools.pairwise(PROGRAMS):
        left, right = capture(*outputs_of(one)), capture(*outputs_of(other))
        found = check_faithful({"left": left, "right": right})["comparisons"]["right"]
        matching = match(left, right)
        assert found["pairs"] == [list(pair) for pair in matching.pairs.items()]
        assert (found["only_left"], found["only_right"]) == (
            matching.only_left,
            matching.only_right,
        )


def test_two_graphs_that_run_opposite_ways():
    # Beside each other in the reference, sin above cos in one graph and below it in the other.
    x, y = leaf(3), leaf(3)
    names = {"x": x, "y": y}

    def graph(sin, cos, total):
        return capture(total, names={**names, "sin": sin, "cos": cos})

    beside = graph(sin := x.sin(), cos := y.cos(), sin * cos)
    above = graph(sin := x.sin(), cos := sin.cos(), cos * y)
    below = graph(sin := (cos := y.cos()).sin(), cos, sin * x)
    check_faithful({"beside": beside, "above": above, "below": below})


def test_the_same_graph_twice():
    graph = capture(leaf(3).sin().sum())
    found = check_faithful({"one": graph, "<b>two</b>": graph})
    assert found["comparisons"]["<b>two</b>"]["only_left"] == []
    assert len(found["nodes"]) == len(graph)
