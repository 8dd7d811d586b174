"""Several processes: true names, local and reduced gradients, and no process waits for another."""

from __future__ import annotations

import pytest
from processes import together


def test_fsdp2_names_shapes_and_reduced_gradients(tmp_path):
    together(
        f"""
folder = {str(tmp_path)!r}

def sharded(how):
    model = mlp()
    mesh = init_device_mesh("cpu", (2,))
    if how == "layers":
        fully_shard(model[0], mesh=mesh)
        fully_shard(model[2], mesh=mesh)
    return fully_shard(model, mesh=mesh)

def work(rank):
    for how in ("layers", "root"):
        plain = sharded(how)
        plain(batch(rank)).square().mean().backward()
        expected = {{name: p.grad.to_local() for name, p in plain.named_parameters()}}
        local = mlp()
        local(batch(rank)).square().mean().backward()
        local = {{name: p.grad for name, p in local.named_parameters()}}
        for own in (False, True):
            net = sharded(how)
            with watch():
                loss = net(batch(rank)).square().mean()
            widget = GraphWidget(loss)
            before = look(widget)
            widget.backward() if own else loss.backward()
            for name, parameter in net.named_parameters():
                assert torch.equal(parameter.grad.to_local(), expected[name]), name
            found = {{d["name"]: d for d in look(widget) if d["kind"] == "leaf"}}
            assert found.keys() == {{"net." + name for name in expected}}, found.keys()
            signs = {{node["name"]: node["sign"] for node in widget.model["nodes"]}}
            assert all(signs["net." + name] == "all-gather" for name in expected), signs
            for name, reduced in expected.items():
                details = found["net." + name]
                assert details["shape"] == [*local[name].shape]
                arrived = torch.tensor(details["grad_output"][0]["values"])
                assert torch.allclose(arrived, local[name], atol=1e-6), name
                assert details["grad"]["shape"] == [*reduced.shape]
                assert torch.equal(torch.tensor(details["grad"]["values"]), reduced)
                for shape in (local[name].shape, reduced.shape):
                    assert str(tuple(shape)) in details["about"]
                    assert str(tuple(shape)) in details["explained"]
                mean = local[name].clone()
                dist.all_reduce(mean)
                part = (mean / 2).chunk(2)[rank]
                assert torch.allclose(part, reduced, atol=1e-6), name
            assert not [f for f in widget.diagnose() if f.severity != "info"], widget.diagnose()
            assert not [
                f for f in widget.diagnose(optimizer=torch.optim.SGD(net.parameters(), 0.1))
                if f.severity != "info"
            ]
            save(widget, folder + f"/{{how}}-{{own}}-{{rank}}.gw")
            again = gradwalk.load(folder + f"/{{how}}-{{own}}-{{rank}}.gw")
            look(again)
            assert not [f for f in again.diagnose() if f.severity != "info"], again.diagnose()
            widget.step_back(3)
            for name, parameter in net.named_parameters():
                assert torch.equal(parameter.grad.to_local(), expected[name]), name
            net.zero_grad()
            net(batch(rank)).square().mean().backward()
            for name, parameter in net.named_parameters():
                assert torch.equal(parameter.grad.to_local(), expected[name]), name
            net.zero_grad()
            gone = [d for d in look(widget) if d["kind"] == "leaf"]
            assert all("FSDP2" in d["explained"] and d["grad"] is None for d in gone)

on_ranks(work)
"""
    )


def test_one_rank_looks_at_tensors_that_are_shared_out_while_the_others_do_not(tmp_path):
    together(
        f"""
def work(rank):
    mesh = init_device_mesh("cpu", (2,))
    for placement in (Shard(0), Replicate()):
        w = distribute_tensor(torch.randn(4, 3), mesh, [placement]).requires_grad_()
        y = w * 2
        loss = y.to_local().square().sum()
        if rank == 0:
            widget = GraphWidget(loss)
            look(widget)
        loss.backward()
        if rank == 0:
            found = look(widget)
            own = next(d for d in found if d["kind"] == "leaf")
            assert own["value"]["shape"] == [*w.to_local().shape], own["value"]
            assert "This rank's part of a tensor (4, 3)" in own["value"]["note"]
            grad = torch.tensor(own["grad"]["values"])
            assert torch.equal(grad, w.grad.to_local())
            widget.diagnose()
            gradwalk.explain_grad(w, loss)
            save(widget, {str(tmp_path)!r} + "/a.gw")
            str(widget)

on_ranks(work)
"""
    )


