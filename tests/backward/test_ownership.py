"""Who ran a backward pass, and whether moving through it moves every `.grad`."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest
import torch
from engine import EngineLog, all_same, check_is_the_engines, copies, same
from torch.utils.checkpoint import checkpoint

from gradwalk import record


class TestOwnership:
    @pytest.fixture
    def x(self):
        return torch.tensor([3.0, 1.0], requires_grad=True)

    def test_the_very_object_and_its_version_come_back(self, x):
        x.grad = torch.tensor([10.0, 20.0])
        mine, version = x.grad, x.grad._version
        recording = record((x * x).sum(), names={"x": x})
        assert x.grad is mine
        assert mine.tolist() == [16.0, 22.0]
        assert "x.grad was not empty" in recording.note
        recording.reset()
        assert x.grad is mine
        assert mine.tolist() == [10.0, 20.0]
        assert mine._version == version
        recording.step(3)
        assert mine.tolist() == [16.0, 22.0]

    @pytest.mark.parametrize(
        "touch",
        [
            lambda x, y: setattr(x, "grad", None),
            lambda x, y: x.grad.zero_(),
            lambda x, y: x.grad.data.zero_(),
            lambda x, y: setattr(x, "grad", x.grad.clone()),
            lambda x, y: torch.optim.SGD([x], 0.1).zero_grad(),
            lambda x, y: torch.nn.utils.clip_grad_norm_([x], 0.1),
            lambda x, y: y.backward(),
        ],
    )
    def test_a_grad_touched_by_something_else_is_left_alone(self, x, touch):
        y = (x * x).sum()
        recording = record(y, names={"x": x})
        assert recording._pass.owned
        touch(x, y)
        held, values = x.grad, copies([x.grad])
        recording.step_back()
        assert recording.cursor == len(recording.steps) - 1
        assert not recording._pass.owned
        assert "x.grad was changed by something else" in recording.note
        recording.reset()
        recording.step(3)
        assert x.grad is held
        assert all_same([x.grad], values)

    @pytest.mark.parametrize(
        "touch",
        [lambda g: g.data.zero_(), lambda g: g.mul_(2), lambda g: g.data[0].add_(1)],
    )
    def test_a_large_grad_is_watched_without_a_copy(self, touch):
        x = torch.randn(600, 600, requires_grad=True)
        recording = record((x * x).sum(), names={"x": x})
        after = x.grad.clone()
        recording.reset()
        recording.step(9)
        assert same(x.grad, after)
        touch(x.grad)
        held = x.grad.clone()
        recording.reset()
        assert not recording._pass.owned
        assert same(x.grad, held)

    @pytest.mark.parametrize("size", [2, 600])
    def test_two_grads_in_one_memory(self, size):
        a, b = (torch.randn(size, size, requires_grad=True) for _ in range(2))
        y = torch.cat([a, b])[:size].sum()
        log = EngineLog([y])
        y.backward(retain_graph=True)
        assert a.grad._base is b.grad._base
        log.logged.clear()
        recording = record(y)
        check_is_the_engines(log, recording)
        assert recording._pass.owned

    def test_a_large_grad_that_was_there_before(self):
        x = torch.randn(600, 600, requires_grad=True)
        x.grad = torch.ones(600, 600)
        recording = record((x * x).sum())
        after = x.grad.clone()
        recording.reset()
        assert same(x.grad, torch.ones(600, 600))
        recording.step(9)
        assert same(x.grad, after)

    def test_an_optimizer_step_changes_no_grad(self, x):
        recording = record((x * x).sum())
        torch.optim.SGD([x], 0.1).step()
        recording.reset()
        assert recording._pass.owned
        assert x.grad is None

    def test_touched_in_the_middle(self, x):
        recording = record((x * x).sum(), names={"x": x})
        recording.reset()
        x.grad = torch.zeros(2)
        recording.step(3)
        assert not recording._pass.owned
        assert x.grad.tolist() == [0.0, 0.0]

    def test_a_tensor_that_retains_its_gradient_travels_too(self, x):
        y = x * 2
        y.retain_grad()
        recording = record((y * y).sum(), names={"x": x, "y": y})
        assert y.grad.tolist() == [12.0, 4.0]
        recording.reset()
        assert y.grad is None
        recording.run_to("y")
        assert y.grad.tolist() == [12.0, 4.0]
        assert x.grad is None
        assert recording.steps[recording.cursor - 1].accumulated == "y.grad"

    def test_an_intermediate_tensor_among_the_inputs(self, x):
        y = x * 2
        recording = record((y * y).sum(), inputs=[y], names={"y": y})
        assert y.grad.tolist() == [12.0, 4.0]
        assert x.grad is None
        recording.reset()
        assert y.grad is None

    def test_gradients_with_a_graph(self, x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of create_graph=True, once per process
            recording = record((x**3).sum(), create_graph=True, names={"x": x})
        assert x.grad.requires_grad
        assert "GraphWidget(x.grad)" in recording.note
        (second,) = torch.autograd.grad(x.grad.sum(), x)
        assert second.tolist() == [18.0, 6.0]
        recording.reset()
        assert x.grad is None
        recording.step(9)
        assert x.grad.requires_grad

    def test_a_sparse_gradient(self):
        table = torch.nn.Embedding(5, 2, sparse=True)
        for _ in range(2):
            recording = record(table(torch.tensor([1, 3])).sum())
        after = table.weight.grad.to_dense()
        recording.reset()
        assert same(table.weight.grad.to_dense(), after / 2)
        recording.step(9)
        assert same(table.weight.grad.to_dense(), after)

    def test_an_optimizer_in_a_hook(self, x):
        x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", None))
        recording = record((x * x).sum())
        assert x.grad is None
        recording.reset()
        recording.step(9)
        assert x.grad is None
        assert recording._pass.owned

    @pytest.mark.parametrize("size", [2, 600])
    def test_a_leaf_that_a_checkpoint_also_uses(self, size):
        x = torch.randn(size, size, requires_grad=True)
        # Reentrant checkpointing runs a backward of its own within a node's step.
        y = checkpoint(lambda t: t * x, x, use_reentrant=True) + x * 5
        log = EngineLog([y])
        recording = record(y, gradient=torch.ones(size, size))
        after = copies([x.grad])
        plain = copies(torch.autograd.grad((x * x + x * 5).sum(), x))
        assert all_same(after, plain)
        for k in [*reversed(range(1, len(log.ran) + 1)), *range(1, len(log.ran) + 1)]:
            recording.cursor = k
            assert all_same([x.grad], log.ran[k - 1].leaf_grads)
        assert all_same([x.grad], after)
        recording.reset()
        assert x.grad is None
        log.remove()


def test_hooks_of_the_user_run_once():
    calls = []
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    x.register_hook(lambda grad: calls.append("x"))
    y.register_hook(lambda grad: calls.append("y") or grad * 10)
    y.grad_fn.register_hook(lambda i, o: calls.append("node"))
    y.grad_fn.register_prehook(lambda o: calls.append("pre"))
    x.register_post_accumulate_grad_hook(lambda t: calls.append("post"))
    recording = record(y.sum())
    assert calls == ["y", "pre", "node", "x", "post"]
    assert x.grad.tolist() == [20.0] * 3
    recording.reset()
    recording.step(9)
    assert len(calls) == 5
    (multiply,) = [step for step in recording.steps if step.op == "MulBackward0"]
    # What the hook made of it came in; the sum itself is the contributions'.
    assert multiply.grad_outputs[0].tolist() == [10.0] * 3
    assert multiply.contributions[-1].total.tolist() == [1.0] * 3


def test_record_leaves_no_hook_and_holds_nothing():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    recording = record(y.sum())
    run = weakref.ref(recording._pass.run)
    steps = len(recording.steps)
    y.sum().backward(retain_graph=True)
    assert len(recording._pass.run.steps) == steps
    assert recording._pass.run.number == 1
    del recording, y
    gc.collect()
    assert run() is None
