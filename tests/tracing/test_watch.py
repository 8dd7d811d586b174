from __future__ import annotations

import inspect
import linecache
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from annotation_of import annotation_of
from engine import operations_behind
from programs import PROGRAMS, MultiplyAdd, leaf, outputs_of
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks
from torch.overrides import _get_current_function_mode

from gradwalk import capture
from gradwalk.tracing.annotations import Annotation
from gradwalk.tracing.watch import watch


def seen(tensor: Tensor) -> Annotation:
    annotation = annotation_of(tensor.grad_fn)
    assert annotation is not None
    return annotation


def line() -> int:
    return inspect.currentframe().f_back.f_lineno


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


def test_a_leaf_is_read_anew_once_it_has_changed():
    model = nn.Linear(20, 1)  # numbers of the weight are too many to be copied
    taken = []
    for step in range(3):
        with watch():
            y = model(torch.ones(1, 20))
        taken.append(seen(y).leaves)
        if step:
            with torch.no_grad():
                model.weight += 1
            model.bias.data += 1  # no version counts this
    (weight, bias), (same_weight, same_bias), (later_weight, later_bias) = taken
    assert same_weight is weight
    assert same_bias.value == bias.value
    assert later_weight.version == weight.version + 1
    assert later_bias.value == pytest.approx([bias.value[0] + 1])
    assert later_weight.tensor() is model.weight
    assert later_bias.tensor() is model.bias


def test_operands_in_lists_beside_numbers_are_found():
    w, c = leaf(2), torch.tensor([5.0, 6.0])
    with watch():
        y = torch.cat([w, c], dim=0)
        z = F.layer_norm(w, (2,), c)
        attended, weights = F.multi_head_attention_forward(
            *(w.expand(2, 1, 2) for _ in range(3)),
            embed_dim_to_check=2,
            num_heads=1,
            in_proj_weight=leaf(6, 2),
            in_proj_bias=None,
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=0.0,
            out_proj_weight=torch.ones(2, 2),
            out_proj_bias=None,
            need_weights=False,
        )
    assert [constant.values for constant in seen(y).constants] == [[5.0, 6.0]]
    assert [constant.argument for constant in seen(z).constants] == ["weight"]
    assert weights is None
    assert [constant.argument for constant in seen(attended).constants] == ["out_proj_weight"]


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
    nodes = operations_behind(y)
    assert len(nodes) > 2
    assert {annotation_of(node).forward for node in nodes} == {"torch.nn.functional.linear"}


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
    slices = [node for node in operations_behind(chain) if node.name().endswith("CopySlices")]
    assert {annotation_of(node).forward for node in slices} == {"mul_", "__setitem__"}
    assert all(annotation_of(node).inplace for node in slices)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *given):
        return given

    @staticmethod
    def backward(ctx, *grads):
        return grads


def test_a_function_that_returns_its_inputs_is_seen_with_what_is_below_it():
    with watch():
        y, z = Same.apply(leaf(3) * 2, leaf(3) * 3)
        loss = y + z
    assert seen(y).source.text == "y, z = Same.apply(leaf(3) * 2, leaf(3) * 3)"
    assert seen(y).forward == "Same"
    below = [node for node in operations_behind(loss) if "Mul" in node.name()]
    assert [annotation_of(node).forward for node in below] == ["mul", "mul"]


class Decorated(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Inherited(Decorated):
    pass


@pytest.mark.parametrize("function", [Decorated, Inherited])
def test_a_decorated_or_inherited_forward_is_seen(function: type[torch.autograd.Function]):
    with watch():
        y = function.apply(leaf(3))
    assert (seen(y).forward, seen(y).source.text) == (
        function.__name__,
        "y = function.apply(leaf(3))",
    )


def test_a_custom_function_is_seen_with_its_line_and_its_constants():
    x, c = leaf(3), torch.ones(3)
    with watch():
        y = MultiplyAdd.apply(2.0, x * 3, c)
        at = line() - 1
        z = y.sum()
    product, custom = operations_behind(z)[2], operations_behind(z)[1]
    annotation = annotation_of(custom)
    assert (annotation.forward, annotation.source.line) == ("MultiplyAdd", at)
    assert [constant.tensor() for constant in annotation.constants] == [c]
    assert annotation_of(product).forward == "mul"  # lives although y's maker was not called by us


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "function_transforms"])
def test_every_operation_of_the_programs_is_annotated(name):
    with watch():
        outputs = outputs_of(name)
    for node in operations_behind(*outputs):
        annotation = annotation_of(node)
        assert annotation is not None, node.name()
        assert annotation.source.file.endswith("programs.py")


def test_blocks_nest():
    x = leaf(3)
    with watch():
        a = x * 2
        with watch():
            b = a * 3
        c = b * 4
    d = c * 5
    assert [annotation_of(t.grad_fn) is None for t in (a, b, c, d)] == [False] * 3 + [True]


