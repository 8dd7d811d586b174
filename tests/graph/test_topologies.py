"""DistributedDataParallel and FSDP2, each with and without gradwalk: bit for bit the same."""

from __future__ import annotations

import pytest
from fresh import fresh
from processes import COMPARED, WORLDS, together

pytestmark = pytest.mark.one_python


@WORLDS
def test_ddp(world):
    together(
        COMPARED
        + f"""
world = {world}

def work(rank):
    for more in ({{}}, {{"find_unused_parameters": True}}, {{"bucket_cap_mb": 0.0001}}):
        make = lambda: DistributedDataParallel(mlp(), **more)
        is_same(make, rank)
        net = make()
        loss = net(batch(rank)).square().mean()
        sinks = [d for d in look(GraphWidget(loss)) if "DDPSink" in d["op"]]
        assert len(sinks) == ("find_unused_parameters" in more)
        assert all("put this node at the output of its module" in d["about"] for d in sinks)
        loss.backward()
        net.zero_grad()
        found = looked_at(net, rank, 0)
        for name, mean in mean_of_locals(found, dict(net.named_parameters()), world).items():
            reduced = net.get_parameter(name).grad
            assert torch.allclose(mean, reduced, rtol=0, atol=1e-6), name

    def accumulated(net, rank, number, look_at=plainly):
        with net.no_sync():
            look_at(net, rank, number)
            local = [p.grad.clone() for p in net.parameters()]
        look_at(net, rank, number + 1)
        return local

    make = lambda: DistributedDataParallel(mlp())
    _, expected = trained(make, rank, accumulated)
    _, seen = trained(make, rank, lambda *of: accumulated(*of, looked_at))
    assert len(seen) == len(expected) and all(map(torch.equal, seen, expected))
    net = make()
    with net.no_sync():
        first = looked_at(net, rank, 0)
    names = dict(net.named_parameters())
    for name, parameter in names.items():
        arrived = torch.tensor(first["net." + name]["grad_output"][0]["values"])
        assert torch.equal(arrived, parameter.grad), name
    before = mean_of_locals(first, names, world)
    after = mean_of_locals(looked_at(net, rank, 1), names, world)
    for name, parameter in names.items():
        assert torch.allclose(before[name] + after[name], parameter.grad, rtol=0, atol=1e-6), name

on_ranks(work, world)
"""
    )


@WORLDS
def test_fsdp2(world):
    together(
        COMPARED
        + f"""
world = {world}

def work(rank):
    mesh = init_device_mesh("cpu", (world,))

    def layers():
        net = mlp()
        fully_shard(net[0], mesh=mesh)
        fully_shard(net[2], mesh=mesh)
        return fully_shard(net, mesh=mesh)

    for make, is_whole in ((layers, False), (lambda: fully_shard(mlp(), mesh=mesh), True)):
        is_same(make, rank)
        net = make()
        loss = net(batch(rank)).square().mean()
        details = look(GraphWidget(loss))
        reducing = [d["about"] for d in details if d["op"].startswith("RegisterPostBackward")]
        # The input of the model needs no grad, so there is no node for what comes first.
        assert len(reducing) == (0 if is_whole else 1), reducing
        for about in reducing:
            assert f"the gradients of 2.weight and 2.bias over {{world}} ranks" in about, about
        abouts = [d["about"] for d in details if d["kind"] == "leaf"]
        # FSDP2 keeps the outermost module gathered between forward and backward.
        again = "" if is_whole else ", and again for backward"
        wanted = f"in full, from {{world}} ranks for forward{{again}}; of it"
        assert len(abouts) == 4 and all(wanted in about for about in abouts), abouts
        loss.backward()
        net.zero_grad()
        found = looked_at(net, rank, 0)
        for name, mean in mean_of_locals(found, dict(net.named_parameters()), world).items():
            reduced = own(net.get_parameter(name).grad)
            parts = mean.chunk(world)
            part = parts[rank] if rank < len(parts) else mean[:0]
            assert torch.allclose(part, reduced, rtol=0, atol=1e-6), name

on_ranks(work, world)
"""
    )


