"""`what_if` against torch: the same program with `detach()` or with a hook, bit for bit."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from typing import Any

import networkx as nx
import pytest
import torch
from programs import PROGRAMS, outputs_of
from surgery import Program, Uses, gradients, ids_of, programs, same
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

import gradwalk
from gradwalk import contributions, what_if
from gradwalk.features.experiments.experiment import Experiment
from gradwalk.features.experiments.replay import Replay
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs

ALL = list(programs())


def uses_of(program: Program) -> tuple[list[Tensor], list[Tensor], list[list[tuple[int, int]]]]:
    """A program's outputs, its leaves, and per use the edges as `capture` numbers them."""
    with Uses() as seen:
        outputs, leaves = program()
    ids = ids_of(outputs)
    leaves = [leaf for leaf in leaves if get_gradient_edge(leaf).node in ids]
    known = [[(ids[n], nr) for n, nr in edges if n in ids] for edges in seen.edges]
    complete = [
        here if len(here) == len(edges) else []
        for here, edges in zip(known, seen.edges, strict=True)
    ]
    return outputs, leaves, complete


@pytest.mark.one_python
@pytest.mark.parametrize(("name", "program", "count"), ALL, ids=[each[0] for each in ALL])
def test_a_cut_is_the_program_with_detach(name: str, program: Program, count: int):
    outputs, leaves, uses = uses_of(program)
    there = [use for use, edges in enumerate(uses) if edges]
    draw = random.Random(zlib.crc32(name.encode()))
    for use in [draw.choice(there) for _ in range(count)]:
        found = what_if(*outputs, cut=uses[use], inputs=leaves)
        with Uses(use, lambda tensor: tensor.detach()):
            changed, _ = program()
        same(found.after.values(), gradients(changed, leaves))
        same(found.before.values(), gradients(program()[0], leaves))


def test_there_are_five_hundred_cuts():
    assert sum(count for _, _, count in ALL) == 500


@pytest.mark.parametrize(("name", "program", "count"), ALL[::3], ids=[e[0] for e in ALL[::3]])
def test_scale_and_replace_are_hooks(name: str, program: Program, count: int):
    outputs, leaves, uses = uses_of(program)
    there = [use for use, edges in enumerate(uses) if len(edges) == 1]
    draw = random.Random(zlib.crc32(name.encode()))
    hooks: list[Any] = [lambda grad: grad * 0.3, torch.sign, lambda grad: grad.clamp(-0.01, 0.01)]
    for use in [draw.choice(there) for _ in range(count // 4)]:
        (edge,) = uses[use]
        hook = draw.choice(hooks)
        asked: Any = {"scale": {edge: 0.3}} if hook is hooks[0] else {"replace": {edge: hook}}

        def with_hook(tensor: Tensor, hook: Any = hook) -> Tensor:
            alias = tensor.view_as(tensor)
            alias.register_hook(hook)
            return alias

        with Uses(use, with_hook):
            changed, _ = program()
        same(what_if(*outputs, **asked, inputs=leaves).after.values(), gradients(changed, leaves))


def test_a_tensor_is_all_its_edges_as_one():
    w, v = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)

    def program(hook: Any) -> Tensor:
        h = w * v
        if hook is not None:
            h.register_hook(hook)
        return (h.exp() + h.sin() * h + h.cumsum(0)).sum(), h

    for hook in (lambda grad: grad * 1.7, torch.sign, lambda _: torch.ones(3)):
        out, h = program(None)
        expected = gradients([program(hook)[0]], [w, v])
        for of in (h, "h"):
            found = what_if(out, replace={of: hook}, inputs=[w, v])
            same(found.after.values(), expected)
    same(what_if(out, replace={"h": torch.ones(3)}, inputs=[w, v]).after.values(), expected)
    scaled, _ = program(lambda grad: grad * 1.7)
    found = what_if(out, scale={h: 1.7}, inputs=[w, v])
    same(found.after.values(), gradients([scaled], [w, v]))


def test_a_leaf_a_root_and_several_outputs():
    w, v = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)

    def program() -> list[Tensor]:
        h = w * v
        return [h, h.sum(), (h * h).sum()]

    h, a, b = program()
    assert what_if(a, b, cut="w").after["w"] is None
    same(what_if(a, b, cut=w, inputs=[w, v]).after.values(),
         [None, gradients(program()[1:], [v])[0]])  # fmt: skip
    same(what_if(a, b, cut=[a], inputs=[w, v]).after.values(), gradients(program()[2:], [w, v]))
    assert set(what_if(a, cut=[a]).after.values()) == {None}
    same(what_if(a, b, h, gradient=[None, None, torch.ones(3)], inputs=[w, v]).before.values(),
         gradients([a + b + h.sum()], [w, v]))  # fmt: skip
    h, a, b = program()
    found = what_if(a, b, scale={w: 2})
    assert torch.equal(found.difference["w"], found.before["w"])
    assert not found.difference["v"].any()
    inner = what_if(a, b, cut=[b], inputs=[h, "w"])
    assert list(inner.before) == ["h", "w"]
    same([inner.after["h"]], [torch.ones(3)])