def test_each_rank_saves_its_local_and_its_reduced_gradients(tmp_path):
    together(
        f"""
from pathlib import Path
from gradwalk.schema.ranks import rank_in

folder = {str(tmp_path)!r}

def said(name, rank):
    path = Path(folder) / f"{{name}}-{{rank}}.gw"
    found = rank_in(path.read_bytes(), path.name)
    assert (found["rank"], found["world_size"]) == (rank, 2)
    return {{leaf["name"]: leaf for leaf in found["leaves"]}}

def work(rank):
    mesh = init_device_mesh("cpu", (2,))
    local = mlp()
    local(batch(rank)).square().mean().backward()
    for name in ("DDP", "FSDP2"):
        for own in (False, True):
            net = mlp()
            net = DistributedDataParallel(net) if name == "DDP" else fully_shard(net, mesh=mesh)
            with watch():
                loss = net(batch(rank)).square().mean()
            widget = GraphWidget(loss)
            widget.backward() if own else loss.backward()
            reduced = [getattr(p.grad, "_local_tensor", p.grad) for p in net.parameters()]
            before = [grad.clone() for grad in reduced]
            save(widget, folder + f"/{{name}}{{own}}-{{rank}}.gw")
            if own and name == "DDP":
                widget.reset()
                assert all(parameter.grad is None for parameter in net.parameters())
                widget.step(999)
            after = [getattr(p.grad, "_local_tensor", p.grad) for p in net.parameters()]
            assert all(map(torch.equal, before, after))
            leaves = said(f"{{name}}{{own}}", rank)
            for (key, parameter), grad, mine in zip(
                net.named_parameters(), reduced, local.parameters(), strict=True
            ):
                leaf = leaves["net." + key]
                assert leaf["parallel"] == name
                assert leaf["line"]["file"] == "<string>" and leaf["line"]["line"] > 0
                assert leaf["reduced"]["norm"] == grad.double().norm().item()
                assert abs(leaf["local"]["norm"] - mine.grad.norm()) < 1e-6
                assert leaf["local"]["shape"] == [*mine.shape]
                part = mine.grad if name == "DDP" else (*mine.grad.chunk(2), mine.grad[:0])[rank]
                expected = (part - grad).double()
                for said_of, of in (("norm", expected.norm()), ("max", expected.max())):
                    assert abs(leaf["difference"][said_of] - of) < 1e-6, (name, key)
                if mine.ndim == 1:
                    mean = torch.tensor(leaf["local"]["few"])
                    dist.all_reduce(mean)
                    part = mean / 2 if name == "DDP" else (mean / 2).chunk(2)[rank]
                    assert torch.allclose(part, torch.tensor(leaf["reduced"]["few"]), atol=1e-6)

on_ranks(work)
"""
    )


NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x, is_second=True, times=1):
        h = self.first(x).tanh()
        if is_second:
            h = self.second(h)
        return h.square().mean() * times


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 6)

    def forward(self, x):
        return nn.functional.dropout(self.second(self.first(x).relu()), 0.5).square().mean()
"""

PLANTED = """
from pathlib import Path
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

Path(folder, "planted_net.py").write_text(net_text)
sys.path.insert(0, folder)
from planted_net import Dropped, Net

def told(name, shown=None):
    widget = gradwalk.load(f"{folder}/{name}-*.gw", rank=shown)
    look(widget)
    return {f.kind: f for f in widget.diagnose() if not f.message.startswith("Rank ")}

def explained(name, leaf):
    return gradwalk.explain_grad(leaf, gradwalk.load(f"{folder}/{name}-*.gw"))

def saved(name, rank, model, loss, change=None):
    widget = GraphWidget(loss, names={"net": model})
    loss.backward()
    if change is not None:
        change()
    save(widget, f"{folder}/{name}-{rank}.gw")
