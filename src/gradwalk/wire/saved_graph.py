"""What a saved graph holds, and its file format: JSON, compressed with gzip."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, Literal, TypedDict

from ..subject.stages import StageModel
from . import (
    DetailsModel,
    Direction,
    EdgeKind,
    FindingModel,
    Kind,
    MemoryModel,
    ModulesModel,
    NoGradInput,
    RunModel,
    StateModel,
    StepModel,
)
from .check import check

FORMAT = "gradwalk"
VERSION = 2

MOST_BYTES = 256 * 2**20
"""Of the text in a file: a hostile one could be blown up to fill the memory."""


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
    """What a static graph says as a whole; see `gradwalk.capture_fx`."""

    root_names: list[str | None]
    static: bool
    made_by: Literal["torch.export", "torch.fx"]


class SavedNetwork(TypedDict):
    """The graph as networkx's node-link data; nodes and edges are checked one by one."""

    directed: bool
    multigraph: bool
    graph: SavedStaticRoot | SavedRoot
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class SavedGraph(TypedDict):
    """Everything in the file.

    ``details`` has for each node its stages, or None of a node whose details were not saved;
    ``all_cursors`` says whether they are true at every cursor, or only at the one saved.
    ``inferred_namespaces`` has the module of each node where they are inferred, and is empty where
    they were watched or none is known.
    """

    format: Literal["gradwalk"]
    version: int
    graph: SavedNetwork
    watched: bool
    inferred_namespaces: list[str]
    modules: ModulesModel
    memory: MemoryModel
    findings: list[FindingModel]
    direction: Direction
    constants: bool
    selected: int | None
    cursor: int
    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    note: str | None
    details: list[list[StageModel] | None]
    all_cursors: bool


class _NodeFields(TypedDict):
    id: int
    kind: Kind
    op: str
    name: str | None
    shape: list[int] | None
    dtype: str | None
    device: str | None
    requires_grad: bool | None
    is_leaf: bool
    outputs: list[SavedOutput]
    no_grad_inputs: list[NoGradInput]


class _EdgeFields(TypedDict):
    source: int
    target: int
    key: int
    input_nr: int | None
    argument: str | None
    output_nr: int
    kind: EdgeKind


_NODE_FIELDS = _NodeFields.__annotations__.keys()
_EDGE_FIELDS = _EdgeFields.__annotations__.keys()
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


def pack(saved: SavedGraph) -> bytes:
    """The contents of a file."""
    text = json.dumps(saved, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # 31: gzip, without a time in it
    return packer.compress(text.encode("utf-8", "surrogatepass")) + packer.flush()


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
    value = _parse(_inflate(data, name), name)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError(
            f"{name!r} is not a graph that gradwalk saved. Give a file that gradwalk.save() wrote."
        )
    version = value.get("version")
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        raise ValueError(
            f"{name!r} has version {version!r} of the file format, but this gradwalk reads version "
            f"{VERSION}. "
            + ("Update gradwalk to open it." if newer else "Save the graph again to open it.")
        )
    try:
        check(value, SavedGraph, "the file")
        _check_graph(value["graph"])
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
            f"open() was given {path!r}, of type {type(path).__name__}. Give the name of a file "
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


def _inflate(data: bytes, name: str) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        text = unpacker.decompress(data, MOST_BYTES + 1)
    except zlib.error:
        raise ValueError(
            f"{name!r} is damaged or not a graph that gradwalk saved: it is not compressed as such "
            "a file is. Copy it again, or save the graph again."
        ) from None
    if len(text) > MOST_BYTES:
        raise ValueError(
            f"{name!r} holds more than {MOST_BYTES // 2**20} MiB of text, more than gradwalk ever "
            "writes, and is not opened."
        )
    if not unpacker.eof:
        raise ValueError(
            f"{name!r} is cut off: its end is missing. Copy it again, or save the graph again."
        )
    return text


def _parse(text: bytes, name: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(text.decode("utf-8", "surrogatepass"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{name!r} is damaged: its text cannot be read ({str(error)[:80]}). Copy the file "
            "again, or save the graph again."
        ) from None


def _check_graph(graph: dict[str, Any]) -> None:
    """The graph's nodes carry their places as ids, and its edges join them."""
    total = len(graph["nodes"])
    for i, node in enumerate(graph["nodes"]):
        where = f"node {i}"
        check({name: node[name] for name in _NODE_FIELDS if name in node}, _NodeFields, where)
        for name in node.keys() - _NODE_FIELDS:
            check(node[name], _MORE_NODE_FIELDS.get(name, Any), f"{where}.{name}")
        _same(node["id"], i, f"{where}.id")
        if i and _is_autograd(node) and not _is_autograd(graph["nodes"][i - 1]):
            raise ValueError(f"{where} is an autograd node after one that is none")
    for i, edge in enumerate(graph["edges"]):
        check({name: edge[name] for name in _EDGE_FIELDS if name in edge}, _EdgeFields, f"edge {i}")
        check(edge, Any, f"edge {i}")
        _within(edge["source"], total, f"edge {i}.source")
        _within(edge["target"], total, f"edge {i}.target")
    for root in graph["graph"]["roots"]:
        if len(root) != 2:
            raise ValueError("an output is not a node and a number")
        _within(root[0], total, "an output")


def _check_rest(saved: dict[str, Any]) -> None:
    """Everything else that speaks of nodes and edges speaks of those that are there."""
    nodes, edges = saved["graph"]["nodes"], saved["graph"]["edges"]
    own = sum(map(_is_autograd, nodes))
    flowing = sum(edge["kind"] == "gradient" for edge in edges)
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
    if saved["inferred_namespaces"]:
        _same(len(saved["inferred_namespaces"]), own, "the number of inferred_namespaces")
    modules = saved["modules"]
    _same(len(modules["classes"]), len(modules["namespaces"]), "the number of modules.classes")
    for place in modules["classes"]:
        _within(place, len(modules["names"]), "modules.classes")
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


def _is_autograd(node: dict[str, Any]) -> bool:
    return node["kind"] in {"op", "leaf"}


def _same(value: Any, expected: int, where: str) -> None:
    if value != expected:
        raise ValueError(f"{where} is {value} rather than {expected}")


def _within(value: int, limit: int, where: str) -> None:
    if not 0 <= value < limit:
        raise ValueError(f"{where} is {value}, which is not from 0 to {limit - 1}")
