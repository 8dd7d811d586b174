"""A program that is watched gives what it gives by itself, and nothing outlives it."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
import torch
from annotation_of import annotation_of
from engine import operations_behind
from fresh import fresh
from programs import PROGRAMS, MultiplyAdd, backward, leaf, outputs_of
from test_watch import seen
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradwalk.tracing import records, weak_id_dict
from gradwalk.tracing.annotations import cuts_of
from gradwalk.tracing.watch import watch


@pytest.mark.parametrize("name", PROGRAMS)
def test_watching_changes_no_value_no_gradient_and_no_random_state(name):
    def run(watching):
        leaves = []
        with watch() if watching else contextlib.nullcontext():
            outputs = outputs_of(name)
        waiting = [o.grad_fn for o in outputs if o.grad_fn is not None]
        shape = []
        for node in waiting:
            shape.append((node.name(), node._sequence_nr() < 2**63))
            for child, _ in node.next_functions:
                if child is not None:
                    waiting.append(child)
                    if hasattr(child, "variable"):
                        leaves.append(child.variable)
        state = torch.get_rng_state()
        with contextlib.suppress(NotImplementedError):  # meta tensors have no values
            backward(outputs)
        return outputs, shape, state, [tensor.grad for tensor in leaves]

    plain, watched = run(False), run(True)
    assert plain[1] == watched[1]
    assert torch.equal(plain[2], watched[2])
    for ours, theirs in zip(plain[0] + plain[3], watched[0] + watched[3], strict=True):
        same(ours, theirs)


def same(one: Tensor | None, other: Tensor | None) -> None:
    if one is None or other is None:
        assert one is other
    elif one.is_nested:
        for ours, theirs in zip(one.unbind(), other.unbind(), strict=True):
            same(ours, theirs)
    else:
        assert (one.dtype, one.device, one.shape) == (other.dtype, other.device, other.shape)
        if one.device.type != "meta":
            one, other = one.detach(), other.detach()
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_a_fused_kernel_of_eval_mode_stays_in_use():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 3, 8)
    calls = []

    def run():
        with torch.no_grad(), torch.profiler.profile() as profile:
            y = model(x)
        calls.append({event.key for event in profile.key_averages()})
        return y

    plain = run()
    with watch():
        watched = run()
        after = seen(leaf(2) * 2)
    assert calls[0] == calls[1]
    assert torch.equal(plain, watched)
    assert after.forward == "mul"


def test_no_tensor_is_kept_alive():
    with watch():
        x, c = leaf(3), torch.ones(3)
        model = nn.Linear(3, 3)
        middle = model(x * c) + x.detach()
        array = x.detach().numpy()
        loss = (middle * middle.sum().item()).sum() + torch.from_numpy(array).sum()
        kept = [weakref.ref(t) for t in (x, c, middle, array, loss, model, model.weight)]
        del middle, c, array
    del x, loss, model
    gc.collect()
    assert [reference() for reference in kept] == [None] * len(kept)


def test_annotations_die_with_the_graph():
    gc.collect()
    known, before = len(weak_id_dict.entries), living()
    with watch():
        x = leaf(3)
        loss = MultiplyAdd.apply(2.0, x.exp(), x).sin().sum()
    assert len(living()) > len(before)
    del loss, x
    gc.collect()
    assert len(weak_id_dict.entries) <= known
    assert living() <= before


def living() -> set[int]:
    return {id(r) for r in gc.get_objects() if isinstance(r, records.Record)}


def test_annotations_live_on_when_only_what_was_computed_outside_lives():
    with watch():
        y = leaf(3).exp() * 2
    loss = y.sum()
    del y
    gc.collect()
    assert [
        annotation_of(node) and annotation_of(node).forward for node in operations_behind(loss)
    ] == [
        None,
        "mul",
        "exp",
    ]


def test_annotations_live_on_however_often_was_watched_before():
    mine = records.current_thread()
    before = mine.marked
    for _ in range(3_000):
        with watch():
            y = MultiplyAdd.apply(2.0, leaf(3).exp(), leaf(3)) * 2
    del y
    gc.collect()
    assert mine.marked <= before
    test_annotations_live_on_when_only_what_was_computed_outside_lives()


def test_leaves_remembered_for_later_watches_die_with_their_module():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with watch():
        loss = model(torch.ones(2, 3)).sum()
    kept = [weakref.ref(model), weakref.ref(model[0].weight)]
    model.double()  # swaps contents, which a weak reference to a parameter forbids
    del model, loss
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


def test_a_loop_in_one_watch_does_not_grow():
    x = leaf(3)
    sizes = []
    with watch():
        state = torch.zeros(3)
        for _ in range(30):
            state = MultiplyAdd.apply(2.0, (state * x).tanh(), x).detach()
            sizes.append((len(weak_id_dict.entries), len(living())))
    assert max(sizes[5:]) <= max(sizes[:5])


ON = """
import threading
threading.stack_size(512 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
print("freed")
"""  # the small stack of a thread on macOS, which overflows at some 2,000 nodes


@pytest.mark.parametrize(
    ("operations", "then"),
    [
        pytest.param(8_000, ON, id="small stack"),
        pytest.param(100_000, "run()\nprint('freed')", id="main", marks=pytest.mark.full),
    ],
)
def test_a_deep_chain_is_freed_without_a_crash(operations, then):
    code = (
        "import torch\n"
        "from gradwalk.tracing.watch import watch\n"
        "from annotation_of import annotation_of\n"
        "def run():\n"
        "    x = torch.ones(1, requires_grad=True)\n"
        "    with watch():\n"
        "        y = x\n"
        f"        for _ in range({operations}):\n"
        "            y = y * 1.0\n"
        "        kept = y + 1\n"
        "    assert annotation_of(kept.grad_fn).forward == 'add'\n"
        "    del y, kept\n"
    )
    assert fresh(code + then) == "freed\n"


def test_a_watch_per_step_of_a_long_loop_marks_few_nodes():
    code = (
        "import torch\n"
        "from gradwalk.tracing.watch import watch\n"
        "def run():\n"
        "    y = torch.ones(1, requires_grad=True)\n"
        "    for _ in range(8_000):\n"
        "        with watch():\n"
        "            y = y * 1.0\n"
    )
    assert fresh(code + ON) == "freed\n"


def autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(x, x).float()


def recompute(x: Tensor) -> Tensor:
    return checkpoint(lambda t: (t * 2).sin(), x, use_reentrant=False)


def hooked(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    return y


def transformed(x: Tensor) -> Tensor:
    return torch.func.vmap(torch.func.grad(lambda t: (t**3).sum()))(x) * x


def compiled(x: Tensor) -> Tensor:
    return torch.compile(lambda t: (t * 2).sin() + t.detach(), backend="eager")(x) * 3


def compiled_module(x: Tensor) -> Tensor:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    return torch.compile(model, backend="aot_eager")(x)


def scripted(x: Tensor) -> Tensor:
    return torch.jit.trace(lambda t: t.sin() * 2, x.detach())(x)


class Refuses(Tensor):
    """A tensor subclass that lets nothing but arithmetic through."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") not in ("mul", "sum", "__get__", "backward"):
            raise TypeError("refused")
        return super().__torch_function__(func, types, args, kwargs)


