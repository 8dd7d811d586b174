"""Opened compiled nodes in the widget: what they look like, and the numbers inside."""

from __future__ import annotations

import copy
import json
import operator

import pytest
import torch
from compiled_zoo import ZOO, compiled_loss
from test_html import held
from torch._dynamo.utils import counters
from torch.fx import Interpreter

from gradwalk import GraphWidget, capture, compare_numerics, load, record, save
from gradwalk.schema.columns import decode
from gradwalk.torch_api.compiled import compiled_backward, program_arguments

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.usefixtures("compiles_anew"),
    # Dynamo asks whether an intermediate tensor has a .grad, after a graph break.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    # Inductor's own.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]

QUICK = ("mlp", "graph break", "dropout")
EVERY = [
    *QUICK,
    *(pytest.param(name, marks=pytest.mark.full) for name in ZOO if name not in QUICK),
]


def opened(loss):
    widget = GraphWidget(loss)
    for node in widget._openable:
        widget.expand(node)
    return widget


def calls_of(widget):
    return [node for node in widget.model["nodes"] if node["kind"] == "call"]


class Noting(Interpreter):
    """Torch's own interpreter, which keeps what every node gave."""

    def __init__(self, module):
        super().__init__(module, garbage_collect_values=False)
        self.noted = {}

    def run_node(self, n):
        self.noted[n] = super().run_node(n)
        return self.noted[n]


@pytest.mark.parametrize("name", EVERY)
def test_inside_is_bit_for_bit_what_flowed_outside(name):
    widget = opened(compiled_loss(name, "aot_eager"))
    widget.backward()
    live = widget._open()
    run = live.recording.run
    for i in widget._openable:
        node, step = live.captured.nodes[i], run.steps[i]
        backward = compiled_backward(node)
        noting = Noting(backward.module)  # whose graph is that of the program
        with torch.no_grad():
            arrived = [None if kept is None else kept.tensor for kept in step.grad_outputs]
            noting.run(*program_arguments(node, backward, arrived))
        numbers = live._opening.numbers(i, live.recording)
        assert "exactly" in numbers.note
        for call, parts in numbers.given.items():
            value = noting.noted[call.origin]
            there = value if isinstance(value, (tuple, list)) else [value]
            for kept, tensor in zip(parts, there, strict=True):
                assert (kept is None) == (tensor is None)
                assert kept is None or torch.equal(kept.tensor, tensor)
        for nr, end in backward.gradients.items():
            assert torch.equal(step.grad_inputs[nr].tensor, noting.noted[end])


@pytest.mark.parametrize("name", EVERY)
def test_every_arrow_inside_has_its_gradient(name):
    widget = opened(compiled_loss(name, "aot_eager"))
    widget.backward()
    live = widget._open()
    edges, run = widget.model["edges"], widget.run
    norms = dict(zip(run["edges"], run["norms"], strict=True))
    kinds = [node["kind"] for node in widget.model["nodes"]]
    inside = [
        place
        for place, edge in enumerate(edges)
        if edge["kind"] == "gradient" and kinds[edge["target"]] == "call"
    ]
    assert inside
    for place in inside:
        edge = edges[place]
        source = live._opening.places.get(edge["source"])
        if source is None:  # the compiled node itself: what arrived at it
            tensor = live.recording.run.steps[edge["source"]].grad_outputs[edge["arg_nr"]].tensor
        else:
            tensor = live._opening.given(source, live.recording, edge["arg_nr"]).tensor
        assert float(norms[place]) == pytest.approx(float(tensor.norm()), rel=1e-5, abs=1e-30)
    for edge in edges:  # what leaves is what the engine saw
        if edge["via"] is not None:
            assert kinds[edge["via"]] == "call"
            assert edges.index(edge) in norms


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("mlp", "aot_eager"),
        ("dropout", "aot_eager"),
        ("in place", "aot_eager"),
        pytest.param("mlp", "inductor", marks=pytest.mark.full),
        pytest.param("transformer", "inductor", marks=pytest.mark.full),
    ],
)
@pytest.mark.usefixtures("own_cache")
def test_looking_changes_nothing(name, backend):
    loss = compiled_loss(name, backend)
    widget = GraphWidget(loss)
    widget.backward()
    leaves = [widget._open().leaf(node["id"]) for node in widget.model["nodes"]]
    grads = [None if leaf is None else leaf.grad.clone() for leaf in leaves]
    state = torch.get_rng_state()
    counted = {key: dict(value) for key, value in counters.items()}
    for node in widget._openable:
        widget.expand(node)
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget.details["about"]
    for node in widget._openable:
        widget.collapse(node)
    assert torch.equal(torch.get_rng_state(), state)
    assert {key: dict(value) for key, value in counters.items()} == counted
    for leaf, grad in zip(leaves, grads, strict=True):
        assert (leaf is None and grad is None) or torch.equal(leaf.grad, grad)


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """Torch's caches of compiled graphs, empty; what the C++ compiler gave stays, by its code."""
    for cache in (
        "torch._inductor.codecache.FxGraphCache",
        "torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache",
    ):
        own = str(tmp_path / cache)
        monkeypatch.setattr(f"{cache}._get_tmp_dir", lambda own=own: own)


