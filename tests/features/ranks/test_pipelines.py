"""The stages of a pipeline: real ones, and many that one process plays in turn."""

from __future__ import annotations

import pytest
import torch
from played_ranks import as_ddp, batch, kinds, only, row
from processes import WORLDS, together
from torch import nn

from gradwalk import GraphWidget, load, save

pytestmark = pytest.mark.one_python

PIPELINE = """
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

SCHEDULES = [ScheduleGPipe, Schedule1F1B]


def whole():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 6), nn.Tanh(),
        nn.Linear(6, 2), nn.Tanh(),
    )


def data():
    made = torch.Generator().manual_seed(1)
    return torch.randn(8, 4, generator=made), torch.randn(8, 2, generator=made)


def run(rank, world, schedule, look_at, group=None):
    # One step of a pipeline of `world` stages of the model; the stage, and its last widget.
    layers = 8 // world
    module = whole()[rank * layers : (rank + 1) * layers]
    stage = PipelineStage(module, rank, world, torch.device("cpu"), group=group)
    seen = []

    def output_made(net, _, output):
        if look_at and output.requires_grad and rank < world - 1:
            seen.append(GraphWidget(output, names={"net": net}))

    def loss_of(output, target):
        loss = (output - target).square().mean()
        if look_at:
            seen.append(GraphWidget(loss, names={"net": module}))
        return loss

    module.register_forward_hook(output_made)
    step = schedule(stage, n_microbatches=4, loss_fn=loss_of).step
    x, target = data()
    step(*([x] if rank == 0 else []), **({"target": target} if rank == world - 1 else {}))
    return module, seen[-1] if seen else None
"""


@WORLDS
def test_each_stage_has_the_gradients_of_one_process(world, tmp_path):
    together(
        f"folder, world = {str(tmp_path)!r}, {world}\n"
        + PIPELINE
        + """
def work(rank):
    for schedule in SCHEDULES:
        plain, _ = run(rank, world, schedule, False)
        net, widget = run(rank, world, schedule, True)
        for one, other in zip(plain.parameters(), net.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad)
        save(widget, f"{folder}/{schedule.__name__}-{rank}.gw", stage=rank)

on_ranks(work, world)

# The same micro-batch in one process.
model = whole()
x, target = (each[-2:] for each in data())
loss = (model(x) - target).square().mean()
plain = GraphWidget(loss, names={"net": model})
loss.backward()
alone = {d["name"]: d for d in look(plain)}
for name in (schedule.__name__ for schedule in SCHEDULES):
    for shown in range(world):
        widget = gradwalk.load(f"{folder}/{name}-*.gw", rank=shown)
        leaves = [d for d in look(widget) if d["kind"] == "leaf" and d["name"]]
        assert len(leaves) == 8 // world
        for leaf in leaves:
            _, number, kind = leaf["name"].split(".")
            assert int(number) // (8 // world) == shown, leaf["name"]
            same = alone[f"net.{number}.{kind}"]
            for key in ("min", "max", "norm", "mean"):
                got, wanted = leaf["grad_output"][0][key], same["grad_output"][0][key]
                assert abs(got - wanted) < 1e-6, (leaf["name"], key)
            assert [each["rank"] for each in leaf["ranks"]] == [shown], leaf["ranks"]
        kinds = [f.kind for f in widget.diagnose() if not f.message.startswith("Rank ")]
        assert kinds == [], widget.diagnose()
        widget.to_svg(f"{folder}/one.svg"), widget.to_html(f"{folder}/one.html")
"""
    )


