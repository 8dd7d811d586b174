"""A static graph beside the autograd graph of the same program."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import LeNet
from torch import nn
from torch.export import export
from torch.fx import symbolic_trace

from gradwalk import GraphWidget, capture, compare
from gradwalk.matching.match import family, match, role, without_root

pytestmark = [  # torch's own, from run_decompositions()
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
]


def image():
    return torch.randn(2, 1, 28, 28)


def paired(widget, *labels):
    """[(attributes of a node in the one graph, in the other)] of what both have."""
    graphs = [widget._source.sources[label].captured.drawn for label in labels]
    return [
        tuple(
            graph.nodes[node["nodes"][label]] for graph, label in zip(graphs, labels, strict=True)
        )
        for node in widget.model["nodes"]
        if None not in node["nodes"].values()
    ]


def unpaired(widget, label):
    graph = widget._source.sources[label].captured.drawn
    return sorted(
        graph.nodes[node["nodes"][label]]["op"]
        for node in widget.model["nodes"]
        if node["nodes"][label] is not None and None in node["nodes"].values()
    )


class Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps the ``grad_fn`` that each call left behind: torch's own answer to
    which autograd node a call made."""

    def __init__(self, module):
        super().__init__(module)
        self.made = {}

    def run_node(self, node):
        result = super().run_node(node)
        if isinstance(result, torch.Tensor) and result.grad_fn is not None:
            self.made[node.name] = result.grad_fn.name()
        return result


def made_by_call(program, *inputs):
    """fx's name of a call -> the class of the autograd node that it leaves behind."""
    if isinstance(program, torch.fx.GraphModule):
        recorder = Recorder(program)
        recorder.run(*inputs)
    else:
        held = {**program.state_dict, **program.constants}
        rest = iter(inputs)
        specs = program.graph_signature.input_specs
        recorder = Recorder(program.graph_module)
        recorder.run(*(next(rest) if spec.target is None else held[spec.target] for spec in specs))
    return recorder.made


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.norm = nn.LayerNorm(8)
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.head = nn.Linear(8, 7)

    def forward(self, words):
        x = self.norm(self.embedding(words))
        scores = (self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5).softmax(-1)
        return self.head(F.gelu(scores @ x) + x)


PROGRAMS = {
    "lenet exported": (LeNet, image, lambda module, x: export(module, (x,))),
    "lenet taken apart": (
        LeNet,
        image,
        lambda module, x: export(module, (x,)).run_decompositions(),
    ),
    "lenet traced": (LeNet, image, lambda module, _: symbolic_trace(module)),
    "attention": (
        Attention,
        lambda: torch.randint(0, 7, (2, 5)),
        lambda module, x: export(module, (x,)),
    ),
}


@pytest.fixture(params=PROGRAMS, scope="module")  # to write one down takes longer than a test
def written(request):
    torch.manual_seed(0)
    make, inputs, write_down = PROGRAMS[request.param]
    module, x = make(), inputs()
    return module, x, write_down(module, x)


@pytest.fixture
def case(written):
    module, x, program = written
    module.zero_grad()
    widget = compare({"dynamic": module(x), "static": program}, names=module)
    yield module, x, program, widget
    widget.close()


def test_calls_stand_beside_what_they_leave_behind(case):
    _, x, program, widget = case
    made = made_by_call(program, x)
    both = [
        (here, there)
        for here, there in paired(widget, "dynamic", "static")
        if here["kind"] == "op" and there["fx_name"] in made
    ]
    # A call that autograd records as several nodes is beside one of them, which need not be the
    # last; all others are beside the node that running the call leaves behind.
    several = ("aten.linear.default", "aten.matmul.default")
    wrong = [
        (here["op"], there["op"])
        for here, there in both
        if family(here) != family({"kind": "op", "op": made[there["fx_name"]]})
        and there["op"] not in several
    ]
    assert wrong == []
    assert len(both) >= 11
    same = [(here, there) for here, there in both if there["shape"] and there["op"] not in several]
    assert all(here["shape"] == there["shape"] for here, there in same)


def test_parameters_and_inputs_are_found_by_name_and_by_use(case):
    module, _, program, widget = case
    ends = [
        (here["name"], there["name"])
        for here, there in paired(widget, "dynamic", "static")
        if here["kind"] != "op"
    ]
    if isinstance(program, torch.fx.GraphModule):  # its modules keep theirs to themselves
        assert ends == [(None, "x")]
    else:
        assert {there for here, there in ends if here is None and there} <= {"x", "words"}
        assert any(there in {"x", "words"} for _, there in ends)
        assert {pair for pair in ends if pair[0]} == {(n, n) for n, _ in module.named_parameters()}


