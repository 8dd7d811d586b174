"""Stepping with a widget: its methods, its traits, what it says, and what happens to `.grad`."""

from __future__ import annotations

import json

import pytest
import torch
import traitlets
from engine import EngineLog, all_same, same
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, Fails, outputs_of
from test_capture import random_programs

from gradwalk import GraphWidget


def two_ways():
    """x = 3; y1 = x + 1; y2 = 2 * x; loss = (y1 - y2) ** 2."""
    x = torch.tensor(3.0, requires_grad=True)
    y1, y2 = x + 1, 2 * x
    loss = (y1 - y2) ** 2
    return x, y1, y2, loss


@pytest.fixture
def example():
    x, y1, y2, loss = two_ways()
    widget = GraphWidget(loss, names={"x": x, "y1": y1, "y2": y2, "loss": loss})
    yield widget, x, loss
    widget.close()


def node_of(widget, label):
    (found,) = [n["id"] for n in widget.model["nodes"] if label in (n["name"], n["op"])]
    return found


def details_of(widget, label):
    widget.selected = node_of(widget, label)
    return widget.details


def press(widget, cursor):
    """What the bar's buttons send while there is no backward yet."""
    widget._handle_custom_msg({"kind": "start", "cursor": cursor}, [])


class TestMoving:
    def test_the_first_step_runs_backward_and_stops_after_one_node(self, example):
        widget, x, _ = example
        assert (widget.cursor, widget.steps, widget.run) == (0, [], None)
        widget.step()
        assert widget.cursor == 1
        assert x.grad is None
        widget.step(4)
        assert (widget.cursor, x.grad.item()) == (5, 4.0)
        widget.step_back()
        assert x.grad is None
        widget.step(100)
        assert (widget.cursor, x.grad.item()) == (5, 4.0)
        widget.step_back(100)
        assert (widget.cursor, x.grad) == (0, None)

    def test_a_first_step_beyond_the_end_stops_there(self, example):
        widget, x, _ = example
        widget.step(100)
        assert (widget.cursor, x.grad.item()) == (5, 4.0)

    def test_a_first_step_of_none_runs_backward_and_stays_at_the_start(self, example):
        widget, x, _ = example
        widget.step(0)
        assert (widget.cursor, len(widget.steps), x.grad) == (0, 5, None)

    def test_run_to_a_name_or_an_id(self, example):
        widget, x, _ = example
        widget.run_to("y2")
        assert widget.steps[widget.cursor - 1].name == "y2"
        widget.run_to(node_of(widget, "x"))
        assert (widget.cursor, x.grad.item()) == (5, 4.0)
        widget.reset()
        assert (widget.cursor, x.grad) == (0, None)

    def test_backward_stands_at_the_end(self, example):
        widget, x, loss = example
        widget.backward()
        assert widget.cursor == len(widget.steps) == 5
        (expected,) = torch.autograd.grad(loss, x)
        assert same(x.grad, expected)

    def test_backward_takes_what_torch_takes(self):
        x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
        y = x**2 - 2 * x + 1
        weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        (expected,) = torch.autograd.grad(y, x, weights, retain_graph=True)
        GraphWidget(y).backward(gradient=weights)
        assert same(x.grad, expected)

    def test_inputs_name_the_leaves_that_grow(self):
        a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
        widget = GraphWidget(a * b)
        widget.backward(inputs=[a])
        assert (a.grad.item(), b.grad) == (5.0, None)
        assert details_of(widget, "b")["state"] == "not reached"

    @pytest.mark.parametrize("cursor", [-1, 6, 99])
    def test_a_cursor_out_of_range(self, example, cursor):
        widget, x, _ = example
        widget.step(2)
        with pytest.raises(ValueError, match=f"cursor was given {cursor}, but .* has 5 steps"):
            widget.cursor = cursor
        assert (widget.cursor, x.grad) == (2, None)

    @pytest.mark.parametrize("cursor", ["two", 1.5, None])
    def test_a_cursor_of_another_kind(self, example, cursor):
        widget, _, _ = example
        with pytest.raises(TypeError, match=r"cursor was given .* a number of steps, 0 to 0"):
            widget.cursor = cursor

    def test_a_cursor_before_any_pass(self, example):
        widget, _, _ = example
        with pytest.raises(ValueError, match=r"no backward pass has been seen yet: call step\(\)"):
            widget.cursor = 1
        widget.reset()  # the start is the start
        widget.step_back()
        assert widget.cursor == 0

    @pytest.mark.parametrize(
        ("move", "error", "sentence"),
        [
            (lambda w: w.step(-1), ValueError, "call step_back"),
            (lambda w: w.step_back(-1), ValueError, "call step"),
            (lambda w: w.step("two"), TypeError, "'two', of type str"),
            (lambda w: w.run_to("nobody"), ValueError, "No node is called 'nobody'"),
            (lambda w: w.run_to(99), ValueError, "nodes 0 to 4 only"),
            (lambda w: w.run_to(2.5), TypeError, "2.5, of type float"),
        ],
    )
    def test_moves_that_cannot_be_run_nothing(self, example, move, error, sentence):
        widget, x, _ = example
        with pytest.raises(error, match=sentence):
            move(widget)
        assert widget.steps == []
        assert x.grad is None

    def test_a_closed_widget_says_so(self, example):
        widget, _, _ = example
        widget.close()
        for move in (widget.step, widget.backward, lambda: widget.run_to("x")):
            with pytest.raises(ValueError, match="closed and has let go of its graph"):
                move()

    @pytest.mark.parametrize("name", ["_steps", "run", "transport"])
    def test_what_python_computes_is_read_only(self, example, name):
        widget, _, _ = example
        with pytest.raises(traitlets.TraitError, match="read-only"):
            setattr(widget, name, None)


