"""The contents of a saved graph, which `gradwalk.schema.columns` writes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, Literal, TypedDict, cast

from .backward import RunModel, StateModel, StepModel, TransportModel
from .columns import TooLargeError, decode, encode
from .details import DetailsModel, StageModel
from .findings import FindingModel, MemoryModel
from .graph import DtypesModel, EdgeModel, GraphModel, NodeModel, OverlayModel, RanksModel
from .validate import check, check_version, fill_in
from .values import CheckpointPlace, Count, DirectionChoice, NodeId

FORMAT = "gradwalk"
VERSION = 20
"""The version of the file format. Raise it with every change of the fields.

A file opens when its version is from OLDEST_VERSION to this one. Unknown fields are ignored. A
missing field is None where its type allows None, else an empty list or False. A new field of
another type has no default: raise OLDEST_VERSION with it. A newer file is refused.
"""

OLDEST_VERSION = 18

MOST_BYTES = 256 * 2**20
"""The most bytes of text in a file: a small hostile file can unpack to gigabytes."""


def most_values(file_bytes: int, max_nodes: int) -> int:
    """Return the most values in a file: an empty list takes twenty times its size in memory.

    `gradwalk.save` writes up to some million values of details, and about 90 per node besides. A
    byte of a file unpacks to at most 10 values.
    """
    return min(10_000_000 + 150 * max_nodes, 2_000_000 + 50 * file_bytes)


class SavedOutput(TypedDict):
    """One output of a saved node."""

    output_nr: Count
    name: str | None
    shape: list[Count] | None
    dtype: str | None
    device: str | None


class SavedNumber(TypedDict):
    """A number that a static program has in place of an operand."""

    arg_nr: Count
    argument: str | None
    value: str


class SavedEveryNode(TypedDict):
    """Attributes of every node in the captured graph that are not drawn."""

    dtype: str | None
    device: str | None
    requires_grad: bool | None
    is_leaf: bool
    outputs: list[SavedOutput]


class SavedNode(SavedEveryNode, total=False):
    """Attributes of some nodes: watched, inferred or static ones."""

    sequence_nr: int | None
    source: str | None
    namespace: str | None
    call: str | None
    how: str | None
    role: str | None
    made_by: str | None
    value: str | None
    inplace: bool
    inferred: bool
    checkpoint: CheckpointPlace | None
    fx_name: str
    called: str | None
    numbers: list[SavedNumber]
    seq_nr: int | None
    ranks: Literal["others"]
    """Only other ranks than the shown one have the node."""


class SavedEveryEdge(TypedDict):
    """Attributes of every edge in the captured graph that are not drawn."""

    key: Count


class SavedEdge(SavedEveryEdge, total=False):
    """Attributes of some edges."""

    how: str | None
    ranks: Literal["some", "others"]
    """Only some ranks have the edge: the shown one and others, or only others."""


class SavedRoot(TypedDict):
    """Attributes of the graph."""

    roots: list[list[Count]]
    torch_version: str


class SavedStaticRoot(SavedRoot):
    """Attributes of a static graph; see `gradwalk.capture`."""

    root_names: list[str | None]
    static: bool
    made_by: Literal["torch.export", "torch.fx"]


class SavedNetwork(TypedDict):
    """The attributes that are not drawn: see `gradwalk.schema.graph_json`."""

    graph: SavedStaticRoot | SavedRoot
    nodes: list[SavedNode]
    edges: list[SavedEdge]


class JoinedGraphs(TypedDict):
    """The list of graphs in a file of several; their files come before it."""

    labels: list[str]
    sizes: list[Count]


class SavedGraphModel(TypedDict):
    """The whole file."""

    format: Literal["gradwalk"]
    version: int
    graph: GraphModel
    network: SavedNetwork
    dtypes: DtypesModel
    overlays: list[OverlayModel]
    watched: bool
    memory: MemoryModel
    findings: list[FindingModel]
    direction: DirectionChoice
    constants: bool
    selected: NodeId | None
    cursor: Count
    inner: Count
    """Number of completed calls inside the open node that the last step ran; 0 when the whole step
    is complete."""
    state: StateModel
    steps: list[StepModel]
    run: RunModel | None
    transport: TransportModel
    details: list[list[StageModel] | None]
    """The details of each node; None where they were not saved."""
    undetailed: DetailsModel | None
    """The minimal details of the first node without saved details, as a model for the others."""
    all_cursors: bool
    """Whether the details apply to every cursor, or only to the saved one."""


_END = b"gwgraphs\n"
_LENGTH = 8  # bytes of the length before the end mark


def join_graphs(files: Mapping[str, bytes]) -> bytes:
    """Join the files of several graphs, by their labels, to one file."""
    head = encode({"labels": [*files], "sizes": [*map(len, files.values())]})
    return b"".join([*files.values(), head, len(head).to_bytes(_LENGTH, "little"), _END])


def split_graphs(data: bytes, name: str) -> dict[str, bytes] | None:
    """Undo `join_graphs`; None for the file of one graph."""
    if not data.endswith(_END):
        return None
    end = len(data) - len(_END) - _LENGTH
    start = end - int.from_bytes(data[max(end, 0) : end + _LENGTH], "little")
    try:
        if start < 0:
            raise ValueError("its labels are cut off")
        head: Any = decode(memoryview(data)[start:end], 2**20, 10_000)
        check(head, JoinedGraphs, "its list of graphs")
        labels, sizes = head["labels"], head["sizes"]
        if not (len(labels) == len({*labels}) == len(sizes) and sum(sizes) == start):
            raise ValueError("its list of graphs does not fit its contents")
    except ValueError as error:
        raise ValueError(
            f"{name!r} is damaged: {error}. Copy the file again, or save the comparison again."
        ) from None
    ends = [*accumulate(sizes)]
    return {
        label: data[last - size : last]
        for label, size, last in zip(labels, sizes, ends, strict=True)
    }


def unpack(data: bytes, name: str, max_nodes: int | None = None) -> SavedGraphModel:
    """Read and check the contents of a file of at most ``max_nodes`` nodes; None for any number."""
    try:
        if max_nodes is None:
            value = decode(data)
        else:
            value = decode(data, MOST_BYTES, most_values(len(data), max_nodes))
    except TooLargeError as error:
        raise ValueError(
            f"{name!r} is not opened, because {error}. If you trust it, "
            "open it with load(path, max_nodes=None), which has no limit."
        ) from None
    except ValueError as error:
        raise ValueError(
            f"{name!r} is damaged or not a graph that gradwalk saved: {error}. Copy the file "
            "again, or save the graph again."
        ) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError(
            f"{name!r} is not a graph that gradwalk saved. Give a file that gradwalk.save() wrote."
        )
    check_version(value.get("version"), OLDEST_VERSION, VERSION, repr(name))
    try:
        check(value, SavedGraphModel, "the file", _sizes(value.get("graph")))
        _check_graph(value["graph"], value["network"])
        _check_rest(value)
    except ValueError as error:
        raise ValueError(
            f"{name!r} is damaged: {error}. Copy the file again, or save the graph again."
        ) from None
    return value  # type: ignore[return-value]


def _sizes(graph: Any) -> dict[str, int]:
    """Return the lengths of the lists that have indices, before anything is checked."""
    lists = graph if isinstance(graph, dict) else {}
    nodes, edges, checkpoints = (
        [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        for found in (lists.get("nodes"), lists.get("edges"), lists.get("checkpoints"))
    )
    return {
        "nodes": len(nodes),
        "autograd nodes": sum(each.get("kind") in ("op", "leaf") for each in nodes),
        "edges": len(edges),
        "edges with gradients": sum(each.get("kind") == "gradient" for each in edges),
        "checkpoints": len(checkpoints),
    }


def _check_graph(graph: GraphModel, network: SavedNetwork) -> None:
    """Check ids, the order of nodes and edges, and that all lists agree."""
    nodes, edges = graph["nodes"], graph["edges"]
    for i, node in enumerate(nodes):
        _same(node["id"], i, f"node {i}.id")
        if i and is_autograd(node) and not is_autograd(nodes[i - 1]):
            raise ValueError(f"node {i} is an autograd node, but the node before it is not")
    for i, edge in enumerate(edges):
        if i and _flows(edge) and not _flows(edges[i - 1]):
            raise ValueError(f"edge {i} carries a gradient, but the edge before it does not")
        if _flows(edge) and edge["arg_nr"] is None:
            raise ValueError(f"edge {i} carries a gradient, but has no arg_nr")
    modules = graph["modules"]
    _same(len(modules["classes"]), len(modules["namespaces"]), "the number of modules.classes")
    for place in modules["classes"]:
        _within(place, len(modules["names"]), "modules.classes")
    _check_checkpoints(graph)
    _same(len(network["nodes"]), len(nodes), "the number of network.nodes")
    _same(len(network["edges"]), len(edges), "the number of network.edges")
    keys = {
        (edge["source"], edge["target"], more["key"])
        for edge, more in zip(edges, network["edges"], strict=True)
    }
    _same(len(keys), len(edges), "the number of different edges")
    _check_ranks(graph["ranks"])
    if cast(Any, network["graph"]).get("static", False) is not graph["static"]:
        raise ValueError("graph.static and network.graph.static differ")
    roots = network["graph"]["roots"]
    for root in roots:
        if len(root) != 2:
            raise ValueError("an output is not a pair of numbers")
        _within(root[0], len(nodes), "an output")
    _same(len(cast(Any, network["graph"]).get("root_names", roots)), len(roots), "root_names")


def _check_checkpoints(graph: GraphModel) -> None:
    """Check that each region comes after its enclosing one."""
    for i, region in enumerate(graph["checkpoints"]):
        if region["parent"] is not None:
            _within(region["parent"], i, f"checkpoints[{i}].parent")


def _check_ranks(ranks: RanksModel | None) -> None:
    """Check that each strip has a value for every bar, and its indices are of bars."""
    if ranks is None:
        return
    bars = len(ranks["first"])
    _same(len(ranks["last"]), bars, "the number of ranks.last")
    for node in ranks["nodes"]:
        for heights in (node["most"], node["least"] or node["most"]):
            _same(len(heights), bars, "the number of bars of a node")
        for places in (node["not_finite"], node["without"], node["beyond"], node["odd"]):
            for place in places:
                _within(place, bars, "a bar of a node")


def _check_rest(saved: dict[str, Any]) -> None:
    """Check that steps, run, memory, dtypes and details agree with the graph."""
    nodes = saved["graph"]["nodes"]
    _check_steps(saved["steps"])
    _within(saved["cursor"], len(saved["steps"]) + 1, "the cursor")
    ran = saved["steps"][saved["cursor"] - 1]["node"] if saved["cursor"] else None
    calls = sum(node["kind"] == "call" and node["inside"] == ran for node in nodes)
    _within(saved["inner"], calls + 1, "the number of completed calls")
    run = saved["run"]
    if run is not None and not len(run["edges"]) == len(run["values"]) == len(run["norms"]):
        raise ValueError("the run does not have one gradient for each of its edges")
    memory = saved["memory"]
    _same(len(memory["bytes"]), len(memory["nodes"]), "the number of memory.bytes")
    _same(len(saved["dtypes"]["nodes"]), len(nodes), "the number of dtypes.nodes")
    for place in saved["dtypes"]["nodes"]:
        _within(place + 1, len(saved["dtypes"]["names"]) + 1, "dtypes.nodes")
    for each in saved["overlays"]:
        _same(len(each["values"]), len(each["nodes"]), "the number of values of an overlay")
        _same(len(each["module_values"]), len(each["modules"]), "those of its modules")
    _same(len(saved["details"]), len(nodes), "the number of details")
    for i, stages in enumerate(saved["details"]):
        if stages is not None:
            _check_stages(stages, i)


def _check_steps(steps: list[StepModel]) -> None:
    seen: set[int] = set()
    for i, step in enumerate(steps):
        _same(step["step"], i + 1, f"steps[{i}].step")
        _within(step["ready"], i + 1, f"steps[{i}].ready")
        if step["node"] in seen:
            raise ValueError(f"steps[{i}] runs a node again")
        seen.add(step["node"])


def _check_stages(stages: list[StageModel], node: int) -> None:
    """Check that the first stage has all fields, and that later stages start later."""
    where = f"the details of node {node}"
    if not stages or stages[0]["from_step"] != 0:
        raise ValueError(f"{where} do not start at step 0")
    try:
        fill_in(stages[0]["fields"], DetailsModel)
    except ValueError as error:
        raise ValueError(f"{where}: the first stage {error}") from None
    for before, stage in pairwise(stages):
        if stage["from_step"] <= before["from_step"]:
            raise ValueError(f"{where} are not in the order of steps")
    for stage in stages:
        _same(stage["fields"].get("id", node), node, f"{where}: their id")


def is_autograd(node: NodeModel) -> bool:
    """Whether a node is an autograd node."""
    return node["kind"] in {"op", "leaf"}


def _flows(edge: EdgeModel) -> bool:
    return edge["kind"] == "gradient"


def _same(value: Any, expected: int, where: str) -> None:
    if value != expected:
        raise ValueError(f"{where} is {value} rather than {expected}")


def _within(value: int, limit: int, where: str) -> None:
    if not 0 <= value < limit:
        raise ValueError(f"{where} is {value}, which is not from 0 to {limit - 1}")
