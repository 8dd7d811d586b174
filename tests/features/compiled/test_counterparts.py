"""Which calls of compiled code stand for which operation, told by the gradients that flow there."""

from __future__ import annotations

import pytest
import torch
from compiled_zoo import ZOO
from torch.nn import functional as F

from gradwalk import capture, record, watch
from gradwalk.features.compiled.counterparts import counterparts
from gradwalk.graph.names import Names
from gradwalk.matching.match import match
from gradwalk.sources.read_source import read_source

pytestmark = [
    pytest.mark.usefixtures("compiles_anew"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:.*there are global hooks on modules:UserWarning"),
]

QUICK = ("mlp", "attention", "recurrent", "autoencoder", "graph break", "in place")
EVERY = [
    *QUICK,
    *(pytest.param(name, marks=pytest.mark.full) for name in ZOO if name not in QUICK),
]


def loss_of(program, inputs):
    torch.manual_seed(1)
    given = program(*inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    return sum((each * each).sum() for each in outputs)


def recorded(loss, names):
    """A graph with a recorded pass, and all its compiled code open."""
    recording = record(loss, names=names if isinstance(names, torch.nn.Module) else None)
    source = read_source((recording,), Names(), "capture")
    for node in source.openable:
        source.expand(node)
    return source


def arrived(origin, call, group):
    """The gradients that come to a call from outside of its group."""
    drawn, opening = origin.drawn, origin._opening
    found = []
    for source, _, edge in drawn.in_edges(call, data=True):
        if edge.get("kind") != "gradient" or source in group:
            continue
        if source == drawn.nodes[call]["inside"]:
            kept = origin.recording.run.steps[source].grad_outputs[edge["arg_nr"]]
        else:
            kept = opening.given(opening.places[source], origin.recording, edge["arg_nr"])
        if kept is not None and kept.tensor is not None:
            found.append(kept.tensor)
    return found


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("is_watched", [False, pytest.param(True, marks=pytest.mark.full)])
def test_calls_take_the_gradient_of_the_operation_that_they_stand_for(name, is_watched):
    torch.manual_seed(0)
    program, inputs = ZOO[name]()
    sides = []
    for each in (program, torch.compile(program, backend="aot_eager")):
        if is_watched:
            with watch():
                loss = loss_of(each, inputs)
        else:
            loss = loss_of(each, inputs)
        sides.append(recorded(loss, program))
    eager, compiled = sides
    pairs = match(eager.drawn, compiled.drawn).pairs
    module_of = [node["namespace"] for node in eager.model["nodes"]]
    found = counterparts(eager.drawn, compiled.drawn, pairs, module_of.__getitem__)
    steps = eager.recording.run.steps
    for node, each in found.of.items():
        if not each.calls:
            continue
        expected = [kept.tensor for kept in steps[node].grad_outputs if kept is not None]
        came = [one for call in each.calls for one in arrived(compiled, call, each.calls)]
        assert any(
            one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-6)
            for one in came
            for other in expected
        ), eager.drawn.nodes[node]["op"]
    known = [node for node, each in found.of.items() if each.calls or each.is_dropped]
    assert len(known) >= 0.8 * len(found.of)
    assert {eager.drawn.nodes[node]["op"] for node in found.of if found.of[node].is_dropped} <= {
        "AddBackward0",
        "CloneBackward0",
        "ExpandBackward0",
        "UnsafeViewBackward0",
        "ViewBackward0",
        "SliceBackward0",
    }
    taken = [call for each in found.of.values() for call in (*each.calls, *each.again)]
    everything = [*taken, *found.adding, *found.others]
    calls = [node for node, kind in compiled.drawn.nodes(data="kind") if kind == "call"]
    assert sorted(everything) == calls  # each once


def opened(step, *given, backend="aot_eager"):
    return capture(torch.compile(step, backend=backend)(*given), opened=True)


def test_what_runs_again_is_told_of_its_operation():
    def step(x):
        return (F.silu(x) * 2).sum()

    x = torch.randn(4, requires_grad=True)
    graph, compiled = capture(step(x)), opened(step, x)
    found = counterparts(graph, compiled, match(graph, compiled).pairs)
    again = {
        graph.nodes[node]["op"]: [compiled.nodes[call]["op"] for call in each.again]
        for node, each in found.of.items()
    }
    told = {node for node, data in compiled.nodes(data=True) if data.get("recomputed")}
    assert {call for each in found.of.values() for call in each.again} <= told
    assert set(again) == {"SumBackward0", "MulBackward0", "SiluBackward0"}


def test_nothing_is_told_where_calls_have_no_number():
    def step(x):
        return x.sin().exp().tanh()

    x = torch.randn(4, requires_grad=True)
    graph, compiled = capture(step(x)), opened(step, x)
    for _, data in compiled.nodes(data=True):
        if data["kind"] == "call":
            data["seq_nr"] = None
    found = counterparts(graph, compiled, match(graph, compiled).pairs)
    assert [each.is_dropped for each in found.of.values()] == [False] * 3
    assert not any(each.calls for each in found.of.values())


def test_another_program_has_no_counterparts():
    x = torch.randn(4, 3, requires_grad=True)
    graph = capture(x.softmax(0).cumsum(0))
    compiled = opened(lambda x: x.T.matmul(x).sum(0), x)
    found = counterparts(graph, compiled, match(graph, compiled).pairs)
    assert not any(each.calls or each.is_dropped for each in found.of.values())


@pytest.mark.parametrize("length", [1, 100, pytest.param(400, marks=pytest.mark.full)])
def test_of_long_programs(length):
    def step(x):
        for _ in range(length):
            x = x.sin() * 1.1
        return x

    x = torch.randn(4, requires_grad=True)
    graph, compiled = capture(step(x)), opened(step, x)
    found = counterparts(graph, compiled, match(graph, compiled).pairs)
    ops = [[compiled.nodes[call]["op"] for call in each.calls] for each in found.of.values()]
    assert ops == [["aten.cos.default", "aten.mul.Tensor"], ["aten.mul.Tensor"]] * length


class Tenfold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 10

    @staticmethod
    def backward(ctx, grad):
        return grad.neg().neg() * 10


def test_what_a_custom_backward_calls_is_of_no_other_operation():
    def step(x):
        return F.mse_loss(Tenfold.apply(x.sin()).tanh(), torch.zeros(4))

    x = torch.randn(4, requires_grad=True)
    graph, compiled = capture(step(x)), opened(step, x)
    found = counterparts(graph, compiled, match(graph, compiled).pairs)
    for node, each in found.of.items():
        if graph.nodes[node]["op"] != "TenfoldBackward":
            assert "aten.neg.default" not in [compiled.nodes[call]["op"] for call in each.calls]
