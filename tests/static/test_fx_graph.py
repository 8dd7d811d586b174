"""The static graph is fx's own, in the terms of a captured graph."""

from __future__ import annotations

import operator
import re
from collections import Counter

import pytest
import torch
from programs import LeNet, leaf
from torch import nn
from torch.export import Dim, export
from torch.fx import Interpreter, symbolic_trace
from torch.fx.node import map_arg
from torch.fx.passes.shape_prop import ShapeProp

from gradwalk import capture
from gradwalk.tracing.source_line import shown_file

pytestmark = [  # torch's own, from run_decompositions()
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Node table target table.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]


class Mixed(nn.Module):
    """A bit of everything: a module, a parameter, a constant, several outputs, keywords, lists."""

    def __init__(self):
        super().__init__()
        self.norm = nn.Sequential(nn.BatchNorm1d(3))
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.ones(3), persistent=False)
        self.table = torch.arange(3.0)

    def forward(self, x, unused):
        a, _, c = torch.split(self.norm(x) * self.scale * 2, 1, dim=1)
        joined = torch.cat([a, c, a], dim=1).add(self.shift, alpha=2)
        return {"joined": joined + self.table[:1], "same": [x, joined], "number": 3}


def mixed_inputs():
    return torch.randn(2, 3), torch.ones(1)


def lenet_input():
    return (torch.randn(2, 1, 28, 28),)


PROGRAMS = {
    "lenet traced": lambda: symbolic_trace(LeNet()),
    "lenet exported": lambda: export(LeNet(), lenet_input()),
    "mixed traced": lambda: symbolic_trace(Mixed()),
    "mixed exported": lambda: export(Mixed(), mixed_inputs()),
    "mixed decomposed": lambda: export(Mixed(), mixed_inputs()).run_decompositions(),
    "only an input": lambda: symbolic_trace(nn.Identity()),
}


@pytest.fixture(params=PROGRAMS)
def program(request):
    torch.manual_seed(0)
    return PROGRAMS[request.param]()


def used_by(node):
    """Counter of the nodes in a node's arguments, found with torch's own walk over them."""
    found = Counter()
    map_arg((node.args, node.kwargs), lambda each: found.update([each.name]))
    return found


def test_nodes_and_edges_are_fxs_own(program):
    graph = capture(program)
    nodes = {node.name: node for node in program.graph.nodes if node.op != "output"}
    called = {i: data["fx_name"] for i, data in graph.nodes(data=True)}
    assert list(graph.nodes) == list(range(len(nodes)))
    assert Counter(called.values()) == Counter(list(nodes))
    for i, data in graph.nodes(data=True):
        node = nodes[data["fx_name"]]
        edges = [(data["arg_nr"], called[to]) for _, to, data in graph.out_edges(i, data=True)]
        assert Counter(name for _, name in edges) == used_by(node)
        numbers = [nr for nr, _ in edges] + [number["arg_nr"] for number in data["numbers"]]
        assert sorted(numbers) == list(range(len(numbers)))
        assert data["no_grad_inputs"] == []
        assert (data["kind"] != "op") == (node.op in ("placeholder", "get_attr"))
        assert data["is_leaf"] == (data["kind"] != "op" and data["op"] != "subgraph")
        if data["kind"] != "op":
            goes_in = data["op"] in ("placeholder", "parameter")
            is_output = any(root == i for root, _ in graph.graph["roots"])
            assert data["kind"] == ("leaf" if goes_in or is_output else "constant")
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    roots = [called[node] for node, output_nr in graph.graph["roots"] if output_nr == 0]
    assert Counter(roots) == used_by(output)
    assert graph.graph["static"] is True
    assert graph.graph["torch_version"] == torch.__version__


