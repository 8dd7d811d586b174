"""What `watch` saw, as nodes and attributes of the captured graph."""

from __future__ import annotations

import contextlib
import gc
import inspect
import weakref

import hypothesis.strategies as st
import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from programs import PROGRAMS, outputs_of
from torch import nn
from torch.nn import functional as F

from gradwalk import GraphWidget, capture, load, save, watch
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.labels import label
from gradwalk.graph.names import Names, names_among, read_names
from gradwalk.graph.outputs import read_outputs
from gradwalk.tracing.annotate import annotate
from gradwalk.tracing.source_line import shown_file

ATTRIBUTES = {"source", "namespace", "call", "inplace"}


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def kinds(graph):
    return sorted(kind for _, kind in graph.nodes(data="kind"))


def only(graph, kind):
    (node,) = [node for node, of in graph.nodes(data="kind") if of == kind]
    return node


def named(graph, name):
    (node,) = [node for node, of in graph.nodes(data="name") if of == name]
    return node


def here(offset=0):
    """The caller's line, as the annotations write it."""
    frame = inspect.currentframe().f_back
    return f"{shown_file(frame.f_code.co_filename)}:{frame.f_lineno + offset}"


def inferred(loss, **names):
    """The graph with all that can be inferred without having watched."""
    outputs = read_outputs((loss,), "test")
    called = names_among(names)
    return annotate(capture_nodes(outputs, called), called, infer=True).drawn


def test_a_plain_capture_has_nothing_of_it():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        other = w * x.detach()
    graph = capture(w * x.detach() + 1)
    assert kinds(graph) == ["leaf", "op", "op"]
    assert not any(ATTRIBUTES & set(data) for _, data in graph.nodes(data=True))
    assert not any("kind" in data for *_, data in graph.edges(data=True))
    assert "cut" in kinds(capture(other))


def test_a_constant_feeds_its_operation():
    w, c = leaf(2.0), torch.tensor([3.0])
    with watch():
        h = w * c
        line = here(-1)
    graph = capture(h, names={"w": w, "c": c})
    constant = only(graph, "constant")
    assert constant == 2, "after the autograd nodes"
    data = graph.nodes[constant]
    assert (data["name"], data["shape"], data["dtype"], data["value"]) == (
        "c",
        (1,),
        "torch.float32",
        "[3]",
    )
    assert graph.edges[0, constant, 0] == {
        "arg_nr": 1,
        "argument": "other",
        "output_nr": 0,
        "kind": "constant",
    }
    assert graph.nodes[0]["source"] == line
    assert graph.nodes[0]["call"] == "mul"
    assert graph.edges[0, 1, 0]["kind"] == "gradient"
    assert h.grad_fn.next_functions[1][0] is None  # torch's own word for it


@pytest.mark.parametrize(
    ("how", "take", "op"),
    [
        ("detach", lambda x: x.detach(), "x.detach()"),
        ("data", lambda x: x.data, "x.data"),
        ("copy", lambda x: torch.tensor(x), "a copy of x"),  # noqa: PLW0108
        ("numpy", lambda x: torch.from_numpy(x.detach().numpy()), "from x.detach()"),
        ("integer cast", lambda x: x.long(), "whole numbers from x"),
        ("integer cast", lambda x: x.bool(), "true/false from x"),
        ("integer cast", lambda x: x.long() / 2, "from whole numbers of x"),
        ("integer result", lambda x: x.argmax(), "whole numbers from x"),
        ("integer result", lambda x: x.argmax() == 0, "true/false from x"),
        ("integer result", lambda x: (x > 0).float(), "from whole numbers of x"),
    ],
)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_cut_leads_to_its_source(how, take, op):
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        h = w * take(x) + x
    graph = capture(h, names={"w": w, "x": x})
    cut = only(graph, "cut")
    (edge,) = graph.out_edges(cut, data=True)
    assert edge[1] == named(graph, "x"), "x is in this graph"
    assert edge[2]["kind"] == "cut"
    assert graph.nodes[cut]["op"] == op
    if how != "numpy":
        assert graph.nodes[cut]["how"] == edge[2]["how"] == how
    (taker,) = graph.predecessors(cut)
    assert graph.nodes[taker]["op"] == "MulBackward0"
    assert nx.is_directed_acyclic_graph(graph)


