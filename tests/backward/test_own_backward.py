"""gradwalk's own backward: where torch's works it works, alone, and every `.grad` comes back."""

from __future__ import annotations

import re

import pytest
import torch
from engine import all_same, copies, same
from fresh import fresh
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gradwalk import GraphWidget, record
from gradwalk.result import make
from gradwalk.results import Recording


def dense_on(layout):
    def program():
        a = getattr(torch.eye(3), layout)().requires_grad_()
        b = torch.randn(3, 2, requires_grad=True)
        return [a, b], (a @ b).sum()

    return program


def reentrant(part):
    def program():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        x = torch.ones(1, 2, requires_grad=True)
        return [x, *model.parameters()], part(model, x).sum()

    return program


def inside_and_out(model, x):
    return model(checkpoint(lambda z: model(z).tanh(), x, use_reentrant=True))


def plain():
    x = torch.ones(3, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    return [x, b], (x * x + b).sum()


ODD = {
    "dense": plain,
    "dense on COO": dense_on("to_sparse"),
    "dense on CSR": dense_on("to_sparse_csr"),
    "reentrant, a module": reentrant(lambda m, x: checkpoint(m, x, use_reentrant=True)),
    "reentrant, a lambda": reentrant(
        lambda m, x: checkpoint(lambda z: m(z).sin(), x, use_reentrant=True)
    ),
    "reentrant, a sequence": reentrant(
        lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=True)
    ),
    "reentrant, inside and out": reentrant(inside_and_out),
}


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("name", ODD)
@given(moves=st.lists(st.integers(0, 20), max_size=6), inference=st.booleans(), full=st.booleans())
def test_every_grad_comes_back_or_the_widget_says_why_not(name, moves, inference, full):
    def begun():
        torch.manual_seed(0)
        leaves, output = ODD[name]()
        for leaf in leaves if full and "dense on" not in name else ():
            leaf.grad = torch.ones_like(leaf)
        return leaves, output

    twins, twin_output = begun()
    leaves, output = begun()
    before = copies([leaf.grad for leaf in leaves])
    widget = GraphWidget(output)
    with torch.inference_mode(inference):
        try:
            twin_output.backward()
        except RuntimeError as error:  # torch's sparse and checkpoint refuse inference mode
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                widget.backward()
            assert all_same([leaf.grad for leaf in leaves], before)
            return
        widget.backward()
    after = copies([leaf.grad for leaf in leaves])
    objects = [leaf.grad for leaf in leaves]
    assert all_same([twin.grad for twin in twins], after)

    for move in moves:
        widget.cursor = min(move, len(widget.steps))
        if not widget.transport["owned"]:
            assert "which torch cannot set" in widget.transport["note"]
            assert all(leaf.grad is grad for leaf, grad in zip(leaves, objects, strict=True))
        elif widget.cursor == 0:
            assert all_same([leaf.grad for leaf in leaves], before)
    widget.cursor = len(widget.steps)
    assert all_same([leaf.grad for leaf in leaves], after)
    assert all(leaf.grad is grad for leaf, grad in zip(leaves, objects, strict=True))
    widget.close()


def test_the_next_backward_after_a_reset_is_like_the_first():
    leaves, output = ODD["reentrant, a lambda"]()
    widget = GraphWidget(output)
    widget.backward()
    first = copies([leaf.grad for leaf in leaves])
    widget.reset()
    assert all(leaf.grad is None for leaf in leaves)
    widget.backward()
    assert all_same([leaf.grad for leaf in leaves], first)


class TestCompiledCodeThatRunsOnce:
    @pytest.fixture
    def program(self):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: (x.sin().exp() * x.cos()).sum(), backend="aot_eager")
        x = torch.randn(8, requires_grad=True)
        compiled(x).backward()
        expected, x.grad = x.grad, None
        return compiled, x, expected

    def test_is_stepped_through(self, program):
        compiled, x, expected = program
        widget = GraphWidget(compiled(x))
        widget.step()
        assert x.grad is None
        widget.step()
        assert torch.equal(x.grad, expected)
        assert "freed the saved tensors" in widget.transport["note"]
        assert "can run only once" in widget.transport["blocked"]
        with pytest.raises(RuntimeError, match="can run only once"):
            widget.backward()
        assert torch.equal(x.grad, expected)

    def test_is_recorded(self, program):
        compiled, x, expected = program
        recording = record(compiled(x) * 2)
        assert torch.equal(x.grad, expected * 2)
        recording.reset()
        assert x.grad is None

    def test_is_not_run_otherwise_than_asked(self, program):
        compiled, x, _ = program
        widget = GraphWidget(compiled(x))
        with pytest.raises(RuntimeError, match="donated buffers"):
            widget.backward(retain_graph=True)
        assert x.grad is None

    def test_keeps_its_graph_where_it_can(self):
        torch._dynamo.reset()
        x = torch.randn(8, requires_grad=True)
        y = torch.compile(lambda x: (x.sin().exp() * x.cos()).sum(), backend="aot_eager")(x)
        widget = GraphWidget(y)
        widget.backward()
        assert widget.transport == {"owned": True, "note": None, "blocked": None}


