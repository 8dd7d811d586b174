"""What a backward ran in a recorded pass, opened in the picture: operations with their values."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from checkpointed import program
from own_functions import Many
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, capture, load, record, save, watch
from gradwalk.backward import function_calls as operations
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs


class Masked(torch.autograd.Function):
    """The backward of a thousand tutorials: a copy, and zeros written into it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = grad.clone()
        out[x < 0] = 0
        return out


class ThroughViews(torch.autograd.Function):
    """Memory written into by way of other tensors, more than once."""

    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        wide = torch.zeros(2, *grad.shape)
        wide[0] = grad
        wide[1] = -grad
        flat = wide.view(-1)
        flat.mul_(3)
        first, _ = wide.unbind()
        first += 1
        return first.clone(), wide[1] * flat.sum()


class Several(torch.autograd.Function):
    """Several gradients come, one is handed on, one is none, and an argument is no tensor."""

    @staticmethod
    def forward(ctx, x, power, y):
        ctx.power = power
        return x**power, y * 2

    @staticmethod
    def backward(ctx, one, other):
        values, order = other.sort()
        return torch.cat([one[:1], values[1:]]) * ctx.power + order, None, other


def masked(x, y):
    return Masked.apply(x - y)


def through_views(x, y):
    return ThroughViews.apply(x, y)


def several(x, y):
    one, other = Several.apply(x, 3, y)
    return one * other


def reentrant(x, y):
    return checkpoint(lambda a, b: (torch.tanh(a * b) * a).exp(), x, y, use_reentrant=True)


def custom_in_checkpoint(x, y):
    return checkpoint(lambda a: Masked.apply(a).sin(), x * y, use_reentrant=True)


def checkpoint_in_checkpoint(x, y):
    return checkpoint(lambda a, b: reentrant(a, b).cos() * a, x, y, use_reentrant=True)


def loop(x, y):
    for _ in range(3):
        x = ThroughViews.apply(Masked.apply(x), y)
    return x


PROGRAMS = [
    masked,
    through_views,
    several,
    reentrant,
    custom_in_checkpoint,
    checkpoint_in_checkpoint,
    loop,
]


def made(run, size=5):
    torch.manual_seed(0)
    x, y = torch.randn(size, requires_grad=True), torch.rand(size, requires_grad=True)
    with watch():
        return (run(x, y) * torch.arange(1.0, size + 1)).sum(), (x, y)


def opened(loss):
    widget = GraphWidget(loss)
    widget.backward()
    for node in widget._openable:
        widget.expand(node)
    assert widget._fault is None
    return widget


def calls_of(widget):
    return [node for node in widget.model["nodes"] if node["kind"] == "call"]


class Seen(TorchDispatchMode):
    """Torch's own record of what runs: every operation, and copies of what it took and gave."""

    def __init__(self):
        super().__init__()
        self.ran = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        took = [each.clone() for each in tensors_in([args, kwargs])]
        result = func(*args, **(kwargs or {}))
        behind = torch._C._current_autograd_node().name()
        # Whether a `.grad` of the pass within takes its memory over is up to who else holds it.
        if not behind.endswith("AccumulateGrad"):
            self.ran.append((str(func), took, [each.clone() for each in tensors_in([result])]))
        return result


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