def test_a_number_that_was_read_out_of_a_tensor_is_a_cut():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        h = w * x.item()
    graph = capture(h, names={"w": w, "x": x})
    cut = only(graph, "cut")
    assert (graph.nodes[cut]["how"], graph.nodes[cut]["value"]) == ("item", "3")
    assert graph.nodes[cut]["op"] == "x.item()"


def test_the_source_stands_outside_when_it_is_in_another_graph():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        source = x * 2
        h = w * source.detach()
    graph = capture(h, names={"w": w, "x": x, "source": source})
    outside = graph.nodes[only(graph, "outside")]
    assert (outside["op"], outside["requires_grad"]) == ("MulBackward0", True)
    assert (outside["name"], outside["shape"]) == ("source", tuple(source.shape))
    assert list(graph.successors(only(graph, "cut"))) == [only(graph, "outside")]


def test_the_source_may_be_gone():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        h = w * (x * 2).detach()
    graph = capture(h, names={"w": w})
    assert graph.nodes[only(graph, "outside")]["op"] == "gone"
    assert graph.nodes[only(graph, "outside")]["made_by"] == "×"


def test_a_source_without_a_name_is_called_by_what_made_it():
    w, x = torch.tensor([1.0, 2.0], requires_grad=True), leaf(3.0)
    with watch():
        h = (w - w.max().detach()) * (x * w).detach().sum() * (w + 1).max().item()
    widget = GraphWidget(h.sum(), names={"w": w, "x": x})
    nodes = [each for each in widget.model["nodes"] if each["kind"] == "outside"]
    found = {each["label"]: each["value"] for each in nodes}
    assert found == {"max(w)": 2.0, "result of ×": [3.0, 6.0], "result of max": 3.0}
    sentences = []
    for node in (each["id"] for each in widget.model["nodes"] if each["kind"] == "cut"):
        widget.selected = node
        sentences.append(widget.details["about"])
    assert sum("took the values of max(w) without" in each for each in sentences) == 1
    assert sum("took the values of the result of × without" in each for each in sentences) == 1
    (largest,) = [each["id"] for each in nodes if each["label"] == "max(w)"]
    widget.selected = largest
    value = widget.details["value"]
    assert (value["values"], value["dtype"]) == (2.0, "torch.float32")
    assert value["origin"] == "Copied by watch() when the operation ran."


def test_what_was_computed_after_a_cut_says_so():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        h = w * (x.detach() * 2)
        with torch.no_grad():
            y = x * 3
        k = w * y
    for output, words in ((h, "from x.detach()"), (k, "from x under no_grad")):
        graph = capture(output, names={"w": w, "x": x})
        assert graph.nodes[only(graph, "cut")]["op"] == words


def test_a_mask_is_called_true_or_false():
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    with watch():
        h = torch.where(x > 0, x, x * 2)
    graph = capture(h, names={"x": x})
    assert graph.nodes[only(graph, "cut")]["op"] == "true/false from x"


def test_several_cuts_of_one_operand_are_one_node_with_a_line_to_each_source():
    a, b, w = leaf(1.0), leaf(2.0), leaf(3.0)
    with watch():
        h = w * (a.detach() * b.detach()) + a + b
    graph = capture(h, names={"a": a, "b": b, "w": w})
    targets = {graph.nodes[node]["name"] for node in graph.successors(only(graph, "cut"))}
    assert targets == {"a", "b"}


def test_the_labels_of_a_loaded_graph_are_those_of_the_saved_one(tmp_path):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with watch():
        h = (w * w.max().detach()).sum()
    save(h, tmp_path / "graph.json", names={"w": w})
    with contextlib.closing(load(tmp_path / "graph.json")) as widget:
        graph = widget.to_networkx()
        assert label(graph.nodes[only(graph, "outside")]) == "max(w)"


