"""What is known of a large graph is worked out when it is asked for, and is what it was before."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, capture
from gradwalk.subject.subject import MOST_SHOWN


class Block(nn.Module):
    """Operations of its own, a buffer, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.layer(x)) * self.scale


def program(blocks: int):
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(blocks)))
    x = torch.randn(2, 4)
    return model, x, model(x).pow(2).mean()


BLOCKS = pytest.mark.parametrize("blocks", [3, 40], ids=["small", "large"])


def shown(widget: GraphWidget):
    """All that is drawn, and all that the panels say."""
    found = widget.get_state()
    kept = {k: v for k, v in found.items() if k not in ("layout", "state", "transport", "steps")}
    return kept | {"run": None, "cursor": 0, "selected": None, "details": None}


@BLOCKS
def test_reading_it_late_gives_what_reading_it_early_gives(blocks):
    model, x, loss = program(blocks)
    early, late = (GraphWidget(loss, names={"model": model, "x": x}) for _ in range(2))
    drawn = shown(early)
    loss.backward()  # frees what was saved
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0)  # as an optimizer does
    assert (len(capture(loss)) > MOST_SHOWN) == (blocks == 40)
    assert shown(late) == drawn
    nodes = late.graph["nodes"]
    assert any(node["kind"] == "constant" and node["name"] == "x" for node in nodes)
    assert any((node["namespace"] or "").startswith("model/1/layer") for node in nodes)


@BLOCKS
def test_what_only_a_function_held_is_known_after_it(blocks):
    def made() -> GraphWidget:
        run = program(blocks)
        return GraphWidget(run[2])

    run = program(blocks)
    late, early = made(), GraphWidget(run[2])
    gc.collect()
    assert [n["value"] for n in late.graph["nodes"]] == [n["value"] for n in early.graph["nodes"]]
    assert [n["namespace"] for n in late.graph["nodes"]] == [
        n["namespace"] for n in early.graph["nodes"]
    ]
    assert late.graph["nodes"][0]["value"] == pytest.approx(run[2].item())


@BLOCKS
def test_of_what_is_not_in_the_graph_nothing_lives_longer(blocks):
    model, _, loss = program(blocks)
    other, y, others = program(blocks)
    gone = [weakref.ref(other), weakref.ref(y), weakref.ref(others)]
    widget = GraphWidget(loss)
    del other, y, others
    gc.collect()
    assert not any(ref() for ref in gone)
    assert widget.graph["nodes"]
    model = weakref.ref(model)
    gc.collect()
    assert model() is None  # once they were looked at, modules are let go of


def test_a_pass_by_another_thread_is_read_before_it_frees_anything():
    model, x, loss = program(40)
    early, late = (GraphWidget(loss, names={"model": model, "x": x}) for _ in range(2))
    drawn = shown(early)
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    assert shown(late) == drawn
