"""What ends midway, by an interrupt or an error, leaves everything as it was, or whole."""

from __future__ import annotations

import sys

import pytest
import torch
from test_whose_pass import squares

from gradwalk import GraphWidget, compare, diagnose, explain_grad
from gradwalk.backward.leaf_grads import GradTimeline
from gradwalk.export.disk import write_file
from gradwalk.sources import live_graph as live


class Interrupts:
    """Raises KeyboardInterrupt where grad mode has just been switched off, the n-th time."""

    def __init__(self, number):
        self.number = number
        self.raised = False

    def __call__(self, _, event, called):
        if event == "c_return" and getattr(called, "__name__", "") == "_set_grad_enabled":
            self.number -= 1
            if self.number == 0 and not torch.is_grad_enabled():
                self.raised = True
                raise KeyboardInterrupt


ACTIONS = {
    "step": lambda widget, _: widget.step(),
    "select": lambda widget, _: setattr(widget, "selected", 2),
    "read": lambda widget, _: widget.details,
    "to_html": lambda widget, _: widget.to_html(),
    "diagnose": lambda widget, _: diagnose(widget),
    "compare": lambda _, y: compare([y, y * 2]).close(),
    "explain": lambda _, y: explain_grad(torch.ones(2), y),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_an_interrupt_leaves_grad_mode_as_it_was(action):
    interrupted = 0
    for number in range(1, 60):
        x = torch.ones(3, requires_grad=True)
        y = (x * x).relu().sum()
        widget = GraphWidget(y)
        widget.backward()
        widget.step_back()
        widget.selected = 1
        interrupts = Interrupts(number)
        sys.setprofile(interrupts)
        try:
            action(widget, y)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.setprofile(None)
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        # Nothing is stuck or half done either.
        widget.step(99)
        assert torch.equal(x.grad, torch.full((3,), 2.0))
        widget.close()
        assert enabled, number
        if interrupts.number > 0:
            break
    assert interrupted


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Python itself closes the stream then
def test_an_interrupt_leaves_no_temporary_file(tmp_path):
    target = tmp_path / "there.txt"
    for number in range(1, 1000):
        target.write_text("before")
        left = number

        def interrupt(_, event, __):
            nonlocal left
            if event in ("call", "c_return"):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            write_file(target, "after", "test")
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert [each.name for each in tmp_path.iterdir()] == ["there.txt"], number
        assert target.read_text() in ("before", "after")
        if left > 0:
            break
    assert left > 0


def test_a_refresh_that_fails_leaves_steps_whole(monkeypatch):
    def fail(*_):
        raise ValueError("made to fail")

    x, y = squares()
    widget = GraphWidget(y, names={"x": x, "y": y})
    widget.selected = 1
    monkeypatch.setattr(live.LiveGraph, "details", fail)
    widget.step(2)
    assert (widget.cursor, x.grad) == (2, None)
    assert "made to fail" in widget._fault
    widget.step()
    assert widget.cursor == 3
    assert torch.equal(x.grad, torch.full((3,), 4.0))
    monkeypatch.undo()
    assert widget.details["op"] == "MulBackward0"
    assert widget._fault is None


def test_a_move_that_fails_halfway_moves_nothing(monkeypatch):
    a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    widget = GraphWidget(a * b)
    widget.backward()
    grads = a.grad, b.grad
    went, plain = [], GradTimeline.go

    def fail_the_second_time(timeline, index):
        went.append(timeline)
        if len(went) == 2:
            raise MemoryError("made to fail")
        plain(timeline, index)

    monkeypatch.setattr(GradTimeline, "go", fail_the_second_time)
    widget.reset()
    assert (a.grad, b.grad) == grads
    assert not widget.transport["owned"]
    assert "made to fail" in widget.transport["note"]
