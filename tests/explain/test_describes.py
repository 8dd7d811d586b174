"""Each event describes the selected node once, and reading what a pass did describes nothing."""

from __future__ import annotations

import pytest
import torch

from gradwalk import GraphWidget, compare
from gradwalk.sources.live_graph import LiveGraph


@pytest.fixture
def described(monkeypatch):
    """The nodes that were described."""
    found: list[int] = []
    details = LiveGraph.details

    def counting(self, node, cursor=None):
        found.append(node)
        return details(self, node, cursor)

    monkeypatch.setattr(LiveGraph, "details", counting)
    return found


def program() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    return x, (x * x + x).sum()


EVENTS = {
    "select": lambda widget: setattr(widget, "selected", 1),
    "backward": lambda widget: widget.backward(),
    "first step": lambda widget: widget.step(),
    "run_to": lambda widget: widget.run_to("x"),
    "start": lambda widget: widget._on_message(None, {"kind": "start", "cursor": 2}, None),
    "end of cell": lambda widget: widget._stage.refresh(),
}


def make(kind: str, x: torch.Tensor, loss: torch.Tensor):
    if kind == "graph":
        return GraphWidget(loss, names={"x": x}), 1
    return compare({"one": loss, "other": (x * x).sum()}), 2


@pytest.mark.parametrize("kind", ["graph", "comparison"])
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_describes_once(described, kind, event):
    x, loss = program()
    widget, graphs = make(kind, x, loss)
    widget.selected = 0
    described.clear()
    EVENTS[event](widget)
    assert len(described) <= graphs
    assert described
    before = len(described)
    assert widget.details is not None
    assert len(described) <= before + graphs
    widget.close()


@pytest.mark.parametrize("kind", ["graph", "comparison"])
def test_moving_describes_once(described, kind):
    x, loss = program()
    widget, graphs = make(kind, x, loss)
    widget.selected = 0
    widget.step()
    for move in (
        widget.step,
        lambda: widget.step(2),
        widget.step_back,
        lambda: setattr(widget, "cursor", 1),
        widget.reset,
    ):
        described.clear()
        move()
        assert len(described) == graphs
    widget.close()


@pytest.mark.parametrize("kind", ["graph", "comparison"])
def test_reading_what_a_pass_did_describes_nothing(described, kind):
    x, loss = program()
    widget, graphs = make(kind, x, loss)
    widget.selected = 0
    widget.backward()
    described.clear()
    traits = ("state", "_steps", "run", "transport") if kind == "graph" else ("passes", "_steps")
    for trait in (*traits, "cursor", "selected", "_fault", "direction"):
        getattr(widget, trait)
    assert described == []
    widget.get_state()
    assert len(described) <= 2 * graphs  # the details, and what stands beside them
    widget.close()


def test_what_a_user_changes_without_telling_is_read():
    x, loss = program()
    widget = GraphWidget(loss, names={"x": x})
    widget.selected = next(node["id"] for node in widget.model["nodes"] if node["name"] == "x")
    loss.backward()
    assert len(widget.steps) == widget.cursor > 0
    assert widget.details["grad"]["values"] == [3.0, 5.0]
    x.data.mul_(10)  # which torch's version counter does not see
    assert widget.details["value"]["values"] == [1.0, 2.0]  # what went in, as it is drawn
    assert "Now it holds [10, 20]." in widget.details["value_note"]
    x.grad = None
    assert widget.details["grad"] is None
    widget.close()


def test_a_pass_that_failed_is_found_by_reading(described):
    x, loss = program()
    widget = GraphWidget(loss, names={"x": x})
    widget.selected = 0

    def fails(_):
        raise RuntimeError("no")

    x.register_hook(fails)
    with pytest.raises(RuntimeError, match="no"):
        loss.backward()
    described.clear()
    assert widget.run["ended"] == "stopped"
    assert len(described) == 1
    assert "stopped" in widget.state["note"]
    assert len(described) == 1
    widget.close()