def seen_in(run):
    """Per node that can be opened, in the engine's order, what a pass without gradwalk ran."""
    loss, _ = made(run)
    captured = capture_nodes(read_outputs((loss,), "test"), Names())
    found = []
    for i, node in enumerate(captured.nodes):
        if operations.is_recorded(node):
            apply = node.apply

            def noting(*grads, apply=apply, i=i):
                with Seen() as seen:
                    result = apply(*grads)
                found.append((i, seen.ran))
                return result

            node.apply = noting
    torch.autograd.backward(loss, retain_graph=True)
    return dict(found)


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_every_operation_is_there_with_what_it_took_and_gave(run):
    expected = seen_in(run)
    loss, _ = made(run)
    widget = opened(loss)
    live = widget._open()
    assert set(widget._openable) == set(expected)
    drawn = live.drawn
    for node, ran in expected.items():
        calls = [i for i, at in drawn.nodes(data="inside") if at == node]
        calls = [i for i in calls if drawn.nodes[i]["kind"] == "call"]
        origins = {i: live._opening.places[i].inner.origin for i in calls}
        calls = [i for i in calls if not str(origins[i].inner_node).endswith("AccumulateGrad")]
        assert [drawn.nodes[i]["op"] for i in calls] == [called for called, *_ in ran]
        for i, (_, took, gave) in zip(calls, ran, strict=True):
            place = live._opening.places[i]
            numbers = live._opening.numbers(node, live.recording)
            kept = numbers.given[place.inner][: len(gave)]
            for one, other in zip(kept, gave, strict=True):
                assert torch.equal(one.tensor, other)
            # What stands on the arrows that lead to it is what it took, bit for bit, in order.
            flows = [flow for flow in place.inside.flows if flow.user is place.inner]
            assert [flow.place for flow in flows] == [*range(len(took))]
            for flow, tensor in zip(flows, took, strict=True):
                if isinstance(flow.made, int):
                    there = live.recording.run.steps[node].grad_outputs[flow.made]
                else:
                    there = numbers.given[flow.made][flow.part]
                assert torch.equal(there.tensor, tensor), (drawn.nodes[i]["called"], flow.argument)


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_it_is_tied_to_the_edges_of_the_graph(run):
    loss, _ = made(run)
    widget = opened(loss)
    live, edges = widget._open(), widget.model["edges"]
    run_ = live.recording.run
    shown = dict(zip(widget.run["edges"], widget.run["values"], strict=True))
    for place, edge in enumerate(edges):
        if edge["source"] in widget._openable and edge["via"] is not None:
            given = live._opening.places[edge["via"]]
            numbers = live._opening.numbers(edge["source"], live.recording)
            flowed = run_.steps[edge["source"]].grad_inputs[edge["arg_nr"]].tensor
            assert any(
                each is not None and torch.equal(each.tensor, flowed)
                for each in numbers.given[given.inner]
            )
            assert torch.equal(torch.tensor(shown[place]), flowed)
    vias = [edge["via"] for edge in edges if edge["source"] in widget._openable]
    assert any(via is not None for via in vias)
    graph = widget.to_networkx()
    for node in widget._openable:
        assert any(graph.nodes[i].get("inside") == node for i in graph.successors(node))


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_looking_changes_nothing(run):
    plain, leaves = made(run)
    state = torch.get_rng_state()
    plain.backward()
    expected = [leaf.grad for leaf in leaves]
    loss, leaves = made(run)
    widget = opened(loss)
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget.details["failed"] == []
    for node in widget._openable:
        widget.collapse(node)
    assert torch.equal(torch.get_rng_state(), state)
    for leaf, grad in zip(leaves, expected, strict=True):
        assert torch.equal(leaf.grad, grad)
        assert leaf.grad.stride() == grad.stride()


def test_an_optimizer_that_changes_grads_in_place_changes_nothing_shown():
    loss, leaves = made(through_views)
    widget = GraphWidget(loss)
    widget.backward()
    before = [leaf.grad.clone() for leaf in leaves]
    for leaf in leaves:
        leaf.grad.zero_()
    (node,) = widget._openable
    widget.expand(node)
    live = widget._open()
    numbers = live._opening.numbers(node, live.recording)
    inside = live._opening.inside[node]
    for nr, grad in enumerate(before):
        assert any(torch.equal(each.tensor, grad) for each in numbers.given[inside.gives[nr]])


