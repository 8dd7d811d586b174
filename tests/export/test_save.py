"""Saved graphs: what is opened equals what was saved, and no file can do harm."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import random
import weakref

import networkx as nx
import pytest
import torch
from fresh import fresh
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, outputs_of

import gradwalk.panel.details as details_module
import gradwalk.torch_api.summary as summary_module
from gradwalk import GraphWidget, diagnose, load, save, watch
from gradwalk.schema import file_format as saved_file
from gradwalk.schema.columns import decode, encode
from gradwalk.torch_api.reading import same_numbers


def recorded(outputs) -> GraphWidget:
    """A widget after its backward pass, where that is possible."""
    widget = GraphWidget(*outputs)
    with contextlib.suppress(Exception):  # the report of a failure is saved as well
        widget.backward(gradient=[torch.ones_like(output) for output in outputs])
    return widget


def plain_graph(graph: nx.MultiDiGraph):
    nodes = {node: {k: _plain(v) for k, v in data.items()} for node, data in graph.nodes(data=True)}
    edges = sorted((s, t, k, sorted(d.items())) for s, t, k, d in graph.edges(keys=True, data=True))
    return nodes, edges, graph.graph


def _plain(value):
    return json.loads(json.dumps(value))


def assert_same(opened: GraphWidget, widget: GraphWidget, cursors) -> None:
    assert opened.model == widget.model
    assert opened._steps == widget._steps
    assert opened.run == _plain(widget.run)
    assert opened.state == widget.state
    assert opened.cursor == widget.cursor
    assert plain_graph(opened.to_networkx()) == plain_graph(widget.to_networkx())
    assert str(opened) == str(widget)
    saved_at = widget.cursor
    for cursor in cursors:
        widget.cursor = opened.cursor = cursor
        for node in range(len(widget.model["nodes"])):
            widget.selected = opened.selected = node
            found, expected = dict(opened.details), _plain(widget.details)
            if found["explained"] is None:  # only known where ``.grad`` is as it was when saved
                assert cursor != saved_at or expected["explained"] is None
                del found["explained"], expected["explained"]
            assert found == expected, (cursor, node)


@pytest.mark.parametrize("name", PROGRAMS)
def test_open_of_save_equals(name, tmp_path):
    widget = recorded(outputs_of(name))
    path = save(widget, tmp_path / "run.gw.json.gz")
    opened = load(path)
    total = len(widget.steps)
    cursors = [total, *sorted({0, total // 3} & set(range(total)))]
    assert_same(opened, widget, cursors if total < 100 else [total])
    opened.close()
    widget.close()


def grown(seed: int, size: int) -> torch.Tensor:
    """A random program of small tensors."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    known = [torch.randn(2, requires_grad=True) for _ in range(2)]
    for _ in range(size):
        a, b = draw.choice(known), draw.choice(known)
        make = draw.choice(
            [torch.add, torch.mul, lambda a, b: a.sin(), lambda a, b: a.detach() * b, torch.maximum]
        )
        known.append(make(a, b))
    return sum(one.sum() for one in known)


@pytest.mark.one_python
@given(
    seed=st.integers(0, 2**16),
    size=st.integers(1, 9),
    places=st.sets(st.floats(0, 1), max_size=3),
)
@settings(max_examples=4, deadline=None)  # each node at each cursor is looked at, before and after
def test_random_programs(tmp_path_factory, seed, size, places):
    widget = recorded([grown(seed, size)])
    path = tmp_path_factory.mktemp("saved") / "run.gw.json.gz"
    opened = load(save(widget, path))
    total = len(widget.steps)
    assert_same(opened, widget, sorted({0, total} | {round(total * each) for each in places}))
    opened.close()
    widget.close()


def test_what_was_watched_is_saved(tmp_path):
    with watch():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        loss = model(torch.ones(1, 2)).sum()
    widget = recorded([loss])
    opened = load(save(widget, tmp_path / "run.gw.json.gz"))
    assert_same(opened, widget, [0, len(widget.steps)])


@pytest.mark.parametrize("watched", [True, False])
def test_modules_memory_and_findings_are_saved(watched, tmp_path):
    layers = [each for _ in range(12) for each in (torch.nn.Linear(8, 8), torch.nn.Sigmoid())]
    model = torch.nn.Sequential(*layers)
    with watch() if watched else contextlib.nullcontext():
        loss = model(torch.ones(1, 8)).sum()
    widget = GraphWidget(loss, names=model)
    widget.backward()
    opened = load(save(widget, tmp_path / "run.gw.json.gz"))
    assert opened.model == widget.model
    assert {node["namespace"] for node in opened.model["nodes"]} >= {"0", "22"}
    for kind in ("memory", "diagnose"):
        widget._on_message(None, {"kind": kind}, None)
        opened._on_message(None, {"kind": kind}, None)
    assert opened._fault is None
    assert opened._memory == widget._memory
    assert opened._memory["total"] > 0
    assert opened.findings == widget.findings
    assert [finding.kind for finding in diagnose(opened)] == ["vanishing"]
    assert diagnose(opened) == diagnose(widget)
    again = load(save(opened, tmp_path / "again.gw.json.gz"))
    assert diagnose(again) == diagnose(widget)