def test_lenet_is_the_same_but_for_transposes():
    torch.manual_seed(0)
    net, x = LeNet(), image()
    widget = compare({"dynamic": net(x), "static": export(net, (x,))})
    assert unpaired(widget, "dynamic") == ["TBackward0"] * 3
    assert unpaired(widget, "static") == []
    apart = compare({"dynamic": net(x), "static": export(net, (x,)).run_decompositions()})
    assert unpaired(apart, "dynamic") == []
    assert unpaired(apart, "static") == ["getitem"] * 2  # of the values and indices of a pooling
    fx = compare({"exported": export(net, (x,)), "traced": symbolic_trace(net)})
    assert unpaired(fx, "exported") == ["parameter"] * 10
    assert unpaired(fx, "traced") == []


def test_stepping_moves_the_dynamic_graph_alone(case):
    module, x, _, widget = case
    widget.backward(gradient=torch.ones_like(module(x)))
    assert [len(each["steps"]) for each in widget.passes] == [len(widget.steps), 0]
    got = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
    wanted = torch.autograd.grad(module(x).sum(), list(module.parameters()))
    for (name, grad), expected in zip(got.items(), wanted, strict=True):
        assert torch.equal(grad, expected), name
    widget.step_back(len(widget.steps))
    assert all(parameter.grad is None for parameter in module.parameters())
    dynamic, static = (each["transport"] for each in widget.passes)
    assert dynamic["owned"]
    assert static == {
        "owned": False,
        "note": "this graph is static: no backward runs through it.",
        "blocked": None,
    }
    assert widget.passes[1]["run"] is None


def test_the_first_step_runs_backward():
    net, x = LeNet(), image()
    widget = compare({"static": export(net, (x,)), "dynamic": net(x).sum()})
    widget.step()
    assert widget.cursor == 1
    widget.run_to("conv1.weight")
    assert net.conv1.weight.grad is not None


def test_the_table_says_nothing_of_a_static_graphs_leaves(case):
    module, x, _, widget = case
    widget.backward(gradient=torch.ones_like(module(x)))
    for row in widget.table["rows"]:
        dynamic, static = row["cells"]
        assert static["requires_grad"] is static["is_leaf"] is static["before"] is None
        assert static["now"] is None
        if row["name"] in dict(module.named_parameters()):
            assert dynamic["now"] is not None


def test_details_of_both_are_shown():
    net, x = LeNet(), image()
    widget = compare({"dynamic": net(x).sum(), "static": export(net, (x,))})
    widget.selected = "net.conv1.weight"
    dynamic, static = widget.details
    assert (dynamic["op"], static["op"]) == ("AccumulateGrad", "parameter")
    assert "has no backward" in static["grad_note"]["grad"]


def test_nothing_runs_through_static_graphs_alone():
    net, x = LeNet(), image()
    widget = compare({"exported": export(net, (x,)), "traced": symbolic_trace(net)})
    for ask in (widget.backward, widget.step):
        with pytest.raises(RuntimeError, match="has no backward"):
            ask()
    assert all("has no backward" in each["transport"]["blocked"] for each in widget.passes)


def test_graphs_in_a_list_and_alone():
    net, x = LeNet(), image()
    program = export(net, (x,))
    loss = net(x).sum()
    assert [pane["label"] for pane in compare([loss, program]).panes] == ["loss", "graph 2"]
    with pytest.raises(ValueError, match="given one graph"):
        compare(program)


def test_matching_is_symmetric_and_a_graph_is_itself(case):
    module, x, program, _ = case
    static, dynamic = capture(program), capture(module(x), names=module)
    there, back = match(dynamic, static), match(static, dynamic)
    assert back.pairs == {b: a for a, b in there.pairs.items()}
    assert match(static, static).pairs == {node: node for node in static}


def test_what_is_not_used_can_be_compared():
    norm = nn.BatchNorm1d(3)
    x = torch.randn(4, 3)
    widget = compare({"dynamic": norm(x), "static": export(norm, (x,))}, names=norm)
    assert unpaired(widget, "static") == ["aten.add_.Tensor", "buffer", "number"]
    pairs = {(a["name"], b["name"]) for a, b in paired(widget, "dynamic", "static")}
    assert {("running_mean", "running_mean"), ("weight", "weight")} <= pairs


