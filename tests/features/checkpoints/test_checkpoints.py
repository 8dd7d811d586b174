"""Checkpointed regions: which operations they have, what they save, and that nobody runs them."""

from __future__ import annotations

import contextlib
import json

import pytest
import torch
from checkpointed import MODELS, program
from fresh import fresh
from processes import together
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import gradwalk
from gradwalk import GraphWidget, capture, compare, diagnose, explain_grad, record, watch
from gradwalk.features.checkpoints.regions import not_kept
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.schema.columns import decode, encode
from gradwalk.tracing.annotate import Annotated, annotate


def annotated(output) -> Annotated:
    called = Names()
    return annotate(capture_nodes(read_outputs((output,), "test"), called), called, infer=False)


def operations_in(graph, ranges) -> list[set[int]]:
    """The operations of a graph that were made in each of some ranges of numbers."""
    numbers = {i: d["sequence_nr"] for i, d in graph.nodes(data=True) if d["kind"] == "op"}
    return [{i for i, nr in numbers.items() if start <= nr < end} for start, end in ranges]


def saves_something(node) -> bool:
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            raw = getattr(node, name)
            for each in raw if isinstance(raw, tuple) else (raw,):
                if each.unpack_hook is not None or each.data is not None:
                    return True
    return False


def in_order(sets) -> list[list[int]]:
    return sorted(sorted(each) for each in sets if each)


@pytest.mark.parametrize("name", MODELS)
def test_watched_regions_are_the_true_ones(name):
    with watch():
        output, truth = program(name, "non-reentrant")
    captured = annotated(output)
    true = operations_in(captured.graph, truth.ranges)
    assert len(true) == len(captured.regions) > 0
    assert in_order(region.nodes for region in captured.regions) == in_order(true)
    assert all(region.is_exact and not region.is_reentrant for region in captured.regions)
    check_tree(captured, true)


@pytest.mark.parametrize("name", MODELS)
def test_without_watching_all_that_saves_something_is_known(name):
    output, truth = program(name, "non-reentrant")
    captured = annotated(output)
    true = operations_in(captured.graph, truth.ranges)
    assert len(true) == len(captured.regions)
    found = [set(region.nodes) for region in captured.regions]
    for region, nodes in zip(captured.regions, found, strict=True):
        of = min((each for each in true if nodes <= each), key=len)  # within the truth
        missed = of - nodes
        assert not any(saves_something(captured.nodes[i]) for i in missed)
        assert region.is_exact <= (not missed)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("watched", [False, True])
def test_every_node_of_a_region_has_its_details(name, watched):
    with watch() if watched else contextlib.nullcontext():
        output, _ = program(name, "non-reentrant")
    assert annotated(output).regions
    assert {nr for _, nr in capture(output).nodes(data="checkpoint")} - {None}
    widget = GraphWidget(output.sum())
    assert widget.model["checkpoints"]
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget.details["failed"] == []


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("name", MODELS)
def test_a_reentrant_region_is_one_node(name):
    output, truth = program(name, "reentrant")
    captured = annotated(output)
    nodes = [
        i for i, node in enumerate(captured.nodes) if type(node).__name__.startswith("Checkpoint")
    ]
    assert sorted(i for region in captured.regions for i in region.nodes) == nodes
    assert all(region.is_reentrant for region in captured.regions)
    # Within one, grad mode is off: what is nested in it makes no node.
    assert 0 < len(nodes) <= truth.calls


def check_tree(captured, true):
    """Nodes carry their innermost region, and a region comes after the one that it lies in."""
    regions = captured.regions
    for i, data in captured.graph.nodes(data=True):
        around = [nr for nr, region in enumerate(regions) if i in region.nodes]
        assert data["checkpoint"] == (around[-1] if around else None)
        assert captured.drawn.nodes[i]["checkpoint"] == data["checkpoint"]
        at = data["checkpoint"]
        while at is not None:
            assert i in regions[at].nodes
            assert around.pop() == at
            at = regions[at].parent
        assert around == []


def test_both_kinds_in_each_other():
    w = torch.rand(3, requires_grad=True)
    inner = lambda a: (a * w).sin()  # noqa: E731
    outer = lambda a: checkpoint(inner, a.exp(), use_reentrant=True).cos()  # noqa: E731
    y = checkpoint(outer, w + 1, use_reentrant=False)
    regions = annotated(y).regions
    assert [(r.is_reentrant, r.parent, len(r.nodes)) for r in regions] == [
        (False, None, 3),
        (True, 0, 1),
    ]