def subclass(x: Tensor) -> Tensor:
    return x.as_subclass(Refuses) * 2


@pytest.mark.filterwarnings("ignore:`torch.jit", "ignore::UserWarning")
@pytest.mark.parametrize(
    "program",
    [autocast, recompute, hooked, transformed, compiled, compiled_module, scripted],
)
def test_what_surrounds_torch_functions_works_as_before(program):
    def run(watching: bool) -> list[Tensor]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        x = leaf(3, 3)
        with watch() if watching else contextlib.nullcontext():
            y = program(x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        return [y, grad]

    for ours, theirs in zip(run(False), run(True), strict=True):
        assert torch.equal(ours, theirs)


def test_a_tensor_that_refuses_to_be_asked_is_left_alone():
    x = leaf(3)
    with watch():
        y = subclass(x)
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("used", ["in its module alone", "before", "after"])
def test_parameters_can_be_swapped_afterwards(frozen, used):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))

    def use(weight):
        with torch.no_grad():
            model[0].weight.mul_(0.5).add_(weight.detach())
        cuts = weight.detach(), weight.data, weight.sum().item(), (weight * 1).detach()
        product = (weight * model[0].weight * model[0].bias).sum()
        (source,) = cuts_of(cuts[0])
        assert source.source() is weight
        return product, cuts

    with watch():
        model[0].requires_grad_(not frozen)
        early = use(model[1].weight) if used == "before" else None
        out = model(torch.ones(1, 2)).sum()
        late = use(model[1].weight) if used == "after" else None
    for product, cuts in filter(None, (early, late)):
        (source,) = cuts_of(cuts[0])
        assert source.source() is model[1].weight
        assert [leaf() for leaf in source.leaves] == [model[1].weight]
        product.backward()
    out.backward()
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
    assert {each.dtype for each in model.parameters()} == {torch.float64}


def test_a_module_is_traced_as_if_nobody_watched():
    code = (
        "import re, sys, torch\n"
        "from gradwalk import GraphWidget, watch\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())\n"
        "model, x = torch.nn.Sequential(model, torch.nn.Linear(4, 1)), torch.randn(2, 3)\n"
        "def function(a, b):\n"
        "    c = torch.sin(a * b) + a\n"
        "    return torch.cat([c, b]).sum()\n"
        "def text(traced):\n"
        "    return re.sub(r'___torch_mangle_\\d+\\.|#.*', '', str(traced.inlined_graph))\n"
        "plain = torch.jit.trace(model, x)\n"
        "with watch():\n"
        "    watched, called = torch.jit.trace(model, x), torch.jit.trace(function, (x, x + 1))\n"
        "    w = torch.ones(1, requires_grad=True)\n"
        "    after = w * 2\n"
        "assert text(watched) == text(plain)\n"
        "assert torch.equal(called(x + 1, x), function(x + 1, x))\n"
        "print('traced')\n"
    )
    assert fresh(code) == "traced\n"