def test_saving_moves_nothing(tmp_path):
    x = torch.tensor(3.0, requires_grad=True)
    widget = GraphWidget(x**2 + x)
    widget.step(2)
    before = torch.get_rng_state()
    save(widget, tmp_path / "run.gw.json.gz")
    assert widget.cursor == 2
    assert x.grad is None
    assert torch.equal(before, torch.get_rng_state())
    widget.run_to("x")
    assert x.grad == 7


def gradients_of(widget):
    """What flowed into the nodes in the pass that a widget shows, as long as it lives."""
    steps = widget._source.recording.run.steps.values()
    kept = [each for step in steps for each in step.grad_outputs if each is not None]
    return [weakref.ref(each.tensor) for each in kept]


def test_what_many_nodes_share_is_worked_out_once_and_let_go(monkeypatch):
    chains, numbers = [], []
    chain_model, summarise = details_module.chain_model, summary_module.summarise

    def chain(along, leaf):
        chains.append(leaf)
        return chain_model(along, leaf)

    def summary(tensor):
        numbers.append(same_numbers(tensor))
        return summarise(tensor)

    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
    widget = GraphWidget(net(torch.randn(100, 3)).square().mean(), names=net)
    widget.backward()
    alive = gradients_of(widget)
    monkeypatch.setattr(details_module, "chain_model", chain)
    monkeypatch.setattr(summary_module, "summarise", summary)
    gc.disable()
    try:
        widget.to_html()
        assert len(chains) == len(set(chains)) == 5  # the leaves, and the single number
        assert len(numbers) == len(set(numbers)) > 10
        net.zero_grad()
        widget.close()
        del widget
        assert not any(each() is not None for each in alive)
    finally:
        gc.enable()


def test_tensors_are_saved_with_their_names(tmp_path):
    weight = torch.ones(2, requires_grad=True)
    path = save((weight * 2).sum(), tmp_path / "run.gw.json.gz")
    assert load(path).model["nodes"][2]["name"] == "weight"
    path = save({"out": weight * 2}, tmp_path / "other.gw.json.gz", names={"w": weight})
    opened = load(path)
    assert opened.model["nodes"][1]["name"] == "w"
    assert opened.run is None


def test_an_opened_widget_says_what_it_cannot_do(tmp_path):
    x = torch.tensor(3.0, requires_grad=True)
    opened = load(save(x * 2, tmp_path / "run.gw.json.gz"))
    for ask in (opened.backward, opened.step, lambda: opened.run_to(0)):
        with pytest.raises(RuntimeError, match=r"opened from a file.*Make a new widget"):
            ask()
    assert "opened from a file" in opened.transport["blocked"]
    opened._on_message(None, {"kind": "start", "cursor": None}, None)
    assert "opened from a file" in opened._fault
    assert x.grad is None
    opened.close()
    with pytest.raises(ValueError, match="closed"):
        opened.to_networkx()


def test_an_opened_widget_steps_and_is_saved_again(tmp_path):
    x = torch.tensor(3.0, requires_grad=True)
    widget = GraphWidget(x**2 + x)
    widget.backward()
    opened = load(save(widget, tmp_path / "a.gw.json.gz"))
    x.grad = None
    opened.reset()
    opened.step(2)
    assert [step.op for step in opened.steps[:2]] == ["AddBackward0", "PowBackward0"]
    opened.run_to("x")
    assert opened.cursor == 3
    assert x.grad is None
    again = load(save(opened, tmp_path / "b.gw.json.gz"))
    assert (again.model, again._steps, again.cursor) == (opened.model, opened._steps, 3)
    assert "PowBackward0" in opened.to_svg()


def test_a_large_graph_keeps_the_details_of_its_first_nodes(tmp_path):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(2100):
        y = y * 1.5
    opened = load(save(y, tmp_path / "run.gw.json.gz"))
    opened.selected = 2
    assert opened.details["saved"]
    opened.selected = 2100
    assert opened.details["about"].startswith("Not saved")


def test_it_opens_where_the_model_is_not(tmp_path):
    path = tmp_path / "run.gw.json.gz"
    save(torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum(), path)
    told = fresh(f"from gradwalk import load; print(repr(load({str(path)!r})))")
    assert told.startswith("GraphWidget(")


# Files that are not as they should be


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.grad = torch.ones(2)  # for a finding
    widget = GraphWidget((x * 2).sum(), names={"x": x})
    widget.backward()
    return save(widget, tmp_path_factory.mktemp("good") / "run.gw.json.gz").read_bytes()