def test_a_constant_without_a_name_is_called_by_the_argument_that_it_is_taken_as():
    def labels(output: torch.Tensor) -> set[str]:
        with contextlib.closing(GraphWidget(output, names={})) as widget:
            return {each["label"] for each in widget.model["nodes"] if each["kind"] == "constant"}

    x, c = torch.ones(2, requires_grad=True), torch.ones(2)
    entropy = F.binary_cross_entropy_with_logits
    for block in (contextlib.nullcontext, watch):
        with block():
            losses = entropy(x, c), entropy(x, c) + (x * c).sum(), (x * torch.ones(20, 2)).sum()
        assert [labels(loss) for loss in losses] == [{"target"}, {"[1, 1]"}, {"constant"}]
        # torch.lstm has two signatures with other arguments in second place.
        with block():
            state = nn.LSTM(2, 20)(torch.ones(4, 1, 2))[0].sum()
        assert labels(state) <= {"constant", "input", "hx", "cx"}


def test_one_tensor_is_one_node_however_often_it_is_used():
    w, c = leaf(2.0), torch.tensor([3.0])
    with watch():
        h = (w * c) * c + c.exp() * c.exp() * w
    graph = capture(h, names={"c": c})
    assert graph.in_degree(named(graph, "c")) == 2


def test_a_constant_of_a_call_that_made_several_nodes_stands_at_the_one_that_takes_it():
    layer = nn.Linear(2, 3)
    x = torch.ones(4, 2)
    with watch():
        h = layer(x)
    graph = capture(h, names={"layer": layer, "x": x})
    (taker,) = graph.predecessors(only(graph, "constant"))
    assert graph.nodes[taker]["op"] == "AddmmBackward0"
    (edge,) = graph.in_edges(only(graph, "constant"), data=True)
    assert edge[2]["arg_nr"] == 1  # mat1
    assert h.grad_fn.next_functions[1][0] is None


def test_modules_are_paths_with_slashes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

        def forward(self, x):
            return self.body(x).sum()

    with watch():
        h = Net()(torch.ones(1, 2)) * 2
    graph = capture(h)
    found = {data["op"]: data["namespace"] for _, data in graph.nodes(data=True)}
    assert found["TanhBackward0"] == "body/1"
    assert found["AddmmBackward0"] == "body/0"
    assert found["SumBackward0"] == ""
    assert found["MulBackward0"] is None
    assert found["AccumulateGrad"] is None


def test_what_works_in_place_says_so():
    x = leaf(1.0)
    with watch():
        h = (x * 2).relu_()
    graph = capture(h)
    found = {data["op"]: data["inplace"] for _, data in graph.nodes(data=True)}
    assert found.pop("constant") is False  # the 2
    assert found == {"ReluBackward0": True, "MulBackward0": False, "AccumulateGrad": False}


def test_a_source_that_was_changed_in_place_makes_no_cycle():
    w = leaf(1.0)
    with watch():
        y = w * 2
        y.mul_(y.detach())
    graph = capture(y, names={"w": w})
    assert nx.is_directed_acyclic_graph(graph)
    assert kinds(graph).count("cut") == 1


def test_only_nodes_of_the_watched_part_are_annotated():
    w, c = leaf(2.0), torch.tensor([3.0])
    before = w * c
    with watch():
        h = before.exp()
    graph = capture(h * c)
    seen = {data["op"]: data["source"] is not None for _, data in graph.nodes(data=True)}
    assert seen == {"MulBackward0": False, "ExpBackward0": True, "AccumulateGrad": False}
    assert "constant" not in kinds(graph), "capture infers nothing"


def test_without_watching_saved_constants_are_inferred():
    w, c = leaf(2.0), torch.tensor([3.0])
    graph = inferred(w * c, w=w, c=c)
    data = graph.nodes[only(graph, "constant")]
    assert (data["name"], data["inferred"], data["source"]) == ("c", True, None)
    (edge,) = graph.in_edges(only(graph, "constant"), data=True)
    assert edge[2]["arg_nr"] == 1