def pipeline(as_rank, folder, replicas=1, stages=2, *, same=False, skip=None, numbered=True):
    """Stages of a model, each rank's run as torch.distributed.pipelining runs it; the pattern.

    Args:
        as_rank: The fixture.
        folder: Where to save.
        replicas: How many pipelines run side by side; rank = stage * replicas + replica.
        stages: How many stages each has, of one layer and a tanh.
        same: Whether all replicas have the same batch.
        skip: A rank whose stage leaves its bias out.
        numbered: Whether their files say the stage.
    """
    world = replicas * stages
    for replica in range(replicas):
        x = batch(0 if same else replica)
        modules, ends = [], []
        for stage in range(stages):
            torch.manual_seed(stage)
            layer = nn.Linear(3, 3, bias=stage * replicas + replica != skip)
            modules.append(nn.Sequential(layer, nn.Tanh()))
            taken = x if not ends else ends[-1][1].detach().requires_grad_()
            made = modules[-1](taken)
            ends.append((taken, made.square().mean() if stage == stages - 1 else made))
        widgets = []
        for (_, made), net in zip(ends, modules, strict=True):
            widgets.append(GraphWidget(made, names={f"net{len(widgets)}": net}))
        gradient = None
        for (taken, made), widget in zip(reversed(ends), reversed(widgets), strict=True):
            made.backward(gradient)
            _ = widget.run
            gradient = taken.grad
        for stage, widget in enumerate(widgets):
            rank = stage * replicas + replica
            as_rank(rank, world)
            save(widget, folder / f"run-{rank}.gw", stage=stage if numbered else None)
    return str(folder / "run-*.gw")


@pytest.mark.parametrize(("replicas", "stages"), [(1, 2), (2, 2), (3, 3)])
@pytest.mark.parametrize("same", [False, True])
def test_stages_and_their_replicas(as_rank, tmp_path, replicas, stages, same):
    pattern = pipeline(as_rank, tmp_path, replicas, stages, same=same)
    widget = load(pattern)
    for shown in range(replicas * stages):
        widget.rank = shown
        stage = shown // replicas
        names = {node["name"] for node in widget.model["nodes"]}
        assert {n for n in names if n and n.startswith("net")} == {
            f"net{stage}.0.weight",
            f"net{stage}.0.bias",
        }
        rows = row(widget, f"net{stage}.0.weight")
        ranks = [stage * replicas + replica for replica in range(replicas)]
        assert [each["rank"] for each in rows] == ranks
        assert all(each["local"]["norm"] > 0 for each in rows)
        assert "has no such node" not in widget.details["about"]
        assert {*kinds(widget)} == ({"not-reduced"} if replicas > 1 and not same else set())


def test_each_stage_counts_its_own_parameters(as_rank, tmp_path):
    pattern = pipeline(as_rank, tmp_path, 2, 3, same=True)
    widget = as_ddp(pattern, tmp_path, lambda said, leaf: {})
    messages = [f.message for f in widget.diagnose() if f.kind == "same-batch"]
    assert len(messages) == 3
    for message in messages:
        assert "for all 3 parameters" in message or "for all 2 parameters" in message


def test_a_stage_of_one_replica_that_lacks_a_parameter(as_rank, tmp_path):
    pattern = pipeline(as_rank, tmp_path, 2, 2, skip=3)
    for shown in range(4):
        found = only(load(pattern, rank=shown), "unused-on-rank")
        assert "net1.0.bias got no gradient on rank 3, and did on rank 2" in found.message
    widget = load(pattern, rank=2)
    assert [each["local"] is None for each in row(widget, "net1.0.bias")] == [False, True]
    assert "The graph of rank 3 has no such node." in widget.details["about"]


def test_stages_without_their_number_are_other_graphs(as_rank, tmp_path):
    with pytest.warns(UserWarning, match="no parameter in common") as told:
        widget = load(pipeline(as_rank, tmp_path, numbered=False))
    assert "save each with gradwalk.save(..., stage=)" in str(told[0].message)
    assert any("load it with rank=1" in f.message for f in widget.diagnose())
    names = {node["name"] for node in widget.model["nodes"]}
    assert "net0.0.weight" in names
    assert "net1.0.weight" not in names
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        assert "has no such node" not in widget.details["about"]


@pytest.mark.parametrize("is_rank", [True, False])
def test_a_stage_is_a_number_and_of_a_rank(as_rank, tmp_path, is_rank):
    loss = nn.Linear(2, 1)(torch.ones(2)).sum()
    if is_rank:
        as_rank(0, 2)
        with pytest.raises(TypeError, match="stage was given '0', of type str"):
            save(loss, tmp_path / "run.gw", stage="0")
    with pytest.raises(ValueError, match="is initialised and the graph is live"):
        save(loss, tmp_path / "run.gw", stage=-1 if is_rank else 0)
