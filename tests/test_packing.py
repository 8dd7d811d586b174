"""The wire model as it travels is the wire model: nothing is lost, and little is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from programs import PROGRAMS, outputs_of
from torch import nn

from gradwalk import GraphWidget, compare, watch
from gradwalk.packing.backward import (
    pack_run,
    pack_state,
    pack_steps,
    unpack_run,
    unpack_state,
    unpack_steps,
)
from gradwalk.packing.column import pack_column, pack_ranges, unpack_column, unpack_ranges
from gradwalk.packing.comparison import unpack_panes, unpack_passes
from gradwalk.packing.dtypes import pack_dtypes, unpack_dtypes
from gradwalk.packing.graph import pack_graph, unpack_graph

# Both sides read it: js/packing/packing.test.ts unpacks what test_the_other_side compares here.
FIXTURE = json.loads((Path(__file__).parent / "packed.json").read_text(encoding="utf-8"))


def travelled(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


counts = st.integers(0, 12)
texts = st.none() | st.sampled_from(["", "w", "encoder/layers/0", "<b>", "ß\u2028🙂"]) | st.text()
few_texts = st.sampled_from(["", "MulBackward0", "AccumulateGrad"]) | st.text()
shapes = st.none() | st.lists(st.integers(0, 2**40), max_size=4)
no_grad = st.fixed_dictionaries({"input_nr": counts, "argument": texts})
numbers = st.integers(-3, 3) | st.integers()

nodes = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["leaf", "op", "constant", "cut", "outside"]),
            "op": few_texts,
            "label": few_texts,
            "name": texts,
            "shape": shapes,
            "no_grad_inputs": st.lists(no_grad, max_size=3),
            "namespace": texts,
            "value": texts,
            "inferred": st.booleans(),
        }
    ),
    max_size=12,
)
edges = st.lists(
    st.fixed_dictionaries(
        {
            "source": counts,
            "target": counts,
            "argument": texts,
            "input_nr": st.none() | counts,
            "output_nr": counts,
            "kind": st.sampled_from(["gradient", "constant", "cut"]),
        }
    ),
    max_size=20,
)
roots = st.lists(
    st.fixed_dictionaries({"node": counts, "output_nr": counts, "name": texts}), max_size=3
)
graphs = st.fixed_dictionaries(
    {
        "v": st.just(1),
        "static": st.booleans(),
        "modules": st.just({"namespaces": ["", "a"], "classes": [0, 0], "names": ["Net"]}),
        "nodes": nodes.map(lambda found: [{"id": i, **node} for i, node in enumerate(found)]),
        "edges": edges,
        "roots": roots,
    }
)
values = (
    st.none()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(st.integers(), max_size=4)
)
norms = st.none() | st.sampled_from([0.5, 2, "nan", "inf"]) | st.floats(0, allow_infinity=False)
flows = st.lists(st.tuples(counts, values, norms), max_size=20)


@given(st.lists(numbers))
def test_a_column_comes_back(rows):
    assert unpack_column(travelled(pack_column(rows))) == rows


@given(st.lists(numbers) | st.sets(st.integers(0, 30)).map(sorted))
def test_ranges_come_back(rows):
    assert unpack_ranges(travelled(pack_ranges(rows))) == rows


def test_runs_are_written_once():
    assert pack_column([0] * 100_000) == [[0, 100_000]]
    assert pack_ranges(range(5, 100_000)) == [[5, 99_999]]


@given(graphs)
def test_any_graph_comes_back(graph):
    assert unpack_graph(travelled(pack_graph(graph))) == graph


@given(st.lists(counts), st.lists(counts), st.lists(counts), counts, texts)
def test_any_state_comes_back(reached, flowed, freed, runs, note):
    state = {"runs": runs, "reached": reached, "flowed": flowed, "freed": freed, "note": note or ""}
    assert unpack_state(travelled(pack_state(state))) == state


@given(st.lists(st.tuples(counts, few_texts, texts, texts, counts), max_size=20))
def test_any_steps_come_back(rows):
    steps = [
        {
            "step": number,
            "node": node,
            "op": op,
            "name": name,
            "accumulated": accumulated,
            "ready": ready,
        }
        for number, (node, op, name, accumulated, ready) in enumerate(rows, 1)
    ]
    assert unpack_steps(travelled(pack_steps(steps))) == steps


@given(flows)
def test_any_run_comes_back(rows):
    run = {
        "run": 1,
        "ended": "done",
        "seeds": [],
        "edges": [edge for edge, _, _ in rows],
        "values": [values for _, values, _ in rows],
        "norms": [norm for _, _, norm in rows],
        "grads": [],
        "marks": [],
    }
    assert unpack_run(travelled(pack_run(run))) == run


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_widget_sends_is_what_it_tells(name):
    outputs = outputs_of(name)
    widget = GraphWidget(outputs)
    widget.backward([torch.ones_like(output) for output in outputs])
    sent = travelled(widget.get_state(["graph", "state", "steps", "run", "dtypes"]))
    assert unpack_graph(sent["graph"]) == widget.graph
    assert unpack_state(sent["state"]) == widget.state
    assert unpack_steps(sent["steps"]) == widget.steps
    assert unpack_run(sent["run"]) == widget.run
    assert unpack_dtypes(sent["dtypes"]) == widget.dtypes
    widget.close()


def test_constants_cuts_and_modules_are_sent():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with watch():
        hidden = model(torch.ones(2, 3))
        loss = (hidden * torch.tensor(2.0) + hidden.detach()).sum()
    widget = GraphWidget(loss)
    kinds = {node["kind"] for node in widget.graph["nodes"]}
    assert {"constant", "cut", "leaf", "op"} <= kinds
    assert unpack_graph(travelled(widget.get_state("graph")["graph"])) == widget.graph
    widget.close()


def test_what_a_comparison_sends_is_what_it_tells():
    x = torch.tensor(3.0, requires_grad=True)
    widget = compare([x**2, x**2 + x])
    widget.backward()
    sent = travelled(widget.get_state(["panes", "passes"]))
    assert unpack_panes(sent["panes"]) == widget.panes
    assert unpack_passes(sent["passes"]) == widget.passes
    widget.close()


def test_what_comes_back_from_a_browser_is_unpacked():
    x = torch.tensor(3.0, requires_grad=True)
    widget = GraphWidget(x**2)
    graph, dtypes = widget.graph, widget.dtypes
    widget.set_state({"graph": pack_graph(graph), "dtypes": pack_dtypes(dtypes)})
    assert widget.graph == graph
    assert widget.dtypes == dtypes
    widget.close()


def transformer(layers: int, mode: str) -> GraphWidget:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, layers)
    if mode != "watched":
        return GraphWidget(model(torch.randn(2, 5, 16)).mean(), names=model)
    with watch():
        loss = model(torch.randn(2, 5, 16)).mean()
    return GraphWidget(loss, names=model)


def rnn(_: int, __: str) -> GraphWidget:
    cell, h = nn.RNNCell(8, 8), torch.zeros(1, 8)
    for _step in range(200):
        h = cell(torch.randn(1, 8), h)
    return GraphWidget(h.sum(), names=cell)


@pytest.mark.parametrize(
    ("program", "layers", "mode"),
    [(transformer, 12, "inferred"), (transformer, 12, "watched"), (rnn, 0, "")],
)
def test_a_graph_is_sent_in_under_60_bytes_per_node(program, layers, mode):
    widget = program(layers, mode)
    per_node = len(json.dumps(widget.get_state("graph")["graph"])) / len(widget.graph["nodes"])
    assert per_node < 60
    widget.close()


def test_the_other_side():
    graph = FIXTURE["graph"]
    assert pack_graph(graph["plain"]) == graph["packed"]
    assert pack_state(FIXTURE["state"]["plain"]) == FIXTURE["state"]["packed"]
    assert pack_steps(FIXTURE["steps"]["plain"]) == FIXTURE["steps"]["packed"]
    assert pack_run(FIXTURE["run"]["plain"]) == FIXTURE["run"]["packed"]
    assert pack_dtypes(FIXTURE["dtypes"]["plain"]) == FIXTURE["dtypes"]["packed"]