def test_buckets_and_the_order_of_gradients_are_those_of_the_log(tmp_path):
    together(
        f"folder = {str(tmp_path)!r}\n"
        + COMPARED
        + """
def work(rank):
    for i, more in enumerate(({}, {"bucket_cap_mb": 0.0001}, {"find_unused_parameters": True},
                              {"bucket_cap_mb": 0.00005, "find_unused_parameters": True})):
        net = DistributedDataParallel(mlp(), **more)
        hooks = []
        for name, parameter in net.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: hooks.append(name))
        for number in range(4):
            earlier, hooks[:] = [*hooks], []
            loss = net(batch(rank)).square().mean()
            widget = GraphWidget(loss, names={"net": net})
            loss.backward()
            found = {d["name"][4:]: d["about"] for d in look(widget) if d["kind"] == "leaf"}
            log = net._get_ddp_logging_data()
            names = [name for name, _ in net.named_parameters()]
            order = log.get("prev_iteration_grad_ready_order_indices")
            for name, about in found.items():
                assert "By the log of DistributedDataParallel" in about
                if order is None:
                    assert "ready" not in about
                else:
                    place = [int(each) for each in order.split(",")].index(names.index(name))
                    assert f"ready as number {place + 1} of 4" in about, about
                    assert earlier[place] == name
            rebuilt = log.get("rebuilt_per_bucket_param_indices")
            sizes = log["rebuilt_bucket_sizes"] if rebuilt else log["bucket_sizes"]
            sizes = [int(each) for each in sizes.split(",")]
            for b, nbytes in enumerate(sizes):
                inside = [n for n, a in found.items() if f"in bucket {b + 1} of {len(sizes)} " in a]
                assert sum(net.get_parameter(n).nbytes for n in inside) == nbytes, (found, sizes)
                if rebuilt:
                    group = rebuilt.split(",")[b].split()
                    assert {names[int(each)] for each in group} == set(inside)
                for name in inside:
                    alone = "alone in it" if len(inside) == 1 else f"{len(inside)} parameters"
                    assert f"({nbytes} bytes, {alone})" in found[name]
        save(widget, f"{folder}/{i}-{rank}.gw")

on_ranks(work)
for i in range(4):
    widget = gradwalk.load(f"{folder}/{i}-*.gw")
    rows = [d["ranks"] for d in look(widget) if d["kind"] == "leaf"]
    assert len(rows) == 4 and all(len(each) == 2 for each in rows)
    assert all(each["bucket"] is not None for row in rows for each in row)
    for rank in (0, 1):
        assert {row[rank]["ready"] for row in rows} == {0, 1, 2, 3}
"""
    )


SIMULATED = """
import torch.distributed as dist
from torch import nn
from torch.distributed._local_tensor import LocalTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())


def batch(rank):
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(rank))


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
"""


def test_ranks_that_one_process_simulates(tmp_path):
    fresh(
        SIMULATED
        + f"""
alone = []
for rank in range(4):
    net = model()
    net(batch(rank)).square().mean().backward()
    alone.append([parameter.grad for parameter in net.parameters()])
means = [torch.stack(each).mean(0) for each in zip(*alone, strict=True)]
with LocalTensorMode(4) as mode:
    net = model()
    loss = net(mode.rank_map(batch)).square().mean()
    widget = GraphWidget(loss, names={{"net": net}})
    loss.backward()
    for is_reduced in (False, True):
        if is_reduced:
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= 4
        for i, (name, _) in enumerate(net.named_parameters()):
            node = next(n["id"] for n in widget.model["nodes"] if n["name"] == f"net.{{name}}")
            widget.selected = node
            found = widget.details
            assert found["failed"] == []
            assert [each["rank"] for each in found["ranks"]] == [0, 1, 2, 3]
            for rank, each in enumerate(found["ranks"]):
                local = torch.tensor(each["local"]["values"])
                reduced = torch.tensor(each["reduced"]["values"])
                assert torch.allclose(local, alone[rank][i], atol=1e-7), name
                wanted = means[i] if is_reduced else alone[rank][i]
                assert torch.allclose(reduced, wanted, atol=1e-7), name
                assert torch.equal(torch.tensor(each["difference"]["values"]), local - reduced)
            assert "This is rank 0 of the 4 simulated ranks." in found["value"]["note"]
    widget.diagnose()
    assert widget.run["norms"]
    widget.to_html({str(tmp_path)!r} + "/a.html")
"""
    )