def test_nodes_are_numbered_breadth_first_from_the_outputs(program):
    nodes = {node.name: node for node in program.graph.nodes}
    wanted = ["output"]
    for name in wanted:
        wanted += [each for each in used_by(nodes[name]) if each not in wanted]
    wanted += [name for name in nodes if name not in wanted]
    found = capture(program).nodes.values()
    last = [data["fx_name"] for data in found if data["kind"] == "constant"]
    first = [name for name in wanted[1:] if name not in last]
    assert [data["fx_name"] for data in found] == [*first, *(n for n in wanted if n in last)]


def test_they_say_in_which_order_they_run(program):
    graph = capture(program)
    found = sorted(graph.nodes.values(), key=lambda data: data["sequence_nr"])
    wanted = [node.name for node in program.graph.nodes if node.op != "output"]
    assert [data["fx_name"] for data in found] == wanted


def test_calls_are_written_as_torch_writes_them(program):
    """Each call is in the code that torch makes of the graph, but for prefixes and spaces."""
    code = getattr(program, "graph_module", program).code
    code = re.sub(r"torch\.ops\.|\btorch\.|\s", "", code)
    for _, data in capture(program).nodes(data=True):
        if data["op"].startswith("aten."):
            called = re.sub(r"torch\.|\s", "", data["called"])
            assert f"{data['fx_name']}={called};" in code


def test_a_buffer_that_is_returned_is_drawn_as_what_goes_in():
    class Returned(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(2))

        def forward(self, x):
            return x + 1, self.table

    graph = capture(export(Returned(), (torch.ones(2),)))
    (table,) = (data for _, data in graph.nodes(data=True) if data["op"] == "buffer")
    assert table["kind"] == "leaf"


def assert_described(graph, results):
    """Shapes, dtypes and devices are those of what each node really returned."""
    for _, data in graph.nodes(data=True):
        result = results[data["fx_name"]]
        wanted = result if isinstance(result, (tuple, list)) else [result]
        assert len(data["outputs"]) == len(wanted)
        for nr, (tensor, output) in enumerate(zip(wanted, data["outputs"], strict=True)):
            assert output["output_nr"] == nr
            assert output["shape"] == tuple(tensor.shape)
            assert output["dtype"] == str(tensor.dtype)
            if output["device"] is not None:
                assert output["device"] == str(tensor.device)
        assert data["shape"] == data["outputs"][0]["shape"]
        assert data["dtype"] == data["outputs"][0]["dtype"]


class Recorder(Interpreter):
    def __init__(self, module):
        super().__init__(module)
        self.results = {}

    def run_node(self, node):
        result = super().run_node(node)
        self.results[node.name] = result
        return result


def inputs_of(exported, inputs):
    """What goes into an exported graph: parameters, buffers, constants, then the user's inputs."""
    held = {**exported.state_dict, **exported.constants}
    rest = iter(inputs)
    specs = exported.graph_signature.input_specs
    return [next(rest) if spec.target is None else held[spec.target] for spec in specs]


@pytest.mark.parametrize("name", ["lenet exported", "mixed exported", "mixed decomposed"])
def test_exported_metadata_is_what_running_it_gives(name):
    exported = PROGRAMS[name]()
    recorder = Recorder(exported.graph_module)
    inputs = lenet_input() if "lenet" in name else mixed_inputs()
    recorder.run(*inputs_of(exported, inputs))
    graph = capture(exported)
    assert_described(graph, recorder.results)
    assert all(data["device"] == "cpu" for _, data in graph.nodes(data=True))


@pytest.mark.parametrize(
    ("module", "inputs"), [(LeNet(), lenet_input()), (Mixed(), mixed_inputs())]
)
def test_traced_metadata_is_there_after_shape_propagation(module, inputs):
    traced = symbolic_trace(module)
    assert {
        data["shape"] for _, data in capture(traced).nodes(data=True) if not data["is_leaf"]
    } == {None}
    ShapeProp(traced).propagate(*inputs)
    recorder = Recorder(traced)
    recorder.run(*inputs)
    assert_described(capture(traced), recorder.results)


