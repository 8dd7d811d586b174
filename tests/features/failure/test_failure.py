"""Failing forward passes, and what `last_failure` says of each."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import gradwalk
from gradwalk import last_failure, watch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 10), nn.Linear(12, 5)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(x)


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise ValueError("never")


class Multiplies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x @ torch.ones(7, 7)


def failed(run):
    try:
        with watch():
            run()
    except Exception:
        return last_failure()


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def test_a_module():
    net = Net()
    failure = failed(lambda: net(torch.ones(8, 4)))
    assert (failure.call, failure.module) == ("linear", "Net.fc2")
    assert [(each.name, each.shape) for each in failure.inputs] == [
        ("x", (8, 10)),
        ("fc2.weight", (5, 12)),
        ("fc2.bias", (5,)),
    ]
    assert failure.inputs[0].requires_grad
    assert failure.code == "return self.fc2(x)"
    assert (
        f"Net.fc2 failed at {failure.line} (`return self.fc2(x)`): linear() got x (8, 10), fc2.w"
        in (str(failure))
    )
    with pytest.raises(RuntimeError) as by_torch:
        net(torch.ones(8, 4))
    assert f"RuntimeError: {by_torch.value}" in str(failure)
    ops = [data["op"] for _, data in failure.graph.nodes(data=True)]
    assert ops[0] == "AddmmBackward0"
    names = [data["name"] for _, data in failure.graph.nodes(data=True)]
    assert "fc1.weight" in names
    assert failure.widget.model["nodes"]


@pytest.mark.parametrize(
    ("run", "call", "shapes"),
    [
        (lambda: leaf(3).mul(2) + leaf(4), "add", [(3,), (4,)]),
        (lambda: torch.cat([leaf(2, 3).exp(), leaf(3, 4)]), "cat", [(2, 3), (3, 4)]),
        (lambda: leaf(6).exp().view(4, 2), "view", [(6,)]),
        (lambda: nn.functional.cross_entropy(leaf(3, 4).exp(), torch.ones(5).long()), None, None),
        (lambda: leaf(3).exp()[7], "__getitem__", [(3,)]),
        (lambda: Refuses.apply(leaf(2).exp()), "Refuses", [(2,)]),
        (lambda: Multiplies.apply(leaf(2, 2).exp()), "matmul", [(2, 2), (7, 7)]),
        (
            lambda: torch.einsum("ij,jk->ik", leaf(2, 3).exp(), leaf(4, 5)),
            "einsum",
            [(2, 3), (4, 5)],
        ),
    ],
)
def test_a_call(run, call, shapes):
    failure = failed(run)
    if call is not None:
        assert failure.call == call
        assert [each.shape for each in failure.inputs] == shapes
    assert "test_failure.py:" in failure.line
    assert len(failure.graph) >= 2
    assert failure.module is None


def test_the_picture_marks_the_call_with_its_inputs():
    net = Net()
    failure = failed(lambda: net(torch.ones(8, 4)))
    widget = failure.widget
    call = widget.model["nodes"][0]
    assert (call["label"], call["shape"], call["value"]) == ("linear", None, None)
    given = {edge["argument"] for edge in widget.model["edges"] if edge["source"] == 0}
    assert given == {"x", "fc2.weight", "fc2.bias"}
    assert widget.run["marks"] == [{"node": 0, "kind": "error", "note": str(failure)}]
    widget.selected = 0
    assert widget.details["about"] == str(failure)
    assert widget.details["source"]["text"] == "return self.fc2(x)"
    assert "linear" in widget.to_svg()
    assert widget.diagnose() == []
    with pytest.raises(RuntimeError, match="did not reach a loss"):
        widget.backward()


def test_inputs_without_grad_are_named_at_the_call():
    failure = failed(lambda: leaf(3) * 2 + torch.ones(4))
    stubs = failure.widget.model["nodes"][0]["no_grad_inputs"]
    assert stubs == [{"arg_nr": 1, "argument": "input 1 (4,)"}]


def test_the_picture_is_in_files(tmp_path):
    failure = failed(lambda: leaf(3) + leaf(4))
    gradwalk.save(failure.widget, tmp_path / "x.gw")
    again = gradwalk.load(tmp_path / "x.gw")
    assert again.run == failure.widget.run
    assert again.model == failure.widget.model


def test_own_code_has_no_call():
    def run():
        leaf(2).exp()
        raise KeyError("missing")

    failure = failed(run)
    assert (failure.call, failure.inputs, failure.graph) == (None, [], None)
    assert failure.widget is None
    assert failure.error == "KeyError: 'missing'"


def test_without_grad_there_is_no_picture():
    failure = failed(lambda: torch.ones(2) + torch.ones(3))
    assert failure.graph is None
    assert str(failure).startswith("The forward pass failed at ")


def test_a_caught_error_does_not_count():
    def run():
        with pytest.raises(RuntimeError):
            Net()(torch.ones(8, 4))

    assert failed(run) is None
    assert last_failure() is None

    def again():
        run()
        torch.ones(1).view(2)

    assert failed(again).call == "view"


def test_a_nested_block_that_raises_counts_also_when_the_outer_one_goes_on():
    def run():
        with pytest.raises(RuntimeError), watch():
            torch.ones(2) + torch.ones(3)

    assert failed(run) is None
    assert last_failure().call == "add"

    def again():
        run()
        with watch():
            pass

    failed(again)
    assert last_failure() is None


def test_only_the_inputs_stay_alive():
    kept = []

    def run():
        big = leaf(3).exp()
        other = torch.ones(9)
        kept.extend((weakref.ref(big), weakref.ref(other)))
        return big + torch.ones(4)

    gc.disable()
    try:
        failed(run)
        assert kept[0]() is not None
        assert kept[1]() is None
        with watch():
            pass
        assert kept[0]() is None
    finally:
        gc.enable()
    assert last_failure() is None


def test_a_notebook_shows_the_sentence_and_the_graph(capsys, monkeypatch):
    failure = failed(lambda: leaf(3).mul(2) + leaf(4))
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    failure._ipython_display_()
    assert str(failure) in capsys.readouterr().out
    assert isinstance(shown[0], gradwalk.GraphWidget)


class FailsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("never")


def backward_twice(loss):
    loss.backward()
    loss.backward()


def changed_in_place():
    h = leaf(3).exp()
    loss = h.sum()
    h.add_(1)
    loss.backward()


BACKWARD = {
    "twice": lambda: backward_twice(leaf(3).exp().sum()),
    "of a vector": lambda: leaf(3).exp().backward(),
    "changed in place": changed_in_place,
    "own backward": lambda: FailsInBackward.apply(leaf(3)).sum().backward(),
    "by autograd.backward": lambda: torch.autograd.backward([leaf(3).exp()]),
    "by autograd.grad": lambda: torch.autograd.grad(leaf(3).exp(), leaf(3)),
    "of what needs no grad": lambda: torch.ones(()).backward(),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_a_failing_backward_is_not_called_a_forward_pass(name):
    failure = failed(BACKWARD[name])
    assert str(failure).startswith("The backward pass failed at ")
    if name != "of what needs no grad":
        assert "backward" not in [node["op"] for node in failure.widget.model["nodes"]]
        failure.widget.close()


def test_a_failing_step_of_an_optimizer():
    def run():
        parameter = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([parameter], 0.1)
        parameter.grad = torch.ones(3)
        parameter.data = torch.ones(2)
        optimizer.step()

    assert str(failed(run)).startswith("The step of the optimizer failed at ")


def test_own_code_is_the_program():
    def run():
        raise KeyError("missing")

    assert str(failed(run)).startswith("The program failed at ")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_in_module", [True, False])
def test_an_interruption_is_a_failure(error, is_in_module):
    class Interrupts(nn.Module):
        def forward(self, x):
            raise error

    def raises(x):
        raise error

    with pytest.raises(error), watch():
        (Interrupts() if is_in_module else raises)(leaf(2))
    assert last_failure().error.startswith(error.__name__)
    assert (last_failure().module == "Interrupts") is is_in_module


def test_a_closed_generator_is_a_normal_end():
    def results():
        with watch():
            while True:
                yield leaf(2).exp()

    running = results()
    next(running)
    running.close()
    assert last_failure() is None
