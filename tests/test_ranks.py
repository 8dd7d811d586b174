"""Several processes: true names, local and reduced gradients, and no process waits for another."""

from __future__ import annotations

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
            loss = net(batch(rank)).square().mean()
            widget = GraphWidget(loss)
            before = look(widget)
            widget.backward() if own else loss.backward()
            for name, parameter in net.named_parameters():
                assert torch.equal(parameter.grad.to_local(), expected[name]), name
            found = {{d["name"]: d for d in look(widget) if d["kind"] == "leaf"}}
            assert found.keys() == {{"net." + name for name in expected}}, found.keys()
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
            look(gradwalk.load(folder + f"/{{how}}-{{own}}-{{rank}}.gw"))
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
from gradwalk.wire.ranks import rank_in

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
                if mine.ndim == 1:
                    mean = torch.tensor(leaf["local"]["few"])
                    dist.all_reduce(mean)
                    part = mean / 2 if name == "DDP" else (mean / 2).chunk(2)[rank]
                    assert torch.allclose(part, torch.tensor(leaf["reduced"]["few"]), atol=1e-6)

on_ranks(work)
"""
    )


PLANTED = """
import collections

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x, is_second=True):
        h = self.first(x).tanh()
        return (self.second(h) if is_second else h).square().mean()

def told(name, shown=None):
    widget = gradwalk.load(f"{folder}/{name}-*.gw", rank=shown)
    look(widget)
    return {f.kind: f for f in widget.diagnose() if not f.message.startswith("Rank ")}

def saved(name, rank, model, loss):
    widget = GraphWidget(loss, names={"net": model})
    loss.backward()
    save(widget, f"{folder}/{name}-{rank}.gw")
"""


def test_what_is_planted_in_real_processes_is_found(tmp_path):
    together(
        f"folder = {str(tmp_path)!r}\n"
        + PLANTED
        + """
def work(rank):
    def ddp(**more):
        return DistributedDataParallel(Net(), **more)

    net = ddp()
    saved("good", rank, net, net(batch(rank)))
    net = ddp(find_unused_parameters=True)
    with watch():
        loss = net(batch(rank), is_second=rank == 0)
    saved("unused", rank, net, loss)
    net = ddp()
    with net.no_sync():
        saved("no_sync", rank, net, net(batch(rank)))
    saved("no_sync_then", rank, net, net(batch(rank)))  # which has added both up
    net = Net()
    saved("bare", rank, net, net(batch(rank)))
    net = ddp()
    saved("nan", rank, net, net(batch(rank) * (float("nan") if rank == 1 else 1)))
    net = ddp()
    with torch.no_grad():
        net.module.second.weight += rank
    saved("drifted", rank, net, net(batch(rank)))
    net = fully_shard(Net(), mesh=init_device_mesh("cpu", (2,)))
    saved("fsdp", rank, net, net(batch(rank)))

on_ranks(work)
for name, kinds in {
    "good": set(),
    "unused": {"unused on a rank"},
    "no_sync": {"not reduced"},
    "no_sync_then": set(),
    "bare": {"not reduced"},
    "nan": {"nan on a rank"},
    "drifted": {"drifted"},
    "fsdp": set(),
}.items():
    for shown in (0, 1):
        found = told(name, shown)
        assert found.keys() == kinds, (name, shown, found)
# A .grad that was reduced is not what arrived, and nobody added to it or clipped it.
for name in ("good", "fsdp"):
    kinds = {f.kind for f in gradwalk.load(f"{folder}/{name}-*.gw").diagnose()}
    assert not kinds & {"accumulated", "clipped"}, (name, kinds)
message = told("unused")["unused on a rank"].message
assert "net.module.second.weight at <string>:" in message, message
assert "got no gradient on rank 1, and did on rank 0" in message
assert "find_unused_parameters=True" in message
assert "no_sync()" in told("no_sync")["not reduced"].message
assert told("no_sync")["not reduced"].severity == "warning"
assert told("bare")["not reduced"].severity == "error"
assert "on rank 1, and none" in told("nan")["nan on a rank"].message
"""
    )