def refused(data: bytes) -> str:
    with pytest.raises(ValueError, match=r"^'run'.*\.$") as caught:
        saved_file.unpack(data, "run")
    return str(caught.value)


def test_damaged_and_foreign_files_get_a_sentence(good):
    saved_file.unpack(good, "run")
    assert "cut off" in refused(good[:-10])
    assert "damaged" in refused(b"not compressed at all")
    assert "damaged" in refused(gzip.compress(b"{"))
    assert "damaged" in refused(gzip.compress(b"\xff\xfe"))
    assert "damaged" in refused(gzip.compress(b'{"format": NaN}'))
    assert "not a graph" in refused(gzip.compress(b"[1, 2]"))
    assert "not a graph" in refused(gzip.compress(b'{"format": "pickle"}'))
    assert "damaged" in refused(gzip.compress(b"[" * 100_000))
    assert "damaged" in refused(gzip.compress(b"1" * 100_000))


def packed(value) -> bytes:
    return encode(value)


def test_a_bomb_is_not_unpacked(good, monkeypatch):
    monkeypatch.setattr(saved_file, "MOST_BYTES", 2**16)
    with pytest.raises(ValueError, match=r"is not opened, because.*0 MiB of text.*max_nodes=None"):
        saved_file.unpack(gzip.compress(b" " * 2**20), "run", 1000)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (["graph", "nodes", 0, "id"], 1, "node 0.id is 1 rather than 0"),
        (["graph", "nodes", 0, "op"], 3, "nodes[0].op is 3"),
        (["graph", "nodes", 0, "kind"], "evil", "none of its values"),
        (["network", "nodes", 0, "source"], [], "network.nodes[0].source is list"),
        (["network", "nodes", 0, "outputs"], 3, "nodes[0].outputs is 3"),
        (["network", "nodes"], [], "the number of network.nodes is 0"),
        (["network", "edges", 0, "key"], "a", "edges[0].key is 'a'"),
        (
            ["graph", "edges", 0, "target"],
            99,
            "edges[0].target is 99, which is none of the 4 nodes",
        ),
        (["graph", "edges", 0, "target"], -1, "edges[0].target is -1"),
        (["graph", "edges", 0, "target"], True, "edges[0].target is True"),
        (["graph", "edges", 0, "kind"], "cut", "none of the 1 edges with gradients"),
        (["graph", "roots", 0, "node"], 9, "roots[0].node is 9"),
        (["network", "graph", "roots"], [[0]], "not a pair of numbers"),
        (["steps", 0, "node"], 77, "steps[0].node is 77, which is none of the 3 autograd nodes"),
        (["steps", 1, "step"], 1, "steps[1].step is 1"),
        (["cursor"], 9, "the cursor is 9"),
        (["selected"], 9, "the file.selected is 9"),
        (["direction"], "sideways", "the file.direction"),
        (["run", "edges"], [0], "one gradient for each"),
        (["run", "marks"], [{"node": 5, "kind": "nan", "note": ""}], "run.marks[0].node is 5"),
        (["state", "freed"], [123], "state.freed[0] is 123"),
        (["memory", "nodes"], [44], "memory.nodes[0] is 44"),
        (["memory", "bytes"], [1, 2, 3, 4, 5], "the number of memory.bytes"),
        (["findings", 0, "nodes"], [99], "findings[0].nodes[0] is 99"),
        (["findings", 0, "kind"], "rumour", "none of its values"),
        (["dtypes", "nodes"], [0], "the number of dtypes.nodes is 1"),
        (["dtypes", "nodes", 0], -2, "dtypes.nodes is -1"),
        (["details"], [], "number of details"),
        (["details", 0], [], "do not start at step 0"),
        (["details", 0, 0, "fields", "saved"], 5, "details[0][0].fields.saved is 5"),
        (["details", 0, 0, "fields", "id"], 2, "their id is 2"),
        (["details", 2, 0, "fields", "value", "values"], "deep", "nested more than 80"),
    ],
)
def test_wrong_types_and_places_get_a_sentence(good, place, value, words):
    if value == "deep":
        value = []
        for _ in range(90):
            value = [value]
    whole = decode(good)
    at = whole
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    assert words in refused(packed(whole))


@given(data=st.binary(max_size=200))
def test_any_bytes_get_a_sentence(data):
    refused(data)


def test_bad_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        load(tmp_path / "missing.gw.json.gz")
    with pytest.raises(TypeError, match="Give the name of a file"):
        load(3.5)
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save(x * 2, tmp_path / "missing" / "run.gw.json.gz")
    with pytest.raises(ValueError, match="which has its own"):
        save(GraphWidget(x * 2), tmp_path / "run.gw.json.gz", names={"x": x})
