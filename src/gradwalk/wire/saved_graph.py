"""What a saved graph holds, in a file or in a page, as `gradwalk.wire.columns` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

from . import (
    DetailsModel,
    DirectionChoice,
    DtypesModel,
    EdgeModel,
    FindingModel,
    GraphModel,
    MemoryModel,
    NodeModel,
    RunModel,
    StageModel,
    StateModel,
    StepModel,
    TransportModel,
)
from .check import check
from .columns import decode
from .graph_json import DRAWN_EDGE, DRAWN_NODE

FORMAT = "gradwalk"
VERSION = 4

MOST_BYTES = 256 * 2**20
"""Of the text in a file: a hostile one could be blown up to fill the memory."""


_OLDER = "Open it with the gradwalk that wrote it, or save the graph again with this one."


class SavedOutput(TypedDict):
    """One output of a saved node."""

    output_nr: int
    name: str | None
    shape: list[int] | None
    dtype: str | None
    device: str | None


class SavedRoot(TypedDict):
    """What the graph as a whole says."""

    roots: list[list[int]]
    torch_version: str


class SavedStaticRoot(SavedRoot):
    """What a static graph says as a whole; see `gradwalk.capture`."""

    root_names: list[str | None]
    static: bool
    made_by: Literal["torch.export", "torch.fx"]


class SavedNetwork(TypedDict):
    """What the captured graph has beyond what is drawn: see `gradwalk.wire.graph_json`.

    Nodes and edges are checked one by one.
    """

    graph: SavedStaticRoot | SavedRoot
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class SavedGraph(TypedDict):
    """Everything in the file."""

    format: Literal["gradwalk"]
    version: int
    graph: GraphModel
    network: SavedNetwork
    dtypes: DtypesModel
    watched: bool
    memory: MemoryModel
    findings: list[FindingModel]
    direction: DirectionChoice
    constants: bool
    selected: int | None
    cursor: int
    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel
    details: list[list[StageModel] | None]
    """Of each node; None of one whose details were not saved."""
    undetailed: DetailsModel | None
    """What there is to say of the first node without details, and like it of the others."""
    all_cursors: bool
    """Whether the details are true at every cursor, or only at the one saved."""


class _NodeFields(TypedDict):
    dtype: str | None
    device: str | None
    requires_grad: bool | None
    is_leaf: bool
    outputs: list[SavedOutput]


_NODE_FIELDS = _NodeFields.__annotations__.keys()
_MORE_NODE_FIELDS: dict[str, Any] = {
    "sequence_nr": int | None,
    "source": str | None,
    "namespace": str | None,
    "call": str | None,
    "how": str | None,
    "value": str | None,
    "inplace": bool,
    "inferred": bool,
}


def unpack(data: bytes, name: str) -> SavedGraph:
    """What a file holds, checked.

    Args:
        data: Its contents.
        name: Its name, for errors.

    Returns:
        The saved graph.

    Raises:
        ValueError: The file is none of ours, damaged, cut off, of another version, too large, or
            does not hold together. Nothing of it is run.
    """
    try:
        value = decode(data, MOST_BYTES)
    except ValueError as error:
        raise ValueError(
            f"{name!r} is damaged or not a graph that gradwalk saved: {error}. Copy the file "
            "again, or save the graph again."
        ) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError(
            f"{name!r} is not a graph that gradwalk saved. Give a file that gradwalk.save() wrote."
        )
    version = value.get("version")
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        raise ValueError(
            f"{name!r} has version {version!r} of the file format, but this gradwalk reads version "
            f"{VERSION}. " + ("Update gradwalk to open it." if newer else _OLDER)
        )
    try:
        check(value, SavedGraph, "the file")
        _check_graph(value["graph"], value["network"])
        _check_rest(value)
    except ValueError as error:
        raise ValueError(
            f"{name!r} is damaged: {error}. Copy the file again, or save the graph again."
        ) from None
    return value  # type: ignore[return-value]


def read_saved(path: Any) -> SavedGraph:
    """Read a file that `gradwalk.save` wrote.

    Raises:
        TypeError: ``path`` is no path.
        OSError: The file cannot be read.
        ValueError: It holds no graph of ours; see `unpack`.
    """
    try:
        file = Path(path).expanduser()
    except TypeError:
        raise TypeError(
            f"load() was given {path!r}, of type {type(path).__name__}. Give the name of a file "
            "that gradwalk.save() wrote."
        ) from None
    try:
        data = file.read_bytes()
    except OSError as error:
        raise type(error)(
            f"{str(file)!r} cannot be read: {error.strerror or error}. Give the name of a file "
            "that gradwalk.save() wrote."
        ) from error
    return unpack(data, str(file))


def _check_graph(graph: GraphModel, network: dict[str, Any]) -> None:
    """Nodes carry their places as ids, edges join them, and all is said of each of them."""
    nodes, edges = graph["nodes"], graph["edges"]
    for i, node in enumerate(nodes):
        _same(node["id"], i, f"node {i}.id")
        if i and is_autograd(node) and not is_autograd(nodes[i - 1]):
            raise ValueError(f"node {i} is an autograd node after one that is none")
    for i, edge in enumerate(edges):
        _within(edge["source"], len(nodes), f"edge {i}.source")
        _within(edge["target"], len(nodes), f"edge {i}.target")
        if i and _flows(edge) and not _flows(edges[i - 1]):
            raise ValueError(f"edge {i} carries a gradient after one that carries none")
    for root in graph["roots"]:
        _within(root["node"], len(nodes), "an output")
    modules = graph["modules"]
    _same(len(modules["classes"]), len(modules["namespaces"]), "the number of modules.classes")
    for place in modules["classes"]:
        _within(place, len(modules["names"]), "modules.classes")
    _check_network(network, len(nodes), len(edges))


def _check_network(network: dict[str, Any], nodes: int, edges: int) -> None:
    _same(len(network["nodes"]), nodes, "the number of network.nodes")
    _same(len(network["edges"]), edges, "the number of network.edges")
    for i, node in enumerate(network["nodes"]):
        where = f"node {i}"
        check({name: node[name] for name in _NODE_FIELDS if name in node}, _NodeFields, where)
        for name in node.keys() - _NODE_FIELDS:
            check(node[name], _MORE_NODE_FIELDS.get(name, Any), f"{where}.{name}")
            if name in DRAWN_NODE:
                raise ValueError(f"{where} has {name!r} twice")
    for i, edge in enumerate(network["edges"]):
        check(edge.get("key"), int, f"edge {i}.key")
        check(edge, Any, f"edge {i}")
        if not edge.keys().isdisjoint(DRAWN_EDGE):
            raise ValueError(f"edge {i} says twice what it is")
    for root in network["graph"]["roots"]:
        if len(root) != 2:
            raise ValueError("an output is not a node and a number")
        _within(root[0], nodes, "an output")


def _check_rest(saved: dict[str, Any]) -> None:
    """Everything else that speaks of nodes and edges speaks of those that are there."""
    nodes, edges = saved["graph"]["nodes"], saved["graph"]["edges"]
    own, flowing = sum(map(is_autograd, nodes)), sum(map(_flows, edges))
    _check_steps(saved["steps"], own)
    _within(saved["cursor"], len(saved["steps"]) + 1, "the cursor")
    if saved["selected"] is not None:
        _within(saved["selected"], len(nodes), "the selection")
    for name, limit in (("reached", own), ("freed", own), ("flowed", flowing)):
        for each in saved["state"][name]:
            _within(each, limit, f"state.{name}")
    if saved["run"] is not None:
        _check_run(saved["run"], own, flowing)
    _check_memory(saved["memory"], own)
    _check_findings(saved["findings"], len(nodes))
    _same(len(saved["dtypes"]["nodes"]), len(nodes), "the number of dtypes.nodes")
    for place in saved["dtypes"]["nodes"]:
        _within(place + 1, len(saved["dtypes"]["names"]) + 1, "dtypes.nodes")
    _same(len(saved["details"]), len(nodes), "the number of details")
    for i, stages in enumerate(saved["details"]):
        if stages is not None:
            _check_stages(stages, i)


def _check_steps(steps: list[StepModel], own: int) -> None:
    seen: set[int] = set()
    for i, step in enumerate(steps):
        _same(step["step"], i + 1, f"steps[{i}].step")
        _within(step["node"], own, f"steps[{i}].node")
        _within(step["ready"], i + 1, f"steps[{i}].ready")
        if step["node"] in seen:
            raise ValueError(f"steps[{i}] runs a node again")
        seen.add(step["node"])


def _check_run(run: RunModel, own: int, flowing: int) -> None:
    if not len(run["edges"]) == len(run["values"]) == len(run["norms"]):
        raise ValueError("the run does not have one gradient for each of its edges")
    for edge in run["edges"]:
        _within(edge, flowing, "run.edges")
    for name, parts in (("seeds", run["seeds"]), ("grads", run["grads"]), ("marks", run["marks"])):
        for part in parts:
            _within(part["node"], own, f"run.{name}")


def _check_memory(memory: MemoryModel, own: int) -> None:
    for node in memory["nodes"]:
        _within(node, own, "memory.nodes")
    _same(len(memory["bytes"]), len(memory["nodes"]), "the number of memory.bytes")
    spaces = len(memory["namespaces"])
    _same(len(memory["namespace_bytes"]), spaces, "the number of memory.namespace_bytes")


def _check_findings(findings: list[FindingModel], total: int) -> None:
    for finding in findings:
        for node in finding["nodes"]:
            _within(node, total, "findings.nodes")
        for number in finding["numbers"]:
            float(number["value"])


def _check_stages(stages: list[StageModel], node: int) -> None:
    where = f"the details of node {node}"
    if not stages or stages[0]["from_step"] != 0:
        raise ValueError(f"{where} do not begin at the start")
    fields: dict[str, Any] = {}
    for stage in stages:
        fields = {**fields, **stage["fields"]}
        check(fields, DetailsModel, where)
        _same(fields["id"], node, f"{where}: their id")


def is_autograd(node: NodeModel) -> bool:
    """Whether a node is one of autograd's, rather than of what is known beyond them."""
    return node["kind"] in {"op", "leaf"}


def _flows(edge: EdgeModel) -> bool:
    return edge["kind"] == "gradient"


def _same(value: Any, expected: int, where: str) -> None:
    if value != expected:
        raise ValueError(f"{where} is {value} rather than {expected}")


def _within(value: int, limit: int, where: str) -> None:
    if not 0 <= value < limit:
        raise ValueError(f"{where} is {value}, which is not from 0 to {limit - 1}")
