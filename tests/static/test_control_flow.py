"""Control flow of programs written down: its graphs are drawn, tied to what they take and give."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import export
from torch.fx import Graph, GraphModule

from gradwalk import GraphWidget, capture, compare, load, save
from gradwalk.static import control_flow
from gradwalk.static.capture_static import capture_static

pytestmark = pytest.mark.one_python


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(
            x.sum() > 0, lambda x: self.linear(x).sin(), lambda x: x.cos() + 1, (x * 2,)
        )


class Branches(nn.Module):
    """One in the other, with several outputs, one of which is handed on as it came."""

    def forward(self, x, y):
        def inner(x, y):
            return torch.cond(y.sum() > 0, lambda x, y: x * y, lambda x, y: x - y, (x, y)) + 1

        one, other = torch.cond(
            x.sum() > 0,
            lambda x, y: (inner(x, y), y.clone()),
            lambda x, y: (x.exp(), x + y),
            (x.sin(), y),
        )
        again = torch.cond(x.sum() > 1, lambda x: x + 1, lambda x: x - 1, (one,))
        return again * other


class Loop(nn.Module):
    def forward(self, i, x):
        return while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, x * i), (i * 1, x))


class Rows(nn.Module):
    def forward(self, x, y):
        return mapped(
            lambda x, y: torch.cond(x.sum() > 0, torch.mul, torch.sub, (x, y)) + y, x, y * 2
        )


class WithoutGrad(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x.sin() * 2
        return y + x


PROGRAMS = {
    "branch, true": (Branch, (torch.ones(2, 3),)),
    "branch, false": (Branch, (-torch.ones(2, 3),)),
    "branches, true": (Branches, (torch.ones(3), torch.ones(3))),
    "branches, then false": (Branches, (torch.ones(3), -torch.ones(3))),
    "branches, false": (Branches, (-torch.ones(3), torch.ones(3))),
    "loop of one turn": (Loop, (torch.tensor(4), torch.rand(2))),
    "one row": (Rows, (torch.rand(1, 3), torch.rand(3))),
    "without grad": (WithoutGrad, (torch.rand(3),)),
}


def exported(name):
    torch.manual_seed(0)
    module, inputs = PROGRAMS[name]
    return export(module(), inputs), inputs


def taken_branch(came):
    (predicate, *both), half = came, len(came) // 2
    return both[:half] if predicate else both[half:]


def one_turn(came):
    condition, *body = came
    assert condition
    return body


RUNS = {
    "cond": taken_branch,
    "while_loop": one_turn,
    "map_impl": lambda came: [each.unsqueeze(0) for each in came],
    "wrap_with_set_grad_enabled": lambda came: came,
}


def call(node, came):
    """The result of a call for the values at its edges."""
    if node.target is operator.getitem:
        return came[0][node.args[1]]
    taken = iter(came)
    plain = [next(taken) if isinstance(each, torch.fx.Node) else each for each in node.args]
    return node.target(*plain, **node.kwargs)


def run_as_drawn(program, inputs):
    """The results of the drawn graph, each node run on the values at its edges."""
    captured = capture_static(program)
    graph, nodes = captured.graph, captured.fx_nodes
    is_rows = any(op == "map_impl" for _, op in graph.nodes(data="op"))
    given = iter([each[0] if is_rows and each.dim() == 2 else each for each in inputs])
    values = {}
    for i in sorted(graph, key=lambda i: graph.nodes[i]["sequence_nr"]):
        op = graph.nodes[i]["op"]
        edges = sorted(graph.out_edges(i, data=True), key=lambda each: each[2]["arg_nr"])
        came = [values[target] for _, target, _ in edges]
        if op == "parameter":
            values[i] = program.state_dict[graph.nodes[i]["name"]]
        elif op == "placeholder":
            values[i] = next(given)
        else:
            values[i] = RUNS[op](came) if op in RUNS else call(nodes[i], came)
    return [values[root] for root, _ in graph.graph["roots"]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_drawn_graph_gives_what_the_program_gives(name):
    program, inputs = exported(name)
    expected = program.module()(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    for one, other in zip(run_as_drawn(program, inputs), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call_of_every_graph_is_there_once_in_its_box(name):
    program, _ = exported(name)
    graph = capture(program)

    def calls(module):
        for node in module.graph.nodes:
            if node.op == "call_function":
                yield getattr(node.target, "__name__", str(node.target)).removesuffix("_impl")
            elif node.op == "get_attr":
                held = operator.attrgetter(node.target)(module)
                if isinstance(held, GraphModule):
                    yield from calls(held)

    found = [data["op"] for _, data in graph.nodes(data=True) if data["kind"] == "op"]
    expected = sorted(calls(program.graph_module))
    assert sorted(each.removeprefix("aten.").removesuffix("_impl") for each in found) == expected
    assert not any(op == "subgraph" for _, op in graph.nodes(data="op"))
    places = [data["sequence_nr"] for _, data in graph.nodes(data=True)]
    assert sorted(places) == [*range(len(graph))]
    for source, target in graph.edges():  # what is taken ran before
        assert graph.nodes[target]["sequence_nr"] < graph.nodes[source]["sequence_nr"]


def test_boxes_stand_in_each_other_and_are_told_apart():
    graph = capture(exported("branches, true")[0])
    boxes = {data["namespace"] for _, data in graph.nodes(data=True)} - {None, ""}
    outer = "torch.cond: if true"
    assert boxes == {
        outer,
        "torch.cond: if false",
        f"{outer}/torch.cond 2: if true",
        f"{outer}/torch.cond 2: if false",
        "torch.cond 3: if true",
        "torch.cond 3: if false",
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_part_of_the_widget_works(name, tmp_path):
    program, _ = exported(name)
    before = str(program.graph)
    widget = GraphWidget(program)
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget.details["failed"] == []
        assert "unknown" not in widget.details["about"]
    runs = [n["id"] for n in widget.model["nodes"] if n["op"] in ("cond", "while_loop", "map_impl")]
    for widget.selected in runs:
        assert "Runs " in widget.details["about"]
    save(widget, tmp_path / "flow.gw")
    assert load(tmp_path / "flow.gw").model == widget.model
    assert "torch." in widget.to_svg()
    assert str(program.graph) == before
    compare({"one": program, "other": exported(name)[0]}).close()


def body_of(calls, *, inner=None):
    """A graph of so many calls on its one input; with another one that a branch within it runs."""
    graph = Graph()
    node = graph.placeholder("x")
    for _ in range(calls):
        node = graph.call_function(torch.ops.aten.sin.default, (node,))
    root = nn.Module()
    if inner is not None:
        root.inner = inner
        held = graph.get_attr("inner")
        cond = graph.call_function(torch.ops.higher_order.cond, (node, held, held, (node,)))
        node = graph.call_function(operator.getitem, (cond, 0))
    graph.output((node,))
    return GraphModule(root, graph)


@pytest.mark.parametrize("calls", [1, 1_000])
def test_a_graph_that_runs_in_several_places_is_drawn_in_each(calls):
    graph = capture(body_of(2, inner=body_of(calls)))
    ops = [op for _, op in graph.nodes(data="op")]
    assert ops.count("aten.sin.default") == 2 + 2 * calls


@pytest.mark.parametrize("depth", [1, 10, 15, pytest.param(100, marks=pytest.mark.full)])
def test_what_would_grow_without_end_stays_closed(depth):
    body = body_of(1)
    for _ in range(depth):
        body = body_of(1, inner=body)
    graph = capture(body)
    closed = [op for _, op in graph.nodes(data="op") if op == "subgraph"]
    assert len(graph) < 2 * control_flow.MOST_ENTERED
    assert bool(closed) == (depth > 10)


def test_what_does_not_tell_what_its_graphs_take_stays_closed():
    graph = Graph()
    x = graph.placeholder("x")
    root = nn.Module()
    root.inner = body_of(1)
    held = graph.get_attr("inner")
    cond = graph.call_function(torch.ops.higher_order.cond, (x, held, held, (x, x)))
    graph.output((graph.call_function(operator.getitem, (cond, 0)),))
    program = GraphModule(root, graph)
    assert [op for _, op in capture(program).nodes(data="op")].count("subgraph") == 1
    widget = GraphWidget(program)
    (widget.selected,) = (n["id"] for n in widget.model["nodes"] if n["op"] == "subgraph")
    assert "It calls aten.sin.default." in widget.details["about"]


def test_each_step_of_a_scan_is_entered():
    class Scanned(torch.nn.Module):
        def forward(self, x):
            return scan(lambda carry, x: (carry + x, carry * x), torch.zeros(3), x)

    graph = capture(torch.export.export(Scanned(), (torch.randn(4, 3),)))
    boxes = {data["namespace"] for _, data in graph.nodes(data=True)}
    assert "torch.scan: step" in boxes