@pytest.mark.full
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", ["mlp", "resnet", "transformer", "unet", "function"])
def test_inside_of_inductors_code_agrees_with_what_flowed(name):
    loss = compiled_loss(name, "inductor")
    widget = GraphWidget(loss)
    widget.backward()
    for node in widget._openable:  # after backward, when torch has forgotten what it knew of calls
        widget.expand(node)
    live = widget._open()
    calls = calls_of(widget)
    assert all(node["shape"] is not None for node in calls)
    for i in widget._openable:
        inside = live._opening.inside[i]
        assert name == "function" or len(inside.modules) >= 0.95 * len(inside.calls)
        numbers = live._opening.numbers(i, live.recording)
        assert "flowed out" in numbers.note, numbers


@pytest.mark.full
@pytest.mark.usefixtures("own_cache")
@pytest.mark.filterwarnings("ignore:dynamo_pgo force disabled:UserWarning")
def test_code_from_torchs_cache_stays_closed_and_the_advice_opens_it():
    compiled_loss("mlp", "inductor").backward()
    torch._dynamo.reset()
    (closed,) = (
        data["closed"]
        for _, data in capture(compiled_loss("mlp", "inductor"), opened=True).nodes(data=True)
        if "closed" in data
    )
    assert "torch._inductor.config.force_disable_caches = True" in closed
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        assert calls_of(opened(compiled_loss("mlp", "inductor")))


@pytest.mark.full
@pytest.mark.usefixtures("own_cache")
def test_a_call_that_torch_discarded_facts_of_says_so():
    loss = compiled_loss("mlp", "inductor")
    loss.backward(retain_graph=True)
    widget = opened(loss)
    widget.selected = calls_of(widget)[0]["id"]
    assert "torch discarded them after the first backward" in widget.details["about"]


def test_closed_again_it_is_the_same_picture():
    widget = GraphWidget(compiled_loss("graph break", "aot_eager"))
    widget.backward()
    before = copy.deepcopy((widget.model, widget.run, widget.state, widget._dtypes))
    first, second = widget._openable
    widget.expand(first)
    widget.expand(second)
    assert {node["inside"] for node in calls_of(widget)} == {first, second}
    widget.selected = next(node["id"] for node in calls_of(widget) if node["inside"] == second)
    widget.collapse(first)
    assert {node["inside"] for node in calls_of(widget)} == {second}
    assert widget.model["nodes"][widget.selected]["inside"] == second
    assert widget._update["before"][: len(widget._open().graph)] == [
        *range(len(widget._open().graph))
    ]
    widget.collapse(widget.selected)  # something inside of it will do
    assert widget.selected is None
    assert (widget.model, widget.run, widget.state, widget._dtypes) == before