def called_input(edge):
    argument, name = edge
    return re.sub("^self$", "input", argument), name  # as torch does when it normalizes


@pytest.mark.parametrize("name", ["lenet exported", "mixed exported", "mixed decomposed"])
def test_arguments_are_named_as_torch_normalizes_them(name):
    exported = PROGRAMS[name]()
    graph = capture(exported)
    nodes = {node.name: node for node in exported.graph.nodes}
    for i, data in graph.nodes(data=True):
        node = nodes[data["fx_name"]]
        if data["kind"] != "op" or node.target is operator.getitem:
            continue
        normalized = node.normalized_arguments(
            exported.graph_module, normalize_to_only_use_kwargs=True
        )
        # Older torch leaves some arguments without their name; the schema has them in order.
        schema = [each.name for each in node.target._schema.arguments]
        named = {**dict(zip(schema, normalized.args, strict=False)), **normalized.kwargs}
        wanted = set()
        for argument, value in named.items():
            if isinstance(value, torch.fx.Node):
                wanted.add((argument, value.name))
            elif isinstance(value, (list, tuple)):
                wanted |= {
                    (f"{argument}[{nr}]", each.name)
                    for nr, each in enumerate(value)
                    if isinstance(each, torch.fx.Node)
                }
        found = {
            (argument, graph.nodes[to]["fx_name"])
            for _, to, argument in graph.out_edges(i, data="argument")
        }
        assert {called_input(each) for each in found} == {called_input(each) for each in wanted}


def test_leaves_say_what_they_are():
    module = Mixed()
    for program in (export(module, mixed_inputs()), symbolic_trace(module)):
        leaves = {
            data["name"]: data for _, data in capture(program).nodes(data=True) if data["is_leaf"]
        }
        assert leaves["x"]["op"] == leaves["unused"]["op"] == "placeholder"
        assert leaves["scale"]["op"] == "parameter"
        assert leaves["scale"]["requires_grad"] is True
        assert leaves["shift"]["op"] == "buffer"
        assert leaves["shift"]["kind"] == "constant"
        assert leaves["shift"]["requires_grad"] is False
        assert [d["shape"] for d in leaves.values() if d["op"] == "constant"] in ([(1,)], [(3,)])
    assert {n for n, d in leaves.items() if d["op"] == "placeholder"} == {"x", "unused"}


def test_parameters_of_an_exported_program_are_the_modules():
    module = LeNet()
    graph = capture(export(module, lenet_input()))
    found = {d["name"]: d for _, d in graph.nodes(data=True) if d["op"] == "parameter"}
    wanted = dict(module.named_parameters())
    assert {name: data["shape"] for name, data in found.items()} == {
        name: tuple(parameter.shape) for name, parameter in wanted.items()
    }
    assert {data["namespace"] for data in found.values()} == {"conv1", "conv2", "fc1", "fc2", "fc3"}


def test_modules_are_groups():
    exported = capture(export(Mixed(), mixed_inputs()))
    groups = {data["fx_name"]: data["namespace"] for _, data in exported.nodes(data=True)}
    assert groups["batch_norm"] == "norm/0"
    assert groups["cat"] is None
    traced = capture(symbolic_trace(Mixed()))
    (norm,) = (data for _, data in traced.nodes(data=True) if data["op"] == "BatchNorm1d")
    assert (norm["name"], norm["namespace"]) == ("norm.0", "norm")


def test_getitem_takes_one_of_several_outputs():
    graph = capture(export(Mixed(), mixed_inputs()))
    (split,) = (i for i, data in graph.nodes(data=True) if "split" in data["op"])
    assert len(graph.nodes[split]["outputs"]) == 3
    assert sorted(nr for _, _, nr in graph.in_edges(split, data="output_nr")) == [0, 1, 2]


