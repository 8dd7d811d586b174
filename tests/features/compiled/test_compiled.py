"""The inside of compiled nodes: AOTAutograd's own program, tied to the node that runs it."""

from __future__ import annotations

import operator
from collections import Counter

import networkx as nx
import pytest
import torch
from compiled_zoo import ZOO, compiled_loss
from fresh import fresh
from torch._dynamo.utils import counters
from torch.fx import Node

from gradwalk import capture
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.torch_api.compiled import compiled_backward
from gradwalk.torch_api.nodes import is_compiled

# Dynamo asks whether an intermediate tensor has a .grad, after a graph break.
pytestmark = [
    pytest.mark.usefixtures("compiles_anew"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

COMPILED = "CompiledFunctionBackward"
QUICK = ("mlp", "autoencoder", "graph break", "in place")
SLOW = [pytest.param(name, marks=pytest.mark.full) for name in ZOO if name not in QUICK]
EVERY = [*QUICK, *SLOW]


def nodes_of(loss):
    """The autograd nodes by the ids that `capture` gives them."""
    return capture_nodes(read_outputs((loss,), "capture"), Names()).nodes


def programs_of(loss):
    """The FX graph of each compiled node, by its id."""
    return {
        i: compiled_backward(node).graph
        for i, node in enumerate(nodes_of(loss))
        if is_compiled(node)
    }


def is_call(node: Node) -> bool:
    is_size = isinstance(node.meta.get("val"), (int, float, torch.SymInt))
    return node.op == "call_function" and node.target is not operator.getitem and not is_size


@pytest.mark.parametrize("name", EVERY)
def test_the_inside_is_the_program_of_aot_autograd(name):
    loss = compiled_loss(name, "aot_eager")
    graph, plain = capture(loss, opened=True), capture(loss)
    programs = programs_of(loss)
    assert programs
    calls = {i: data for i, data in graph.nodes(data=True) if data["kind"] == "call"}
    for node, program in programs.items():
        there = {each.name: each for each in program.nodes if is_call(each)}
        here = {data["fx_name"]: i for i, data in calls.items() if data["inside"] == node}
        assert here.keys() == there.keys()
        for fx_name, i in here.items():
            data, fx = calls[i], there[fx_name]
            assert data["op"] == str(fx.target)
            given = (
                fx.meta["val"] if isinstance(fx.meta["val"], (tuple, list)) else [fx.meta["val"]]
            )
            shapes = [None if each is None else tuple(each.shape) for each in given]
            assert [output["shape"] for output in data["outputs"]] == shapes
            assert data["shape"] == next(shape for shape in shapes if shape is not None)
            assert data["dtype"] in {str(each.dtype) for each in given if each is not None}
    # Nothing else changed: without what is inside it is the graph as it was.
    outside = graph.subgraph(plain)
    assert dict(outside.nodes(data=True)) == dict(plain.nodes(data=True))
    own = {(s, t, k): {**d, "kind": "gradient"} for s, t, k, d in plain.edges(data=True, keys=True)}
    seen = {
        (s, t, k): {name: value for name, value in d.items() if name != "via"}
        for s, t, k, d in outside.edges(data=True, keys=True)
    }
    assert seen == own


@pytest.mark.parametrize("name", EVERY)
def test_gradients_flow_from_the_node_through_calls_to_its_next_functions(name):
    graph = capture(compiled_loss(name, "aot_eager"), opened=True)
    flow = nx.MultiDiGraph(
        (source, target) for source, target, kind in graph.edges(data="kind") if kind == "gradient"
    )
    assert nx.is_directed_acyclic_graph(flow)
    for node in [i for i, op in graph.nodes(data="op") if op == COMPILED]:
        inside = [i for i, at in graph.nodes(data="inside") if at == node]
        calls = [i for i in inside if graph.nodes[i]["kind"] == "call"]
        reached = nx.descendants(flow, node)
        given = {}
        for source, target, edge in graph.edges(data=True):
            if source in calls and target not in inside:
                given[edge["arg_nr"]] = target
        own = {
            edge["arg_nr"]: target
            for _, target, edge in graph.out_edges(node, data=True)
            if target not in calls
        }
        assert given == own
        for i in calls:
            if graph.nodes[i]["recomputed"]:
                assert i not in reached, "a call of the forward pass takes no gradient"


@pytest.mark.parametrize("name", EVERY)
def test_calls_have_modules_and_lines(name):
    graph = capture(compiled_loss(name, "aot_eager"), opened=True)
    calls = [data for _, data in graph.nodes(data=True) if data["kind"] == "call"]
    lines = [data["source"] for data in calls if data["source"] is not None]
    assert len(lines) >= 0.7 * len(calls)
    assert all("compiled_zoo.py:" in line for line in lines)
    if name not in ("function", "graph break"):
        modules = [data["namespace"] for data in calls if data["namespace"] is not None]
        assert len(modules) >= 0.95 * len(calls), Counter(data["op"] for data in calls)


def state(loss):
    return (
        torch.get_rng_state().tolist(),
        {key: dict(value) for key, value in counters.items()},
        [
            None if node.variable.grad is None else node.variable.grad.tolist()
            for node in nodes_of(loss)
            if hasattr(node, "variable")
        ],
    )


@pytest.mark.parametrize("name", ["mlp", "dropout"])
@pytest.mark.parametrize("after", [False, True], ids=["before backward", "after backward"])
def test_looking_compiles_and_changes_nothing(name, after):
    loss = compiled_loss(name, "aot_eager")
    if after:
        loss.backward()
    before = state(loss)
    graph = capture(loss, opened=True)
    assert state(loss) == before
    assert any(kind == "call" for _, kind in graph.nodes(data="kind"))


def test_what_cannot_be_opened_says_why(monkeypatch):
    loss = compiled_loss("mlp", "aot_eager")
    (compiled,) = (each for each in nodes_of(loss) if is_compiled(each))

    class Cached:
        bw_module_fn = None

    for info, word in ((None, "cache"), (Cached(), "cache"), (object(), "cannot be read")):
        monkeypatch.setattr(compiled._forward_cls, "_lazy_backward_info", info)
        graph = capture(loss, opened=True)
        (sentence,) = (text for _, text in graph.nodes(data="closed") if text)
        assert word in sentence
        assert sentence.endswith(".")
        assert not any(kind == "call" for _, kind in graph.nodes(data="kind"))


def test_a_widget_inside_a_compiled_function_is_refused_unless_compiling_is_disabled():
    found = fresh(
        """
        from gradwalk import compare
        def pair(y):
            return compare(y, y * 1)
        def tried(make, backend):
            widgets = []
            def loss(x, make):
                y = (x * x).sum()
                widgets.append(make(y))
                return y
            torch._dynamo.reset()
            x = torch.ones(3, requires_grad=True)
            try:
                torch.compile(loss, backend=backend)(x, make)
            except RuntimeError as error:
                print("@torch.compiler.disable" in str(error).splitlines()[0])
            torch._dynamo.reset()
            torch.compile(loss, backend=backend)(x, torch.compiler.disable(make))
            widgets[0].backward()
            print(x.grad.tolist())
        for make in (lambda y: GraphWidget(y), pair):
            for backend in ("eager", "aot_eager"):
                tried(make, backend)
        """
    )
    assert found.splitlines() == ["True", "[2.0, 2.0, 2.0]"] * 4