def test_constants_and_cuts_move_along():
    w = torch.ones(3, requires_grad=True)
    scale = torch.tensor([2.0, 3.0, 4.0])
    loss = (torch.compile(lambda x: x.sin().exp(), backend="aot_eager")(w) * scale).sum()
    widget = GraphWidget(loss, names={"scale": scale})

    def shown():
        (found,) = (node for node in widget.model["nodes"] if node["label"] == "scale")
        widget.selected = found["id"]
        return found["value"], widget.details["value"]["values"], widget.details["consumers"]

    before = shown()
    widget.expand(widget._openable[0])
    assert shown() == before
    assert widget.details["id"] == widget.selected


@pytest.mark.parametrize("asked", [-1, 10**6, 0, 1])
def test_what_has_nothing_inside(asked):
    widget = GraphWidget(compiled_loss("mlp", "aot_eager"))
    for method in (widget.expand, widget.collapse):
        with pytest.raises(ValueError, match=r"\.$"):
            method(asked)
    with pytest.raises(ValueError, match="No node is called 'mul'"):
        widget.expand("mul")


def value_note(widget, which=0):
    widget.selected = [node for node in calls_of(widget) if not node["recomputed"]][which]["id"]
    assert widget.details["value"] is None
    return widget.details["value_note"]


def test_without_numbers_there_is_a_sentence():
    loss = compiled_loss("mlp", "aot_eager")
    widget = opened(loss)
    assert "No backward pass" in value_note(widget)
    loss.backward()
    assert "not known" in value_note(widget)
    calls = {node["id"] for node in calls_of(widget)}
    places = [i for i, edge in enumerate(widget.model["edges"]) if edge["target"] in calls]
    # That gradients flowed is known even so.
    flowed = [i for i in places if widget.model["edges"][i]["kind"] == "gradient"]
    assert set(flowed) <= set(widget.run["edges"])
    assert set(flowed) <= set(widget.state["flowed"])


def test_a_program_that_does_more_is_not_run_again():
    class Noise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad + torch.rand_like(grad)

    x = torch.ones(3, requires_grad=True)
    loss = torch.compile(Noise.apply, backend="aot_eager")(x).sum()
    widget = opened(loss)
    widget.backward()
    state = torch.get_rng_state()
    assert "random numbers" in value_note(widget)
    assert torch.equal(torch.get_rng_state(), state)


def test_recorded_passes_are_opened():
    widget = GraphWidget(record(compiled_loss("mlp", "aot_eager")))
    (compiled,) = widget._openable
    widget.expand(compiled)
    (last,) = (node["id"] for node in calls_of(widget)[-1:])
    widget.selected = last
    assert widget.details["value"]["norm"] is not None
    widget.cursor = 0
    assert widget.details["value"] is None
    assert "has not run" in widget.details["value_note"]


