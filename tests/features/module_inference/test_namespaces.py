"""Modules inferred from names, compared with what `watch` saw while the same net ran."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterable

import more_architectures  # noqa: F401  (enters its nets)
import pytest
import torch
from annotation_of import annotation_of
from architectures import ARCHITECTURES
from torch import Tensor, nn
from torch.nn import functional as F
from winding import (
    Against,
    Asked,
    Asking,
    Borrowing,
    Choosing,
    Collected,
    Gated,
    Grid,
    Scaled,
    Scales,
    Sharers,
    Splitting,
    Stages,
    Twins,
)

from gradwalk import GraphWidget, explain_grad
from gradwalk.features.module_inference import module_code
from gradwalk.features.module_inference.infer_modules import MOST_OUTSIDE, infer_namespaces
from gradwalk.graph.capture import Capture, capture_nodes
from gradwalk.graph.names import modules_by_path, read_names
from gradwalk.graph.outputs import read_outputs
from gradwalk.tracing.watch import watch


def captured_and_watched(net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Capture, dict]:
    with watch():
        loss = net(*inputs).square().mean()
    captured = capture_nodes(read_outputs((loss,), "test"), read_names(net, "test"))
    watched = {}
    for i, kind in captured.graph.nodes(data="kind"):
        if kind == "op":
            annotation = annotation_of(captured.nodes[i], (loss,))
            assert annotation is not None
            watched[i] = (annotation.module or "").replace(".", "/")
    return captured, watched


def inferred_for(captured: Capture, net: nn.Module) -> dict[int, str]:
    return infer_namespaces(captured, dict(modules_by_path({"": net})))


def is_wrong(inferred: str, watched: str) -> bool:
    """Whether a node is in a module that neither ran it nor is around the one that did."""
    return bool(inferred) and not f"{watched}/".startswith(f"{inferred}/")


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_inferred_is_watched_or_one_level_up(name):
    net, inputs = ARCHITECTURES[name]()
    captured, watched = captured_and_watched(net, inputs)
    inferred = inferred_for(captured, net)
    other = {i: (inferred[i], space) for i, space in watched.items() if inferred[i] != space}
    assert len(other) <= 0.05 * len(watched), other
    wrong = {i: pair for i, pair in other.items() if is_wrong(*pair)}
    assert len(wrong) <= 0.02 * len(watched), wrong


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_inferred_modules_are_called_as_the_watched_ones(name):
    net, inputs = ARCHITECTURES[name]()
    captured, watched = captured_and_watched(net, inputs)
    inferred = inferred_for(captured, net)
    ops = {inferred[i] for i in watched}
    assert ops <= set(watched.values()) | {""} | around(watched.values())


def boxes(widget: GraphWidget) -> dict[str, set[str]]:
    """Class of operation -> the modules that such operations are drawn in."""
    found: dict[str, set[str]] = {}
    for node in widget.model["nodes"]:
        if node["kind"] == "op":
            found.setdefault(node["op"], set()).add(node["namespace"] or "")
    return found


def test_boxes_have_the_same_paths_watched_and_inferred():
    nets = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2)]
    names, x = dict(zip(("actor", "critic"), nets, strict=True)), torch.randn(3, 4)
    inferred = GraphWidget((nets[0](x) + nets[1](x)).sum(), names=names)
    with watch():
        loss = (nets[0](x) + nets[1](x)).sum()
    watched = GraphWidget(loss, names=names)
    assert boxes(watched) == boxes(inferred)
    assert boxes(inferred)["TanhBackward0"] == {"actor/1", "critic/1"}
    told = {node["inferred"] for node in inferred.model["nodes"] if node["kind"] == "op"}
    assert told == {True}
    assert not any(node["inferred"] for node in watched.model["nodes"])


def spaces_of(out: torch.Tensor, **names: object) -> dict[str, set[str | None]]:
    """Kind of node -> the first parts of its boxes."""
    found: dict[str, set[str | None]] = {"op": set(), "leaf": set()}
    for node in GraphWidget(out, names=names).model["nodes"]:
        if node["kind"] in found and node["namespace"]:
            found[node["kind"]].add("/".join(node["namespace"].split("/")[:2]))
    return found


def test_a_module_that_several_variables_hold_is_one_box():
    layers = [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)]
    net, x = nn.Sequential(*layers), torch.randn(3, 4)
    found = spaces_of(net(x), first=layers[0], last=layers[2], net=net)
    assert found == {"op": {"net/0", "net/1", "net/2"}, "leaf": {"net/0", "net/2"}}
    head = nn.Linear(4, 2)
    found = spaces_of(head(net[0](x)), net=net, head=head, encoder=net[0])
    assert found == {"op": {"net/0", "head"}, "leaf": {"net/0", "head"}}


def test_a_shared_parameter_is_in_the_box_of_a_module_that_ran():
    trunk, x = nn.Linear(4, 4), torch.randn(3, 4)
    actor, critic = nn.Sequential(trunk, nn.Tanh()), nn.Sequential(trunk, nn.ReLU())
    out = actor(x) + critic(x)
    found = spaces_of(out, trunk=trunk, actor=actor, critic=critic)
    assert found["leaf"] == {"actor/0"}
    assert found["op"] == {"actor/0", "actor/1", "critic/0", "critic/1"}


def around(spaces: Iterable[str]) -> set[str]:
    parts = [space.split("/") for space in spaces]
    return {"/".join(each[:i]) for each in parts for i in range(len(each))}


def test_a_parameter_of_two_modules_is_taken_by_the_one_that_runs():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
            self.head.weight = self.emb.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.tanh(self.emb(x)))

    net = Tied()
    captured, watched = captured_and_watched(net, (torch.arange(6).reshape(2, 3),))
    assert set(watched.values()) == {"", "emb", "head"}
    assert inferred_for(captured, net).items() >= watched.items()


@pytest.mark.parametrize(
    "made",
    [
        *(lambda: Sharers(2), lambda: Sharers(5), lambda: Twins(2), Asked, Splitting),
        *(Scales, lambda: Scales(alone=True), Gated, Stages, Grid, Asking),
        *(Scaled, lambda: Scaled(drop=0.5), Against, Collected, Borrowing),
        *(lambda: Borrowing(told=False), Choosing),
    ],
    ids=[
        *("sharers", "more sharers", "twins", "asked", "splitting"),
        *("scales", "scales alone", "gated", "stages", "grid", "asking"),
        *("scaled", "scaled and dropped", "against", "collected", "borrowing"),
        *("borrowing little", "choosing"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_modules_that_several_share_and_code_that_takes_turns(made, times):
    net = nn.Sequential(*(made() for _ in range(times)))
    captured, watched = captured_and_watched(net, (torch.randn(3, 4),))
    inferred = inferred_for(captured, net)
    assert {i: (inferred[i], space) for i, space in watched.items() if inferred[i] != space} == {}


def test_a_condition_on_the_modules_attributes_tells_which_code_ran():
    class Either(nn.Module):
        def __init__(self, *, gated: bool) -> None:
            super().__init__()
            self.gated, self.act, self.gate = gated, nn.Tanh(), nn.Tanh()
            self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            if self.gated:
                return self.last(self.gate(x))
            return self.last(self.act(x))

    for gated in (True, False):
        net = Either(gated=gated)
        captured, watched = captured_and_watched(net, (torch.randn(2, 3),))
        assert ("gate" in watched.values()) is gated
        assert inferred_for(captured, net).items() >= watched.items()
    # Those of one class are distinguished by what the condition asks.
    both = nn.Sequential(Either(gated=True), Either(gated=False), Either(gated=True))
    captured, watched = captured_and_watched(both, (torch.randn(2, 3),))
    assert {"0/gate", "1/act", "2/gate"} <= set(watched.values())
    assert inferred_for(captured, both).items() >= watched.items()


def test_code_that_cannot_be_read_leaves_operations_one_level_up():
    space: dict[str, type[nn.Module]] = {"nn": nn}  # type: ignore[dict-item]
    exec(
        "class Unreadable(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)\n"
        "    def forward(self, x):\n"
        "        return self.b(self.a(x).exp() * 2)\n",
        space,
    )
    net = nn.Sequential(space["Unreadable"](), nn.Linear(3, 3))
    captured, watched = captured_and_watched(net, (torch.randn(2, 3),))
    inferred = inferred_for(captured, net)
    assert not any(is_wrong(inferred[i], space) for i, space in watched.items())
    assert {"0/a", "0/b", "1"} <= set(inferred.values())


def test_a_sequence_is_filled_by_its_numbers():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Softplus(), nn.Linear(3, 1))
    captured, watched = captured_and_watched(net, (torch.randn(2, 3),))
    assert inferred_for(captured, net).items() >= watched.items()


def test_parameters_are_where_they_belong_and_inputs_outside():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    x = torch.randn(2, 3, requires_grad=True)
    captured = capture_nodes(read_outputs((net(x),), "test"), read_names(net, "test"))
    inferred = inferred_for(captured, net)
    of_leaves = {
        data["name"]: inferred[i]
        for i, data in captured.graph.nodes(data=True)
        if data["kind"] == "leaf"
    }
    assert of_leaves == {"0.weight": "0", "0.bias": "0", "1.weight": "1", "1.bias": "1", None: ""}


def test_a_variables_name_is_the_outermost_module():
    net, inputs = ARCHITECTURES["lenet"]()
    loss = F.mse_loss(net(*inputs), torch.zeros(2, 10))
    captured = capture_nodes(read_outputs((loss,), "test"), read_names({"net": net}, "test"))
    inferred = infer_namespaces(captured, dict(modules_by_path({"net": net})))
    assert inferred[0] == ""  # the loss
    assert {i for i in inferred.values() if i.count("/") == 0} == {"", "net"}
    relus = [i for i in inferred if captured.graph.nodes[i]["op"] == "ReluBackward0"]
    assert [inferred[i] for i in relus] == ["net"] * 4


def take_apart(net: nn.Module) -> None:
    """Leave nothing in a net as it was: no flag, no number, no word, no module."""
    for module in net.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, bool):
                vars(module)[name] = not value
            elif isinstance(value, (int, float)):
                vars(module)[name] = value + 1
            elif isinstance(value, str):
                vars(module)[name] = f"not {value}"
    for module in list(net.modules()):
        for name in list(module._modules):
            module._modules[name] = nn.Identity()
        module._parameters.clear()


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Rounds(Chain):
    def forward(self, x):
        for _ in range(3):
            for layer in self.layers:
                x = layer(x).tanh()
        return x


@pytest.mark.parametrize("calls", [2, 3])
@pytest.mark.parametrize("kind", ["sequential", "chain"])
def test_what_follows_each_call_of_a_module_is_outside(kind, calls):
    net = Chain() if kind == "chain" else nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    losses = [F.softplus(-net(torch.randn(2, 3))).mean() for _ in range(calls)]
    widget = GraphWidget(sum(losses[1:], losses[0]), names={"net": net})
    outside = {"NegBackward0", "SoftplusBackward0", "MeanBackward0", "AddBackward0"}
    for node in widget.model["nodes"]:
        if node["op"] in outside:
            assert not node["namespace"], node["op"]
        elif node["op"] in ("AddmmBackward0", "ReluBackward0", "TanhBackward0"):
            assert node["namespace"].startswith("net")
    widget.close()


def test_a_loop_around_the_layers_goes_round_within_one_call():
    net = Rounds()
    widget = GraphWidget(net(torch.randn(2, 3)).sum(), names={"net": net})
    tanhs = [n["namespace"] for n in widget.model["nodes"] if n["op"] == "TanhBackward0"]
    assert tanhs == ["net"] * 9
    widget.close()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_whoever_looks_later_sees_the_modules_as_they_were_and_none_was_held(name):
    net, inputs = ARCHITECTURES[name]()
    loss = net(*inputs).square().mean()
    early, late = (GraphWidget(loss, names={"net": net}) for _ in range(2))
    graph = early.model
    assert any(node["namespace"] for node in graph["nodes"])
    gone = [weakref.ref(module) for module in net.modules()]
    take_apart(net)
    del net
    gc.collect()
    assert not any(ref() for ref in gone)
    assert late.model == graph
    early.close()
    late.close()


def test_of_a_model_that_is_not_in_the_graph_no_code_is_read(monkeypatch):
    read = []
    steps_of = module_code.steps_of
    monkeypatch.setattr(
        module_code,
        "steps_of",
        lambda cls, *of, **how: read.append(cls) or steps_of(cls, *of, **how),
    )
    net, other = nn.Sequential(nn.Linear(2, 1)), nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    GraphWidget(net(torch.ones(1, 2)), names={"net": net, "other": other}).close()
    assert set(read) == {nn.Sequential, nn.Linear}


def test_without_names_everything_is_outside_of_modules():
    x = torch.randn(3, requires_grad=True)
    captured = capture_nodes(read_outputs((x.relu().sum(),), "test"), read_names({"x": x}, "test"))
    assert set(infer_namespaces(captured, {}).values()) == {""}


def test_in_place_and_double_backward_graphs_have_a_module_each():
    net, inputs = ARCHITECTURES["mlp"]()
    (gradient,) = torch.autograd.grad(
        net(*inputs).square().sum(), net[0][0].weight, create_graph=True
    )
    captured = capture_nodes(read_outputs((gradient.sum(),), "test"), read_names(net, "test"))
    assert inferred_for(captured, net).keys() == set(captured.graph)


def test_a_shared_module_without_parameters_has_the_name_of_its_turn():
    relu = nn.ReLU()
    net = nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu)
    captured, watched = captured_and_watched(net, (torch.randn(2, 2),))
    assert inferred_for(captured, net).items() >= watched.items()


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(F.gelu(self.wide(x)))


class OneBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(4, 4), nn.ModuleList([Residual()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return torch.tanh(x)


def test_the_sum_at_the_end_of_a_lone_block_is_the_blocks():
    net = OneBlock()
    captured, watched = captured_and_watched(net, (torch.randn(3, 4),))
    assert watched.items() <= inferred_for(captured, net).items()


class Balanced(nn.Module):
    """As models of experts do, its forward computes a long loss by a function."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))

    def forward(self, x, terms):
        return balancing(self.body(x).sum(), terms)


