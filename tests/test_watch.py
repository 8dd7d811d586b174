from __future__ import annotations

import contextlib
import gc
import inspect
import linecache
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from fresh import fresh
from programs import PROGRAMS, MultiplyAdd, backward, leaf, outputs_of
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks
from torch.overrides import _get_current_function_mode
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget
from gradwalk.forward import records, weak_facts
from gradwalk.forward.annotations import Annotation, annotation_of, cuts_of
from gradwalk.forward.watch import watch


def nodes_of(*outputs: Tensor) -> list[Node]:
    found = dict.fromkeys(o.grad_fn for o in outputs if o.grad_fn is not None)
    order = list(found)
    for node in order:
        for child, _ in node.next_functions:
            if child is not None and child not in found:
                found[child] = None
                order.append(child)
    return [node for node in order if node.name() != "torch::autograd::AccumulateGrad"]


def seen(tensor: Tensor) -> Annotation:
    annotation = annotation_of(tensor.grad_fn)
    assert annotation is not None
    return annotation


def line() -> int:
    return inspect.currentframe().f_back.f_lineno


CUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "copy": lambda x: x.new_tensor(x),
    "numpy": lambda x: torch.from_numpy(x.numpy(force=True)),
    "integer cast": lambda x: x.long(),
    "integer result": lambda x: x > 0,
    "no_grad": torch.no_grad()(lambda x: x * 2),
    "item": lambda x: torch.tensor(x.sum().item()),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("how", CUTS)
def test_each_kind_of_cut_is_traced_to_its_source(how):
    w, x = leaf(3), leaf(3)
    with watch():
        y = w * CUTS[how](x)
    (cut,) = seen(y).cuts
    assert cut.how == how
    assert cut.where.text.startswith(f'"{how}": ')
    assert [reference() for reference in cut.leaves] == [x]
    assert how == "item" or cut.source() is x


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("how", CUTS)
def test_cuts_at_one_line_are_told_apart_by_their_tensors(how):
    x, y, w = leaf(3), leaf(3), leaf(3)
    with watch():
        free = [CUTS[how](each) for each in (x, y, x, x)]
        out = w * (free[0] + free[1] + free[2] + free[3])
    cuts = seen(out).cuts
    expected = [x, y, x, x] if how == "item" else [x, y]  # the sum is a new tensor each time
    assert [next(iter(cut.leaves))() is each for cut, each in zip(cuts, expected, strict=True)]
    again = (*cuts, *cuts_of(free[0]))
    del x, y, expected
    assert len(set(again)) == len(cuts)


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_cut_is_traced_through_operations_without_grad(how):
    w, x = leaf(3), leaf(3)
    with watch():
        between = (CUTS[how](x) * 2).reshape(1, -1)[0] + torch.ones(3)
        y = w * between
    (constant,) = seen(y).constants
    assert [cut.how for cut in constant.cuts] == [how]
    assert cuts_of(between) == constant.cuts
    assert constant.tensor() is between
    assert (constant.position, constant.argument, constant.input_nr) == (1, "other", 1)
    assert y.grad_fn.next_functions[1][0] is None


def test_an_inference_tensor_is_a_cut():
    x = leaf(3)
    with watch():
        with torch.inference_mode():
            y = x * 2
        w = leaf(3) + y
    (cut,) = seen(w).cuts
    assert cut.how == "inference_mode"


def test_a_no_grad_region_is_known_with_the_line_that_opened_it():
    x = leaf(3)
    with watch(), torch.no_grad():
        opened = line() - 1
        y = x * 2
        made = line() - 1
    (cut,) = cuts_of(y)
    assert (cut.region.line, cut.where.line) == (opened, made)


def test_a_number_read_out_of_a_tensor_is_a_constant_with_a_cut():
    w, x = leaf(3), leaf(3)
    with watch():
        y = w * x.sum().item()
        z = w * 2.5
    (constant,) = seen(y).constants
    assert (constant.shape, constant.dtype, constant.values) == ((), "float", x.sum().item())
    assert [cut.how for cut in constant.cuts] == ["item"]
    (own,) = seen(z).constants  # a number of the program's own
    assert (own.values, own.argument, own.cuts) == (2.5, "other", ())


def test_what_takes_only_the_shape_of_a_tensor_is_no_cut():
    x = leaf(3)
    unwatched = torch.ones(3)
    with watch():
        detached, made = x.detach(), torch.ones(3)
        like, integer_like = torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64)
    (cut,) = cuts_of(detached)
    assert (cut.how, cut.shape) == ("detach", (3,))
    assert cuts_of(made) == cuts_of(like) == cuts_of(integer_like) == ()
    assert cuts_of(unwatched) == cuts_of(x) == ()