"""


@pytest.mark.one_python
@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.full)])
def test_what_is_planted_in_real_processes_is_found(tmp_path, world):
    together(
        f"folder, world, net_text = {str(tmp_path)!r}, {world}, {NET!r}\n"
        + PLANTED
        + """
odd = world // 2  # 1 of 2, 2 of 4
rest = "0, 1 and 3" if world > 2 else "0"

def work(rank):
    def ddp(**more):
        return DistributedDataParallel(Net(), **more)

    def watched(name, net, *inputs, **more):
        with watch():
            loss = net(*inputs, **more)
        saved(name, rank, net, loss)

    watched("good", ddp(), batch(rank))
    watched(
        "unused", ddp(find_unused_parameters=True), batch(rank), is_second=rank != odd
    )
    net = ddp()
    with net.no_sync():
        watched("no_sync", net, batch(rank))
    watched("no_sync_then", net, batch(rank))  # which has added both up
    watched("bare", Net(), batch(rank))
    watched("nan", ddp(), batch(rank) * (float("nan") if rank == odd else 1))
    watched("large", ddp(), batch(rank), times=1e4 if rank == odd else 1)
    net = ddp()
    with torch.no_grad():
        net.module.second.weight += rank == odd
    watched("drifted", net, batch(rank))
    watched("same", ddp(), batch(0 if rank in (0, odd) else rank))
    for name, numbers in (("inner", batch(rank)), ("same_inner", batch(0))):
        net = ddp()
        with watch():
            loss = net(numbers)
        saved(name, rank, net.module, loss)
        net = ddp()
        loss = net(numbers)
        widget = GraphWidget(loss, names={"net": net.module})
        loss.backward()
        save(widget, f"{folder}/{name}_unwatched-{rank}.gw")
    net = Net()  # told to be left out, so nobody has forgotten it
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["second.weight"])
    watched("ignored", DistributedDataParallel(net), batch(rank))

    # An all-reduce by hand that leaves one parameter out.
    net = Net()

    def reduce():
        for name, parameter in net.named_parameters():
            if name != "second.weight":
                dist.all_reduce(parameter.grad)
                parameter.grad /= world

    with watch():
        loss = net(batch(rank))
    saved("left_out", rank, net, loss, reduce)

    # All of them by hand, after a pass that the widget ran.
    net = Net()
    with watch():
        loss = net(batch(rank))
    widget = GraphWidget(loss, names={"net": net})
    widget.backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    save(widget, f"{folder}/by_hand-{rank}.gw")

    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    watched("fsdp", fully_shard(Net(), mesh=mesh), batch(rank))
    plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
    for name in ("tp", "tp_seed"):
        net = parallelize_module(Dropped(), mesh, plan)
        torch.manual_seed(7 if name == "tp_seed" and rank == odd else 6)
        watched(name, net, batch(0))

on_ranks(work, world)
for name, kinds in {
    "good": set(),
    "unused": {"unused-on-rank"},
    "no_sync": {"not-reduced"},
    "no_sync_then": set(),
    "bare": {"not-reduced"},
    "left_out": {"not-reduced"},
    "by_hand": set(),
    "nan": {"nan-on-rank"},
    "large": {"large-on-rank"},
    "drifted": {"drifted"},
    "same": {"same-batch"},
    "inner": set(),
    "same_inner": {"same-batch"},
    "inner_unwatched": set(),
    "same_inner_unwatched": {"same-batch"},
    "ignored": {"not-reduced"},
    "fsdp": set(),
    "tp": set(),
    "tp_seed": {"not-alike"},
}.items():
    for shown in (0, 1):
        found = told(name, shown)
        assert found.keys() == kinds, (name, shown, found)
# A .grad that was reduced is not what arrived, and nobody added to it or clipped it.
for name in ("good", "fsdp", "tp"):
    kinds = {f.kind for f in gradwalk.load(f"{folder}/{name}-*.gw").diagnose()}
    assert not kinds & {"accumulated", "clipped"}, (name, kinds)

def line(text):
    return next(i for i, each in enumerate(net_text.splitlines(), 1) if text in each)