def balancing(total, terms):
    for i in range(terms):
        total = total.sin() * (i + 1)
    return total


def between(net, x, terms):
    for _ in range(terms):
        x = net.body(x.sin())
    return x.sum()


def boxes_of(output, **names):
    widget = GraphWidget(output, names=names)
    found = [node["namespace"] for node in widget.model["nodes"] if node["kind"] == "op"]
    classes = widget.model["modules"]["namespaces"]
    widget.close()
    return Counter(found), classes


def within(boxes, outer):
    """How many operations are in a box or in the boxes in it."""
    return sum(count for box, count in boxes.items() if (box or "").split("/")[0] == outer)


@pytest.mark.parametrize("terms", [3, 6, 7, 100])
def test_many_operations_outside_of_modules_have_a_box_of_their_function(terms):
    net = Balanced()
    with watch():
        loss = net(torch.ones(2, 3), terms)
    found, classes = boxes_of(loss, net=net)
    assert within(found, "balancing()") == (2 * terms if 2 * terms > MOST_OUTSIDE else 0)
    assert found["body/1"] == 1
    assert "balancing()" not in classes


def test_a_function_between_whose_operations_modules_ran_has_no_box():
    net = Balanced()
    with watch():
        loss = between(net, torch.ones(2, 3), 20)
    assert not any("()" in (box or "") for box in boxes_of(loss, net=net)[0])