def test_a_constant_is_described():
    w = leaf(2, 2)
    with watch():
        c = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        y = F.linear(input=c, weight=w)
        z = torch.cat([w, c])
        large = w + torch.ones(5, 2, 2, dtype=torch.float64)
    (constant,) = seen(y).constants
    assert constant.position == constant.argument == "input"
    assert (constant.shape, constant.dtype) == ((2, 2), "torch.float32")
    assert constant.values == c.tolist()
    assert constant.origin.where.line == inspect.findsource(test_a_constant_is_described)[1] + 4
    assert constant.cuts == ()
    (joined,) = seen(z).constants
    assert (joined.position, joined.argument, joined.input_nr) == ("0[1]", "tensors[1]", 1)
    (summed,) = seen(large).constants
    assert (summed.shape, summed.dtype, summed.values) == ((5, 2, 2), "torch.float64", None)


def test_a_mask_is_no_forward_input_of_the_node():
    x = leaf(3)
    with watch():
        y = torch.where(torch.tensor([True, False, True]), x, 0.0)
    (mask,) = seen(y).constants
    assert (mask.argument, mask.input_nr) == ("condition", None)


def test_the_source_of_a_cut_is_found_in_its_own_graph_when_the_tensor_is_gone():
    x = leaf(3)
    with watch():
        y = x.exp()
        z = y.detach() * x
        w = y * 3
    (cut,) = seen(z).cuts
    node = y.grad_fn
    assert records.find_source(cut, []) == (node, 0)
    del y
    assert cut.source() is None
    assert records.find_source(cut, nodes_of(w)) == (node, 0)
    assert records.find_source(cut, nodes_of(z)) is None


def test_the_leaves_behind_a_cut_outlive_the_graph_between():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    with watch():
        loss = (leaf(2) * model(torch.ones(2)).detach()).sum()
    gc.collect()
    (product,) = [node for node in nodes_of(loss) if node.name() == "MulBackward0"]
    (cut,) = annotation_of(product).cuts
    assert cut.source() is None
    assert {reference() for reference in cut.leaves} == set(model.parameters())


def test_detach_in_place_is_a_cut():
    x = leaf(3)
    with watch():
        y = x * 2
        y.detach_()
        z = y * leaf(3)
    (cut,) = seen(z).cuts
    assert cut.how == "detach"
    assert [reference() for reference in cut.leaves] == [x]


def test_the_line_of_the_users_is_the_innermost_outside_torch():
    def inner(x):
        return F.softmax(x, dim=0)

    with watch():
        y = inner(leaf(3))
    source = seen(y).source
    assert source.file == __file__
    assert source.line == inner.__code__.co_firstlineno + 1
    assert (source.text, source.function) == ("return F.softmax(x, dim=0)", "inner")


def test_a_notebook_cell_has_lines_too():
    name, text = "/tmp/ipykernel_1/123.py", "y = x * 2\nz = (y +\n     1)\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"x": leaf(3)}
    with watch():
        exec(compile(text, name, "exec"), space)
    source = seen(space["y"]).source
    assert (str(source), source.text, source.function) == ("123.py:1", "y = x * 2", "<module>")
    assert seen(space["z"]).source.text == "z = (y +"


def test_names_of_forward_functions():
    x = leaf(2, 2)
    with watch():
        called = {
            "torch.nn.functional.linear": F.linear(x, x),
            "torch.nn.functional.relu": F.relu(x),
            "mul": x * 2,
            "torch.mul": torch.mul(x, 2),
            "T": x.T,
            "MultiplyAdd": MultiplyAdd.apply(2.0, x, x),
        }
    assert {name: seen(y).forward for name, y in called.items()} == {name: name for name in called}


def test_all_nodes_of_one_call_share_its_annotation():
    x, w, b = leaf(2, 3, 4), leaf(5, 4), leaf(5)
    with watch():
        y = F.linear(x, w, b)
    nodes = nodes_of(y)
    assert len(nodes) > 2
    assert {annotation_of(node).forward for node in nodes} == {"torch.nn.functional.linear"}


class Twice(nn.Module):
    """Uses one module twice under one name, and one under two names."""

    def __init__(self):
        super().__init__()
        self.block = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.Tanh())])
        shared = nn.Sigmoid()
        self.pair = nn.Sequential(shared, nn.Linear(2, 2), shared)

    def forward(self, x):
        for _ in range(2):
            x = self.block[0](x)
        return self.pair(x) * 2


def paths(output: Tensor) -> list[tuple[str, str | None, int]]:
    found = [(node.name(), annotation_of(node)) for node in nodes_of(output)]
    return [(name, a.module, a.module_call) for name, a in reversed(found)]