class TestTheEnginesOwn:
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_every_program(self, name):
        outputs = outputs_of(name)
        log = EngineLog(outputs)
        widget = GraphWidget(outputs, names={})
        widget.backward(gradient=[torch.ones_like(output) for output in outputs])
        assert [step.op for step in widget.steps] == [
            r.node.name().split("::")[-1] for r in log.ran
        ]
        json.dumps([widget._steps, widget.run, widget.transport], allow_nan=False)
        if widget.transport["owned"]:
            for k in (len(log.ran) - 1, 1, len(log.ran)):
                widget.cursor = max(k, 1)
                at = log.ran[max(k, 1) - 1]
                assert all_same([leaf.grad for leaf in log.leaves], at.leaf_grads)
        widget.close()
        log.remove()

    @settings(max_examples=40, deadline=None)
    @given(random_programs(), st.data())
    def test_what_every_grad_was_before_and_after(self, values, data):
        output = (values[-1] + values[0]).sum()
        log = EngineLog([output])
        for leaf in log.leaves:
            if data.draw(st.booleans()):
                leaf.grad = torch.full_like(leaf, 0.5)
        before = log.leaf_grads()
        widget = GraphWidget(output, names={})
        widget.backward()
        told = {
            id(widget._open().captured.nodes[g["node"]].variable): g for g in widget.run["grads"]
        }
        for leaf, was in zip(log.leaves, before, strict=True):
            grown = told.get(id(leaf))
            if grown is None:
                assert same(leaf.grad, was)
                continue
            assert (grown["before"] is None) == (was is None)
            if was is not None:
                few = was.numel() <= 6
                assert grown["before"]["values"] == (was.tolist() if few else None)
                assert grown["before"]["norm"] == pytest.approx(was.norm().item())
            assert grown["norm"] == pytest.approx(leaf.grad.norm().item())
        widget.close()
        log.remove()

    @settings(max_examples=40, deadline=None)
    @given(random_programs(), st.data())
    def test_wherever_the_cursor_jumps(self, values, data):
        output = (values[-1] + values[0]).sum()
        log = EngineLog([output])
        before = log.leaf_grads()
        widget = GraphWidget(output, names={})
        widget.backward()
        for cursor in data.draw(st.lists(st.integers(0, len(log.ran)), max_size=6)):
            widget.cursor = cursor
            expected = log.ran[cursor - 1].leaf_grads if cursor else before
            assert all_same([leaf.grad for leaf in log.leaves], expected)
        widget.close()
        log.remove()


class TestWhatIsDescribed:
    def test_while_nothing_is_selected_it_is_what_runs(self, example):
        widget, *_ = example
        widget.backward()
        assert widget.details is None  # at the end nothing runs
        for cursor, step in enumerate(widget.steps[:-1], 1):
            widget.cursor = cursor
            assert widget.details["id"] == step.node
        widget.selected = 0
        assert widget.details["id"] == 0
        widget.selected = None
        widget.reset()
        assert widget.details is None


