"""The stages of a pipeline as one graph: real ones, and many that one process plays in turn."""

from __future__ import annotations

import re

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
def test_stages_of_a_pipeline_are_one_picture(world, tmp_path):
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

# The same micro-batch in one process, and in one graph.
model = whole()
x, target = (each[-2:] for each in data())
loss = (model(x) - target).square().mean()
plain = GraphWidget(loss, names={"net": model})
loss.backward()
alone = {d["name"]: d for d in look(plain)}
for name in (schedule.__name__ for schedule in SCHEDULES):
    for shown in (None, *range(world)):
        widget = gradwalk.load(f"{folder}/{name}-*.gw", rank=shown)
        details = look(widget)
        nodes, edges = widget.model["nodes"], widget.model["edges"]
        assert len(widget.model["roots"]) == 1
        boxes = {node["namespace"].split("/")[0] for node in nodes}
        assert boxes == {f"stage {i} on rank {i}" for i in range(world)}, boxes
        tied = [node for node in nodes if (node["sign"] or "").startswith("from rank")]
        assert len(tied) == world - 1
        for node in tied:
            ((edge,)) = [edge for edge in edges if edge["source"] == node["id"]]
            at = widget.model["edges"].index(edge)
            run_ = widget.run
            assert run_["norms"][run_["edges"].index(at)] > 0
            here, there = details[node["id"]], details[edge["target"]]
            assert here["grad_output"][0]["norm"] == there["grad_output"][0]["norm"]
            assert there["contributions"][0]["consumer"] == node["id"]
            rank = int(node["sign"].split()[-1])
            assert f"rank {rank} sent" in here["about"]
            assert f"sent to rank {rank + 1}" in there["about"]
        # The graph is that of one process, but for the nodes in between.
        assert len([n for n in nodes if n["kind"] != "constant"]) == len(
            [n for n in plain.model["nodes"] if n["kind"] != "constant"]
        ) + world - 1
        per_layer = 8 // world
        leaves = [d for d in details if d["kind"] == "leaf"]
        assert len(leaves) == 8
        for leaf in leaves:
            space = nodes[leaf["id"]]["namespace"]
            stage = int(space.split()[1])
            _, number, kind = leaf["name"].split(".")
            same = alone[f"net.{number}.{kind}"]
            assert stage == int(number) // per_layer, (leaf["name"], space)
            for key in ("min", "max", "norm", "mean"):
                got, wanted = leaf["grad_output"][0][key], same["grad_output"][0][key]
                assert abs(got - wanted) < 1e-6, (leaf["name"], key)
            assert [each["rank"] for each in leaf["ranks"]] == [stage], leaf["ranks"]
        kinds = [f.kind for f in widget.diagnose() if not f.message.startswith("Rank ")]
        assert kinds == [], widget.diagnose()
        # The pass of all stages, one after the other, and backwards.
        assert [step.step for step in widget.steps] == [*range(1, len(widget.steps) + 1)]
        assert {step.node for step in widget.steps} == {
            n["id"] for n in nodes if n["kind"] != "constant"
        }
        order = {step.node: step.step for step in widget.steps}
        for edge in edges:
            if edge["kind"] == "gradient":
                assert order[edge["source"]] < order[edge["target"]]
        last = widget.steps[-1].node
        widget.step_back(len(widget.steps))
        assert {d["state"] for d in look(widget) if d["kind"] != "constant"} == {"waiting", "ready"}
        widget.step(len(widget.steps) - 1)
        widget.selected = last
        assert widget.details["state"] in ("ready", "running"), widget.details["state"]
        again = gradwalk.load(save(widget, f"{folder}/again.gw"))
        assert look(again) == look(widget)
        widget.to_svg(f"{folder}/all.svg"), widget.to_html(f"{folder}/all.html")
"""
    )


def test_each_stage_of_a_pipeline_keeps_its_checkpointed_regions(tmp_path):
    together(
        f"folder = {str(tmp_path)!r}\n"
        + PIPELINE
        + """
from torch.utils.checkpoint import checkpoint

made = whole

class Twice(nn.Sequential):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)

def whole():
    layers = list(made())
    return nn.Sequential(*[part for i in range(4) for part in (Twice(*layers[2 * i : 2 * i + 2]),
                                                               nn.Identity())])

def work(rank):
    net, widget = run(rank, 2, ScheduleGPipe, True)
    save(widget, f"{folder}/run-{rank}.gw", stage=rank)

on_ranks(work, 2)
alone = [gradwalk.load(f"{folder}/run-{rank}.gw").model for rank in range(2)]
graph = gradwalk.load(f"{folder}/run-*.gw").model
assert len(graph["checkpoints"]) == sum(len(each["checkpoints"]) for each in alone) == 4
inside = [node for node in graph["nodes"] if node["checkpoint"] is not None]
assert len(inside) == sum(node["checkpoint"] is not None for g in alone for node in g["nodes"]) > 0
for node in inside:
    box = graph["checkpoints"][node["checkpoint"]]["box"]
    assert box is None or f"{node['namespace']}/".startswith(f"{box}/"), (node["namespace"], box)