@pytest.mark.parametrize("in_graph", [True, False])
def test_without_watching_a_detached_alias_is_inferred(in_graph):
    w, x = leaf(2.0), leaf(3.0)
    h = w * x.detach()
    if in_graph:
        h = h + x
    graph = inferred(h, w=w, x=x)
    cut = graph.nodes[only(graph, "cut")]
    assert (cut["inferred"], cut["how"]) == (True, "alias")
    (source,) = graph.successors(only(graph, "cut"))
    assert graph.nodes[source]["name"] == "x"
    assert graph.nodes[source]["kind"] == ("leaf" if in_graph else "outside")


def test_without_watching_a_detached_intermediate_is_inferred():
    w, x = leaf(2.0), leaf(3.0)
    fake = x * 2
    graph = inferred(w * fake.detach(), w=w, fake=fake)
    assert graph.nodes[only(graph, "cut")]["op"] == "detached fake"
    outside = graph.nodes[only(graph, "outside")]
    assert (outside["name"], outside["op"]) == ("fake", "MulBackward0")


def test_what_a_function_returns_unchanged_is_no_source_of_its_input():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return None, grad

    w, c = leaf(2.0), torch.tensor([3.0])
    same = Same.apply(c, w)
    assert same.data_ptr() == c.data_ptr()
    graph = inferred(w * c, w=w, c=c, same=same)
    assert "cut" not in kinds(graph)


def test_equal_numbers_in_other_memory_are_no_alias():
    w, x = leaf(2.0), leaf(3.0)
    graph = inferred(w * x.detach().clone() + x, w=w, x=x)
    assert "cut" not in kinds(graph)


def test_nothing_that_needs_grad_or_is_a_result_is_inferred():
    w, x = leaf(2.0), leaf(3.0)
    assert "constant" not in kinds(inferred((w * x).relu().max()))


def test_what_was_watched_is_not_inferred_again():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        h = w * x.detach()
    graph = inferred(h, w=w, x=x)
    assert kinds(graph) == ["cut", "leaf", "op", "outside"]
    assert not graph.nodes[only(graph, "cut")]["inferred"]


def test_the_weight_of_a_frozen_layer_is_one_constant_though_its_transpose_is_saved():
    first, frozen = nn.Linear(2, 2), nn.Linear(2, 1).requires_grad_(False)
    with watch():
        out = frozen(first(torch.ones(3, 2)))
    graph = inferred(out, first=first, frozen=frozen)
    names = {
        graph.nodes[to]["name"] for _, to, kind in graph.edges(0, "kind") if kind == "constant"
    }
    assert names == {"frozen.weight", "frozen.bias"}


def test_nothing_is_inferred_from_what_was_freed():
    w, c = leaf(2.0), torch.tensor([3.0])
    h = w * c
    h.backward()
    assert kinds(inferred(h)) == ["leaf", "op"]


def test_annotations_keep_no_tensor_alive():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        source = x * 2
        h = w + source.detach()
    graph = capture(h)
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None
    assert "outside" in kinds(graph)


def test_the_widget_draws_them_and_tells_about_them():
    w, x, b = leaf(2.0), leaf(3.0), leaf(1.0)
    with watch():
        h = w * x.detach() + b
        line = here(-1)
    widget = GraphWidget(h, names={"h": h, "w": w, "x": x, "b": b})
    assert widget.constants is True
    found = {node["kind"]: node["id"] for node in widget.model["nodes"]}
    assert min(found["cut"], found["outside"]) == 4
    widget.selected = found["cut"]
    details = widget.details
    assert details["value"]["values"] == x.tolist()
    (cut,) = details["cuts"]
    assert (cut["how"], cut["node"], cut["label"]) == ("detach", found["outside"], "x")
    assert f"{cut['line']['file']}:{cut['line']['line']}" == line
    assert cut["line"]["text"] == "h = w * x.detach() + b"
    assert "detach() took the values of x" in details["about"]
    widget.selected = 1  # the product
    assert widget.details["source"]["text"] == "h = w * x.detach() + b"
    assert [each["node"] for each in widget.details["constants"]] == [found["cut"]]
    assert widget.details["no_grad_inputs"] == [], "not told twice"
    widget.selected = found["outside"]
    assert widget.details["requires_grad"] is True
    widget.close()


