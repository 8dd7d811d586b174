"""How models are spread over processes, each with and without gradwalk: bit for bit the same.

Two processes in every run of the tests; four where all of them run.
"""

from __future__ import annotations

import pytest
from processes import together

WORLDS = pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.full)])

COMPARED = """
def own(tensor):
    return getattr(tensor, "_local_tensor", tensor)


def trained(make, rank, backward, passes=2):
    # Two steps of an optimizer; the weights and gradients that each leaves, and the module.
    net = make()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    seen = []
    for number in range(passes):
        optimizer.zero_grad()
        backward(net, rank, number)
        seen += [own(p.grad).clone() for p in net.parameters() if p.grad is not None]
        optimizer.step()
        seen += [own(p).detach().clone() for p in net.parameters()]
    return net, seen


def plainly(net, rank, number):
    net(batch(rank + 10 * number)).square().mean().backward()


def looked_at(net, rank, number, by_widget=False):
    with watch():
        loss = net(batch(rank + 10 * number)).square().mean()
    widget = GraphWidget(loss)
    look(widget)
    widget.backward() if by_widget else loss.backward()
    found = {d["name"]: d for d in look(widget) if d["kind"] == "leaf"}
    names = {"net." + name for name, _ in net.named_parameters()}
    assert found.keys() == names, (found.keys(), names)
    assert [f for f in widget.diagnose() if f.severity != "info"] == [], widget.diagnose()
    for name, parameter in net.named_parameters():
        gradwalk.explain_grad(parameter, loss)
        grad, shown = own(parameter.grad), found["net." + name]["grad"]
        assert shown["shape"] == [*grad.shape]
        assert not grad.numel() or torch.equal(torch.tensor(shown["values"]), grad), name
    return found


def is_same(make, rank):
    _, expected = trained(make, rank, plainly)
    for by_widget in (False, True):
        _, seen = trained(make, rank, lambda *of: looked_at(*of, by_widget))
        assert len(seen) == len(expected) and all(map(torch.equal, seen, expected))


def mean_of_locals(found, names, world):
    # What arrived at each leaf, averaged over the ranks.
    means = {}
    for name in names:
        means[name] = torch.tensor(found["net." + name]["grad_output"][0]["values"])
        dist.all_reduce(means[name])
        means[name] /= world
    return means
"""


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

    for make in (layers, lambda: fully_shard(mlp(), mesh=mesh)):
        is_same(make, rank)
        net = make()
        found = looked_at(net, rank, 0)
        for name, mean in mean_of_locals(found, dict(net.named_parameters()), world).items():
            reduced = own(net.get_parameter(name).grad)
            parts = mean.chunk(world)
            part = parts[rank] if rank < len(parts) else mean[:0]
            assert torch.allclose(part, reduced, rtol=0, atol=1e-6), name

on_ranks(work, world)
"""
    )
