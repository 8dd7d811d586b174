"""The captured structure is exactly what `next_functions` says."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, LeNet, MultiplyAdd, outputs_of
from torch.autograd.graph import get_gradient_edge

from gradwalk import capture


def walked(output):
    """An independent walk: nodes breadth-first, and (node, arg_nr) -> (producer, output_nr)."""
    order, edges = [get_gradient_edge(output).node], {}
    for node in order:
        for nr, (child, output_nr) in enumerate(node.next_functions):
            edges[order.index(node), nr] = None if child is None else (child, output_nr)
            if child is not None and child not in order:
                order.append(child)
    return order, edges


@pytest.mark.parametrize("name", PROGRAMS)
def test_structure_and_metadata_are_torchs(name):
    check_against_torch(outputs_of(name)[0])


def check_against_torch(output):
    graph = capture(output)
    nodes, edges = walked(output)
    assert list(graph.nodes) == list(range(len(nodes)))
    for i, node in enumerate(nodes):
        data = graph.nodes[i]
        assert data["op"] == type(node).__name__
        assert data["sequence_nr"] == node._sequence_nr()
        is_leaf = data["op"] == "AccumulateGrad"
        assert (data["kind"], data["is_leaf"]) == (("leaf", True) if is_leaf else ("op", False))
        described = [node.variable] if is_leaf else list(node._input_metadata)
        assert [o["output_nr"] for o in data["outputs"]] == list(range(len(described)))
        for like, out in zip(described, data["outputs"], strict=True):
            assert out["dtype"] == str(like.dtype)
            assert out["device"] == str(like.device)
            if not (like.is_nested if is_leaf else like.is_nested_tensor):
                assert out["shape"] == tuple(like.shape)
        assert data["shape"] == data["outputs"][0]["shape"]
    found = {(u, d["arg_nr"]): (v, d["output_nr"]) for u, v, d in graph.edges(data=True)}
    wanted = {key: (nodes.index(c[0]), c[1]) for key, c in edges.items() if c is not None}
    assert found == wanted
    stubs = {(i, s["arg_nr"]) for i, d in graph.nodes(data=True) for s in d["no_grad_inputs"]}
    assert stubs == {key for key, child in edges.items() if child is None}


def test_the_example_of_the_readme():
    #   h = w * x + b        0 AddBackward0 ── self ──► 1 MulBackward0 ── self ──► 3 w
    #                              └─ other ─► 2 b            └─ other ─► 4 x
    w, x, b = (torch.tensor([v], requires_grad=True) for v in (4.0, 1.0, 0.5))
    h = w * x + b
    graph = capture(h, names={"w": w, "x": x, "b": b, "h": h})
    assert isinstance(graph, nx.MultiDiGraph)
    assert dict(graph.nodes(data="op")) == {
        0: "AddBackward0",
        1: "MulBackward0",
        2: "AccumulateGrad",
        3: "AccumulateGrad",
        4: "AccumulateGrad",
    }
    assert dict(graph.nodes(data="name")) == {0: "h", 1: None, 2: "b", 3: "w", 4: "x"}
    assert list(graph.edges(data="argument")) == [
        (0, 1, "self"),
        (0, 2, "other"),
        (1, 3, "self"),
        (1, 4, "other"),
    ]
    assert graph.graph["roots"] == [(0, 0)]
    assert graph.graph["torch_version"] == torch.__version__


def test_a_leaf_alone_is_a_graph_of_one_node():
    x = torch.ones(2, 3, requires_grad=True)
    graph = capture(x)
    assert len(graph) == 1
    assert graph.nodes[0]["kind"] == "leaf"
    assert graph.nodes[0]["shape"] == (2, 3)
    assert graph.graph["roots"] == [(0, 0)]


def test_two_edges_between_the_same_nodes():
    x = torch.ones(3, requires_grad=True)
    graph = capture(x * x)
    assert sorted(graph.edges(data="argument")) == [(0, 1, "other"), (0, 1, "self")]


def test_a_number_is_kept_as_an_input_without_grad():
    graph = capture(torch.ones(3, requires_grad=True) * 2)
    assert graph.nodes[0]["no_grad_inputs"] == [{"arg_nr": 1, "argument": "other"}]
    assert graph.nodes[1]["no_grad_inputs"] == []


def test_a_custom_functions_arguments_are_those_of_its_forward():
    x, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    graph = capture(MultiplyAdd.apply(2.0, x, b), names={"x": x, "b": b})
    named = {graph.nodes[v]["name"]: argument for _, v, argument in graph.edges(data="argument")}
    assert named == {"x": "x", "b": "b"}
    without = capture(MultiplyAdd.apply(2.0, x, b.detach()))
    assert list(without.edges(data="argument")) == [(0, 1, "x")]
    assert without.nodes[0]["no_grad_inputs"][0]["arg_nr"] == 1


def test_arguments_of_common_operations():
    x, m, k = (torch.randn(s, requires_grad=True) for s in ((2, 3), (3, 4), (1, 3, 1, 1)))
    cases = {
        x @ m: ["self", "mat2"],
        torch.addmm(torch.randn(4, requires_grad=True), x, m): ["self", "mat1", "mat2"],
        torch.cat([x, x]): ["tensors[0]", "tensors[1]"],
        torch.conv2d(torch.randn(1, 3, 4, 4), k): ["weight"],
        torch.where(x > 0, x, x): ["self", "other"],
        torch.stack([x, x, x]): ["tensors[0]", "tensors[1]", "tensors[2]"],
    }
    for output, arguments in cases.items():
        edges = capture(output).out_edges(0, data=True)
        in_order = sorted(edges, key=lambda edge: edge[2]["arg_nr"])
        assert [data["argument"] for *_, data in in_order] == arguments


def test_several_outputs_of_one_node():
    a, b, _ = torch.ones(3, 2, requires_grad=True).unbind()
    graph = capture(a, b, names={"a": a, "b": b})
    assert graph.graph["roots"] == [(0, 0), (0, 1)]
    assert [o["name"] for o in graph.nodes[0]["outputs"]] == ["a", "b", None]
    assert graph.nodes[0]["name"] == "a, b"


def test_edges_nodes_and_containers_are_outputs_too():
    x = torch.ones(2, requires_grad=True)
    y, z = x * 2, x + 1
    assert capture(get_gradient_edge(y)).graph["roots"] == [(0, 0)]
    assert len(capture(y.grad_fn)) == 2
    for outputs in ([y, z], (y, z), {"a": y, "b": z}, [{"a": y}, [z]]):
        assert len(capture(outputs).graph["roots"]) == 2
    assert len(capture(y, z)) == 3
    assert dict(capture({"a": y, "b": z}).nodes(data="name")) == {0: "a", 1: "b", 2: None}


def test_a_node_without_names_does_not_share_what_a_named_one_got():
    x = torch.ones(2, requires_grad=True)
    first = x * 2
    second = first * 2
    graph = capture(second, names={"second": second})
    assert graph.nodes[0]["outputs"][0]["name"] == "second"
    assert graph.nodes[1]["outputs"][0]["name"] is None


def test_it_works_after_the_buffers_were_freed():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    before = capture(y)
    y.backward()
    assert nx.utils.graphs_equal(before, capture(y))


def test_the_collector_is_left_as_it_was():
    x = torch.ones(2, requires_grad=True) * 2
    gc.disable()
    try:
        capture(x)
        assert not gc.isenabled()
    finally:
        gc.enable()
    capture(x)
    assert gc.isenabled()


_PRINT_ALL = """
import json, sys
sys.path.insert(0, {folder!r})
from programs import PROGRAMS, outputs_of
from gradwalk import capture
for name in ("lenet", "several_outputs_of_one_node", "custom_function", "in_place_and_views"):
    graph = capture(outputs_of(name))
    print(json.dumps([list(graph.nodes(data=True)), list(graph.edges(data=True))]))