def test_autograd_keeps_its_places_in_the_widget():
    w, x, b = leaf(2.0), leaf(3.0), leaf(1.0)
    with watch():
        h = (w * x.detach() + b) * torch.tensor(2.0) + w
    plain = capture_nodes(read_outputs((h,), "test"), Names()).graph
    widget = GraphWidget(h)
    nodes, edges = widget.model["nodes"], widget.model["edges"]
    assert [n["op"] for n in nodes][: len(plain)] == [op for _, op in plain.nodes(data="op")]
    own = [(e["source"], e["target"], e["arg_nr"]) for e in edges[: plain.number_of_edges()]]
    assert own == list(plain.edges(data="arg_nr"))
    assert all(e["kind"] != "gradient" for e in edges[plain.number_of_edges() :])
    widget.backward()
    assert set(widget.state["reached"]) == set(plain)
    widget.close()


def test_small_graphs_show_constants_and_large_ones_do_not():
    x, c = leaf(1.0), torch.tensor([2.0])
    small, large = x * c, x * c
    for _ in range(300):
        large = large.exp()
    for output, given_, wanted in (
        (small, None, True),
        (large, None, False),
        (small, False, False),
        (large, True, True),
    ):
        widget = GraphWidget(output, constants=given_)
        assert widget.constants is wanted
        assert "constant" in {node["kind"] for node in widget.model["nodes"]}
        widget.close()


def test_constants_must_be_told_by_yes_or_no():
    with pytest.raises(TypeError, match="constants was given 'some'"):
        GraphWidget(leaf(1.0).exp(), constants="some")


def test_to_networkx_is_what_capture_gives():
    w, x, c = leaf(2.0), leaf(3.0), torch.tensor([4.0])
    plain = w * c
    with watch():
        seen = w * x.detach() * c
    for output in (plain, seen, plain + seen):
        widget = GraphWidget(output, names={"w": w})
        graph, wanted = widget.to_networkx(), capture(output, names={"w": w})
        assert dict(graph.nodes(data=True)) == dict(wanted.nodes(data=True))
        assert list(graph.edges(data=True, keys=True)) == list(wanted.edges(data=True, keys=True))
        assert graph.graph == wanted.graph
        widget.close()


def test_names_of_buffers_and_frozen_parameters():
    layer = nn.BatchNorm1d(2)
    layer.weight.requires_grad_(False)
    x = torch.ones(3, 2, requires_grad=True)
    with watch():
        h = layer(x).sum()
    graph = capture(h, names=read_model(layer))
    names = {data["name"] for _, data in graph.nodes(data=True) if data["kind"] == "constant"}
    assert {"layer.weight", "layer.running_mean", "layer.running_var"} <= names


def read_model(layer):
    assert read_names({"layer": layer}, "test").name_of(layer.running_mean) == "layer.running_mean"
    return {"layer": layer}


