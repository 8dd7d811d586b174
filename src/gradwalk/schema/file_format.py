"""What a saved graph holds, in a file or in a page, as `gradwalk.schema.columns` writes it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, TypedDict, cast

from .backward import RunModel, StateModel, StepModel, TransportModel
from .columns import TooLargeError, decode
from .details import DetailsModel, StageModel
from .findings import FindingModel, MemoryModel
from .graph import DtypesModel, EdgeModel, GraphModel, NodeModel, RanksModel
from .validate import check, check_version, fill_in
from .values import CheckpointPlace, Count, DirectionChoice, NodeId

FORMAT = "gradwalk"
VERSION = 11
"""The version of the file format. Raise it with every change of the fields.

A file opens when its version is from OLDEST_VERSION to this one. Unknown fields are ignored. A
missing field is None where its type allows None, else an empty list or False. A new field of
another type has no default: raise OLDEST_VERSION with it. A newer file is refused.
"""

OLDEST_VERSION = 10

MOST_BYTES = 256 * 2**20
"""Of the text in a file: a hostile one could be blown up to fill the memory."""


def most_values(file_bytes: int, max_nodes: int) -> int:
    """How many values a file may hold: an empty list in it takes twenty times its own memory.

    Of what `gradwalk.save` writes the details of the first nodes are up to some millions, the rest
    about 90 a node; each byte stands for 10 at most, and a small file for few in all.
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
    """A number that is written into a static program in place of an operand."""

    input_nr: Count
    argument: str | None
    value: str


class SavedEveryNode(TypedDict):
    """What the captured graph says of every node, beyond what is drawn."""

    dtype: str | None
    device: str | None
    requires_grad: bool | None
    is_leaf: bool
    outputs: list[SavedOutput]


class SavedNode(SavedEveryNode, total=False):
    """What it says of some nodes: of those that were watched, inferred, or are of a program."""

    sequence_nr: int | None
    source: str | None
    namespace: str | None
    call: str | None
    how: str | None
    value: str | None
    inplace: bool
    inferred: bool
    checkpoint: CheckpointPlace | None
    fx_name: str
    called: str | None
    numbers: list[SavedNumber]
    seq_nr: int | None
    ranks: Literal["others"]
    """Of several ranks not the one that is shown has it, but others do."""


class SavedEveryEdge(TypedDict):
    """What the captured graph says of every edge, beyond what is drawn."""

    key: Count


class SavedEdge(SavedEveryEdge, total=False):
    """What it says of some edges."""

    how: str | None
    ranks: Literal["some", "others"]
    """Of several ranks the one that is shown has it and some do not, or others alone have it."""


class SavedRoot(TypedDict):
    """What the graph as a whole says."""

    roots: list[list[Count]]
    torch_version: str


class SavedStaticRoot(SavedRoot):
    """What a static graph says as a whole; see `gradwalk.capture`."""

    root_names: list[str | None]
    static: bool
    made_by: Literal["torch.export", "torch.fx"]


class SavedNetwork(TypedDict):
    """What the captured graph has beyond what is drawn: see `gradwalk.schema.graph_json`."""

    graph: SavedStaticRoot | SavedRoot
    nodes: list[SavedNode]
    edges: list[SavedEdge]


class SavedGraphModel(TypedDict):
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
    selected: NodeId | None
    cursor: Count
    inner: Count
    """After how many of the calls inside of the open node that the last step ran; 0 after all of
    the step."""
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


def unpack(data: bytes, name: str, max_nodes: int | None = None) -> SavedGraphModel:
    """What a file holds, checked.

    Args:
        data: Its contents.
        name: Its name, for errors.
        max_nodes: Of the largest graph to open; None for any size.

    Returns:
        The saved graph.

    Raises:
        ValueError: The file is none of ours, damaged, cut off, of another version, too large, or
            does not hold together. Nothing of it is run.
    """
    try:
        if max_nodes is None:
            value = decode(data)
        else:
            value = decode(data, MOST_BYTES, most_values(len(data), max_nodes))
    except TooLargeError as error:
        raise ValueError(
            f"{name!r} is not opened, because {error}. If you trust it, "
            "load(path, max_nodes=None) opens it, whatever memory that takes."
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
    """How many there are of what the file points at, before anything is known to be right."""
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
    """Nodes carry their places as ids, the autograd ones come first, and all is said of each."""
    nodes, edges = graph["nodes"], graph["edges"]
    for i, node in enumerate(nodes):
        _same(node["id"], i, f"node {i}.id")
        if i and is_autograd(node) and not is_autograd(nodes[i - 1]):
            raise ValueError(f"node {i} is an autograd node after one that is none")
    for i, edge in enumerate(edges):
        if i and _flows(edge) and not _flows(edges[i - 1]):
            raise ValueError(f"edge {i} carries a gradient after one that carries none")
        if _flows(edge) and edge["input_nr"] is None:
            raise ValueError(f"edge {i} carries a gradient of no input")
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
    _same(len(keys), len(edges), "the number of edges that differ")
    _check_ranks(graph["ranks"])
    if cast(Any, network["graph"]).get("static", False) is not graph["static"]:
        raise ValueError("graph.static and network.graph.static differ")
    roots = network["graph"]["roots"]
    for root in roots:
        if len(root) != 2:
            raise ValueError("an output is not a node and a number")
        _within(root[0], len(nodes), "an output")
    _same(len(cast(Any, network["graph"]).get("root_names", roots)), len(roots), "root_names")


def _check_checkpoints(graph: GraphModel) -> None:
    """A region lies in one before it."""
    for i, region in enumerate(graph["checkpoints"]):
        if region["parent"] is not None:
            _within(region["parent"], i, f"checkpoints[{i}].parent")


def _check_ranks(ranks: RanksModel | None) -> None:
    """Each strip has a place for every bar, and points at no other."""
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
    """What stands in one list belongs to what stands in another."""
    nodes = saved["graph"]["nodes"]
    _check_steps(saved["steps"])
    _within(saved["cursor"], len(saved["steps"]) + 1, "the cursor")
    ran = saved["steps"][saved["cursor"] - 1]["node"] if saved["cursor"] else None
    calls = sum(node["kind"] == "call" and node["inside"] == ran for node in nodes)
    _within(saved["inner"], calls + 1, "the number of calls that have run")
    run = saved["run"]
    if run is not None and not len(run["edges"]) == len(run["values"]) == len(run["norms"]):
        raise ValueError("the run does not have one gradient for each of its edges")
    memory = saved["memory"]
    _same(len(memory["bytes"]), len(memory["nodes"]), "the number of memory.bytes")
    spaces = len(memory["namespaces"])
    _same(len(memory["namespace_bytes"]), spaces, "the number of memory.namespace_bytes")
    _same(len(saved["dtypes"]["nodes"]), len(nodes), "the number of dtypes.nodes")
    for place in saved["dtypes"]["nodes"]:
        _within(place + 1, len(saved["dtypes"]["names"]) + 1, "dtypes.nodes")
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
    """The first has everything, and each that follows begins later; all are of this node."""
    where = f"the details of node {node}"
    if not stages or stages[0]["from_step"] != 0:
        raise ValueError(f"{where} do not begin at the start")
    try:
        fill_in(stages[0]["fields"], DetailsModel)
    except ValueError as error:
        raise ValueError(f"{where}: the first stage {error}") from None
    for before, stage in pairwise(stages):
        if stage["from_step"] <= before["from_step"]:
            raise ValueError(f"{where} do not follow one another")
    for stage in stages:
        _same(stage["fields"].get("id", node), node, f"{where}: their id")


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
