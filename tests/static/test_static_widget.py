"""A static graph in the widget: all that is drawn is fx's own, and nothing pretends to backward."""

from __future__ import annotations

import json
import linecache
import re

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import LeNet
from torch import nn
from torch.export import export
from torch.fx import symbolic_trace

import gradwalk
from gradwalk import GraphWidget, capture, diagnose, load, save
from gradwalk.tracing.source_line import shown_file

pytestmark = [  # torch's own, from run_decompositions()
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Node table target table.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]


class Normed(nn.Module):
    """Parameters, buffers that change, a number, a tensor that was there before, two outputs."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.linear = nn.Linear(3, 2)
        self.table = torch.arange(2.0)

    def forward(self, x):
        hidden = self.linear(self.norm(x)) * 2
        return {"hidden": hidden, "shifted": hidden.view(2, 4) + self.table[0]}


PROGRAMS = {
    "lenet exported": lambda: export(LeNet(), (torch.randn(2, 1, 28, 28),)),
    "lenet traced": lambda: symbolic_trace(LeNet()),
    "normed": lambda: export(Normed(), (torch.randn(4, 3),)),
    "normed, taken apart": lambda: export(Normed(), (torch.randn(4, 3),)).run_decompositions(),
    "only an input": lambda: symbolic_trace(nn.Identity()),
}


@pytest.fixture(params=PROGRAMS, scope="module")  # to write one down takes longer than a test
def program(request):
    torch.manual_seed(0)
    return PROGRAMS[request.param]()


@pytest.fixture
def widget(program):
    made = GraphWidget(program)
    yield made
    made.close()


def called_by_fx(program):
    return {node.name: node for node in program.graph.nodes if node.op != "output"}


def test_everything_drawn_is_fxs_own(program, widget):
    nodes = called_by_fx(program)
    names = nx.get_node_attributes(widget.to_networkx(), "fx_name")
    drawn = widget.model["nodes"]
    numbers = [node for node in drawn if node["op"] == "number"]
    assert {*names.values()} == {*nodes}
    assert len(drawn) == len(nodes) + len(numbers)
    # Of torch.fx's nodes themselves: how often each is used, by what.
    wanted = {(name, used.name) for name, node in nodes.items() for used in node.all_input_nodes}
    found = {
        (names[edge["source"]], names[edge["target"]])
        for edge in widget.model["edges"]
        if edge["target"] in names
    }
    assert found == wanted
    assert widget.model["static"] is True
    assert all(node["no_grad_inputs"] == [] for node in drawn)


def test_what_can_be_hidden_comes_last_and_apart(widget):
    graph = widget.model
    kinds = [node["kind"] for node in graph["nodes"]]
    hidden = [kind == "constant" for kind in kinds]
    assert hidden == sorted(hidden)
    for edge in graph["edges"]:
        assert (edge["kind"] == "constant") == hidden[edge["target"]]
        assert not hidden[edge["source"]]
    assert not any(hidden[root["node"]] for root in graph["roots"])


def test_a_number_is_a_node_with_its_value():
    widget = GraphWidget(export(Normed(), (torch.randn(4, 3),)))
    values = [node["value"] for node in widget.model["nodes"] if node["op"] == "number"]
    assert sorted(values) == ["1", "2"]  # of the batches counted, and of the program's own
    assert len(widget.to_networkx()) == len(widget.model["nodes"]) - 2


def test_outputs_say_what_they_change():
    program = PROGRAMS["normed, taken apart"]()
    names = [root["name"] for root in GraphWidget(program).model["roots"]]
    specs = program.graph_signature.output_specs
    assert names == [spec.target and f"updated {spec.target}" for spec in specs]


def test_every_node_has_its_panel(program, widget):
    nodes = called_by_fx(program)
    names = nx.get_node_attributes(widget.to_networkx(), "fx_name")
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        details = widget.details
        assert details["id"] == node["id"]
        assert re.fullmatch(r"[A-Z0-9a-z].*[.]", details["about"], re.DOTALL)
        assert details["grad"] is details["grad_output"] is details["grad_input"] is None
        for why in details["grad_note"].values():
            assert "has no backward. Run it and pass what it returns" in why
        assert details["saved"] == details["formula"] == []
        assert details["is_leaf"] is None
        if node["id"] not in names:
            continue
        fx_node = nodes[names[node["id"]]]
        used = {names[each["node"]] for each in details["inputs"] if each["node"] in names}
        assert used == {each.name for each in fx_node.all_input_nodes}
        users = {names[each["node"]] for each in details["consumers"]}
        assert users == {each.name for each in fx_node.users if each.op != "output"}
        value = fx_node.meta.get("val")
        if isinstance(value, torch.Tensor):
            assert details["shape"] == list(value.shape)
            assert details["dtype"] == str(value.dtype)
        if node["kind"] == "op":
            assert details["forward"].startswith(f"{fx_node.name} = ")


def test_the_panel_shows_the_tensors_that_the_program_keeps():
    module = Normed()
    widget = GraphWidget(export(module, (torch.randn(4, 3),)))
    kept = {
        **dict(module.named_parameters()),
        **dict(module.named_buffers()),
        "table": module.table,
    }
    seen = set()
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        value = widget.details["value"]
        if node["name"] in kept:
            seen.add(node["name"])
            assert torch.equal(torch.tensor(value["values"]), kept[node["name"]].detach().cpu())
        else:
            assert value is None
    assert seen == {*kept}


def test_a_call_tells_its_line_and_module():
    widget = GraphWidget(export(LeNet(), (torch.randn(2, 1, 28, 28),)))
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        details = widget.details
        if node["kind"] != "op":
            continue
        file = LeNet.forward.__code__.co_filename
        assert details["source"]["file"] == shown_file(file)
        assert details["source"]["function"] == "forward"
        line = linecache.getline(file, details["source"]["line"])
        assert details["source"]["text"] == line.strip()
        if "conv2d" in node["op"] or "linear" in node["op"]:
            weight = next(each for each in details["inputs"] if each["argument"] == "weight")
            assert weight["label"] == f"{details['module']}.weight"


def test_modules_are_those_of_the_program():
    module = LeNet()
    graph = GraphWidget(export(module, (torch.randn(2, 1, 28, 28),))).model
    names, classes = graph["modules"]["names"], graph["modules"]["classes"]
    found = {
        path: names[place]
        for path, place in zip(graph["modules"]["namespaces"], classes, strict=True)
    }
    wanted = {name: type(part).__name__ for name, part in module.named_children()}
    assert found.items() <= wanted.items()
    assert {node["namespace"] for node in graph["nodes"]} - {None} == {*found}


def test_what_nothing_takes_says_so():
    program = export(Normed(), (torch.randn(4, 3),))
    widget = GraphWidget(program)
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        fx_node = called_by_fx(program).get(
            widget.to_networkx().nodes.get(node["id"], {}).get("fx_name")
        )
        if fx_node is not None:
            assert (not fx_node.users) == ("Nothing" in widget.details["about"])


def test_there_is_no_backward_and_it_says_how_to_get_one(program, widget):
    how = "program.module()(x)" if hasattr(program, "graph_module") else "program(x)"
    for ask in (widget.backward, widget.step, lambda: widget.run_to(0)):
        with pytest.raises(RuntimeError, match="has no backward") as error:
            ask()
        assert f"GraphWidget({how})" in str(error.value)
    assert widget.transport["blocked"] == str(error.value)
    assert (widget.steps, widget.run, widget.cursor) == ([], None, 0)
    widget._on_message(None, {"kind": "start", "cursor": None}, None)
    assert widget._fault == f"RuntimeError: {error.value}"


def test_what_it_says_to_do_works():
    module = LeNet()
    x = torch.randn(2, 1, 28, 28)
    program = export(module, (x,))
    widget = GraphWidget(program.module()(x).sum())
    widget.backward()
    traced = GraphWidget(symbolic_trace(module)(x).sum())
    traced.backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_diagnose_and_memory(widget):
    with pytest.raises(ValueError, match=r"diagnose\(\) looks at gradients\. A static graph is"):
        diagnose(widget)
    widget._on_message(None, {"kind": "diagnose"}, None)
    assert "looks at gradients" in widget._fault
    widget._on_message(None, {"kind": "memory"}, None)
    assert widget._memory["total"] == 0
    assert widget.state["note"].startswith("Static graph of torch.")
    assert widget.state["runs"] == 0


def test_it_is_saved_and_opened_again(program, widget, tmp_path):
    opened = load(save(program, tmp_path / "program.gw.json.gz"))
    assert opened.model == widget.model
    assert (opened.state, opened.transport) == (widget.state, widget.transport)
    assert (opened.direction, opened.constants) == ("up", True)
    ours, theirs = opened.to_networkx(), widget.to_networkx()
    assert json.loads(json.dumps([*ours.nodes(data=True)])) == json.loads(
        json.dumps([*theirs.nodes(data=True)])
    )
    by_place = lambda edge: edge[:3]  # noqa: E731
    assert sorted(ours.edges(keys=True, data=True), key=by_place) == sorted(
        theirs.edges(keys=True, data=True), key=by_place
    )
    for node in range(len(widget.model["nodes"])):
        widget.selected = opened.selected = node
        assert opened.details == json.loads(json.dumps(widget.details))
    with pytest.raises(RuntimeError, match="has no backward"):
        opened.step()
    with pytest.raises(ValueError, match="looks at gradients"):
        diagnose(opened)
    assert str(opened) == str(widget)


def test_text_and_files_say_that_it_is_static(program, widget):
    assert repr(widget).startswith("GraphWidget(static graph: ")
    text = str(widget)
    for name in capture(program).nodes:
        assert re.search(rf"\b{name} ", text)  # also what no output needs
    assert "no grad" not in text
    html = widget.to_html()
    assert "<title>Static graph of" in html
    assert "<a" not in html.split("<script")[0]
    data = json.loads(widget.to_json())
    graph = nx.node_link_graph(data, edges="edges")
    assert len(graph) == len(widget.model["nodes"])
    assert "dir=back" in widget.to_dot()


def test_the_picture_says_so_too(widget):
    svg = widget.to_svg()
    assert "<title>Static graph of" in svg
    assert "requires grad" not in svg
    assert "radient" not in re.sub(r"<style>.*</style>", "", svg, flags=re.DOTALL).replace(
        "holds no gradients", ""
    ).replace("gw-gradients", "")


def test_data_flows_down_unless_told_otherwise():
    program = symbolic_trace(LeNet())
    assert GraphWidget(program).direction == "up"  # the way gradients would flow
    assert GraphWidget(program, direction="right").direction == "right"
    assert GraphWidget(torch.ones(1, requires_grad=True) * 2).direction == "auto"
    with pytest.raises(ValueError, match="direction was given 'north'"):
        GraphWidget(program, direction="north")


def test_constants_are_shown_in_small_graphs():
    program = export(Normed(), (torch.randn(4, 3),))
    assert GraphWidget(program).constants is True
    assert GraphWidget(program, constants=False).constants is False
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    for _ in range(300):
        node = graph.call_function(torch.sin, (node,))
    graph.output(node)
    assert GraphWidget(torch.fx.GraphModule(nn.Module(), graph)).constants is False


def test_what_cannot_be_drawn_together_is_refused():
    program = symbolic_trace(LeNet())
    loss = torch.ones(1, requires_grad=True) * 2
    with pytest.raises(TypeError, match=r"2 values, and 1 static graph is among them.*compare"):
        GraphWidget(program, loss)
    with pytest.raises(TypeError, match="2 static graphs are among them"):
        GraphWidget(program, program)
    with pytest.raises(TypeError, match=r"which has names of its own\. Leave them out"):
        GraphWidget(program, names={"x": loss})
    with pytest.raises(TypeError, match=r"as \[0\], a LeNet|a static graph, which is no autograd"):
        GraphWidget([program])  # type: ignore[list-item]


def test_who_needs_an_autograd_graph_says_where_static_ones_go():
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises(TypeError, match=r"an ExportedProgram, a static graph.*capture\(program\)"):
        gradwalk.record(program)
    with pytest.raises(ValueError, match=r"looks at gradients. A static graph is"):
        gradwalk.diagnose(program)


def test_looking_changes_nothing(program):
    before, state = str(program.graph), torch.get_rng_state()
    widget = GraphWidget(program)
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
    widget.to_html()
    widget.close()
    assert str(program.graph) == before
    assert torch.equal(torch.get_rng_state(), state)


def test_closed_it_shows_nothing():
    widget = GraphWidget(symbolic_trace(LeNet()))
    widget.close()
    with pytest.raises(ValueError, match="closed"):
        widget.to_networkx()
    assert "closed" in repr(widget)


CALLS = [torch.sin, torch.add, torch.mul]


@given(
    st.lists(st.tuples(st.sampled_from(CALLS), st.integers(0, 9), st.integers(0, 9)), max_size=12)
)
@settings(max_examples=30, deadline=None)
def test_any_graph_is_drawn_saved_and_opened(tmp_path_factory, steps):
    graph = torch.fx.Graph()
    known = [graph.placeholder("x"), graph.placeholder("y")]
    for call, a, b in steps:
        args = (known[a % len(known)], known[b % len(known)] if b % 3 else 2)
        known.append(graph.call_function(call, args[:1] if call is torch.sin else args))
    graph.output(tuple(known[-2:]))
    program = torch.fx.GraphModule(nn.Module(), graph)
    widget = GraphWidget(program)
    captured = capture(program)
    path = tmp_path_factory.mktemp("saved") / "program.gw.json.gz"
    opened = load(save(widget, path))
    assert opened.model == widget.model
    assert [*widget.to_networkx().nodes(data=True)] == [*captured.nodes(data=True)]
    for node in range(len(captured)):
        widget.selected = node
        names = [each["node"] for each in widget.details["inputs"]]
        assert {*names} & {*captured} == {*captured.successors(node)}
    widget.close()
    opened.close()