def test_files_and_pages_show_what_is_open(tmp_path):
    widget = opened(compiled_loss("mlp", "aot_eager"))
    widget.backward()
    calls = calls_of(widget)
    widget.selected = calls[3]["id"]
    told = widget.details
    save(widget, tmp_path / "open.gw")
    again = load(tmp_path / "open.gw")
    assert again.model == widget.model
    assert again.run == widget.run
    assert again.details == told
    one, other = again.to_networkx(), widget.to_networkx()
    assert dict(one.nodes(data=True)).keys() == dict(other.nodes(data=True)).keys()
    assert sorted(one.edges(keys=True)) == sorted(other.edges(keys=True))
    with pytest.raises(ValueError, match="opened from a file"):
        again.expand(again.model["nodes"][0]["id"])
    assert calls[3]["op"] in widget.to_dot()
    assert calls[3]["op"] in json.dumps(decode(held(widget.to_html())))
    assert "layers" in widget.to_svg()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_closed_node_is_told_without_torchs_internals(when):
    loss = compiled_loss("mlp", "aot_eager")
    widget = GraphWidget(loss)
    if when == "after":
        widget.backward()
    (compiled,) = widget._openable
    calls = len(capture(loss, opened=True)) - len(capture(loss)) - len(saved_inside(loss))
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        told = str(widget.details)
        for internal in ("deduped_flat_tensor_args", "_bwd_fn", "flat_args", "_double_backward"):
            assert internal not in told
    widget.selected = compiled
    details = widget.details
    assert f"{calls} calls" in details["about"]
    assert "before" in details["about"]
    assert widget.model["nodes"][compiled]["sign"] == f"compiled: {calls} calls"
    assert details["formula"] == []
    assert details["forward"] is None
    assert {each["argument"] for each in details["inputs"]} == {None}
    assert "head.weight" not in [each["name"] for each in details["saved"]]
    widget.close()
    named = GraphWidget(loss, names={"x": loss})
    named.selected = compiled
    assert not any(each["name"].startswith("saved_tensors") for each in named.details["saved"])


def test_compiled_code_is_in_no_module_of_those_that_it_runs():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    loss = torch.compile(net, backend="aot_eager")(torch.ones(1, 2)).sum()
    widget = GraphWidget(loss, names=net)
    (compiled,) = widget._openable
    assert not widget.model["nodes"][compiled]["namespace"]
    widget.expand(compiled)
    spaces = {node["namespace"] for node in calls_of(widget)}
    assert spaces == {"CompiledFunctionBackward/0", "CompiledFunctionBackward/1"}
    widget.selected = calls_of(widget)[-1]["id"]
    assert widget.details["module"] == "0"


def saved_inside(loss):
    graph = capture(loss, opened=True)
    return [i for i, d in graph.nodes(data=True) if d["kind"] == "constant" and "inside" in d]


def test_the_panel_of_a_call_names_what_goes_in():
    widget = opened(compiled_loss("mlp", "aot_eager"))
    live = widget._open()
    for node in calls_of(widget):
        widget.selected = node["id"]
        told = widget.details
        fx = live._opening.places[node["id"]].inner.origin
        assert told["op"] == str(fx.target)
        assert told["forward"].startswith(f"{fx.name} = {fx.target}(")
        given = [each["argument"] for each in told["inputs"]]
        tensors = [
            argument.name
            for argument, value in zip(fx.target._schema.arguments, fx.args, strict=False)
            if hasattr(value, "meta")
        ]
        assert given == tensors
        assert ("Recomputed" in told["about"]) == node["recomputed"]
        assert told["source"]["file"].endswith("compiled_zoo.py")
        takers = {each["node"] for each in told["consumers"]}
        uses = {
            user.name if user.target is not operator.getitem else next(iter(user.users)).name
            for user in fx.users
            if user.op != "output"
        }
        there = {
            live._opening.places[i].inner.origin.name for i in takers if i in live._opening.places
        }
        assert there >= {name for name in uses if name in {f.name for f in _fx(live)}} - {"output"}


def _fx(live):
    return [place.inner.origin for place in live._opening.places.values()]


def test_a_comparison_does_not_open_with_the_widget_that_it_was_made_of():
    scale = torch.tensor(2.0)
    losses = [compiled_loss("mlp", "aot_eager") * scale for _ in range(2)]
    widgets = [GraphWidget(loss, names={"scale": scale}) for loss in losses]
    for widget in widgets:
        widget.backward()
    sources = list(compare_numerics(*widgets).widget._source.sources.values())
    graph = sources[0].model
    details = [sources[0].details(node["id"]) for node in graph["nodes"]]
    assert any(each["kind"] == "constant" for each in details)
    for widget in widgets:
        widget.expand(widget._openable[0])
    assert sources[0].model == graph
    assert [sources[0].details(node["id"]) for node in graph["nodes"]] == details