def test_a_number_in_place_of_a_tensor_is_told():
    class Doubled(nn.Module):
        def forward(self, x):
            return (x * 2).flip(0)

    dynamic = capture(leaf(2).mul(2).flip(0))
    exported = capture(export(Doubled(), (torch.ones(2),)))
    # What an autograd graph knows to be no tensor with a gradient, a static one knows the value of.
    assert [
        [{"arg_nr": n["arg_nr"], "argument": n["argument"]} for n in data["numbers"]]
        for _, data in exported.nodes(data=True)
    ] == [data["no_grad_inputs"] for _, data in dynamic.nodes(data=True)]
    for graph in (exported, capture(symbolic_trace(Doubled()))):
        values = [n["value"] for _, data in graph.nodes(data=True) for n in data["numbers"]]
        assert values == ["2"]


def test_methods_functions_and_modules_name_their_arguments():
    class Called(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = nn.Bilinear(2, 2, 2)

        def forward(self, a, b):
            c = torch.addcmul(a, b, b, value=2)
            d = c.lerp(a, b)
            return self.pair(torch.repeat_interleave(d, b), a) @ nn.functional.cosine_similarity(
                b, d
            )

    graph = capture(symbolic_trace(Called()))
    names = {
        data["op"]: [name for *_, name in graph.out_edges(i, data="argument")]
        for i, data in graph.nodes(data=True)
    }
    assert names["addcmul"] == ["input", "tensor1", "tensor2"]
    assert names["lerp"] == ["self", "end", "weight"]
    assert names["repeat_interleave"] == ["input", "repeats"]
    assert names["Bilinear"] == ["input1", "input2"]
    assert names["cosine_similarity"] == ["x1", "x2"]


def test_sizes_that_may_vary_leave_the_shape_open():
    exported = export(
        nn.Linear(3, 4), (torch.randn(5, 3),), dynamic_shapes={"input": {0: Dim("batch")}}
    )
    shapes = {d["name"]: d["shape"] for _, d in capture(exported).nodes(data=True)}
    assert shapes == {None: None, "input": None, "weight": (4, 3), "bias": (4,)}


def test_dead_code_and_unused_inputs_come_last():
    graph = torch.fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    graph.call_method("add_", (b, 1))
    graph.output(graph.call_function(torch.relu, (a,)))
    found = capture(torch.fx.GraphModule(nn.Module(), graph))
    assert [data["fx_name"] for _, data in found.nodes(data=True)] == ["relu", "a", "b", "add_"]
    assert list(found.edges()) == [(0, 1), (3, 2)]


def test_what_an_output_changes_is_told():
    module = nn.BatchNorm1d(3)
    exported = export(module.train(), (torch.randn(4, 3),)).run_decompositions()
    graph = capture(exported)
    wanted = [
        None if spec.kind.name == "USER_OUTPUT" else f"updated {spec.target}"
        for spec in exported.graph_signature.output_specs
    ]
    assert graph.graph["root_names"] == wanted
    assert {f"updated {name}" for name, _ in module.named_buffers()} == {*wanted} - {None}


def test_lines_are_those_of_the_program():
    exported = export(LeNet(), lenet_input())
    lines = {data["source"] for _, data in capture(exported).nodes(data=True) if data["source"]}
    file = shown_file(LeNet.forward.__code__.co_filename)
    first = LeNet.forward.__code__.co_firstlineno
    assert lines
    for line in lines:
        name, _, number = line.rpartition(":")
        assert name == file
        assert first < int(number) < first + 10


def test_a_long_program():
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    for _ in range(5_000):
        node = graph.call_function(torch.sin, (node,))
    graph.output(node)
    found = capture(torch.fx.GraphModule(nn.Module(), graph))
    assert list(found.edges()) == [(i, i + 1) for i in range(5_000)]


def test_reading_changes_nothing(program):
    before, state = str(program.graph), torch.get_rng_state()
    capture(program)
    assert str(program.graph) == before
    assert torch.equal(torch.get_rng_state(), state)