class TestWhereItStarts:
    def test_a_complex_number_is_refused_as_torch_does(self):
        z = torch.tensor(1 + 2j, requires_grad=True)
        y = z * z
        with pytest.raises(RuntimeError, match="real scalar outputs"):
            y.backward(retain_graph=True)
        widget = GraphWidget(y, names={"y": y})
        assert "y is a complex number" in widget.transport["blocked"]
        for start in (widget.backward, widget.step, lambda: record(y)):
            with pytest.raises(ValueError, match="is a complex number, of dtype"):
                start()
        assert z.grad is None
        one = torch.ones((), dtype=torch.complex64)
        y.backward(one, retain_graph=True)
        expected, z.grad = z.grad, None
        widget.backward(one)
        assert torch.equal(z.grad, expected)

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_a_nested_output_says_what_to_give(self, layout):
        parts = [torch.ones(2), torch.ones(3)]
        x = torch.nested.nested_tensor(parts, requires_grad=True, layout=layout)
        y = x * 2
        widget = GraphWidget(y, names={"y": y})
        assert "torch.ones_like(y)" in widget.transport["blocked"]
        with pytest.raises(ValueError, match="nested tensor"):
            widget.backward()
        widget.backward(torch.ones_like(y))
        assert all(torch.equal(grad, torch.full_like(grad, 2)) for grad in x.grad.unbind())

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    @pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
    @pytest.mark.parametrize("alive", [True, False])
    def test_one_number_of_any_kind(self, dtype, shape, alive):
        x = torch.full(shape, 3.0, dtype=dtype, requires_grad=True)
        (x * x).backward()
        expected, x.grad = x.grad, None
        y = x * x
        widget = GraphWidget(y)
        if not alive:
            del y
        widget.backward()
        assert same(x.grad, expected)
        (step, *_) = make(Recording, widget._source.recording).steps
        assert same(step.contributions[0].grad, torch.ones(shape, dtype=dtype))

    def test_an_output_that_was_changed_in_place_is_the_one_that_was_drawn(self):
        x = torch.tensor(3.0, requires_grad=True)
        y = x * 2
        widget = GraphWidget(y)
        y.mul_(5)
        widget.backward()
        assert x.grad.item() == 2.0

    def test_a_subclass(self):
        found = fresh("""
            import torch
            import torch.distributed as dist
            from torch.distributed.tensor import Replicate, Shard, distribute_tensor
            from torch.distributed.tensor import init_device_mesh
            from torch.testing._internal.distributed.fake_pg import FakeStore
            from gradwalk import GraphWidget, record

            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
            mesh = init_device_mesh("cpu", (1,))
            w = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]).requires_grad_()
            x = distribute_tensor(torch.randn(2, 4), mesh, [Replicate()])
            loss = (x @ w.t()).sum()
            loss.backward(retain_graph=True)
            expected, w.grad = w.grad.to_local(), None
            widget = GraphWidget(loss)
            widget.step(99)
            print(torch.equal(w.grad.to_local(), expected), widget.transport["owned"])
            grad = w.grad
            widget.reset()
            print(w.grad is None)
            recording = record(loss)
            print(torch.equal(w.grad.to_local(), expected))
            dist.destroy_process_group()
        """).split()
        assert found == ["True"] * 4

    def test_one_number_imports_no_algebra(self):
        found = fresh("""
            import sys
            import torch
            from gradwalk import GraphWidget, record

            before = "sympy" in sys.modules
            x = torch.tensor([3.0], requires_grad=True)
            widget = GraphWidget(x * x + x)
            widget.step(1)
            widget.step(9)
            record(x * 2)
            print(("sympy" in sys.modules) is before)
        """).split()
        assert found == ["True"]