second = f"planted_net.py:{line('h = self.second')} (`h = self.second(h)`)"
second = f"net.module.second.weight at {second}"
ranks = "ranks" if world > 2 else "rank"
message = told("unused")["unused-on-rank"].message
assert second in message, message
assert f"got no gradient on rank {odd}, and did on {ranks} {rest}" in message, message
assert f"as when `if is_second:` at planted_net.py:{line('if is_second')}" in message, message
assert "find_unused_parameters=True" in message, message
assert second in explained("unused", "net.module.second.weight")
assert "second.bias" not in explained("unused", "net.module.second.weight")
for name, severity in (("no_sync", "warning"), ("bare", "error"), ("left_out", "error")):
    assert told(name)["not-reduced"].severity == severity
assert "no_sync()" in told("no_sync")["not-reduced"].message
assert second in told("no_sync")["not-reduced"].message
message = told("left_out")["not-reduced"].message
assert second.replace("module.", "") in message and "first" not in message, message
assert "nothing was reduced" in explained("left_out", "net.second.weight")
assert "reduced" not in explained("left_out", "net.second.bias")
message = told("nan")["nan-on-rank"].message
assert f"on rank {odd}, and none" in message and "net.module." in message, message
assert f"on rank {odd}, and none" in explained("nan", "net.module.second.weight")
message = told("large")["large-on-rank"].message
assert f"The local gradients of rank {odd} are" in message and "planted_net.py:" in message, message
message = told("drifted")["drifted"].message
assert second in message, message
assert "weights the same" in explained("drifted", "net.module.second.weight")
message = told("same")["same-batch"].message
assert f"The local gradients of ranks 0 and {odd} are the very same" in message, message
message = told("ignored")["not-reduced"].message
assert second in message and "bias" not in message and "ran through" not in message, message
message = told("tp_seed")["not-alike"].message
assert f"net.second.bias at planted_net.py:{line('functional.dropout')}" in message, message
assert "another seed, as in dropout" in explained("tp_seed", "net.second.bias")
if world > 2:
    for name in ("drifted", "tp_seed"):
        (found,) = told(name).values()
        assert f"It is the same on ranks {rest}, and not on rank {odd}." in found.message, found
"""
    )


@pytest.mark.parametrize("how", ["exit", "raise"])
def test_a_rank_that_dies_leaves_the_others_their_files(tmp_path, how):
    together(
        f"folder, how = {str(tmp_path)!r}, {how!r}\n"
        + """
import os
from pathlib import Path

def work(rank, store):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2,
        timeout=timedelta(minutes=10),
    )
    net = DistributedDataParallel(mlp())
    with watch():
        h = net(batch(rank))
        if rank == 1:
            if how == "exit":
                os._exit(1)
            raise ValueError("the batch is broken")
        loss = h.square().mean()
    widget = GraphWidget(loss)
    look(widget)
    try:
        loss.backward()
    except RuntimeError as error:
        failed = error  # torch's own, because the other rank is gone
    else:
        raise AssertionError("the other rank answered")
    look(widget)  # waiting for the other rank would take longer than the test waits below
    widget.diagnose()
    save(widget, folder + "/run-0.gw")
    Path(folder, "said").write_text(str(failed))
    os._exit(0)  # leaving in order would wait for the other rank

def silent(rank, store):
    sys.stderr = open(os.devnull, "w")
    work(rank, store)

with tempfile.TemporaryDirectory() as store:
    context = torch.multiprocessing.start_processes(
        silent, args=(store + "/store",), nprocs=2, join=False, start_method="fork"
    )
    for process in context.processes:
        process.join(100)
    assert [process.exitcode for process in context.processes] == [0, 1]
assert Path(folder, "said").read_text()
widget = gradwalk.load(folder + "/run-*.gw")
look(widget)
text = " ".join(f.message for f in widget.diagnose())
assert "The file of rank 1 of 2 is missing" in text, text
rows = [d["ranks"] for d in look(widget) if d["kind"] == "leaf"]
assert all([each["rank"] for each in row] == [0] for row in rows)
"""
    )