def test_capture_has_the_number_of_the_region():
    x = torch.rand(3, requires_grad=True)
    y = checkpoint(lambda a: (a.sin() * 2).exp(), x, use_reentrant=False) + 1
    found = {data["op"]: data["checkpoint"] for _, data in capture(y).nodes(data=True)}
    assert found == {
        "AddBackward0": None,
        "ExpBackward0": 0,
        "MulBackward0": 0,
        "SinBackward0": 0,
        "AccumulateGrad": None,
    }
    with watch():
        z = checkpoint(lambda a: (a.sin() * 2).exp(), x, use_reentrant=False) + 1
    z.backward(torch.ones(3))  # what it saved is gone, and what was seen is not
    found = [(d["op"], d["checkpoint"]) for _, d in capture(z).nodes(data=True)]
    assert found[:4] == [
        ("AddBackward0", None),
        ("ExpBackward0", 0),
        ("MulBackward0", 0),
        ("SinBackward0", 0),
    ]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("watched", [False, True])
def test_the_bytes_are_what_the_same_program_keeps_without_a_checkpoint(name, watched):
    _, plain = program(name, "plain")
    if watched:
        with watch():
            output, truth = program(name, "non-reentrant")
    else:
        output, truth = program(name, "non-reentrant")
    captured = annotated(output)
    true = operations_in(captured.graph, truth.ranges)
    compared = 0
    for region in captured.regions:
        found = not_kept(captured, region)
        nodes = set(region.nodes)
        of = [kept for kept, each in zip(plain.kept, true, strict=True) if nodes <= each]
        assert found is not None
        assert found.bytes <= max(of)
        if found.is_all and region.is_exact:
            assert found.bytes in of
            compared += 1
    if watched and name in {"blocks", "pointwise", "nested", "only_nested", "two_outputs"}:
        assert compared == len(captured.regions)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("how", ["non-reentrant", "reentrant"])
@pytest.mark.parametrize("name", ["blocks", "nested", "attention"])
def test_nobody_runs_a_region_by_looking(name, how, tmp_path):
    with watch():
        output, truth = program(name, how)
    output = output.sum()
    calls, state = truth.calls, torch.get_rng_state()
    widget = GraphWidget(output)
    capture(output)
    look(widget, tmp_path)
    explain_grad(next(t for _, t in annotated(output).leaves()), output)
    compare({"a": output, "b": output}).close()
    assert truth.calls == calls
    assert torch.equal(torch.get_rng_state(), state)
    widget.backward()
    calls = truth.calls
    look(widget, tmp_path)
    assert truth.calls == calls
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_region_counts_is_not_counted_by_looking(reentrant, tmp_path):
    norm, calls = nn.BatchNorm1d(3), []
    x = torch.randn(5, 3, requires_grad=True)

    def region(x):
        calls.append(None)
        return torch.dropout(norm(x), 0.5, train=True).sin().cos()

    loss = checkpoint(region, x, use_reentrant=reentrant).square().sum()
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    look(GraphWidget(loss), tmp_path)
    assert len(calls) == 1
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert x.grad is None
    loss.backward()
    assert len(calls) == 2


def test_who_looks_within_a_pass_takes_nothing_from_it(tmp_path):
    def grad(looked_at):
        x = torch.linspace(-1, 1, 4, requires_grad=True)
        y = checkpoint(lambda x: x.sin().exp().cos(), x, use_reentrant=False)
        z = y * 2
        for each in (x, y, z) if looked_at else ():
            each.register_hook(lambda _: look(GraphWidget(z), tmp_path))
        z.sum().backward()
        return x.grad

    assert torch.equal(grad(True), grad(False))