FAMILIES = [  # what torch leaves behind at a call, asked of torch
    lambda x: (torch.ops.aten.relu.default, F.relu(x)),
    lambda x: (torch.ops.aten.add.Tensor, x + x),
    lambda x: (torch.ops.aten.div.Tensor, x / 2),
    lambda x: (torch.ops.aten.sum.default, x.sum()),
    lambda x: (torch.ops.aten.sum.dim_IntList, x.sum(0)),
    lambda x: (torch.ops.aten.mean.dim, x.mean(0)),
    lambda x: (torch.ops.aten.softmax.int, x.softmax(-1)),
    lambda x: (torch.ops.aten.log_softmax.int, x.log_softmax(-1)),
    lambda x: (torch.ops.aten.permute.default, x.permute(1, 0)),
    lambda x: (torch.ops.aten.t.default, x.t()),
    lambda x: (torch.ops.aten.flatten.using_ints, x.flatten()),
    lambda x: (torch.ops.aten.matmul.default, x @ x),
    lambda x: (torch.ops.aten.pow.Tensor_Scalar, x**2),
    lambda x: (torch.ops.aten.gelu.default, F.gelu(x)),
    lambda x: (torch.ops.aten.layer_norm.default, F.layer_norm(x, (4,))),
    lambda x: (torch.ops.aten.max_pool2d.default, F.max_pool2d(x[None, None], 2)),
    lambda x: (torch.ops.aten.conv2d.default, F.conv2d(x[None, None], x[None, None])),
    lambda x: (torch.ops.aten.batch_norm.default, F.batch_norm(x, None, None, training=True)),
    lambda x: (torch.ops.aten.relu_.default, F.relu_(x * 1)),
    lambda x: (torch.ops.aten.to.dtype, x.double()),
    lambda x: (operator_mul, x * x),
]
operator_mul = torch.fx.symbolic_trace(lambda x: x * x).graph.find_nodes(
    op="call_function", target=__import__("operator").mul
)[0]


@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_a_call_is_of_the_family_of_its_derivative(number):
    call, result = FAMILIES[number](torch.randn(4, 4, requires_grad=True))
    op = "mul" if isinstance(call, torch.fx.Node) else str(call)
    derivative = result.grad_fn.name()
    assert family({"kind": "op", "op": op}) == family({"kind": "op", "op": derivative})


def test_families_are_apart():
    names = (
        "AddBackward0 MulBackward0 ReluBackward0 ConvolutionBackward0 SumBackward0 ViewBackward0"
    )
    families = {family({"kind": "op", "op": name}) for name in names.split()}
    assert len(families) == 6
    assert family({"kind": "op", "op": "Linear"}) != family({"kind": "op", "op": "aten.add.Tensor"})


def test_an_argument_has_the_same_role_in_either_graph():
    assert role("AddmmBackward0", "mat2", 2) == role("aten.linear.default", "weight", 1)
    assert role("AddmmBackward0", "self", 0) == role("Linear", "bias", 2) == "bias"
    assert role("MulBackward0", "self", 0) == role("mul", "a", 0)
    assert role("cat", None, 3) == "3"


def test_names_lose_the_root_that_the_other_graph_lacks():
    names = ["net.conv.weight", "net.conv.bias", "x", "head.weight"]
    assert without_root(names, ["conv.weight", "conv.bias", "x"]) == {
        "net.conv.weight": "conv.weight",
        "net.conv.bias": "conv.bias",
        "x": "x",
        "head.weight": "head.weight",
    }
    assert without_root(["a.b"], ["a.b", "b"]) == {"a.b": "a.b"}


LAYERS = {
    "linear": lambda: nn.Linear(4, 4),
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "norm": lambda: nn.LayerNorm(4),
}


@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=7))
@settings(max_examples=15, deadline=None)
def test_any_stack_of_layers_matches_layer_by_layer(layers):
    net = nn.Sequential(nn.Linear(4, 4), *(LAYERS[name]() for name in layers))
    x = torch.randn(2, 4)
    program = export(net, (x,), strict=False)
    widget = compare({"dynamic": net(x), "static": program}, names=net)
    # Nothing but the transposes of weights is without its partner.
    assert set(unpaired(widget, "dynamic")) <= {"TBackward0"}
    assert unpaired(widget, "static") == []
    named = [(a["name"], b["name"]) for a, b in paired(widget, "dynamic", "static") if a["name"]]
    assert {pair for pair in named if "." in pair[0]} == {(n, n) for n, _ in net.named_parameters()}
    widget.close()


def test_looking_at_both_changes_no_gradient():
    net, x = LeNet(), image()
    loss = net(x).sum()
    widget = compare({"dynamic": loss, "static": export(net, (x,))})
    state = torch.get_rng_state()
    widget.selected = 0
    GraphWidget(loss).close()
    assert torch.equal(state, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in net.parameters())
