"""The widget from Python: traits, selection, closing."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
import torch
import traitlets

from gradwalk import GraphWidget


@pytest.fixture
def example():
    w, x, b = (torch.tensor([v], requires_grad=True) for v in (4.0, 1.0, 0.5))
    h = w * x + b
    widget = GraphWidget(h)
    yield widget, h, w
    widget.close()


def test_the_graph_is_plain_json(example):
    widget, _, _ = example
    graph = json.loads(json.dumps(widget.model, allow_nan=False))
    assert [node["label"] for node in graph["nodes"]] == ["h", "MulBackward0", "b", "w", "x"]
    assert graph["roots"] == [{"node": 0, "output_nr": 0, "name": "h"}]
    assert graph["edges"][0] == {
        "source": 0,
        "target": 1,
        "argument": "self",
        "arg_nr": 0,
        "output_nr": 0,
        "kind": "gradient",
        "via": None,
    }


def test_details_follow_the_selection_and_backward(example):
    widget, h, w = example
    assert widget.details is None
    widget.selected = 3
    assert widget.details["name"] == "w"
    assert widget.details["grad"] is None
    h.backward()
    assert widget.details["grad"]["values"] == w.grad.tolist()
    w.grad = None
    assert widget.details["grad"] is None
    widget.selected = None
    assert widget.details is None


def test_observers_are_told_when_backward_changes_the_details(example):
    widget, h, _ = example
    widget.selected = 3
    told = []
    widget.observe(lambda change: told.append((change["new"] or {}).get("grad")), "details")
    widget.observe(lambda change: told.append(change["new"]["runs"]), "state")
    h.backward()
    assert 1 in told
    assert any(isinstance(each, dict) and each["values"] == [1.0] for each in told)


def test_what_the_browser_sends_is_a_selection_like_any_other(example):
    widget, _, _ = example
    widget.set_state({"selected": 4, "direction": "right"})
    assert widget.details["name"] == "x"
    assert widget.direction == "right"


def test_selecting_on_another_thread_while_backward_runs():
    x = torch.ones(4, requires_grad=True)
    y = x
    for _ in range(300):
        y = y * 1.0
    deep = GraphWidget(y.sum(), names={})
    stop = threading.Event()

    def click():
        i = 0
        while not stop.is_set():
            deep.selected = i % 300
            i += 1

    thread = threading.Thread(target=click)
    thread.start()
    for _ in range(3):
        y.sum().backward(retain_graph=True)
    stop.set()
    thread.join()
    assert x.grad.tolist() == [3.0] * 4
    assert deep._fault is None


@pytest.mark.parametrize("name", ["model", "details", "state", "_fault"])
def test_what_python_computes_is_read_only(example, name):
    widget, _, _ = example
    with pytest.raises(traitlets.TraitError, match="read-only"):
        setattr(widget, name, {})


def test_outputs_in_a_dict_are_named_by_key():
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    widget = GraphWidget({"loss": y, "heads": [x + 1, x + 2]})
    assert [root["name"] for root in widget.model["roots"]] == ["loss", "heads[0]", "heads[1]"]


def test_two_unrelated_graphs_stand_side_by_side():
    a, b = torch.ones(1, requires_grad=True), torch.ones(2, requires_grad=True)
    widget = GraphWidget(a * 2, b + 1)
    assert len([n for n in widget.model["nodes"] if n["kind"] in ("op", "leaf")]) == 4
    assert len(widget.model["roots"]) == 2


def test_to_networkx_is_a_copy(example):
    widget, _, _ = example
    graph = widget.to_networkx()
    graph.remove_node(0)
    assert len(widget.to_networkx()) == 5


def test_repr_is_short(example):
    widget, _, _ = example
    assert repr(widget) == "GraphWidget(5 nodes, 4 edges, 3 leaves)"


def test_closing_twice_is_fine_and_a_closed_widget_says_so(example):
    widget, h, w = example
    widget.selected = 3
    widget.close()
    widget.close()
    assert repr(widget).startswith("GraphWidget(closed")
    assert widget.details is None
    for use in (widget.to_networkx, lambda: setattr(widget, "selected", 1)):
        with pytest.raises(ValueError, match=r"This GraphWidget is closed.*Make a new one"):
            use()
    h.backward()
    assert w.grad.item() == 1.0


def test_widgets_share_their_class_until_one_gets_a_trait_of_its_own(example):
    widget, h, _ = example
    other = GraphWidget(h)
    assert type(widget) is type(other) is GraphWidget
    assert widget.get_state("_anywidget_id") == {
        "_anywidget_id": "gradwalk.widget.graph_widget.GraphWidget"
    }
    other.add_traits(mine=traitlets.Int(3))
    assert other.mine == 3
    assert not widget.has_trait("mine")


def test_a_script_may_end_with_an_open_widget(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from gradwalk import GraphWidget, watch\n"
        "with watch():\n"
        "    loss = torch.nn.Linear(3, 3)(torch.ones(2, 3)).tanh().sum()\n"
        "    loss.backward()\n"
        "widget = GraphWidget(loss)\n"
        "widget.selected = 0\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
