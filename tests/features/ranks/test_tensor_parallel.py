"""Tensor parallel, with and without gradwalk: bit for bit the same; and what the ranks send."""

from __future__ import annotations

import pytest
from processes import COMPARED, together

pytestmark = pytest.mark.one_python

TENSOR_PARALLEL = (
    COMPARED
    + """
from torch.distributed.tensor import Partial
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

COLLECTIVES = {
    "all_gather_into_tensor": "all-gather",
    "all_reduce": "all-reduce",
    "reduce_scatter_tensor": "reduce-scatter",
}


def split(mesh):
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(mlp(), mesh, plan)


def sent_at_nodes(loss):
    # What each node makes the ranks do together in backward, in the engine's own order.
    seen, mode, before = {}, CommDebugMode(), {}

    def counts():
        return {op.__name__: n for op, n in mode.get_comm_counts().items()}

    def begin(node):
        return lambda *_: before.update({node: counts()})

    def end(node):
        def then(*_):
            now = counts()
            seen[node] = {k for k, n in now.items() if n > before[node].get(k, 0)}
        return then

    waiting, found = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            node.register_prehook(begin(node)), node.register_hook(end(node))
            waiting += [child for child, _ in node.next_functions]
    with mode:
        loss.backward(retain_graph=True)
    return {**seen}  # the hooks stay


seen = set()


def are_true(loss):
    # Every sentence on what is sent says what torch then sends; and the kinds of the nodes.
    sent = sent_at_nodes(loss)
    widget = GraphWidget(loss)
    before = look(widget)
    loss.backward()
    told = []
    nodes = widget._shown().source.captured.nodes
    for details, first in zip(look(widget), before, strict=True):
        if details["op"] not in (
            "_ToTorchTensorBackward", "_FromTorchTensorBackward", "RedistributeBackward"
        ):
            continue
        about, names = details["about"], sent[nodes[details["id"]]]
        assert about.endswith(".") and "custom autograd.Function" not in about
        assert "arrived" not in first["about"]
        told.append(about)
        seen.update(COLLECTIVES[name] for name in names)
        if "nothing is sent" in about or "sends nothing" in about:
            assert names == set(), (about, names)
        for each in COLLECTIVES.values():
            if f"{each} over" in about:
                assert {COLLECTIVES.get(name) for name in names} == {each}, (about, names)
        if names:
            assert "nothing is sent" not in about and "sends nothing" not in about
    return told
"""
)


def test_tensor_parallel():
    together(
        TENSOR_PARALLEL
        + """
def work(rank):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    is_same(lambda: split(mesh), 0)
    net = split(mesh)
    told = are_true(net(batch(0)).square().mean())
    # Of each layer the output is redistributed and made local, the second one's input made shared.
    assert len(told) == 5 and all("a mesh of tp (2 ranks)" in each for each in told), told
    plain = mlp()
    plain(batch(0)).square().mean().backward()
    found = looked_at(split(mesh), 0, 0)
    for (name, parameter), grad in zip(net.named_parameters(), plain.parameters(), strict=True):
        details = found["net." + name]
        shown, part = details["grad"], grad.grad
        for each in parameter.placements:
            part = part if each.is_replicate() else part.chunk(2, each.dim)[rank]
        assert f"placed as {parameter.placements[0]}" in shown["note"]
        assert details["shape"] == [*grad.shape] and shown["shape"] == [*part.shape]
        assert torch.allclose(torch.tensor(shown["values"]), part, atol=1e-6), name

    told = []
    for first in (Shard(0), Shard(1), Replicate(), Partial()):
        for second in (Shard(0), Shard(1), Replicate()):
            for last in (second, Partial()) if second.is_replicate() else (second,):
                local = torch.randn(2, 2, requires_grad=True)
                shared = DTensor.from_local(local, mesh, [first]).redistribute(mesh, [second]) * 2
                told += are_true(shared.to_local(grad_placements=[last]).square().sum())
    assert "all-gather" in seen
    assert seen == set(COLLECTIVES.values())
    for each in seen:
        assert any(f" {each} over tp, 2 ranks" in about for about in told), each
    assert any("nothing is sent" in about for about in told)

on_ranks(work, 2)
"""
    )


