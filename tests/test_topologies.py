"""How models are spread over processes, each with and without gradwalk: bit for bit the same.

Two processes in every run of the tests; four where all of them run.
"""

from __future__ import annotations

import pytest
from fresh import fresh
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
            assert f"the gradients of 2.weight, 2.bias over {{world}} ranks" in about, about
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


def are_true(loss):
    # Every sentence on what is sent says what torch then sends; and the kinds of the nodes.
    sent = sent_at_nodes(loss)
    widget = GraphWidget(loss)
    before = look(widget)
    loss.backward()
    told = []
    nodes = widget._shown().subject.captured.nodes
    for details, first in zip(look(widget), before, strict=True):
        if details["op"] not in (
            "_ToTorchTensorBackward", "_FromTorchTensorBackward", "RedistributeBackward"
        ):
            continue
        about, names = details["about"], sent[nodes[details["id"]]]
        assert about.endswith(".") and "custom autograd.Function" not in about
        assert "arrived" not in first["about"]
        told.append(about)
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
    for each in ("an all-gather", "an all-reduce", "a reduce-scatter"):
        assert any(f"{each} over tp, 2 ranks" in about for about in told), each
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
    assert "the gradients of 2.weight, 2.bias over 2 ranks" in reducing[0]["about"], reducing
    found = looked_at(net, rank // 2, 0)
    for name, parameter in net.named_parameters():
        about = found["net." + name]["about"]
        assert f"{tuple(parameter.shape)} in full, from 2 ranks for forward" in about, about
        assert f"this rank holds {tuple(own(parameter).shape)}" in about, about

on_ranks(work, 4)
"""
    )


PIPELINE = """
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe


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
    for schedule in (ScheduleGPipe, Schedule1F1B):
        plain, _ = run(rank, world, schedule, False)
        net, widget = run(rank, world, schedule, True)
        for one, other in zip(plain.parameters(), net.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad)
        save(widget, f"{folder}/{schedule.__name__}-{rank}.gw")

on_ranks(work, world)

# The same micro-batch in one process, and in one graph.
model = whole()
x, target = (each[-2:] for each in data())
loss = (model(x) - target).square().mean()
plain = GraphWidget(loss, names={"net": model})
loss.backward()
alone = {d["name"]: d for d in look(plain)}
for name in ("ScheduleGPipe", "Schedule1F1B"):
    for shown in (None, *range(world)):
        widget = gradwalk.load(f"{folder}/{name}-*.gw", rank=shown)
        details = look(widget)
        nodes, edges = widget.graph["nodes"], widget.graph["edges"]
        assert len(widget.graph["roots"]) == 1
        boxes = {node["namespace"].split("/")[0] for node in nodes}
        assert boxes == {f"stage {i} on rank {i}" for i in range(world)}, boxes
        tied = [node for node in nodes if (node["sign"] or "").startswith("from rank")]
        assert len(tied) == world - 1
        for node in tied:
            ((edge,)) = [edge for edge in edges if edge["source"] == node["id"]]
            at = widget.graph["edges"].index(edge)
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
            [n for n in plain.graph["nodes"] if n["kind"] != "constant"]
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
        assert [step["step"] for step in widget.steps] == [*range(1, len(widget.steps) + 1)]
        assert {step["node"] for step in widget.steps} == {
            n["id"] for n in nodes if n["kind"] != "constant"
        }
        order = {step["node"]: step["step"] for step in widget.steps}
        for edge in edges:
            if edge["kind"] == "gradient":
                assert order[edge["source"]] < order[edge["target"]]
        last = widget.steps[-1]["node"]
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
    save(widget, f"{folder}/run-{rank}.gw")

on_ranks(work, 2)
alone = [gradwalk.load(f"{folder}/run-{rank}.gw").graph for rank in range(2)]
graph = gradwalk.load(f"{folder}/run-*.gw").graph
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
            node = next(n["id"] for n in widget.graph["nodes"] if n["name"] == f"net.{{name}}")
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
            assert "Of the 4 ranks simulated here this is rank 0's." in found["value"]["note"]
    widget.diagnose()
    assert widget.run["norms"]
    widget.to_html({str(tmp_path)!r} + "/a.html")
"""
    )