def test_module_paths_of_nested_and_reused_modules():
    model = Twice()
    with watch():
        outside = leaf(2) + 1
        y = model(outside)
    elementwise = ("Add", "Tanh", "Sigmoid", "Mul")
    found = [each for each in paths(y) if each[0].removesuffix("Backward0") in elementwise]
    assert found == [
        ("AddBackward0", None, 0),
        ("TanhBackward0", "block.0.1", 0),
        ("TanhBackward0", "block.0.1", 1),
        ("SigmoidBackward0", "pair.0", 0),
        ("SigmoidBackward0", "pair.2", 0),
        ("MulBackward0", "", 0),
    ]
    assert seen(y).module_root == "Twice"


def test_module_paths_agree_with_named_modules():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.ModuleDict({"encoder": nn.TransformerEncoder(layer, 2)})
    wrapped = nn.Sequential(model["encoder"], nn.Linear(8, 1))
    with watch():
        y = wrapped(torch.randn(2, 3, 8))
    named = dict(wrapped.named_modules())
    norms = [node for node in nodes_of(y) if "LayerNorm" in node.name()]
    for node in norms:
        module = named[annotation_of(node).module]
        (bias,) = [child for child, _ in node.next_functions[2:]]
        assert bias.variable is module.bias
    found = {annotation_of(node).module for node in nodes_of(y)}
    assert {"0.layers.0.linear1", "0.layers.1.self_attn", "1"} <= found


def test_a_module_that_is_no_submodule_is_named_after_its_class():
    other = nn.Tanh()

    class Outer(nn.Module):
        def forward(self, x):
            return other(x)

    with watch():
        y = Outer()(leaf(2))
    assert (seen(y).module, seen(y).module_root) == ("(Tanh)", "Outer")


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def training_step(self, x):
        return self.actor(x).sum() + self.critic(x).sum()


def boxes(drawn):
    found = [node["namespace"] for node in drawn.graph["nodes"] if node["op"] == "TanhBackward0"]
    drawn.close()
    return set(found)


def test_networks_side_by_side_stay_apart():
    agent, x = Agent(), torch.ones(1, 2)
    with watch():
        by_method = agent.training_step(x)
        one = agent.actor(x).sum()
    assert boxes(GraphWidget(by_method)) == {"actor/1", "critic/1"}, "what a variable holds all of"
    assert boxes(GraphWidget(by_method, names=agent)) == {"actor/1", "critic/1"}
    assert boxes(GraphWidget(by_method, names={})) == {"(Sequential)/1", "(Sequential 2)/1"}
    assert boxes(GraphWidget(one)) == {"actor/1"}
    net = agent.actor
    with watch():
        alone = net(x).sum()
    assert boxes(GraphWidget(alone, names={"net": net})) == {"1"}
    critic = agent.critic
    with watch():
        both = net(x).sum() + critic(x).sum()
    assert boxes(GraphWidget(both, names={"net": net, "critic": critic})) == {"net/1", "critic/1"}


def test_a_cut_is_in_the_module_that_made_it():
    class Inner(nn.Module):
        def forward(self, x):
            return x.detach()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.last = nn.Linear(2, 2), Inner(), nn.Linear(2, 1)

        def forward(self, x):
            return self.last(self.inner(self.first(x)))

    net = Outer()
    with watch():
        loss = net(torch.ones(1, 2)).sum()
    node = next(node for node in nodes_of(loss) if node.name() == "AddmmBackward0")
    (cut,) = annotation_of(node).cuts
    assert (annotation_of(node).module, cut.module.path) == ("last", "inner")


def test_in_place_operations():
    with watch():
        x = leaf(3, 3) * 1.0
        y = x.clone()
        x[0].mul_(3)
        x.add_(1)
        z = F.relu(x.exp(), inplace=True)
        w = torch.zeros(3)
        w[0] = z.sum()
        chain = x.sum() + w.sum()
    assert [seen(t).inplace for t in (x, y, z, w, chain)] == [True, False, True, True, False]
    assert [seen(t).forward for t in (x, y)] == ["add_", "clone"]
    slices = [node for node in nodes_of(chain) if node.name().endswith("CopySlices")]
    assert {annotation_of(node).forward for node in slices} == {"mul_", "__setitem__"}
    assert all(annotation_of(node).inplace for node in slices)


def test_a_custom_function_is_seen_with_its_line_and_its_constants():
    x, c = leaf(3), torch.ones(3)
    with watch():
        y = MultiplyAdd.apply(2.0, x * 3, c)
        at = line() - 1
        z = y.sum()
    product, custom = nodes_of(z)[2], nodes_of(z)[1]
    annotation = annotation_of(custom)
    assert (annotation.forward, annotation.source.line) == ("MultiplyAdd", at)
    assert [constant.tensor() for constant in annotation.constants] == [c]
    assert annotation_of(product).forward == "mul"  # lives although y's maker was not called by us


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


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "function_transforms"])
def test_every_operation_of_the_programs_is_annotated(name):
    with watch():
        outputs = outputs_of(name)
    for node in nodes_of(*outputs):
        annotation = annotation_of(node)
        assert annotation is not None, node.name()
        assert annotation.source.file.endswith("programs.py")


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