def test_names_ids_and_nothing():
    hidden = [torch.ones(2, requires_grad=True)]
    w = torch.ones(2, requires_grad=True)
    out = (w * hidden[0]).sum()
    del hidden
    found = what_if(out)
    assert set(found.before) == {"w", 3} or set(found.before) == {"w", 2}
    assert found.ran == 0
    assert found.code == ""
    assert found.notes


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"meta_tensors", "recomputed", "nested"}))
def test_before_is_what_torch_gives(name: str):
    outputs = outputs_of(name)
    if name == "changed_by_a_hook":
        return  # below: hooks are kept from it
    ones = [torch.ones_like(each) for each in outputs]
    found = what_if(*outputs, gradient=ones)
    again = outputs_of(name)
    leaves = [node.variable for node in ids_of(again) if hasattr(node, "variable")]
    torch.autograd.backward(again, ones)
    for ours, leaf in zip(found.before.values(), leaves, strict=True):
        assert (ours is None) == (leaf.grad is None)
        if ours is not None:
            same([ours.to_dense()], [leaf.grad.to_dense()])


def test_nothing_changes_and_no_hook_runs():
    counts: Counter[str] = Counter()

    def counting(name: str) -> Any:
        return lambda *_: counts.update([name])

    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(_: Any, grad: Tensor) -> Tensor:
            return grad * 2 + 0 * torch.rand(3)

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    net[0].register_full_backward_hook(counting("module"))
    net[2].register_full_backward_pre_hook(counting("module before"))
    net[0].weight.register_post_accumulate_grad_hook(counting("accumulated"))
    net[0].bias.register_hook(counting("leaf"))

    def part(x: Tensor) -> Tensor:
        h = Noisy.apply(net(x))
        h.register_hook(counting("dead tensor"))
        return h.exp()

    y = part(torch.ones(2, 3, requires_grad=True))
    y.retain_grad()
    y.register_hook(counting("tensor"))
    y.grad_fn.register_hook(counting("node"))
    y.grad_fn.register_prehook(counting("node before"))
    loss = y.sum()
    net[2].bias.grad = torch.full((3,), 7.0)
    graph = gradwalk.capture(loss)
    state, modes = torch.get_rng_state(), torch.is_grad_enabled()
    found = what_if(loss, scale={"y": 2}, cut=list(net[0].parameters())[:1])
    contributions("y", loss)
    contributions(net[0].weight, loss, by="path")
    assert not counts
    assert y.grad is None
    assert [p.grad is None for p in net.parameters()] == [True, True, True, False]
    assert torch.equal(net[2].bias.grad, torch.full((3,), 7.0))
    assert torch.equal(state, torch.get_rng_state())
    assert modes == torch.is_grad_enabled()
    assert nx.utils.graphs_equal(graph, gradwalk.capture(loss))
    assert any("Your hooks on " in note and "y" in note for note in found.notes)
    assert any("Noisy" in note for note in found.notes)
    loss.backward()
    assert set(counts.values()) == {1}
    assert len(counts) == 8


def test_a_hook_that_changes_gradients_is_kept_from_it():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: grad * 10)
    found = what_if(y.sum(), scale={y: 2})
    assert torch.equal(found.after["x"], 2 * x.detach().exp())
    assert "on y" in found.notes[0]