class TestFromTheBrowser:
    @pytest.mark.parametrize(("asked", "stands"), [(1, 1), (3, 3), (99, 5), (None, 5)])
    def test_a_start(self, example, asked, stands):
        widget, x, _ = example
        press(widget, asked)
        assert widget.cursor == stands
        assert (x.grad is not None) == (stands == 5)
        assert widget._fault is None

    def test_a_second_start_does_nothing(self, example):
        widget, x, _ = example
        press(widget, 2)
        run = widget.run
        press(widget, 4)  # from a view that had not heard of the first
        assert widget.cursor == 2
        assert widget.run == run
        assert x.grad is None

    def test_a_move_of_the_slider(self, example):
        widget, x, _ = example
        press(widget, 1)
        widget.set_state({"cursor": 5})
        assert x.grad.item() == 4.0
        widget.set_state({"cursor": 0})
        assert x.grad is None

    @pytest.mark.parametrize("content", [None, "start", {}, {"kind": "stop"}, ["start"]])
    def test_other_messages_are_not_ours(self, example, content):
        widget, _, _ = example
        widget._handle_custom_msg(content, [])
        assert widget.steps == []
        assert widget._fault is None

    def test_where_it_lands_is_sent_at_once(self, example, monkeypatch):
        widget, _, _ = example
        sent = []
        # Without a kernel ipywidgets 7 would send nothing.
        monkeypatch.setattr(type(widget.comm), "kernel", object(), raising=False)
        monkeypatch.setattr(widget, "_send", lambda data, **_: sent.append(data))
        press(widget, 1)
        cursors = [data["state"]["cursor"] for data in sent if "cursor" in data.get("state", {})]
        assert cursors == [1]  # not by way of the end, which the picture would follow

    def test_an_error_is_told(self):
        x = torch.tensor(2.0, requires_grad=True)
        x.grad = torch.tensor(7.0)
        widget = GraphWidget(Fails.apply(x) * 2)
        press(widget, 1)
        assert x.grad.item() == 7.0
        (mark,) = widget.run["marks"]
        assert (mark["kind"], mark["node"]) == ("error", node_of(widget, "FailsBackward"))
        assert "no gradient today" in mark["note"]
        assert widget.run["ended"] == "stopped"

    def test_an_output_of_several_numbers_is_blocked_and_says_how_to_start(self):
        h = torch.ones(3, requires_grad=True) * 2
        widget = GraphWidget(h)
        assert "gradient=torch.ones_like(h)" in widget.transport["blocked"]
        press(widget, 1)
        assert widget.steps == []
        with pytest.raises(ValueError, match="h has shape"):
            widget.step()
        widget.backward(torch.ones(3))
        assert widget.cursor == 2

    def test_freed_buffers_are_told_before_torch_refuses(self):
        x = torch.ones(3, requires_grad=True)
        y = x.exp().sum()
        widget = GraphWidget(y)
        assert widget.transport["blocked"] is None
        y.backward()
        assert "ExpBackward0" in widget.transport["blocked"]
        grad = x.grad.clone()
        with pytest.raises(RuntimeError, match="Backward cannot run again: ExpBackward0"):
            widget.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        assert torch.equal(x.grad, grad)


class TestWhoseGradItIs:
    def test_a_pass_of_the_users_is_only_watched(self, example):
        widget, x, loss = example
        loss.backward()
        assert widget.cursor == 5
        assert widget.transport["owned"] is False
        assert "Your program ran this backward pass" in widget.transport["note"]
        grad = x.grad
        widget.reset()
        widget.step(2)
        assert x.grad is grad
        assert grad.item() == 4.0

    def test_a_grad_that_was_changed_is_not_touched_again(self, example):
        widget, x, _ = example
        widget.backward()
        assert widget.transport["owned"] is True
        x.grad.zero_()
        widget.step_back()
        assert x.grad.item() == 0.0
        assert widget.transport["owned"] is False
        assert "x.grad was changed by something else" in widget.transport["note"]

    def test_two_widgets_in_turn(self):
        x, _, _, loss = two_ways()
        one, other = GraphWidget(loss), GraphWidget(loss)
        one.backward()
        # What another widget started is only watched.
        assert (other.cursor, other.transport["owned"]) == (5, False)
        other.reset()
        assert x.grad.item() == 4.0
        one.step_back()
        assert x.grad is None
        # A pass of its own; the first then no longer owns what changed since.
        other.backward()
        assert x.grad.item() == 4.0
        one.step()
        assert one.transport["owned"] is False
        assert x.grad.item() == 4.0
        other.reset()
        assert x.grad is None
        assert other.transport["owned"] is True

    def test_a_user_within_a_pass_is_not_taken_out_of_it(self):
        _, _, _, loss = two_ways()
        one, other = GraphWidget(loss), GraphWidget(loss)
        one.step(2)
        shown = one.run
        other.backward()
        loss.backward(retain_graph=True)
        assert one.cursor == 2
        assert {**one.run, "grads": None} == {**shown, "grads": None}
        assert all(each["changed"] for each in one.run["grads"])  # as the other pass left them
        one.step(3)  # once at its end, the next pass is shown as any other
        loss.backward()
        assert one.run != shown
        assert one.transport["owned"] is False

    def test_closing_midway_leaves_every_grad_as_it_is(self):
        a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0))
        product = a.exp() * b
        widget = GraphWidget(product)
        widget.run_to("b")
        assert a.grad is None
        held = b.grad
        assert same(held, a.exp().detach())
        widget.close()
        assert a.grad is None
        assert b.grad is held
        product.backward()  # no hook is left, and torch goes on from there
        assert same(a.grad, (b * a.exp()).detach())
        assert same(b.grad, 2 * a.exp().detach())