def test_a_block_costs_nothing_for_tensors_of_earlier_ones():
    w = leaf(1)

    def calls() -> int:
        count = 0

        def note(*_: Any) -> None:
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            with watch():
                made = w * 2
        finally:
            sys.setprofile(None)
        assert seen(made).forward == "mul"
        return count

    calls()
    before = calls()
    with watch():
        many = [w * i for i in range(2000)]
    assert calls() - before < 20
    assert seen(many[-1]).forward == "mul"


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
        return y, [annotation_of(node).forward for node in operations_behind(y)]

    with ThreadPoolExecutor(2) as pool:
        (a, in_a), (b, in_b) = pool.map(run, (sine, cosine))
    assert (in_a, in_b) == (["exp", "sin"], ["exp", "cos"])
    from_here = [[annotation_of(n, [y]) for n in operations_behind(y)] for y in (a, b)]
    assert [[each.source.function for each in found] for found in from_here] == [
        ["sine"] * 2,
        ["cosine"] * 2,
    ]
    assert [found[1].forward for found in from_here] == ["sin", "cos"]


def test_a_thread_that_is_not_watched_is_left_alone():
    with watch(), ThreadPoolExecutor(1) as pool:
        y = pool.submit(lambda: nn.Linear(2, 2)(torch.ones(2)).sum()).result()
    assert annotation_of(y.grad_fn) is None


@pytest.mark.parametrize("where", ["here", "in the watched thread"])
def test_nodes_of_a_thread_that_is_not_watched_are_not_those_of_another(where: str):
    def run(watched: bool) -> Tensor:
        w = leaf(3)
        with watch() if watched else nullcontext():
            return (w * 2).exp().sin()

    def sources(tensor: Tensor) -> list[Any]:
        return [data.get("source") for _, data in capture(tensor).nodes(data=True)]

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        seen, unseen = pool.submit(run, True).result(), other.submit(run, False).result()
        look = sources if where == "here" else lambda each: pool.submit(sources, each).result()
        assert not any(look(unseen))
        assert sum(each is not None for each in look(seen)) == 3


def test_a_graph_with_unwatched_leaves_keeps_what_its_own_thread_watched():
    def run(watched: bool) -> Tensor:
        w = leaf(3)
        with watch() if watched else nullcontext():
            inner = w * 2
        with watch():
            inner = inner.exp().sin()
        return inner.cos()

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        seen, partly = pool.submit(run, True).result(), other.submit(run, False).result()
        graph = other.submit(capture, partly).result()
    sources = [data.get("source") is not None for _, data in graph.nodes(data=True)]
    assert (seen.shape, sum(sources)) == (partly.shape, 2)


def test_a_backward_with_create_graph_is_annotated():
    x = leaf(3)
    with watch():
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert seen(slope).forward == "torch.autograd.grad"


@pytest.mark.parametrize("count", [1, 3])
def test_a_function_without_gradients_leaves_earlier_records(count: int):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + 0

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    def run() -> tuple[torch.Tensor, ...]:
        w, c = torch.randn(2, requires_grad=True), torch.randn(2)
        with watch():
            h = Twice.apply(w.sin())
            data = [Twice.apply(c) for _ in range(count)]
            with torch.no_grad():
                data.append(Twice.apply(w))
            out = Twice.apply(h).mean()
        return out, h, *data

    runs = [run() for _ in range(3)]
    for made in runs:
        nodes = capture(made[0]).nodes(data=True)
        lines = [data.get("source") for _, data in nodes if data["kind"] == "op"]
        assert None not in lines, lines


def test_equal_code_of_two_files_keeps_its_own_file():
    text = "def f(x):\n    return x * 2\n"
    functions = []
    for file in ("<one>", "<two>"):
        given: dict[str, Any] = {}
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        exec(compile(text, file, "exec"), given)
        functions.append(given["f"])
    x = torch.ones(1, requires_grad=True)
    with watch():
        results = [function(x) for function in functions]
    sources = [annotation_of(result.grad_fn).source for result in results]
    assert [source.file for source in sources] == ["<one>", "<two>"]
    assert {source.span for source in sources} <= {(7, 12), None}


def test_warnings_are_those_of_the_lines_that_the_program_has():
    one = torch.rand(4, 1)

    def program():
        one.std(dim=1)
        one.std(dim=1)
        F.softmax(one)
        one.std(dim=1), one.std(dim=1)

    seen = []
    for watching in (nullcontext(), watch()):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as found, watching:
            warnings.simplefilter("default")
            program()
        seen.append([(each.filename, each.lineno, str(each.message)) for each in found])
    assert seen[1] == seen[0]
    assert len(seen[0]) == 4
