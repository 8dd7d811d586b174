"""What is written is read with TensorBoard's own loader, and asked of a running TensorBoard."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager

import networkx as nx
import pytest
import torch
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from programs import PROGRAMS, LeNet, leaf, outputs_of
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from torch.utils.tensorboard import SummaryWriter

from gradwalk import capture
from gradwalk.export.tensorboard import graph_def, node_names, to_tensorboard

PLUGIN = "graph_run_metadata_graph"


def written(folder, **graphs):
    with SummaryWriter(str(folder)) as writer:
        for tag, outputs in graphs.items():
            to_tensorboard(writer, outputs, tag=tag)


def loaded(folder):
    """tag -> the GraphDef, through TensorBoard's event loader."""
    events = event_accumulator.EventAccumulator(str(folder)).Reload()
    found = {}
    for tag, content in events.PluginTagToContent(PLUGIN).items():
        assert content == b"1"
        (event,) = events.Tensors(tag)
        (blob,) = event.tensor_proto.string_val
        (function,) = RunMetadata.FromString(blob).function_graphs
        found[tag] = function.pre_optimization_graph
    return found


def flows(definition):
    """(consumer's place, input number, producer's place, output number) for every edge."""
    places = {node.name: place for place, node in enumerate(definition.node)}
    assert len(places) == len(definition.node)
    found = set()
    for place, node in enumerate(definition.node):
        for nr, each in enumerate(node.input):
            name, _, output = each.partition(":")
            found.add((place, nr, places[name], int(output or 0)))
    return found


def flows_of_torch(outputs):
    """The same from `next_functions`, with inputs that need no gradient left out."""
    order = list(dict.fromkeys(torch.autograd.graph.get_gradient_edge(o).node for o in outputs))
    found = set()
    for place, node in enumerate(order):
        with_grad = [each for each in node.next_functions if each[0] is not None]
        for nr, (child, output_nr) in enumerate(with_grad):
            if child not in order:
                order.append(child)
            found.add((place, nr, order.index(child), output_nr))
    return order, found


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_loaded_as_torch_has_it(name, tmp_path):
    outputs = outputs_of(name)
    written(tmp_path, autograd=outputs)
    definition = loaded(tmp_path)["autograd"]
    nodes, edges = flows_of_torch(outputs)
    assert flows(definition) == edges
    for node, found in zip(nodes, definition.node, strict=True):
        assert found.op == type(node).__name__
        described = [node.variable] if hasattr(node, "variable") else node._input_metadata
        shapes = found.attr["_output_shapes"].list.shape
        for like, shape in zip(described, shapes, strict=True):
            nested = like.is_nested if hasattr(like, "is_nested") else like.is_nested_tensor
            assert shape.unknown_rank == nested
            if not nested:
                assert [dim.size for dim in shape.dim] == list(like.shape)
        assert found.device == f"/device:{described[0].device.type.upper()}:0"
        assert found.attr["dtype"].s.decode() == str(described[0].dtype)


def test_names_groups_and_operands(tmp_path):
    net = LeNet()
    graph = capture(net(torch.randn(2, 1, 28, 28)).sum(), names=net)
    for data in graph.nodes.values():
        if data["name"]:
            data["namespace"] = data["name"].split(".")[0]
        elif data["op"] == "ConvolutionBackward0":
            data["namespace"] = "features/deep"
        else:
            data["namespace"] = None
    written(tmp_path, net=graph)
    nodes = {node.name: node for node in loaded(tmp_path)["net"].node}
    assert "fc1/fc1.weight" in nodes
    assert nodes["fc1/fc1.weight"].attr["tensor"].s == b"fc1.weight"
    convolutions = [nodes["features/deep/Convolution"], nodes["features/deep/Convolution_1"]]
    assert [node.attr["arguments"].s for node in convolutions] == [
        b"input, weight, bias",
        b"weight, bias",
    ]
    assert convolutions[1].attr["no_grad_inputs"].s == b"input"
    assert "Sum" in nodes


