"""`GraphWidget.update`: one picture of one graph after another, nothing kept of those before."""

from __future__ import annotations

import gc
import json
import weakref

import pytest
import torch

from gradwalk import GraphWidget, capture
from gradwalk.matching.match import match
from gradwalk.schema.columns import decode
from gradwalk.widget import graph_controllers


class Heard:
    """A channel on which everything that is sent is kept."""

    def __init__(self, widget):
        self.sent = []
        widget.get_state()  # what goes out for the first picture was sent before
        self._before = widget.comm
        self.comm_id = widget.comm.comm_id  # ipywidgets keeps the widget by it until it is closed
        widget.comm = self

    kernel = True

    def send(self, data=None, buffers=None, **_):
        state = dict(data["state"]) if data and data.get("method") == "update" else {}
        for path, buffer in zip((data or {}).get("buffer_paths", ()), buffers or (), strict=False):
            state[path[0]] = decode(bytes(buffer))
        self.sent.append(state)

    def close(self, *_, **__):
        self._before.close()

    def on_msg(self, *_):
        pass


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Without a limit, so that nothing depends on how fast a test runs."""
    monkeypatch.setattr(graph_controllers, "AT_MOST_EVERY", 0)


def program(w, *, branch=False, extra=0):
    pred = w * 2
    if branch:
        pred = torch.relu(pred)
    for _ in range(extra):
        pred = torch.tanh(pred + w)
    return (pred - 1) ** 2


def leaf(value=3.0):
    return torch.tensor(value, requires_grad=True)


def test_another_graph_is_there_at_once_and_is_what_a_new_widget_shows():
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})
    for extra in (0, 3, 1, 0):
        loss = program(w, branch=extra % 2 == 1, extra=extra)
        widget.update(loss, names={"w": w})
        fresh = GraphWidget(loss, names={"w": w})
        assert widget.model == fresh.model
        assert (widget.steps, widget.cursor, widget.run) == ([], 0, None)
        widget.backward()
        assert [step.op for step in widget.steps] == [step.op for step in fresh.steps]
        fresh.close()
    widget.close()


@pytest.mark.parametrize("later", [False, True])
def test_the_picture_follows_the_pass_of_each_iteration(later):
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})
    for i in range(4):
        loss = program(w, branch=i % 2 == 0)
        widget.update(loss, names={"w": w})
        if later:
            assert widget.run is None
        w.grad = None
        loss.backward()
        assert widget.state["runs"] == 1
        assert widget.cursor == len(widget.steps) > 0
        leaf_id = next(n["id"] for n in widget.model["nodes"] if n["name"] == "w")
        widget.selected = leaf_id
        assert widget.details["grad"]["values"] == pytest.approx(w.grad.item())
    widget.close()


def test_equal_structure_sends_numbers_alone():
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})
    heard = Heard(widget)
    for value in (1.0, -2.0, 0.5):
        v = leaf(value)
        widget.update(program(v), names={"w": v})
        widget.backward()
    shown = {name for message in heard.sent for name in message}
    assert not {"graph", "_dtypes"} & shown
    assert {"_values", "_update", "run"} <= shown
    last = [message["_values"] for message in heard.sent if message.get("_values")][-1]
    assert last == [node["value"] for node in widget.model["nodes"]]
    assert widget._update["before"] is None
    assert widget._update["words"] == "graph unchanged"
    # The steps are those of before, and what has not changed is not sent again.
    assert sum("steps" in message for message in heard.sent) <= 2 * 3
    # Whoever opens the page anew gets the graph as it is now.
    state = widget.get_state()
    assert {node["name"]: node["value"] for node in decode(state["model"])["nodes"]}["w"] == 0.5
    widget.close()


def test_a_training_loop_leaves_the_graph_unchanged():
    w = leaf()
    data = torch.arange(4.0)
    loss = (w * data).square().mean()
    widget = GraphWidget(loss)
    for _ in range(3):
        loss = (w * data).square().mean()
        widget.update(loss)
        assert widget._update["words"] == "graph unchanged"
        loss.backward()
        with torch.no_grad():  # as an optimizer does, in place
            w -= 0.1 * w.grad
    widget.close()


def test_what_matches_is_what_matching_says_and_the_selection_goes_along():
    w = leaf()
    widget = GraphWidget(program(w, extra=2), names={"w": w})
    for branch, extra in ((True, 2), (True, 4), (False, 1)):
        before = capture(widget_loss := program(w, branch=branch, extra=extra), names={"w": w})
        was = widget.to_networkx()
        chosen = {data["op"]: node for node, data in was.nodes(data=True)}["PowBackward0"]
        widget.selected = chosen
        widget.update(widget_loss, names={"w": w})
        pairs = match(was, before).pairs
        assert widget._update["before"] == [
            {new: old for old, new in pairs.items()}.get(node["id"])
            for node in widget.model["nodes"]
            if node["kind"] in ("op", "leaf")
        ] + list(widget._update["before"][len(before) :])
        assert widget.selected == pairs.get(chosen)
    widget.close()


def test_a_selected_node_that_is_gone_is_selected_no_more():
    w = leaf()
    widget = GraphWidget(program(w, branch=True), names={"w": w})
    widget.selected = next(n["id"] for n in widget.model["nodes"] if n["op"] == "ReluBackward0")
    widget.update(program(w), names={"w": w})
    assert widget.selected is None
    assert widget._update["words"] == "gone: relu"
    widget.close()


def test_constants_go_with_what_takes_them():
    w = leaf()
    c = torch.tensor(2.0)
    widget = GraphWidget(torch.relu(w * c), names={"w": w, "c": c})
    at = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "constant")
    widget.update((w * c).tanh().relu(), names={"w": w, "c": c})
    now = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "constant")
    assert widget._update["before"][now] == at
    widget.close()


def test_what_cannot_be_shown_leaves_the_picture_as_it_was():
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})
    before = widget.model
    for wrong, error in ((torch.tensor(1.0), ValueError), ("loss", TypeError)):
        with pytest.raises(error, match=r"update\(\)"):
            widget.update(wrong)
        assert widget.model == before
    with pytest.raises(ValueError, match=r"update\(\)"):
        widget.update()
    widget.close()
    with pytest.raises(ValueError, match="closed"):
        widget.update(program(w))


def test_names_are_the_callers_variables_as_at_first():
    weight = leaf()
    loss = program(weight)
    widget = GraphWidget(loss)
    other = leaf(2.0)
    loss = program(other)
    widget.update(loss)
    names = {node["name"] for node in widget.model["nodes"]}
    assert {"other", "loss"} <= names
    assert "weight" not in names
    widget.close()


def test_gradients_and_random_numbers_are_those_without():
    def train(shows):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        widget = None
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(torch.randn(7, 3)).pow(2).mean()
            if shows:
                widget = widget or GraphWidget(loss, names=model)
                widget.update(loss, names=model)
            loss.backward()
            optimizer.step()
        if widget is not None:
            widget.close()
        return [*model.parameters(), torch.rand(1)]

    assert all(map(torch.equal, train(False), train(True)))


def test_nothing_of_graphs_before_is_kept():
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})
    gone = []
    for i in range(8):
        loss = program(w, branch=i % 3 == 0, extra=i % 2)
        gone += [weakref.ref(loss)]
        widget.update(loss, names={"w": w})
        if i % 2:
            loss.backward()
        elif i % 4:
            widget.backward()
        del loss
        gc.collect()
        # The one that is shown lives through its nodes; its tensor need not.
        assert sum(ref() is not None for ref in gone) <= 1
    assert all(ref() is None for ref in gone[:-1])
    widget.close()


@pytest.mark.parametrize("times", [500, pytest.param(3_000, marks=pytest.mark.full)])
def test_many_updates_leave_nothing_behind(times):
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})

    def run(count):
        for i in range(count):
            loss = program(w, branch=i % 2 == 0)
            widget.update(loss, names={"w": w})
            loss.backward()
            if i % 50 == 0:
                _ = widget.run
        del loss
        widget.update(program(w), names={"w": w})
        _ = widget.run
        gc.collect()
        return len(gc.get_objects())

    run(100)
    before = run(100)
    after = run(times)
    assert after - before < 100, f"{after - before} objects more after {times} updates"
    widget.close()


def test_a_loop_without_rest_is_shown_at_most_so_often(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(graph_controllers, "AT_MOST_EVERY", 0.1)
    monkeypatch.setattr(graph_controllers.time, "monotonic", lambda: clock[0])
    w = leaf()
    widget = GraphWidget(program(w), names={"w": w})
    heard = Heard(widget)
    for _ in range(100):
        clock[0] += 0.01
        loss = program(w)
        widget.update(loss, names={"w": w})
        loss.backward()
    drawn = [message for message in heard.sent if "_update" in message]
    assert 5 <= len(drawn) <= 11
    # Each picture is a whole one: with the gradients of its own pass.
    assert all("run" in message for message in drawn)
    assert widget._update["number"] == 100  # whoever asks is told the last
    json.dumps(widget.run)
    widget.close()


def test_modules_and_large_graphs_are_updated_too():
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)])
    widget = GraphWidget(model(torch.ones(2, 4)).sum(), names=model)
    widget.update(model(torch.ones(3, 4)).sum(), names=model)
    before = widget._update["before"]
    assert None not in before[: len(widget.to_networkx())]
    assert "another shape" in widget._update["words"]
    widget.close()
