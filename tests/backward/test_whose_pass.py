"""While a backward pass runs, and where another one does, gradwalk's own leaves it alone."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from typing import ClassVar

import pytest
import torch
from engine import all_same, copies
from torch._dynamo import compiled_autograd

from gradwalk import GraphWidget, compare, record
from gradwalk.result import make
from gradwalk.results import Recording
from gradwalk.torch_api.engine import carried, carry

REFUSED = r"Do it after that pass"


def squares(count=3):
    x = torch.full((count,), 2.0, requires_grad=True)
    return x, (x * x).sum()


class TestMovingFromAHook:
    """The engine is still adding to every `.grad`, so nothing moves and nothing hangs."""

    MOVES: ClassVar = {
        "step": lambda widget: widget.step(1),
        "step_back": lambda widget: widget.step_back(),
        "cursor": lambda widget: setattr(widget, "cursor", 0),
        "run_to": lambda widget: widget.run_to("x"),
        "reset": lambda widget: widget.reset(),
        "backward": lambda widget: widget.backward(),
    }

    @pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
    @pytest.mark.parametrize("kind", ["tensor", "node", "post-accumulate"])
    @pytest.mark.parametrize("whose", ["its own", "the user's"])
    @pytest.mark.parametrize("earlier", [False, True])
    def test_is_refused(self, move, kind, whose, earlier):
        x, y = squares()
        widget = GraphWidget(y, names={"x": x, "y": y})
        if earlier:
            widget.backward()
            widget.step_back()
        before = copies([x.grad])
        on = {
            "tensor": lambda: y.register_hook(lambda _: move(widget)),
            "node": lambda: y.grad_fn.register_hook(lambda *_: move(widget)),
            "post-accumulate": lambda: x.register_post_accumulate_grad_hook(lambda _: move(widget)),
        }
        handle = on[kind]()
        start = widget.backward if whose == "its own" else lambda: y.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match=REFUSED):
            start()
        handle.remove()
        if whose == "its own":
            assert all_same([x.grad], before)
        x.grad = None
        widget.backward()
        assert widget.cursor == len(widget.steps) == 3
        widget.reset()
        assert x.grad is None
        widget.close()

    def test_is_refused_on_a_thread_that_the_hook_waits_for(self):
        x, y = squares()
        widget = GraphWidget(y)
        raised = []

        def step():
            try:
                widget.step()
            except RuntimeError as error:
                raised.append(str(error))

        def wait_for_another_thread(_):
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()

        y.register_hook(wait_for_another_thread)
        widget.backward()
        assert len(raised) == 1
        assert "by another thread" in raised[0]
        assert widget.cursor == len(widget.steps) == 3
        assert x.grad is not None

    def test_looking_is_not_refused(self):
        _, y = squares()
        widget = GraphWidget(y)
        seen = []
        y.register_hook(lambda _: seen.append((widget.state["runs"], widget.cursor, widget.steps)))
        widget.backward()
        assert seen == [(0, 0, [])]

    def test_of_a_recording_is_refused(self):
        x, y = squares()
        recording = record(y)
        y.register_hook(lambda _: recording.reset())
        with pytest.raises(RuntimeError, match=REFUSED):
            y.backward()
        assert recording.cursor == 3
        assert x.grad is not None

    def test_of_compared_graphs_is_refused(self):
        x, y = squares()
        widget = compare({"y": y, "z": x.exp().sum()})
        handle = y.register_hook(lambda _: widget.step())
        with pytest.raises(RuntimeError, match=REFUSED):
            widget.backward()
        handle.remove()
        assert x.grad is None
        widget.backward()
        widget.reset()
        assert x.grad is None

    def test_from_the_browser_is_refused_and_the_browser_is_told(self, monkeypatch):
        _, y = squares()
        widget = GraphWidget(y)
        widget.backward()
        sent = []

        def move_in_the_browser(_):
            monkeypatch.setattr(widget, "_send", lambda data, **_: sent.append(data))
            with pytest.raises(RuntimeError, match=REFUSED):
                widget.set_state({"cursor": 1})
            monkeypatch.undo()

        y.register_hook(move_in_the_browser)
        widget.backward()
        told = [data["state"]["cursor"] for data in sent if "cursor" in data.get("state", {})]
        assert told[-1] == 3 == widget.cursor

    @pytest.mark.parametrize("move", [MOVES["step"], MOVES["run_to"], MOVES["backward"]])
    def test_closing_meanwhile_raises_nowhere(self, move):
        x, y = squares()
        widget = GraphWidget(y, names={"x": x, "y": y})
        y.register_hook(lambda _: widget.close())
        move(widget)
        assert torch.equal(x.grad, torch.full((3,), 4.0))
        assert not y.grad_fn._raw_saved_self if hasattr(y.grad_fn, "_raw_saved_self") else True


class TestWhosePassItIs:
    def test_a_pass_of_another_thread_that_begins_first_is_not_taken_for_it(self):
        x, y = squares()
        widget = GraphWidget(y)
        others = []

        def run_others(grad):
            if grad.item() != 1.0 or others:
                return
            for k in range(2, 6):
                others.append(k)
                seed = torch.tensor(float(k))
                thread = threading.Thread(target=y.backward, args=(seed, True))
                thread.start()
                thread.join()

        y.register_hook(run_others)
        widget.backward()
        shown = widget._source.recording
        assert widget.state["runs"] == 5
        assert shown.run.grads is not None
        steps = make(Recording, shown).steps
        assert [step.node for step in steps] == [0, 1, 2]
        assert steps[0].grad_outputs[0].item() == 1.0
        # Theirs came before its own step on x, so they belong to what it found there.
        assert torch.equal(x.grad, torch.full((3,), 4.0 * (1 + 2 + 3 + 4 + 5)))

    def test_threads_that_share_a_graph(self):
        x = torch.ones(50, requires_grad=True)
        y = x
        for _ in range(30):
            y = y.sin() * 2
        loss = y.sum()
        (expected,) = torch.autograd.grad(loss, x, retain_graph=True)
        for _ in range(10):
            x.grad = None
            widget = GraphWidget(loss)
            threads = [
                threading.Thread(target=loss.backward, kwargs={"retain_graph": True})
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            widget.backward()
            for thread in threads:
                thread.join()
            assert widget.state["runs"] == 5
            assert widget._fault is None
            assert torch.allclose(x.grad, expected * 5)
            assert len(widget.steps) == 62
            widget.close()


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_autograd_is_left_alone(fullgraph):
    torch._dynamo.reset()
    w = torch.randn(4, 4, requires_grad=True)
    x = torch.randn(2, 4)
    (x @ w).relu().sum().backward()
    expected, w.grad = w.grad, None
    loss = (x @ w).relu().sum()
    widget = GraphWidget(loss)
    compiler = torch.compile(backend="eager", fullgraph=fullgraph)
    with warnings.catch_warnings(record=True) as warned, compiled_autograd._enable(compiler):
        warnings.simplefilter("always")
        loss.backward(retain_graph=True)
    assert not [each for each in warned if "graph_task" in str(each.message)]
    assert torch.equal(w.grad, expected)
    assert widget._fault is None
    assert "compiled autograd runs a pass as one program" in widget.state["note"]
    w.grad = None
    with warnings.catch_warnings(), compiled_autograd._enable(compiler):
        warnings.simplefilter("ignore")  # torch's own
        widget.backward()
    assert torch.equal(w.grad, expected)
    assert not widget.transport["owned"]
    assert "as one program" in widget.transport["note"]
    widget.reset()
    assert torch.equal(w.grad, expected)


def test_what_follows_the_engine_to_its_threads_is_neither_freed_nor_kept():
    class Carried:
        pass

    value = Carried()
    before = sys.getrefcount(value)
    for _ in range(3):
        carry("what the tests carry", value)
        assert sys.getrefcount(value) == before + 1
        assert carried("what the tests carry") is value
        carry("what the tests carry", None)
        assert sys.getrefcount(value) == before


def test_passes_on_other_devices_leave_their_runs_alone():
    for _ in range(5):
        x = torch.ones(3, device="meta", requires_grad=True)
        recording = record((x * 2).sum())
        gc.collect()
        assert len(recording.steps) == 3
        assert recording.cursor == 3