@pytest.mark.parametrize("name", ["blocks", "with_custom_function", "with_dropout"])
def test_a_reentrant_region_opens_without_running_again(name):
    with watch():
        output, truth = program(name, "reentrant")
    calls = truth.calls
    widget = GraphWidget(output)
    widget.backward()
    ran = truth.calls - calls
    assert ran > 0
    regions = [
        i for i in widget._openable if widget.model["nodes"][i]["op"].startswith("Checkpoint")
    ]
    assert regions
    state = torch.get_rng_state()
    for node in regions:
        widget.expand(node)
    calls_there = calls_of(widget)
    for node in calls_there:
        widget.selected = node["id"]
    assert truth.calls == calls + ran
    assert torch.equal(torch.get_rng_state(), state)
    assert any(node["recomputed"] for node in calls_there)
    assert not all(node["recomputed"] for node in calls_there)


def test_what_was_not_noted_says_how_it_is():
    x = torch.rand(3, requires_grad=True)
    loss = Masked.apply(x).sum()
    widget = GraphWidget(loss)
    node = next(n["id"] for n in widget.model["nodes"] if n["op"] == "MaskedBackward")
    for _ in range(2):
        assert widget._openable is None
        with pytest.raises(ValueError, match=r"gradwalk.watch\(\), and call backward\(\)"):
            widget.expand(node)
        widget.backward()  # not watched
    widget.collapse(node)  # nothing is open, and nothing happens


def test_a_pass_of_the_programs_own_closes_what_another_ran():
    loss, (x, _) = made(masked)
    widget = opened(loss)
    (node,) = widget._openable
    assert calls_of(widget)
    widget.backward()  # as noted as the first
    assert calls_of(widget)
    live = widget._open()
    first = live._opening.inside[node]
    assert live._opening.numbers(node, live.recording).given.keys() >= set(first.calls)
    loss.backward()
    assert widget.steps
    assert calls_of(widget) == []
    assert widget._openable is None
    assert widget.run["run"] == 3
    assert x.grad is not None


def test_what_was_made_outside_stands_outside():
    x, weight = torch.rand(3, requires_grad=True), torch.nn.Parameter(torch.rand(3))
    with watch():
        loss = ThroughViews.apply(x, weight).sum()
    widget = opened(loss)
    leaves = [node for node in widget.model["nodes"] if node["kind"] == "leaf"]
    made_outside, parameter = leaves  # in the order of the arguments
    assert made_outside["namespace"] == ""
    assert parameter["namespace"] is None  # drawn with the operation that gives its gradient


def test_opening_and_closing_draw_once():
    loss, _ = made(masked)
    widget = opened(loss)
    (node,) = widget._openable
    for change in (widget.collapse, widget.expand, widget.collapse):
        widget.selected = calls_of(widget)[0]["id"] if calls_of(widget) else node
        before = widget._update["number"]
        change(node)
        assert widget._update["number"] == before + 1
        assert len(widget.run["norms"]) <= len(widget.model["edges"])


def test_stepping_knows_what_has_run():
    loss, _ = made(masked)
    widget = opened(loss)
    (node,) = widget._openable
    first = calls_of(widget)[0]["id"]
    widget.selected = first
    assert widget.details["value"]["values"] is not None
    assert "Noted as it ran" in widget.details["value"]["origin"]
    widget.cursor = 0
    assert widget.details["value"] is None
    assert "has not run" in widget.details["value_note"]
    widget.run_to(node)
    assert widget.details["value"]["values"] is not None