def test_checkpointed_parts_run_once_for_each_pass():
    layer, x, calls = torch.nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True), []

    def part(t: Tensor) -> Tensor:
        calls.append(1)
        return layer(t).tanh().exp()

    h = checkpoint(part, x, use_reentrant=False)
    loss = (h * x).sum()
    cut = what_if(loss, cut=[h], inputs=[x])
    same(cut.after.values(), [h.detach()])
    assert len(calls) == 2
    same(what_if(loss, inputs=[x]).before.values(), gradients([loss], [x]))
    old = checkpoint(part, x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        what_if(old)
    assert layer.weight.grad is None


def test_only_what_is_below_runs():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    loss = net(torch.randn(2, 6, 32)).square().mean()
    graph = gradwalk.capture(loss, names=net)
    leaf = next(i for i, name in graph.nodes(data="name") if name == "layers.0.linear1.weight")
    ((_, arg_nr),) = [(u, d["arg_nr"]) for u, _, d in graph.in_edges(leaf, data=True)]
    (consumer,) = graph.predecessors(leaf)
    assert what_if(loss, cut=[(consumer, arg_nr)]).ran == 0
    (above,) = graph.predecessors(consumer)
    nr = graph.edges[above, consumer, next(iter(graph[above][consumer]))]["arg_nr"]
    assert what_if(loss, cut=[(above, nr)]).ran == 0
    assert what_if(loss, scale={(above, nr): 2}).ran == 1
    record = Experiment(capture_nodes(read_outputs((loss,), "t"), Names()), max_bytes=2**28)
    first = record.what_if([record.read("scale", (above, nr), 2)])
    ran: list[int] = []
    record.replay.call = lambda i, _: ran.append(i) or [None] * 9  # type: ignore[method-assign]
    second = record.what_if([record.read("scale", (above, nr), 2)])
    assert len(ran) == second.ran == first.ran == 1


def counted(monkeypatch) -> list[int]:
    """The nodes that run again."""
    ran: list[int] = []
    call = Replay.call
    monkeypatch.setattr(Replay, "call", lambda self, i, came: ran.append(i) or call(self, i, came))
    return ran


@pytest.mark.parametrize("name", ["lenet", "transformer", "recurrent", "two_outputs"])
def test_of_a_recorded_pass_only_what_is_below_runs(name, monkeypatch):
    torch.manual_seed(0)
    outputs = outputs_of(name)
    seeds = [torch.rand_like(each) for each in outputs]
    recording = gradwalk.record(*outputs, gradient=seeds)
    nodes = recording.graph.number_of_nodes()
    edges = [(u, d["arg_nr"]) for u, _, d in recording.graph.edges(data=True)]
    for edge in random.Random(0).sample(edges, min(12, len(edges))):
        torch.manual_seed(0)
        expected = what_if(*outputs, scale={edge: 3}, gradient=seeds)
        with monkeypatch.context() as patch:
            ran = counted(patch)
            torch.manual_seed(0)
            found = what_if(recording, scale={edge: 3})
        assert len(ran) == found.ran == expected.ran < nodes
        same(found.after.values(), expected.after.values())
        same(found.before.values(), expected.before.values())


def test_of_a_widget_with_a_pass(monkeypatch):
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(0.5)
    h = w * x
    widget = gradwalk.GraphWidget(h + h.tanh(), names={"w": w, "h": h})
    ran = counted(monkeypatch)
    assert what_if(widget, scale={"h": 10}).after["w"].item() == pytest.approx(7.0999, abs=1e-4)
    assert len(ran) > 1
    widget.backward()
    ran.clear()
    assert what_if(widget, scale={"h": 10}).after["w"].item() == pytest.approx(7.0999, abs=1e-4)
    assert len(ran) == 1
    assert w.grad.item() == pytest.approx(0.7100, abs=1e-4)
    widget.close()


def test_a_pass_that_hooks_changed_or_that_left_leaves_out_is_run_again():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([3.0, 4.0], requires_grad=True)
    h = x * y
    h.register_hook(lambda grad: grad * 100)
    names = {"x": x, "y": y, "h": h}
    hooked = gradwalk.record(h.sin().sum(), names=names)
    found = what_if(hooked, scale={"x": 2})
    assert torch.equal(found.before["x"], h.detach().cos() * y.detach())
    assert any("Your hooks" in note for note in found.notes)
    x.grad = y.grad = None
    some = gradwalk.record((x * y).sum(), inputs=[x], names={"x": x, "y": y})
    found = what_if(some, scale={"y": 2})
    assert torch.equal(found.after["y"], 2 * x.detach())


@pytest.mark.parametrize("length", [1, 1_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_long_programs(length: int):
    x = torch.ones((), requires_grad=True)
    y = x
    for _ in range(length):
        y = y * 1
    found = what_if(y, scale={(0, 0): 3})
    assert found.after["x"] == 3
    assert found.ran == length - 1


class Zeros(torch.autograd.Function):
    """Two outputs; where one has no gradient, backward is given zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, y: Tensor) -> Any:
        ctx.factor = factor
        return x * factor, y * factor

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        a, b = (None if grad is None else grad * ctx.factor for grad in grads)
        return a, None, b


class Nones(Zeros):
    """The same, but it is given None."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, y: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return Zeros.forward(ctx, x, factor, y)


@pytest.mark.parametrize("function", [Zeros, Nones])
def test_functions_with_an_output_that_is_not_used(function: Any):
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    a, b = function.apply(x, 3.0, y)
    for out in (a.sum(), b.sum(), (a * b).sum()):
        found = what_if(out, inputs=[x, y])
        out.backward(retain_graph=True)
        same(found.before.values(), [x.grad, y.grad])
        x.grad = y.grad = None


@pytest.mark.parametrize("of", ["hidden", (0, 0), (0, 1)])
def test_a_function_that_replaces_is_called_once(of: Any):
    w = torch.ones(2, requires_grad=True)
    hidden = w * 2
    loss = hidden * hidden
    calls: list[torch.Tensor] = []

    def noted(grad: torch.Tensor) -> torch.Tensor:
        calls.append(grad)
        return grad * 3

    what_if(loss, replace={of: noted}, gradient=torch.ones(2))
    assert len(calls) == 1


def test_a_function_that_changes_its_gradient_in_place_changes_no_other():
    """As with a hook: an addition hands the same tensor to both."""
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    out = (a + b).sum()
    expected = torch.autograd.grad(out, [a, b], retain_graph=True)
    for change in (lambda g: g.mul_(5), lambda g: g.mul_(5) and None if g.dim() == 0 else None):
        found = what_if(out, replace={"a": change})
        same(found.before.values(), expected)
        same([found.after["b"]], expected[1:])
    assert torch.equal(what_if(out, replace={"a": lambda g: g.mul_(5)}).after["a"], 5 * expected[0])


def test_what_is_nan_before_and_after_has_not_changed():
    w, v = (torch.tensor([0.0, 1.0], requires_grad=True) for _ in range(2))
    out = (w.sqrt() + 1 / w).sum() + (v * 2).sum()
    assert torch.autograd.grad(out, w, retain_graph=True)[0].isnan().any()
    assert repr(what_if(out)) == "<WhatIf: 0 of 2 gradients change>"
    assert repr(what_if(out, cut="v")) == "<WhatIf: 1 of 2 gradients change>"


def test_hooks_of_a_module_are_told_of():
    linear = torch.nn.Linear(2, 2)
    linear.register_full_backward_hook(lambda *_: None)
    found = what_if(linear(torch.ones(1, 2, requires_grad=True)).sum())
    assert any("Backward hooks of a module" in note for note in found.notes)
    assert not any("BackwardHookFunction" in note for note in found.notes)


def two_branches() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    w = torch.tensor(2.0, requires_grad=True)
    h = w * 3
    return w, h, h + h**2


def test_named_what_ifs_of_one_pass_stand_side_by_side():
    w, h, out = two_branches()
    tries = {"no skip": {"cut": [(0, 0)]}, "half": {"scale": {h: 0.5}}, "none": {"cut": [h]}}
    found = [what_if(out, **asked, inputs=[w]).named(name) for name, asked in tries.items()]
    beside = found[0].beside(*found[1:])
    assert list(beside) == ["before", *tries]
    (plain,) = torch.autograd.grad(out, w, retain_graph=True)
    assert torch.equal(next(iter(beside["before"].values())), plain)
    for name, asked in tries.items():
        assert beside[name] == what_if(out, **asked, inputs=[w]).after
    assert found[0].name == "no skip"
    assert repr(found[0]) == "<WhatIf 'no skip': 1 of 1 gradients change>"


def test_what_cannot_stand_beside_each_other_is_said():
    _, _, out = two_branches()
    one = what_if(out, cut=[(0, 0)])
    with pytest.raises(ValueError, match="one without a name"):
        one.beside()
    one = one.named("one")
    with pytest.raises(ValueError, match="two that are called 'one'"):
        one.beside(one)
    with pytest.raises(ValueError, match="'other', whose gradients without a change are others"):
        one.beside(what_if(out * 2).named("other"))
    with pytest.raises(TypeError, match="beside\\(\\) was given 3"):
        one.beside(3)
    for name in ("", "before"):
        with pytest.raises(ValueError, match="named\\(\\) was given"):
            one.named(name)
    with pytest.raises(TypeError, match="Give a text"):
        one.named(3)