@pytest.mark.parametrize("terms", [3, 6, 7, 100])
def test_many_operations_after_inferred_modules_have_a_box_of_the_output(terms):
    net = Balanced()
    loss = balancing(net.body(torch.ones(2, 3)).sum(), terms)
    found, classes = boxes_of(loss, body=net.body, loss=loss)
    own = 2 * terms + 1
    assert within(found, "loss = …") == (own if own > MOST_OUTSIDE else 0)
    assert found["body/1"] == 1
    assert "loss = …" not in classes


def test_a_graph_without_modules_has_no_boxes():
    w = torch.ones(1, requires_grad=True)
    with watch():
        loss = balancing(w, 5)
    assert not any(boxes_of(loss, w=w)[0])


def test_a_graph_without_modules_has_only_the_boxes_of_loops():
    w = torch.ones(1, requires_grad=True)
    with watch():
        loss = balancing(w, 20)
    assert {box.split(" ")[0] for box in boxes_of(loss, w=w)[0] if box} == {"step"}


class Unregistered(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.blocks = [nn.Linear(3, 3, bias=bias)]  # no nn.ModuleList, so torch does not know it
        self.first, self.out = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(self.blocks[0](self.first(x)))
        return out


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_that_is_not_registered_is_in_no_module(bias):
    model = Unregistered(bias)
    graph = GraphWidget(model(torch.ones(2, 3)).sum()).model
    found = [n["namespace"] for n in graph["nodes"] if n["op"] in ("AddmmBackward0", "MmBackward0")]
    assert found == ["model/out", "", "model/first"]
    for parameter in model.blocks[0].parameters():
        said = explain_grad(parameter, model(torch.ones(2, 3)).sum())
        assert "model.out" not in said


def test_the_loss_between_two_calls_of_a_module_is_not_its_holder_s():
    """The holder has no forward; a GAN's loss calls its discriminator twice."""
    model = nn.Module()
    model.D = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(), nn.Linear(4, 1))
    real, fake = torch.randn(3, 4), torch.randn(3, 4)
    loss = F.softplus(-model.D(real)).mean() + F.softplus(model.D(fake)).mean()
    widget = GraphWidget(loss)
    nodes = widget.model["nodes"]
    outside = Counter(
        node["op"] for node in nodes if node["kind"] == "op" and not node["namespace"]
    )
    assert outside["SoftplusBackward0"] == outside["MeanBackward0"] == 2
    assert outside["NegBackward0"] == outside["AddBackward0"] == 1
    widget.close()