def look(widget, tmp_path):
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget.details["failed"] == []
    widget.selected = None
    widget.to_svg(tmp_path / "graph.svg")
    widget.to_html(tmp_path / "graph.html")
    gradwalk.save(widget, tmp_path / "graph.gw")
    gradwalk.load(tmp_path / "graph.gw").close()
    for file in tmp_path.iterdir():
        file.unlink()
    diagnose(widget)
    widget.to_networkx(), str(widget), widget.to_dot(), widget.to_json()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("how", ["non-reentrant", "reentrant"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_bit_for_bit_those_without_a_widget(name, how):
    found = []
    for look_at_it in (False, True):
        output, truth = program(name, how)
        output = output.sum()
        leaves = [t for _, t in annotated(output).leaves()]
        if look_at_it:
            GraphWidget(output).backward()
        else:
            output.backward()
        found.append(([leaf.grad for leaf in leaves], truth.calls, torch.get_rng_state()))
    (plain, calls, state), (shown, again, after) = found
    assert again == calls
    assert torch.equal(state, after)
    for a, b in zip(plain, shown, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def test_what_the_program_chooses_to_keep_is_not_counted():
    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.PREFER_RECOMPUTE

    x = torch.rand(4, requires_grad=True)
    y = checkpoint(
        lambda a: a.sin().exp().cos(),
        x,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy),
    )
    (region,) = GraphWidget(y.sum()).model["checkpoints"]
    assert region["saves"] == ""
    assert "context_fn" in region["about"]


def test_other_hooks_are_no_region():
    x = torch.rand(4, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = (x.sin() * x).exp().sum()
    assert annotated(y).regions == []
    with torch.autograd.graph.save_on_cpu():
        z = checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False).sum()
    assert [len(region.nodes) for region in annotated(z).regions] == [2]


def test_files_hold_the_regions(tmp_path):
    output, _ = program("nested", "non-reentrant")
    widget = GraphWidget(output)
    gradwalk.save(widget, tmp_path / "run.gw")
    opened = gradwalk.load(tmp_path / "run.gw")
    assert opened.model["checkpoints"] == widget.model["checkpoints"]
    assert json.dumps(opened.model["nodes"]) == json.dumps(widget.model["nodes"])
    networks = [each.to_networkx().nodes(data="checkpoint") for each in (opened, widget)]
    assert dict(networks[0]) == dict(networks[1])


def test_a_recording_shows_them():
    output, _ = program("blocks", "non-reentrant")
    assert len(GraphWidget(record(output)).model["checkpoints"]) == 3


@pytest.mark.parametrize("count", [1, 1_000, 10_000])
def test_many_regions(count):
    x = torch.rand(2, requires_grad=True)
    for _ in range(count):
        x = checkpoint(torch.sin, x, use_reentrant=False)
    graph = capture(x)
    numbers = [nr for _, nr in graph.nodes(data="checkpoint")][:-1]
    assert numbers == list(range(count - 1, -1, -1))


def test_compiled_around_and_within():
    regions = fresh(
        """
        from torch.utils.checkpoint import checkpoint
        f = lambda a: (a.sin() * a).exp()
        x = torch.rand(4, requires_grad=True)
        def outer(a):
            return checkpoint(f, a + 1, use_reentrant=False).sum()
        for y in (
            torch.compile(outer, backend="aot_eager")(x),
            checkpoint(torch.compile(f, backend="aot_eager"), x + 1, use_reentrant=False).sum(),
        ):
            widget = GraphWidget(y)
            for node in range(len(widget.model["nodes"])):
                widget.selected = node
                assert widget.details["failed"] == [], widget.details["failed"]
            print(len(widget.model["checkpoints"]))
            widget.backward()
        """
    )
    # Compiled as a whole it is one node, without a region.
    assert regions == "0\n1\n"


def test_fsdp_around():
    together(
        """
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl, checkpoint_wrapper,
)

def work(rank):
    for how in (CheckpointImpl.NO_REENTRANT, CheckpointImpl.REENTRANT):
        model = mlp()
        model[0] = checkpoint_wrapper(nn.Sequential(model[0], nn.Tanh()), how)
        mesh = init_device_mesh("cpu", (2,))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
        inputs = batch(rank).requires_grad_()
        with watch():
            loss = model(inputs).square().mean()
        widget = GraphWidget(loss, names={"model": model})
        look(widget)
        is_told = how is CheckpointImpl.REENTRANT or hasattr(
            torch._C._autograd.SavedTensor, "unpack_hook"
        )
        assert len(widget.model["checkpoints"]) == is_told, widget.model["checkpoints"]
        widget.backward()
        look(widget)

on_ranks(work)
"""
    )


def test_a_file_that_points_at_no_region_is_refused(tmp_path):
    output, _ = program("nested", "non-reentrant")
    widget = GraphWidget(output)
    gradwalk.save(widget, tmp_path / "run.gw")
    saved = decode((tmp_path / "run.gw").read_bytes())
    numbers = range(len(saved["graph"]["checkpoints"]))
    for wrong in (-1, len(numbers), "0"):
        for holder, field in (
            (saved["graph"]["nodes"][2], "checkpoint"),
            (saved["network"]["nodes"][2], "checkpoint"),
            (saved["graph"]["checkpoints"][1], "parent"),
        ):
            before, holder[field] = holder[field], wrong
            (tmp_path / "other.gw").write_bytes(encode(saved))
            with pytest.raises(ValueError, match="is damaged"):
                gradwalk.load(tmp_path / "other.gw")
            holder[field] = before
    saved["graph"]["checkpoints"][0]["parent"] = 0
    (tmp_path / "other.gw").write_bytes(encode(saved))
    with pytest.raises(ValueError, match="parent is 0"):
        gradwalk.load(tmp_path / "other.gw")