def test_blocks_nest():
    x = leaf(3)
    with watch():
        a = x * 2
        with watch():
            b = a * 3
        c = b * 4
    d = c * 5
    assert [annotation_of(t.grad_fn) is None for t in (a, b, c, d)] == [False] * 3 + [True]


def test_an_exception_ends_the_watch_and_goes_on():
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("mine")

    x = leaf(3)
    model = nn.Sequential(nn.Tanh(), Failing())
    with pytest.raises(ValueError, match="mine"), watch():
        model(x)
    assert _get_current_function_mode() is None
    assert not module_hooks._global_forward_hooks
    assert not module_hooks._global_forward_pre_hooks
    with watch():
        with pytest.raises(ValueError, match="mine"):
            model(x)
        with pytest.raises(RuntimeError, match="size"):
            x * torch.ones(2)
        y = x * 2
    assert seen(y).module is None


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
    known, before = len(weak_facts._facts), living()
    with watch():
        x = leaf(3)
        loss = MultiplyAdd.apply(2.0, x.exp(), x).sin().sum()
    assert len(living()) > len(before)
    del loss, x
    gc.collect()
    assert len(weak_facts._facts) <= known
    assert living() <= before


def living() -> set[int]:
    return {id(r) for r in gc.get_objects() if type(r) is records.Record}


def test_annotations_live_on_when_only_what_was_computed_outside_lives():
    with watch():
        y = leaf(3).exp() * 2
    loss = y.sum()
    del y
    gc.collect()
    assert [annotation_of(node) and annotation_of(node).forward for node in nodes_of(loss)] == [
        None,
        "mul",
        "exp",
    ]


def test_a_loop_in_one_watch_does_not_grow():
    x = leaf(3)
    sizes = []
    with watch():
        state = torch.zeros(3)
        for _ in range(30):
            state = MultiplyAdd.apply(2.0, (state * x).tanh(), x).detach()
            sizes.append((len(weak_facts._facts), len(living())))
    assert max(sizes[5:]) <= max(sizes[:5])


def test_a_deep_chain_is_freed_without_a_crash():
    code = (
        "import threading, torch\n"
        "from gradwalk.forward.watch import watch\n"
        "from gradwalk.forward.annotations import annotation_of\n"
        "def run(operations):\n"
        "    x = torch.ones(1, requires_grad=True)\n"
        "    with watch():\n"
        "        y = x\n"
        "        for _ in range(operations):\n"
        "            y = y * 1.0\n"
        "        kept = y + 1\n"
        "    assert annotation_of(kept.grad_fn).forward == 'add'\n"
        "    del y, kept\n"
        "run(100_000)\n"
        "threading.stack_size(512 * 1024)\n"
        "thread = threading.Thread(target=run, args=(100_000,))\n"
        "thread.start()\n"
        "thread.join()\n"
        "print('freed')\n"
    )
    assert fresh(code) == "freed\n"


def test_a_watch_per_step_of_a_long_loop_marks_few_nodes():
    code = (
        "import torch\n"
        "from gradwalk.forward.watch import watch\n"
        "y = torch.ones(1, requires_grad=True)\n"
        "for _ in range(60_000):\n"
        "    with watch():\n"
        "        y = y * 1.0\n"
        "del y\n"
        "print('freed')\n"
    )
    assert fresh(code) == "freed\n"


def test_threads_do_not_mix():
    both_watching = threading.Barrier(2)

    def sine(x):
        both_watching.wait()
        return x.sin().exp()

    def cosine(x):
        both_watching.wait()
        return x.cos().exp()

    def run(function):
        with watch():
            y = function(leaf(3))
            both_watching.wait()
        return y, [annotation_of(node).forward for node in nodes_of(y)]

    with ThreadPoolExecutor(2) as pool:
        (a, in_a), (b, in_b) = pool.map(run, (sine, cosine))
    assert (in_a, in_b) == (["exp", "sin"], ["exp", "cos"])
    from_here = [[annotation_of(n, [y]) for n in nodes_of(y)] for y in (a, b)]
    assert [[each.source.function for each in found] for found in from_here] == [
        ["sine"] * 2,
        ["cosine"] * 2,
    ]
    assert [found[1].forward for found in from_here] == ["sin", "cos"]


def test_a_thread_that_is_not_watched_is_left_alone():
    with watch(), ThreadPoolExecutor(1) as pool:
        y = pool.submit(lambda: nn.Linear(2, 2)(torch.ones(2)).sum()).result()
    assert annotation_of(y.grad_fn) is None


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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
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


def test_a_backward_with_create_graph_is_annotated():
    x = leaf(3)
    with watch():
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert seen(slope).forward == "torch.autograd.grad"


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