def test_one_rank_alone_looks_at_tensor_parallel(tmp_path):
    together(
        TENSOR_PARALLEL
        + f"""
def work(rank):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    net = split(mesh)
    with watch():
        loss = net(batch(0)).square().mean()
    if rank == 0:
        widget = GraphWidget(loss)
        look(widget)
    loss.backward()
    if rank == 0:
        look(widget)
        widget.step_back(5), widget.step(2)
        look(widget)
        widget.diagnose()
        for parameter in net.parameters():
            gradwalk.explain_grad(parameter, loss)
        save(widget, {str(tmp_path)!r} + "/a.gw")
        look(gradwalk.load({str(tmp_path)!r} + "/a.gw"))
        widget.to_svg({str(tmp_path)!r} + "/a.svg")

on_ranks(work)
"""
    )


@pytest.mark.full
def test_fsdp2_with_tensor_parallel():
    together(
        TENSOR_PARALLEL
        + """
def work(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

    def make():
        net = split(mesh["tp"])
        fully_shard(net[0], mesh=mesh["dp"])
        fully_shard(net[2], mesh=mesh["dp"])
        return fully_shard(net, mesh=mesh["dp"])

    is_same(make, rank // 2)
    assert len(are_true(make()(batch(rank // 2)).square().mean())) == 5
    net = make()
    loss = net(batch(rank // 2)).square().mean()
    widget = GraphWidget(loss)
    reducing = [d for d in look(widget) if d["op"].startswith("RegisterPostBackward")]
    assert len(reducing) == 1  # the first layer's input needs no grad
    assert "the gradients of 2.weight and 2.bias over 2 ranks" in reducing[0]["about"], reducing
    found = looked_at(net, rank // 2, 0)
    for name, parameter in net.named_parameters():
        about = found["net." + name]["about"]
        assert f"{tuple(parameter.shape)} in full, from 2 ranks for forward" in about, about
        assert f"this rank holds {tuple(own(parameter).shape)}" in about, about

on_ranks(work, 4)
"""
    )


def test_looking_sends_nothing_whatever_the_placement(tmp_path):
    """Gradients placed as partial sums, added up from several uses, small and large."""
    together(
        TENSOR_PARALLEL
        + f"""
import traceback
import torch.distributed.tensor._redistribute as redistributing

asked = []
plain = redistributing.redistribute_local_tensor


def spy(*args, **more):
    stack = "".join(traceback.format_stack())
    if "/gradwalk/" in stack:
        asked.append(stack)
    return plain(*args, **more)


for module in [*sys.modules.values()]:
    if getattr(module, "redistribute_local_tensor", None) is plain:
        module.redistribute_local_tensor = spy


def programs(mesh):
    for size in (2, 700):
        for of_x in (Shard(0), Shard(1), Replicate()):
            for of_w in (Shard(0), Shard(1), Replicate()):
                for times in (1, 2):
                    torch.manual_seed(0)
                    x = distribute_tensor(torch.randn(8, size), mesh, [of_x])
                    w = distribute_tensor(torch.randn(size, size), mesh, [of_w]).requires_grad_()
                    y = x @ w
                    if times == 2:  # placed otherwise when it comes from the other use
                        y = y + w.sum() + (w * 2).redistribute(mesh, [Replicate()])[:8].sum()
                    yield (of_x, of_w, size, times), w, y.square().mean()


def work(rank):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    expected = []
    for name, w, loss in programs(mesh):
        loss.backward()
        expected.append((own(w.grad).clone(), w.grad.placements))
    for (grad, placements), (name, w, loss) in zip(expected, programs(mesh), strict=True):
        widget = GraphWidget(loss) if rank == 0 else None
        loss.backward()
        assert torch.equal(own(w.grad), grad) and w.grad.placements == placements, name
        if widget is not None:
            details = look(widget)
            leaf = next(d for d in details if d["kind"] == "leaf")
            placed_as = f"placed as {{placements[0]}}."
            assert placed_as in leaf["grad"]["note"], (name, leaf["grad"]["note"])
            if name[-1] == 1:
                assert placed_as in leaf["grad_output"][0]["note"], (name, leaf["grad_output"][0])
                assert leaf["grad_output"][0]["norm"] == leaf["grad"]["norm"], name
            widget.diagnose()
            widget.to_json({str(tmp_path)!r} + "/a.json")
            gradwalk.explain_grad(w, loss)
        assert asked == [], asked[0]

on_ranks(work)
"""
    )
