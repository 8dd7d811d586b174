"""A graph that was opened from a file: it shows what was recorded, and runs nothing."""

from __future__ import annotations

from typing import Any, cast

from ..checks.finding import Finding, findings_from
from ..graph.arguments import find_node
from ..lazily import nx
from ..panel.blank import blank_details
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel, StageModel
from ..schema.file_format import SavedGraphModel
from ..schema.findings import MemoryModel
from ..schema.graph import GraphModel
from ..schema.graph_json import graph_from_data, with_drawn
from .graph_source import ReadOnlySource
from .inner_graph import tied

NO_LIVE_GRAPH = (
    "This graph was opened from a file, so its autograd nodes are not here and backward cannot run."
    " Make a new widget from the program that computed it, as in GraphWidget(loss)."
)
_SEEN = {"source", "namespace", "call", "inplace"}


class SavedGraph(ReadOnlySource):
    """The contents of a file; see `gradwalk.sources.graph_source.GraphSource`."""

    def __init__(self, saved: SavedGraphModel) -> None:
        self.saved = saved  # the contents of the file
        self.drawn = graph_from_data(with_drawn(saved["graph"], saved["network"]))
        self.graph = _autograd_part(_of_shown_rank(self.drawn))
        self.cursor = saved["cursor"]
        self.overlays = tuple(saved["overlays"])

    @property
    def is_watched(self) -> bool:
        return self.saved["watched"]

    @property
    def direction(self) -> str:
        return self.saved["direction"]

    @property
    def model(self) -> GraphModel:
        return self.saved["graph"]

    @property
    def recorded(self) -> object | None:
        return self.run

    @property
    def steps(self) -> list[StepModel]:
        return self.saved["steps"]

    @property
    def run(self) -> RunModel | None:
        return self.saved["run"]

    def backward(self, **_: Any) -> None:
        raise RuntimeError(_blocked(self.drawn))

    def state(self) -> StateModel:
        return self.saved["state"]

    def transport(self) -> TransportModel:
        return self.saved["transport"]

    def memory(self) -> MemoryModel:
        return self.saved["memory"]

    def findings(self, *_: Any, **__: Any) -> list[Finding]:
        return findings_from(self.saved["findings"])

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        found = self.saved["details"][node]
        if found is None:
            return undetailed(self.drawn, node)
        return details_at(found, self.cursor if cursor is None else cursor)

    def changes(self, node: int) -> list[int]:
        return [stage["from_step"] for stage in self.saved["details"][node] or ()] or [0]

    def seek(self, cursor: int) -> None:
        self.cursor = cursor

    def find(self, node: int | str) -> int:
        found = find_node(self.graph, node)
        if self.run is None:
            return 0
        for model in self.steps:
            if model["node"] == found:
                return model["step"]
        raise ValueError(f"run_to was given {node!r}, which did not run in the saved pass.")

    def to_networkx(self) -> nx.MultiDiGraph:
        drawn = _of_shown_rank(self.drawn)
        opened = any(kind == "call" for _, kind in drawn.nodes(data="kind"))
        if not self.is_watched and not opened:
            return self.graph.copy()
        seen = [node for node, inferred in drawn.nodes(data="inferred") if not inferred]
        return tied(drawn.subgraph(seen).copy())


def details_at(found: list[StageModel], cursor: int) -> DetailsModel:
    """The details of a node when the cursor stands after ``cursor`` steps."""
    fields: dict[str, Any] = {}
    for stage in found:
        if stage["from_step"] <= cursor:
            fields.update(stage["fields"])
    return cast(DetailsModel, fields)


def _of_shown_rank(drawn: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Return the graph of the shown rank, from several ranks laid on each other."""
    beyond = [node for node, ranks in drawn.nodes(data="ranks") if ranks == "others"]
    edges = [edge for *edge, ranks in drawn.edges(keys=True, data="ranks") if ranks == "others"]
    if not beyond and not edges:
        return drawn
    graph = drawn.copy()
    graph.remove_edges_from(edges)
    graph.remove_nodes_from(beyond)
    return graph


def _autograd_part(drawn: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """The graph as it was captured, without what is known beyond it."""
    graph = nx.MultiDiGraph(**drawn.graph)
    static = drawn.graph.get("static", False)
    for node, data in drawn.nodes(data=True):
        if static and data["op"] != "number":
            graph.add_node(node, **data)
        elif data["kind"] in {"op", "leaf"}:
            graph.add_node(node, **{k: v for k, v in data.items() if k not in _SEEN})
    for source, target, key, data in drawn.edges(data=True, keys=True):
        if target in graph and (static or data.get("kind", "gradient") == "gradient"):
            plain = {k: v for k, v in data.items() if k not in {"kind", "via"}}
            graph.add_edge(source, target, key=key, **plain)
    return graph


def replayed(graph: nx.MultiDiGraph, is_recorded: bool, note: str | None) -> TransportModel:
    """Return the `TransportModel` of a graph from a file, with a sentence about its pass."""
    if not is_recorded:
        return {"owned": False, "note": None, "blocked": _blocked(graph)}
    opened = "Opened from a file: stepping shows what was recorded and moves no .grad."
    return {"owned": False, "note": " ".join(filter(None, (note, opened))), "blocked": None}


def _blocked(graph: nx.MultiDiGraph) -> str:
    made_by = graph.graph.get("made_by")  # of a static graph
    return NO_LIVE_GRAPH if made_by is None else no_backward(made_by)


def undetailed(graph: nx.MultiDiGraph, node: int) -> DetailsModel:
    """Return the details of a node that the graph alone gives."""
    missing = "Not saved: a file keeps the details of the first nodes of a large graph only."
    blank = blank_details(graph, node, missing, missing)
    return {**blank, "no_grad_inputs": graph.nodes[node]["no_grad_inputs"]}


def no_backward(made_by: str) -> str:
    """Say why a graph of "torch.export" or "torch.fx" has no backward, and how to get one."""
    run = "program.module()(x)" if made_by == "torch.export" else "program(x)"
    return (
        "A static graph is the program written down before it runs: it holds no values to "
        "differentiate, so it has no backward. Run it and pass what it returns, for example "
        f"GraphWidget({run})."
    )