def test_several_graphs_of_one_run(tmp_path):
    written(tmp_path, first=leaf(2).exp(), second={"loss": leaf(3).sin()})
    found = loaded(tmp_path)
    assert [node.name for node in found["first"].node] == ["Exp", "AccumulateGrad"]
    assert [node.name for node in found["second"].node] == ["loss", "AccumulateGrad"]


names = st.none() | st.text(max_size=4) | st.sampled_from(["a", "a_1", "a/b", "Sin"])


@given(st.lists(st.tuples(names, names), min_size=1, max_size=12))
def test_names_are_unique_and_allowed(pairs):
    graph = nx.MultiDiGraph()
    for node, (name, namespace) in enumerate(pairs):
        graph.add_node(node, name=name, op="SinBackward0", namespace=namespace)
    found = list(node_names(graph).values())
    assert len(set(found)) == len(pairs)
    assert all(re.fullmatch(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*", name) for name in found)
    # No node stands where a scope stands.
    scopes = {name[: m.start()] for name in found for m in re.finditer("/", name)}
    assert not scopes & set(found)
    for name, (_, namespace) in zip(found, pairs, strict=True):
        assert name.count("/") == len([part for part in (namespace or "").split("/") if part])


def test_a_long_chain(tmp_path):
    y = leaf(2)
    for _ in range(10_000):
        y = y.sin()
    written(tmp_path, chain=y)
    assert len(flows(loaded(tmp_path)["chain"])) == 10_000


@contextmanager
def tensorboard(folder):
    """A TensorBoard server on a free port; gives its address."""
    options = [
        "--logdir",
        str(folder),
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--reload_interval",
        "1",
    ]
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    announced = threading.Event()

    def read():  # to the end, so that the server never waits for a full pipe
        for line in server.stdout:
            said.append(line)
            if "http://" in line:
                announced.set()
        announced.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        announced.wait(120)
        address = re.search(r"http://[\w.]+:\d+", "".join(said))
        assert address, f"TensorBoard did not start: {''.join(said)}"
        yield address[0]
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        reader.join(20)
        server.stdout.close()


def asked(address, path, **query):
    url = f"{address}/data/plugin/graphs/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def info(address, run, count):
    """What graphs a run has, once the server has read that many."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = json.loads(asked(address, "info")).get(run, {"tags": {}})["tags"]
        if len(found) >= count:
            return found
        time.sleep(0.5)
    raise AssertionError("TensorBoard did not find the graphs within two minutes.")


def test_a_running_tensorboard_serves_the_graphs(tmp_path):
    lenet, pair = capture(*outputs_of("lenet")), capture(*outputs_of("two_outputs"))
    written(tmp_path / "run", lenet=lenet, pair=pair)
    with tensorboard(tmp_path) as address:
        tags = info(address, "run", 2)
        assert {tag: each["op_graph"] for tag, each in tags.items()} == {
            "lenet": True,
            "pair": True,
        }
        for tag, graph in (("lenet", lenet), ("pair", pair)):
            served = asked(address, "graph", run="run", tag=tag)
            assert text_format.Parse(served, GraphDef()) == graph_def(graph)
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(address, "graph", run="run", tag="none")
        refused.value.close()


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        to_tensorboard(None, leaf(2))
    with pytest.raises(ImportError, match="pip install tensorboard"):
        graph_def(capture(leaf(2)))


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(TypeError, match="writer of type str"):
        to_tensorboard(str(tmp_path), leaf(2))
    with SummaryWriter(str(tmp_path)) as writer:
        with pytest.raises(TypeError, match="tag of type int"):
            to_tensorboard(writer, leaf(2), tag=3)
        with pytest.raises(ValueError, match="empty tag"):
            to_tensorboard(writer, leaf(2), tag="")
        with pytest.raises(ValueError, match="requires_grad=False"):
            to_tensorboard(writer, torch.ones(2))