"""


def test_two_processes_give_the_same_ids_and_attributes(request):
    code = _PRINT_ALL.format(folder=str(request.path.parents[1] / "support"))
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1
    assert all(json.loads(line) for line in runs.pop().splitlines())


def test_fifty_thousand_operations_deep():
    y = x = torch.ones(1, requires_grad=True)
    for _ in range(50_000):
        y = y * 1.0
    assert len(capture(y, names={"x": x})) == 50_001


OPERATIONS = [
    lambda a, b: a * b.tanh(),
    lambda a, b: a + b,
    lambda a, b: (a - b).tanh(),
    lambda a, b: (a @ b).tanh(),
    lambda a, b: torch.cat([a, b])[: len(a)],
    lambda a, b: a.detach() * b,
    lambda a, b: torch.stack([a, b]).sum(0),
    lambda a, b: a.t().cos(),
]


@st.composite
def random_programs(draw):
    values = [torch.randn(2, 2, requires_grad=True) for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(1, 15))):
        pick = st.integers(0, len(values) - 1)
        operation = draw(st.sampled_from(OPERATIONS))
        values.append(operation(values[draw(pick)], values[draw(pick)]))
    return values


@settings(max_examples=60, deadline=None)
@given(random_programs())
def test_random_programs(values):
    output = values[-1] + values[0]
    check_against_torch(output)
    assert nx.is_directed_acyclic_graph(capture(output))


def test_a_model_gives_its_parameters_dotted_names():
    model = LeNet()
    graph = capture(model(torch.randn(1, 1, 28, 28)), names=model)
    named = {name for _, name in graph.nodes(data="name") if name}
    assert named == {name for name, _ in model.named_parameters()}


def test_roots_stand_in_the_order_given_and_as_often():
    x = torch.ones(2, requires_grad=True)
    y, z = x * 2, x + 1
    pair = [y, z]
    assert capture(z, y, z).graph["roots"] == [(0, 0), (1, 0), (0, 0)]
    assert capture(pair, pair).graph["roots"] == [(0, 0), (1, 0)] * 2
    assert capture({"a": pair, "b": pair}).graph["roots"] == [(0, 0), (1, 0)] * 2


def test_an_output_that_lies_behind_another_one():
    #   y = exp(x)   z = 2 y     roots: z ─► y ─► x, and y itself
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    z = y * 2
    graph = capture(z, y)
    assert graph.graph["roots"] == [(0, 0), (1, 0)]
    assert list(graph.edges) == [(0, 1, 0), (1, 2, 0)]


def test_one_class_with_different_shapes_dtypes_and_stubs():
    #   MulBackward0 three times: (2, 3) float32, () float64, (2, 3) with "self" needing no gradient
    x, s = torch.ones(2, 3, requires_grad=True), torch.ones((), requires_grad=True)
    graph = capture(x * 2, s.double() * 2, 2 * x.detach() * x)
    muls = [d for _, d in graph.nodes(data=True) if d["op"] == "MulBackward0"]
    assert [(d["shape"], d["dtype"]) for d in muls] == [
        ((2, 3), "torch.float32"),
        ((), "torch.float64"),
        ((2, 3), "torch.float32"),
    ]
    stubs = [[stub["argument"] for stub in d["no_grad_inputs"]] for d in muls]
    assert stubs == [["other"], ["other"], ["self"]]


CALLS: dict[str, Any] = {
    "mul": (torch.mul, {"input": (2, 3), "other": (2, 3)}),
    "addmm": (torch.addmm, {"input": (2, 4), "mat1": (2, 3), "mat2": (3, 4)}),
    "addcmul": (torch.addcmul, {"input": (3,), "tensor1": (3,), "tensor2": (3,)}),
    "baddbmm": (torch.baddbmm, {"input": (5, 2, 4), "batch1": (5, 2, 3), "batch2": (5, 3, 4)}),
    "lerp": (torch.lerp, {"input": (3,), "end": (3,), "weight": (3,)}),
    "layer_norm": (
        lambda **given: torch.nn.functional.layer_norm(normalized_shape=(4,), **given),
        {"input": (3, 4), "weight": (4,), "bias": (4,)},
    ),
    "conv2d": (torch.conv2d, {"input": (1, 2, 5, 5), "weight": (3, 2, 3, 3), "bias": (3,)}),
    "atan2": (torch.atan2, {"input": (3,), "other": (3,)}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_argument_named_is_the_one_that_was_given_the_tensor(name):
    # torch itself says where an argument stands: only it requires grad, and is given by keyword.
    function, shapes = CALLS[name]
    for argument in shapes:
        given = {key: torch.rand(shape) + 0.5 for key, shape in shapes.items()}
        given[argument].requires_grad_()
        graph = capture(function(**given))
        ((_, _, found),) = graph.out_edges(0, data="argument")
        assert found == argument or (found, argument) == ("self", "input")
        others = [stub["argument"] for stub in graph.nodes[0]["no_grad_inputs"]]
        assert len(set(others)) == len(shapes) - 1
        assert found not in others
