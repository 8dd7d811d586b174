"""Bytes held for backward, compared with what torch's allocator frees when the graph goes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import more_architectures  # noqa: F401  (enters its nets)
import pytest
import torch
from architectures import ARCHITECTURES
from programs import PROGRAMS, outputs_of
from torch import Tensor
from torch.autograd.graph import save_on_cpu
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

from gradwalk.checks.memory import Memory, memory_model, saved_memory
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import read_names
from gradwalk.graph.outputs import read_outputs

# Programs whose saved tensors have no one memory, or none that Python can see; each says so.
UNMEASURED = {"recomputed", "nested", "in_place_and_views", "meta_tensors"}


def memory_of(loss: Tensor) -> Memory:
    return saved_memory(capture_nodes(read_outputs((loss,), "test"), read_names({}, "test")))


def measured_and_freed(make: Callable[[], Tensor]) -> tuple[Memory, int]:
    """What we count of a graph, and the bytes that the allocator gets back when it is deleted.

    The allocator reports a deletion only if it was watched at the allocation too.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        loss = make()
        memory = memory_of(loss)
        node = loss.grad_fn
        del loss  # its own number is the program's, not the graph's
        with record_function("graph goes"):
            pass
        del node
        with record_function("graph gone"):
            pass
    events = profiled.profiler.kineto_results.events()
    at = {event.name(): event.start_ns() for event in events}
    return memory, -sum(
        event.nbytes()
        for event in events
        if event.name() == "[memory]" and at["graph goes"] < event.start_ns() < at["graph gone"]
    )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:.*Profiler clears events")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_net_frees_what_is_counted(name):
    net, inputs = ARCHITECTURES[name]()
    memory, freed = measured_and_freed(lambda: net(*inputs).square().mean())
    assert memory.total == pytest.approx(freed, rel=0.01)
    assert freed > 0
    assert memory.unknown == 0


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - UNMEASURED))
def test_a_program_frees_what_is_counted(name):
    def make() -> Tensor:
        outputs = [output for output in outputs_of(name) if output.requires_grad]
        return sum(output.double().abs().sum() for output in outputs)

    if any(output.is_complex() for output in outputs_of(name)):
        return
    memory, freed = measured_and_freed(make)
    assert memory.total == pytest.approx(freed, rel=0.01)


def test_what_the_program_holds_too_is_not_counted():
    x = torch.ones(100, requires_grad=True)
    y = x.exp()
    z = y.sin()
    loss = z.cos().sum()
    held = memory_of(loss)
    del z
    without_z = memory_of(loss)
    del y
    assert (held.total, without_z.total, memory_of(loss).total) == (0, 400, 800)
    del x
    assert memory_of(loss).total == 1200  # and the leaf itself


def test_memory_kept_by_several_nodes_counts_once_for_the_first():
    x = torch.ones(100, requires_grad=True)
    y = x.exp()
    loss = (y * y).sum() + y.view(10, 10).sin().sum()
    del y
    memory = memory_of(loss)
    graph = capture_nodes(read_outputs((loss,), "test"), read_names({}, "test")).graph
    assert [graph.nodes[node]["op"] for node in memory.nodes] == ["ExpBackward0"]
    assert list(memory.nodes.values()) == [400]


def test_a_view_counts_with_the_whole_that_it_keeps_alive():
    x = torch.ones(100, requires_grad=True)
    memory, freed = measured_and_freed(lambda: x.neg()[:10].sin().sum())
    assert memory.total == freed == 400


def test_freed_buffers_are_gone():
    x = torch.ones(100, requires_grad=True)
    loss = x.exp().sin().cos().sum()
    before = memory_of(loss).total
    loss.backward()
    assert (before, memory_of(loss).total) == (800, 0)


def test_packed_tensors_stay_packed_and_are_unknown():
    unpacked = []
    x = torch.ones(100, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(1) or t):
        loss = x.exp().sum()
    assert memory_of(loss).unknown == 1
    with save_on_cpu():
        loss = x.exp().sum()
    assert memory_of(loss).unknown == 1
    loss = checkpoint(lambda t: unpacked.append(1) or t.exp().sin(), x, use_reentrant=False).sum()
    unpacked.clear()
    assert memory_of(loss).unknown == 2
    assert unpacked == []


def test_counting_twice_and_after_one_another_gives_the_same():
    net, inputs = ARCHITECTURES["resnet"]()
    loss = net(*inputs).square().mean()
    assert memory_of(loss) == memory_of(loss)
    loss.backward()  # what was looked at still works


def test_nodes_add_up():
    x = torch.ones(100, requires_grad=True)
    memory = memory_of(x.exp().sin().cos().sum())
    assert memory_model(memory)["total"] == memory.total == sum(memory_model(memory)["bytes"])


def test_meta_tensors_take_no_memory():
    x = torch.ones(100, requires_grad=True, device="meta")
    assert memory_of(x.exp().sum()).total == 0


def test_a_nested_tensor_is_unknown():
    assert memory_of(outputs_of("nested")[0]).unknown > 0
