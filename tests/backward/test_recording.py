"""A recording is what torch's engine did, and travelling in it is travelling in `.grad`."""

from __future__ import annotations

import contextlib
from contextlib import closing

import pytest
import torch
from engine import EngineLog, all_same, check_is_the_engines, nodes_behind, operations_behind, same
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, Fails, backward, outputs_of
from test_capture import random_programs
from torch import nn

from gradwalk import GraphWidget, record
from gradwalk.torch_api.summary import summarise


def ones(outputs):
    return [torch.ones_like(output) for output in outputs]


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
    recording.cursor = 2
    assert [recording._pass.state(step.node) for step in recording.steps] == [
        "done",
        "running",
        "ready",
        "waiting",
    ]
    recording.cursor = 3
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
        (lambda r: setattr(r, "cursor", 9), ValueError, "has 2 steps"),
        (lambda r: r.run_to("z"), ValueError, "No node is called 'z'"),
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
    with pytest.raises(ValueError, match="2 nodes have the name 'same': 0, 1"):
        recording.run_to("same")


class TestGradient:
    def test_a_matrix_needs_one(self):
        y = torch.ones(2, 2, requires_grad=True) * 3
        with pytest.raises(
            ValueError, match=r"y has shape \(2, 2\).*gradient=torch.ones_like\(y\)"
        ):
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
            record(y, gradient=[2.0], names={})  # type: ignore[list-item]
        with pytest.raises(TypeError, match="for y, of type float"):
            record(y, gradient=[2.0])  # type: ignore[list-item]

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
            record(x * 2, inputs=["x"])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="inputs was given nothing"):
            record(x * 2, inputs=[])


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
        nodes = operations_behind(output)
        culprit = data.draw(st.sampled_from(nodes))
        culprit.register_hook(
            lambda inputs, _: tuple(None if i is None else i * torch.nan for i in inputs)
        )
        recording = record(output)
        # Registered before ours, so ours sees what this hook made.
        (mark,) = recording._pass.marks
        assert recording._pass.captured.nodes[mark["node"]] is culprit

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

    @pytest.mark.parametrize("weight", [1.0, -1.0, torch.nan, torch.inf])
    @pytest.mark.parametrize(
        "part",
        [
            lambda x: x[:, 3],
            lambda x: x[2:7],
            lambda x: x[1][2:],
            lambda x: x[:],
            lambda x: x[4:4],
            lambda x: x.unsqueeze(0)[0],
        ],
    )
    def test_what_is_padded_with_zeros(self, part, weight):
        x = torch.randn(30, 40, requires_grad=True)
        y = x * 1.0
        (true,) = torch.autograd.grad((part(y).exp() * weight).sum(), y)
        recording = record((part(y).exp() * weight).sum(), max_bytes=0)
        (mul,) = [
            step for step in recording.steps if step.grad_outputs and step.op == "MulBackward0"
        ][1:]
        (source,) = recording.graph.pred[mul.node]
        (kept,) = recording._pass.run.steps[source].grad_inputs
        summary, expected = kept.summarise(), summarise(true)
        assert kept.tensor is None
        assert "exceed max_bytes" in summary["note"]
        for key in ("min", "max", "nan", "inf", "numel", "shape"):
            assert summary[key] == expected[key]
        assert float(summary["norm"]) == pytest.approx(float(expected["norm"]), nan_ok=True)

    @pytest.mark.parametrize("once", [False, True])
    def test_a_hook_that_changes_what_was_padded(self, once):
        x = torch.randn(30, 40, requires_grad=True)
        y = x * 1.0
        picked = y[0]
        loss = picked.sum()

        def double(grad_inputs, grad_outputs):
            if once:
                handle.remove()
            return (torch.full((30, 40), 2.0),)

        handle = picked.grad_fn.register_hook(double)
        recording = record(loss, max_bytes=0)
        (select,) = [step for step in recording.steps if step.op == "SelectBackward0"]
        (kept,) = recording._pass.run.steps[select.node].grad_inputs
        assert kept.summarise()["norm"] == pytest.approx(2 * 1200**0.5)
        assert kept.summarise()["min"] == 2

    def test_nan_is_found_beyond_it(self):
        x = torch.zeros(200, requires_grad=True)
        (mark,) = record((x.sqrt() * 2).sum(), max_bytes=0)._pass.marks
        assert "200 Inf" in mark["note"]

    @pytest.mark.parametrize(("max_bytes", "error"), [(-1, ValueError), ("big", TypeError)])
    def test_of_the_wrong_kind(self, max_bytes, error):
        with pytest.raises(error, match="max_bytes was given"):
            record(torch.ones((), requires_grad=True) * 2, max_bytes=max_bytes)


@pytest.mark.parametrize("names", [None, {}, "model", "mapping"])
def test_names_are_those_of_a_widget(names):
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    x = torch.ones(1, 2, requires_grad=True)
    held = [torch.ones(1, 2, requires_grad=True)]
    h = model(x) * held[0]
    given = {"model": model, "mapping": {"net": model, "given": x}}.get(str(names), names)
    with closing(GraphWidget(h.sum(), names=given)) as widget:
        wanted = [node["name"] for node in widget.model["nodes"] if node["kind"] != "constant"]
    recording = record(h.sum(), names=given)
    assert [name for _, name in recording.graph.nodes(data="name")] == wanted
    if names is None:
        assert {"x", "held[0]", "h", "model.0.weight"} <= set(wanted)
        recording.reset()
        assert held[0].grad is None
        recording.run_to("held[0]")
        assert held[0].grad is not None


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
@pytest.mark.parametrize("create_graph", [False, True])
def test_retain_graph_none_frees_what_torch_frees(create_graph):
    x = torch.tensor(3.0, requires_grad=True)

    def runs_again(loss: torch.Tensor) -> bool:
        with contextlib.suppress(RuntimeError):
            loss.backward()
            return True
        return False

    kept, freed, theirs = x**2, x**2, x**2
    record(kept, create_graph=create_graph)
    record(freed, retain_graph=None, create_graph=create_graph)
    theirs.backward(create_graph=create_graph)
    assert runs_again(kept)
    assert runs_again(freed) is runs_again(theirs) is create_graph