def test_recordings_and_files(tmp_path):
    loss, _ = made(several)
    widget = GraphWidget(record(loss))
    (node,) = widget._openable
    widget.expand(node)
    widget.selected = calls_of(widget)[1]["id"]
    told = widget.details
    save(widget, tmp_path / "open.gw")
    again = load(tmp_path / "open.gw")
    assert again.model == widget.model
    assert again.run == widget.run
    assert again.details == told
    assert again.to_networkx().edges(keys=True) == widget.to_networkx().edges(keys=True)
    assert "aten.cat.default" in widget.to_dot()


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_a_recording_is_captured_as_it_is_drawn(run):
    loss, _ = made(run)
    recording = record(loss)
    widget = GraphWidget(recording, constants=False)
    for node in widget._openable:
        widget.expand(node)
    graph, drawn = capture(recording, opened=True), widget.to_networkx()
    assert dict(graph.nodes(data="op")) == dict(drawn.nodes(data="op"))
    assert dict(graph.nodes(data="inside")) == dict(drawn.nodes(data="inside"))
    assert sorted(graph.edges(keys=True)) == sorted(drawn.edges(keys=True))
    plain = capture(recording)
    assert list(plain) == list(capture(loss))
    unnoted = capture(
        record(run(*[torch.rand(3, requires_grad=True) for _ in "xy"]).sum()), opened=True
    )
    assert any("gradwalk.watch()" in str(why) for _, why in unnoted.nodes(data="closed"))


@pytest.mark.parametrize("times", [0, 1, 1_000, 100_000])
def test_many_operations(times):
    Many.times = times
    with watch():
        y = Many.apply(torch.rand(1, requires_grad=True)).sum()
    widget = GraphWidget(y)
    widget.backward()
    if times == 0:
        assert widget._openable is None
        with pytest.raises(ValueError, match="ran no operation"):
            widget.expand(1)
        return
    (node,) = widget._openable
    widget.expand(node)
    calls = calls_of(widget)
    assert len(calls) == min(times, operations.MOST)
    widget.selected = calls[-1]["id"]
    assert ("Only the first" in widget.details["value"]["origin"]) == (times > operations.MOST)


def test_values_are_kept_within_the_budget_and_let_go_of():
    class Wide(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            for _ in range(8):
                grad = grad * 2
            return grad

    size = 1_000
    x = torch.rand(size, requires_grad=True)
    with watch():
        y = Wide.apply(x * 1).sum()
    widget = GraphWidget(y, max_bytes=4 * size * 4)
    widget.backward()
    (node,) = widget._openable
    widget.expand(node)
    live = widget._open()
    numbers = live._opening.numbers(node, live.recording)
    inside = live._opening.inside[node]
    kept = [numbers.given[call][0] for call in inside.calls]
    there = sum(each.tensor is not None for each in kept)
    assert 0 < there < 8
    for i, each in enumerate(kept):
        assert each.summarise()["norm"] == pytest.approx(size**0.5 * 2 ** (i + 1), rel=1e-5)
    references = [weakref.ref(each.tensor) for each in kept if each.tensor is not None]
    del live, numbers, inside, kept, each
    widget.close()
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


class Odd(torch.Tensor):
    """A tensor whose class refuses to tell anything."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.detach, torch.Tensor.shape.__get__):
            raise NotImplementedError("refused")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_class_that_refuses_leaves_the_pass_as_it_is():
    class Makes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            odd = grad.as_subclass(Odd)
            return (odd * 2).as_subclass(torch.Tensor)

    x = torch.rand(3, requires_grad=True)
    with watch():
        y = Makes.apply(x).sum()
    widget = GraphWidget(y)
    widget.backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))
    for node in widget._openable or ():
        widget.expand(node)
    assert widget._fault is None


@pytest.mark.parametrize("place", [0, slice(1, 3), (slice(None, None, 2),)])
def test_memory_that_was_never_written_has_no_value(place: Any):
    w = torch.randn(4, requires_grad=True)

    def function() -> torch.Tensor:
        h = w.clone()
        h.mul_(2)
        h[place] = 1.0
        return (h * w).sum()

    widget = GraphWidget(torch.compile(function, backend="aot_eager")())
    widget.expand(0)
    widget.backward()
    known = 0
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        if "empty" in widget.details["op"]:
            assert widget.details["value"] is None
        known += widget.details["value"] is not None
    assert known > 3
    widget.close()