assert len({node["checkpoint"] for node in inside}) == 4
numbers = gradwalk.load(f"{folder}/run-*.gw").to_networkx().nodes(data="checkpoint")
assert all(graph["nodes"][node]["checkpoint"] == number for node, number in numbers)
"""
    )


def pipeline(
    as_rank,
    folder,
    replicas=1,
    stages=2,
    *,
    same=False,
    skip=None,
    recorded=True,
    keep=False,
    numbered=True,
    first_batch=0,
):
    """Stages of a model, each rank's run as torch.distributed.pipelining runs it; the pattern.

    Args:
        as_rank: The fixture.
        folder: Where to save.
        replicas: How many pipelines run side by side; rank = stage * replicas + replica.
        stages: How many stages each has, of one layer and a tanh.
        same: Whether all replicas have the same batch.
        skip: A rank whose stage leaves its bias out.
        recorded: Whether there are backward passes.
        keep: Whether they keep what was saved for backward.
        numbered: Whether their files say the stage.
        first_batch: The number of the first replica's batch.
    """
    world = replicas * stages
    for replica in range(replicas):
        x = batch(first_batch if same else first_batch + replica)
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
            if recorded:
                made.backward(gradient, retain_graph=keep)
                _ = widget.run
                gradient = taken.grad
        for stage, widget in enumerate(widgets):
            rank = stage * replicas + replica
            as_rank(rank, world)
            save(widget, folder / f"run-{rank}.gw", stage=stage if numbered else None)
    return str(folder / "run-*.gw")


@pytest.mark.parametrize(("replicas", "stages"), [(1, 2), (1, 5), (2, 2), (3, 3)])
@pytest.mark.parametrize("same", [False, True])
def test_stages_and_their_replicas(as_rank, tmp_path, replicas, stages, same):
    pattern = pipeline(as_rank, tmp_path, replicas, stages, same=same)
    for shown in range(replicas * stages):
        widget = load(pattern, rank=shown)
        boxes = {node["namespace"].split("/")[0] for node in widget.model["nodes"]}
        assert len(boxes) == stages
        own = f"stage {shown // replicas} on rank {shown}"
        if not same:  # else it does not matter whose stages are shown
            assert boxes == {
                f"stage {stage} on rank {stage * replicas + shown % replicas}"
                for stage in range(stages)
            }
        assert own in boxes
        for stage in range(stages):
            rows = row(widget, f"net{stage}.0.weight")
            assert [each["rank"] for each in rows] == [
                stage * replicas + replica for replica in range(replicas)
            ]
            assert all(each["local"]["norm"] > 0 for each in rows)
            assert "has no such node" not in widget.details["about"]
        assert {*kinds(widget)} == ({"not-reduced"} if replicas > 1 and not same else set())


def test_each_stage_counts_its_own_parameters(as_rank, tmp_path):
    pattern = pipeline(as_rank, tmp_path, 2, 3, same=True)
    widget = as_ddp(pattern, tmp_path, lambda said, leaf: {})
    found = {
        tuple(sorted(widget.model["nodes"][node]["label"] for node in f.nodes)): f.message
        for f in widget.diagnose()
        if f.kind == "same-batch"
    }
    own = [{name for name in names if name.startswith("net")} for names in found]
    for stage in range(3):
        assert {f"net{stage}.0.weight", f"net{stage}.0.bias"} in own
    for names, message in found.items():
        assert f"for all {len(names)} parameters" in message


def test_a_stage_that_sends_several_outputs_of_one_operation(as_rank, tmp_path):
    torch.manual_seed(0)
    first, last = nn.Linear(3, 6), nn.Linear(2, 2)
    sent = first(batch(0)).chunk(3, dim=1)
    taken = [each.detach().requires_grad_() for each in sent]
    loss = (last(taken[0]) * taken[1] + taken[2].exp()).square().mean()
    widgets = [GraphWidget(*sent, names={"net0": first}), GraphWidget(loss, names={"net1": last})]
    loss.backward()
    torch.autograd.backward(sent, [each.grad for each in taken])
    for rank, widget in enumerate(widgets):
        as_rank(rank, 2)
        save(widget, tmp_path / f"run-{rank}.gw", stage=rank)
    widget = load(str(tmp_path / "run-*.gw"))
    (root,) = (n["id"] for n in widget.model["nodes"] if n["op"] == "SplitBackward0")
    widget.selected = root
    shares = widget.details["contributions"]
    assert widget.details["about"].count("was sent to rank 1") == 1
    edges = [edge for edge in widget.model["edges"] if edge["target"] == root]
    assert len(edges) == len(sent)
    assert {(share["consumer"], share["output_nr"]) for share in shares} == {
        (edge["source"], edge["output_nr"]) for edge in edges
    }
    for share in shares:
        widget.selected = share["consumer"]
        assert widget.details["grad_output"][0]["values"] == share["grad"]["values"]


def test_a_stage_of_one_replica_that_lacks_a_parameter(as_rank, tmp_path):
    pattern = pipeline(as_rank, tmp_path, 2, 2, skip=3)
    widget = load(pattern)
    found = only(widget, "unused-on-rank")
    assert "net1.0.bias got no gradient on rank 3, and did on rank 2" in found.message
    assert [each["local"] is None for each in row(widget, "net1.0.bias")] == [False, True]
    assert "The graph of rank 3 has no such node." in widget.details["about"]
    other = load(pattern, rank=1)
    assert "net1.0.bias got no gradient on rank 3" in only(other, "unused-on-rank").message


def test_stages_without_their_number_are_not_tied(as_rank, tmp_path):
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


def test_stages_without_a_backward_pass_are_refused(as_rank, tmp_path):
    with pytest.raises(ValueError, match="No output on rank 0 fits an input of the next stage"):
        load(pipeline(as_rank, tmp_path, recorded=False))


def test_stages_of_different_batches_are_refused(as_rank, tmp_path):
    pattern = pipeline(as_rank, tmp_path)
    first = (tmp_path / "run-0.gw").read_bytes()
    for path in tmp_path.iterdir():
        path.unlink()
    pipeline(as_rank, tmp_path, first_batch=1)
    (tmp_path / "run-0.gw").write_bytes(first)
    with pytest.raises(ValueError, match="backward pass of the same micro-batch"):
        load(pattern)


@pytest.mark.parametrize(("replicas", "missing"), [(1, 1), (2, 2), (2, 5)])
def test_a_stage_that_lacks_a_file_is_refused(as_rank, tmp_path, replicas, missing):
    pattern = pipeline(as_rank, tmp_path, replicas, 3)
    (tmp_path / f"run-{missing}.gw").unlink()
    with pytest.raises(ValueError, match="These files lack a stage or some of its ranks"):
        load(pattern)


@pytest.mark.parametrize("is_rank", [True, False])
def test_a_stage_is_a_number_and_of_a_rank(as_rank, tmp_path, is_rank):
    loss = nn.Linear(2, 1)(torch.ones(2)).sum()
    if is_rank:
        as_rank(0, 2)
        with pytest.raises(TypeError, match="stage was given '0', of type str"):
            save(loss, tmp_path / "run.gw", stage="0")
    with pytest.raises(ValueError, match="is initialised and the graph is live"):
        save(loss, tmp_path / "run.gw", stage=-1 if is_rank else 0)


def test_an_input_with_a_name_is_tied_and_a_parameter_is_not(as_rank, tmp_path):
    first, bias = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
    sent = first(torch.ones(3))
    taken = sent.detach().requires_grad_()
    widgets = [
        GraphWidget(sent, names={"net": first}),
        GraphWidget((bias + taken).square().sum(), names={"a_bias": bias, "taken": taken}),
    ]
    widgets[1].backward()
    sent.backward(taken.grad)
    for rank, widget in enumerate(widgets):
        as_rank(rank, 2)
        save(widget, tmp_path / f"run-{rank}.gw", stage=rank)
    nodes = load(str(tmp_path / "run-*.gw")).model["nodes"]
    assert [node["name"] for node in nodes if node["sign"] == "from rank 0"] == ["taken"]


def test_findings_of_stages_point_at_the_nodes_of_the_whole(as_rank, tmp_path, monkeypatch):
    monkeypatch.setattr("gradwalk.checks.run_checks._LEAST_TOLD", 0)
    widget = load(pipeline(as_rank, tmp_path, 1, 3, keep=True))
    nodes = widget.model["nodes"]
    assert any(f.nodes for f in widget.diagnose())
    for found in widget.diagnose():
        rank = found.message.split(":")[0].lower()
        for node in found.nodes:
            assert nodes[node]["namespace"].split("/")[0].endswith(f"on {rank}")
        for number in re.findall(r"\(node (\d+)\)", found.message):
            assert nodes[int(number)]["namespace"].split("/")[0].endswith(f"on {rank}")
        assert sorted(map(int, filter(str.isdigit, found.numbers))) == sorted(
            found.nodes if found.kind == "memory" else []
        )


def test_eight_replicas_of_eight_stages(as_rank, tmp_path):
    pattern = pipeline(as_rank, tmp_path, 8, 8)
    widget = load(pattern)
    assert len({node["namespace"].split("/")[0] for node in widget.model["nodes"]}) == 8
    assert len(row(widget, "net3.0.weight")) == 8
