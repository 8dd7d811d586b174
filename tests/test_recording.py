"""A recording is what torch's engine did, and travelling in it is travelling in `.grad`."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest
import torch
from engine import EngineLog, all_same, copies, nodes_behind, same
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, Fails, backward, outputs_of
from test_capture import random_programs
from torch.utils.checkpoint import checkpoint

from gradwalk import record


def ones(outputs):
    return [torch.ones_like(output) for output in outputs]


def check_is_the_engines(log, recording):
    """Order, gradients and every intermediate `.grad`, forwards and back."""
    nodes = recording._captured.nodes
    assert [nodes[step.node] for step in recording.steps] == [ran.node for ran in log.ran]
    for step, ran in zip(recording.steps, log.ran, strict=True):
        assert all_same(step.grad_outputs, ran.grad_outputs)
        assert all_same(step.grad_inputs, ran.grad_inputs)
    if any(leaf.is_nested for leaf in log.leaves):
        assert "a nested tensor" in recording.note
        return
    for k in [*reversed(range(1, len(log.ran) + 1)), *range(1, len(log.ran) + 1)]:
        recording.go(k)
        assert all_same([leaf.grad for leaf in log.leaves], log.ran[k - 1].leaf_grads), k


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_recorded_as_the_engine_ran_it(name):
    plain = outputs_of(name)
    backward(plain)
    expected = EngineLog(plain).leaf_grads()

    outputs = outputs_of(name)
    log = EngineLog(outputs)
    before = log.leaf_grads()
    recording = record(outputs, gradient=ones(outputs))
    assert all_same(log.leaf_grads(), expected)
    check_is_the_engines(log, recording)
    recording.reset()
    assert all_same(log.leaf_grads(), before if recording._pass.owned else expected)


@settings(max_examples=60, deadline=None)
@given(random_programs(), st.booleans())
def test_random_programs_are_recorded_as_the_engine_ran_them(values, accumulates):
    output = (values[-1] + values[0]).sum()
    log = EngineLog([output])
    if accumulates:
        output.backward(retain_graph=True)
        log.logged.clear()
    before = log.leaf_grads()
    recording = record(output)
    check_is_the_engines(log, recording)
    recording.reset()
    assert all_same(log.leaf_grads(), before)
    for step in recording.steps:
        assert same(step.contributions[-1].total, step.grad_outputs[0])


def test_the_example_with_two_paths():
    x = torch.tensor(3.0, requires_grad=True)
    y1, y2 = x + 1, 2 * x
    recording = record((y1 - y2) ** 2, names={"x": x, "y1": y1, "y2": y2})
    last = recording.steps[-1]
    assert (last.op, last.name, last.accumulated) == ("AccumulateGrad", "x", "x.grad")
    into_x = {recording.graph.nodes[c.consumer]["name"]: c.grad.item() for c in last.contributions}
    assert into_x == {"y1": -4.0, "y2": 8.0}
    assert [c.total.item() for c in last.contributions] == [8.0, 4.0]
    assert x.grad.item() == 4.0
    assert [step.step for step in recording.steps] == [1, 2, 3, 4, 5]


def test_a_node_is_ready_when_the_last_of_its_consumers_has_run():
    x = torch.tensor(3.0, requires_grad=True)
    recording = record(x * 2 + x * 3)
    states = {step.node: step for step in recording.steps}
    (leaf,) = [step for step in recording.steps if step.op == "AccumulateGrad"]
    assert states[0].ready == 0
    assert leaf.ready == 3
    recording.go(2)
    assert [recording._pass.state(step.node) for step in recording.steps] == [
        "done",
        "running",
        "ready",
        "waiting",
    ]
    recording.go(3)
    assert recording._pass.state(leaf.node) == "ready"


def test_a_node_outside_the_pass_is_not_reached():
    a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
    recording = record(a * b, inputs=[a], names={"a": a, "b": b})
    assert recording._pass.state(recording.steps[-1].node) == "running"
    (unreached,) = set(recording.graph) - {step.node for step in recording.steps}
    assert recording._pass.state(unreached) == "not reached"
    assert recording.graph.nodes[unreached]["name"] == "b"


def test_moving():
    x = torch.tensor(3.0, requires_grad=True)
    recording = record(x * x + x, names={"x": x})
    assert recording.cursor == 3
    recording.step_back(2)
    assert recording.cursor == 1
    recording.step()
    assert recording.cursor == 2
    recording.step(40)
    assert recording.cursor == 3
    recording.step_back(40)
    assert recording.cursor == 0
    recording.run_to(0)
    assert recording.cursor == 1
    recording.run_to("x")
    assert recording.cursor == 3
    recording.reset()
    assert recording.cursor == 0
    assert repr(recording) == "<Recording: step 0 of 3>"


@pytest.mark.parametrize(
    ("move", "error", "sentence"),
    [
        (lambda r: r.step(-1), ValueError, "call step_back"),
        (lambda r: r.step_back(-1), ValueError, "call step()"),
        (lambda r: r.step("two"), TypeError, "'two', of type str"),
        (lambda r: r.step(1.5), TypeError, "a number of steps"),
        (lambda r: r.go(9), ValueError, "has 2 steps"),
        (lambda r: r.run_to("z"), ValueError, "no node called 'z'"),
        (lambda r: r.run_to(7), ValueError, "nodes 0 to 1 only"),
        (lambda r: r.run_to(None), TypeError, "None, of type NoneType"),
    ],
)
def test_moves_that_cannot_be(move, error, sentence):
    x = torch.tensor(3.0, requires_grad=True)
    recording = record(x * x, names={"x": x})
    with pytest.raises(error, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        move(recording)
    assert recording.cursor == 2
    assert x.grad.item() == 6.0


def test_running_to_a_name_that_several_nodes_have():
    x = torch.ones(2, requires_grad=True)
    recording = record({"a": [x * 2, x * 3]}, gradient=[torch.ones(2)] * 2)
    recording.graph.nodes[0]["name"] = recording.graph.nodes[1]["name"] = "same"
    with pytest.raises(ValueError, match="that of 2 nodes: 0, 1"):
        recording.run_to("same")


class TestGradient:
    def test_a_matrix_needs_one(self):
        y = torch.ones(2, 2, requires_grad=True) * 3
        with pytest.raises(ValueError, match=r"y has shape \(2, 2\).*gradient=torch.ones\(2, 2\)"):
            record(y, names={"y": y})
        record(y.sum())

    @pytest.mark.parametrize("gradient", [torch.ones(3), torch.ones(2, 1)])
    def test_of_another_shape(self, gradient):
        y = torch.ones(2, 2, requires_grad=True) * 3
        with pytest.raises(ValueError, match=r"which has shape \(2, 2\)"):
            record(y, gradient=gradient)

    def test_of_another_kind(self):
        y = torch.ones(2, requires_grad=True) * 3
        with pytest.raises(TypeError, match="of type float"):
            record(y, gradient=1.0)
        with pytest.raises(TypeError, match="for the output, of type float"):
            record(y, gradient=[2.0])

    def test_as_many_as_outputs(self):
        x = torch.ones(2, requires_grad=True)
        with pytest.raises(ValueError, match=r"1 tensor\(s\), but this graph has 2 outputs"):
            record(x * 2, x * 3, gradient=torch.ones(2))

    def test_two_outputs(self):
        x1, x2 = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        y1, y2 = x1 * x2, x1 + x2
        record(y1, y2)
        assert (x1.grad.item(), x2.grad.item()) == (3.0, 2.0)

    def test_weights_of_a_vector(self):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        weights = torch.tensor([3.0, 0.5])
        recording = record(x * x, gradient=weights)
        assert torch.equal(x.grad, 2 * x.detach() * weights)
        (seed,) = recording.steps[0].contributions
        assert seed.consumer is None
        assert same(seed.grad, weights)
        assert "the gradient= you gave" in recording.note

    def test_inputs_of_the_wrong_kind(self):
        x = torch.ones((), requires_grad=True)
        with pytest.raises(TypeError, match="'x', of type str"):
            record(x * 2, inputs=["x"])
        with pytest.raises(ValueError, match="inputs was given nothing"):
            record(x * 2, inputs=[])


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
            recording.go(k)
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


class TestFaults:
    def test_an_exception_puts_every_grad_back(self):
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        a.grad = torch.full((2,), 7.0)
        mine = a.grad
        y = (Fails.apply(b) + a * 2).sum()
        with pytest.raises(ValueError, match="no gradient today") as caught:
            record(y, names={"a": a, "b": b})
        assert a.grad is mine
        assert mine.tolist() == [7.0, 7.0]
        assert b.grad is None
        (note,) = caught.value.__notes__
        assert "Backward stopped at FailsBackward (node" in note
        assert "Every .grad is as it was" in note

    def test_the_graph_can_be_run_again(self):
        x = torch.ones(2, requires_grad=True)
        fails = [True]

        def hook(grad):
            if fails[0]:
                raise RuntimeError("not yet")

        y = x * 3
        y.register_hook(hook)
        z = (y * y).sum()
        with pytest.raises(RuntimeError, match="not yet"):
            record(z)
        fails[0] = False
        assert record(z).steps[-1].op == "AccumulateGrad"
        assert x.grad.tolist() == [18.0, 18.0]

    @settings(max_examples=60, deadline=None)
    @given(random_programs(), st.data())
    def test_the_node_that_failed_is_named(self, values, data):
        output = (values[-1] + values[0]).sum()
        nodes = nodes_behind([output])
        culprit = data.draw(st.sampled_from(nodes))

        def fail(_):
            raise RuntimeError("here")

        if hasattr(culprit, "variable"):
            culprit.variable.register_hook(fail)
        else:
            culprit.register_prehook(fail)
        with pytest.raises(RuntimeError, match="here") as caught:
            record(output)
        assert f"(node {nodes.index(culprit)})" in caught.value.__notes__[0]

    def test_a_saved_tensor_changed_in_place(self):
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        z = (y * y).sum()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
            record(z)
        assert "MulBackward0" in caught.value.__notes__[0]
        assert x.grad is None

    def test_freed_buffers(self):
        x = torch.ones(2, requires_grad=True)
        z = (x.exp() * 2).sum()
        z.backward()
        mine = x.grad
        with pytest.raises(RuntimeError, match="second time") as caught:
            record(z)
        assert "Backward stopped at" in caught.value.__notes__[0]
        assert x.grad is mine

    def test_an_interrupt(self):
        x = torch.ones(2, requires_grad=True)
        x.grad = torch.zeros(2)
        y = x * 3

        def interrupt(_):
            raise KeyboardInterrupt

        y.register_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            record((y + x).sum())
        assert x.grad.tolist() == [0.0, 0.0]

    def test_nan_is_born_where_finite_became_nan(self):
        x = torch.tensor([0.0, 4.0], requires_grad=True)
        root = x.sqrt()
        recording = record((root * 2).sum(), names={"x": x, "root": root})
        (mark,) = recording._pass.marks
        assert mark["kind"] == "nan"
        assert recording.graph.nodes[mark["node"]]["op"] == "SqrtBackward0"
        assert "Inf is born here" in mark["note"]
        assert "of root (node" in mark["note"]
        assert "saved result: 1 zero" in mark["note"]

    @settings(max_examples=40, deadline=None)
    @given(random_programs(), st.data())
    def test_the_first_node_with_a_nan_is_the_one(self, values, data):
        output = (values[-1] + values[0]).sum()
        nodes = [n for n in nodes_behind([output]) if not hasattr(n, "variable")]
        culprit = data.draw(st.sampled_from(nodes))
        culprit.register_hook(
            lambda inputs, _: tuple(None if i is None else i * torch.nan for i in inputs)
        )
        recording = record(output)
        # Registered before ours, so ours sees what this hook made.
        (mark,) = recording._pass.marks
        assert recording._captured.nodes[mark["node"]] is culprit

    def test_no_birth_where_the_gradient_given_has_nan(self):
        x = torch.ones(2, requires_grad=True)
        recording = record(x * 2, gradient=torch.tensor([torch.nan, 1.0]))
        assert recording._pass.marks == []

    def test_a_large_finite_gradient_is_no_birth(self):
        x = torch.ones(10, requires_grad=True)
        recording = record((x * 1e30).sum() * 1e8)  # its square is beyond float32
        assert recording._pass.marks == []


class TestBudget:
    def test_beyond_it_statistics_are_kept(self):
        x = torch.randn(200, requires_grad=True)
        y = x.exp()
        y.retain_grad()
        recording = record((y * y).sum(), max_bytes=0)
        (exp,) = [step for step in recording.steps if step.op == "ExpBackward0"]
        assert not exp.kept
        assert exp.grad_outputs == [None]
        (kept,) = recording._pass.run.steps[exp.node].grad_outputs
        summary = kept.summarise()
        assert summary["values"] is None
        assert "exceed max_bytes, 0 MiB" in summary["note"]
        for key, expected in {
            "norm": y.grad.norm(),
            "min": y.grad.min(),
            "max": y.grad.max(),
        }.items():
            assert summary[key] == pytest.approx(expected.item(), rel=1e-6)
        assert (summary["nan"], summary["inf"], summary["zeros"]) == (0, 0, None)
        assert summary["shape"] == [200]

    def test_travelling_needs_no_budget(self):
        x = torch.randn(200, requires_grad=True)
        recording = record((x * x).sum(), max_bytes=0)
        after = x.grad.clone()
        recording.reset()
        recording.step(9)
        assert same(x.grad, after)

    def test_nan_is_found_beyond_it(self):
        x = torch.zeros(200, requires_grad=True)
        (mark,) = record((x.sqrt() * 2).sum(), max_bytes=0)._pass.marks
        assert "200 Inf" in mark["note"]

    @pytest.mark.parametrize(("max_bytes", "error"), [(-1, ValueError), ("big", TypeError)])
    def test_of_the_wrong_kind(self, max_bytes, error):
        with pytest.raises(error, match="max_bytes was given"):
            record(torch.ones((), requires_grad=True) * 2, max_bytes=max_bytes)