OPERATIONS = ("mul", "detach", "frozen", "no_grad", "in place", "number")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9)), max_size=14))
def test_any_program_gives_an_acyclic_graph_whose_start_is_the_plain_one(program):
    tensors = [leaf(1.5), leaf(0.5)]
    with watch():
        for operation, number in program:
            x, y = tensors[number % len(tensors)], tensors[-1]
            if operation == "no_grad":
                with torch.no_grad():
                    z = x * y
            elif operation == "in place":
                z = (x * 2).mul_(y)
            else:
                z = {
                    "mul": lambda: x * y,  # noqa: B023
                    "detach": x.detach,
                    "frozen": lambda: x * torch.tensor([2.0]),  # noqa: B023
                    "number": lambda: y * x.item(),  # noqa: B023
                }[operation]()
            tensors.append(z)
        h = sum(t for t in tensors if t.requires_grad)
    graph = capture(h)
    plain = capture_nodes(read_outputs((h,), "test"), Names()).graph
    assert nx.is_directed_acyclic_graph(graph)
    for node, data in plain.nodes(data=True):
        assert data.items() <= graph.nodes[node].items()
    gradient = [
        (a, b, e["arg_nr"]) for a, b, e in graph.edges(data=True) if e["kind"] == "gradient"
    ]
    assert gradient == list(plain.edges(data="arg_nr"))
    for node in list(graph)[len(plain) :]:
        data = graph.nodes[node]
        assert data["kind"] in ("constant", "cut", "outside")
        edges = [edge for *_, edge in graph.out_edges(node, data=True)]
        assert all(edge["kind"] == "cut" for edge in edges)
        assert bool(edges) == (data["kind"] == "cut")
        inputs = [
            (a, e["arg_nr"])
            for a, _, e in graph.in_edges(node, data=True)
            if e["kind"] == "constant"
        ]
        for taker, arg_nr in inputs:
            # torch agrees that this input needs no grad
            assert arg_nr is None or arg_nr in [
                each["arg_nr"] for each in plain.nodes[taker]["no_grad_inputs"]
            ]


def test_what_comes_from_outside_of_a_module_stands_outside_of_it():
    encoder, decoder = nn.Linear(3, 3), nn.Linear(3, 1)
    x = torch.ones(2, 3, requires_grad=True)
    with watch():
        with torch.no_grad():
            hidden = encoder(torch.ones(2, 3))
        loss = (decoder(hidden) + decoder(x * 1) + decoder((x * 2).detach()) + decoder(x)).sum()
    graph = capture(loss, names={"encoder": encoder, "decoder": decoder, "x": x})
    spaces = {}
    for _, data in graph.nodes(data=True):
        spaces.setdefault((data["kind"], data["name"]), set()).add(data["namespace"])
    assert spaces["leaf", "x"] == {""}
    assert spaces["leaf", "decoder.weight"] == {None}  # with what takes it
    assert {
        space for (kind, _), each in spaces.items() if kind in ("cut", "outside") for space in each
    } == {""}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_drawn_begins_with_a_copy_of_the_graph(name):
    outputs = tuple(outputs_of(name))
    annotated = annotate(
        capture_nodes(read_outputs(outputs, "capture"), Names()), Names(), infer=True
    )
    graph, drawn = annotated.graph, annotated.drawn
    for node, data in graph.nodes(data=True):
        assert {key: drawn.nodes[node][key] for key in data} == data
        assert drawn.nodes[node] is not data
    copies = [edge for edge in drawn.edges(keys=True, data=True) if edge[3]["kind"] == "gradient"]
    plain = list(graph.edges(keys=True, data=True))
    assert [(s, t, k, {**d, "kind": "gradient"}) for s, t, k, d in plain] == copies
    for source, target, key in graph.edges(keys=True):
        edge = drawn.edges[source, target, key]
        assert edge is not graph.edges[source, target, key]
        assert drawn.pred[target][source][key] is edge


class OldStyle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, one, two, three):
        return one * two * three

    @staticmethod
    def backward(ctx, grad):
        return grad, grad, grad


class NewStyle(OldStyle):
    @staticmethod
    def forward(one, two, three):  # type: ignore[override]
        return one * two * three

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


@pytest.mark.parametrize("function", [OldStyle, NewStyle])
@pytest.mark.parametrize("ways", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 1, 0), (2, 1, 2)])
def test_arguments_of_a_function_have_their_names(function, ways):
    b = torch.randn((), requires_grad=True)
    given = [(b.detach(), b, torch.ones(()))[way] for way in ways]
    with watch():
        out = function.apply(*given)
    widget = GraphWidget(out)
    edges = [(e["arg_nr"], e["argument"]) for e in widget.model["edges"] if e["source"] == 0]
    names = dict(enumerate(("one", "two", "three")))
    assert sorted(edges) == [(nr, names[nr]) for nr in sorted(nr for nr, _ in edges)]
    assert {name for _, name in edges} == {"one", "two", "three"}
    widget.close()
