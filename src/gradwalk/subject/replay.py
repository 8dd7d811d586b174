"""A saved graph in place of a live one: it shows what was recorded, and runs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx

from ..backward.recording import Recording, find_node
from ..program.kinds import no_backward
from ..wire import (
    DetailsModel,
    FindingModel,
    MemoryModel,
    RunModel,
    StateModel,
    StepModel,
    TransportModel,
)
from ..wire.graph_json import graph_from_data, with_drawn
from ..wire.saved_graph import SavedGraph, is_autograd
from .blank import blank_details
from .stages import details_at

NO_LIVE_GRAPH = (
    "This graph was opened from a file, so its autograd nodes are not here and backward cannot run."
    " Make a new widget from the program that computed it, as in GraphWidget(loss)."
)
_SEEN = {"source", "namespace", "call", "inplace"}


@dataclass(frozen=True)
class SavedCapture:
    """A graph without its autograd nodes, as `gradwalk.forward.annotate.Annotated` gives it."""

    graph: nx.MultiDiGraph
    drawn: nx.MultiDiGraph
    is_watched: bool
    nodes: tuple[()] = ()

    @property
    def annotations(self) -> bool:
        """Whether the program was watched."""
        return self.is_watched

    def watched(self) -> nx.MultiDiGraph:
        """The graph without what was inferred; a copy."""
        if not self.is_watched:
            return self.graph.copy()
        seen = [node for node, inferred in self.drawn.nodes(data="inferred") if not inferred]
        return self.drawn.subgraph(seen).copy()


@dataclass
class SavedRecording:
    """The steps of a saved pass and a cursor over them; moving it moves no ``.grad``."""

    graph: nx.MultiDiGraph
    models: list[StepModel]
    cursor: int

    def travel(self, cursor: int) -> None:
        """Move the cursor."""
        self.cursor = cursor

    def find(self, node: int | str) -> int:
        """After which step a node has just run.

        Raises:
            TypeError: ``node`` is neither an id nor a name.
            ValueError: There is no such node, or it did not run.
        """
        found = find_node(self.graph, node)
        for model in self.models:
            if model["node"] == found:
                return model["step"]
        raise ValueError(f"run_to was given {node!r}, which did not run in the saved pass.")


class Replay:
    """Follows nothing: everything it tells was saved. It stands where a `Follower` would.

    Attributes:
        captured: The graph.
        observer: Itself, as far as a widget asks: nothing goes wrong here.
        fault: None.
        recording: The saved pass; None if there was none.
        run: What flowed in it.
        namespaces: The modules of the nodes where they are inferred.
    """

    fault = None

    def __init__(self, saved: SavedGraph) -> None:
        self._saved = saved
        drawn = graph_from_data(with_drawn(saved["graph"], saved["network"]))
        own = _autograd_part(drawn)
        self.captured = SavedCapture(own, drawn, saved["watched"])
        self.observer = self
        self.namespaces = {
            node["id"]: node["namespace"] or ""
            for node in saved["graph"]["nodes"]
            if node["inferred"] and is_autograd(node)
        }
        self.freed = set(saved["state"]["freed"])
        self.run: RunModel | None = saved["run"]
        self.recording: SavedRecording | None = None
        if saved["run"] is not None:
            self.recording = SavedRecording(own, saved["steps"], saved["cursor"])

    def close(self) -> None:
        """Nothing is held."""

    def backward(self, **_: Any) -> None:
        """There is nothing to run.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_blocked(self.captured.drawn))

    def notice(self) -> bool:
        """No pass ends here."""
        return False

    def state(self) -> StateModel:
        """What had been seen of backward."""
        return self._saved["state"]

    def memory(self) -> MemoryModel:
        """The bytes that the nodes held for backward."""
        return self._saved["memory"]

    def findings(self) -> list[FindingModel]:
        """What was found in the graph and the pass."""
        return self._saved["findings"]

    def transport(self) -> TransportModel:
        """That travelling moves nothing, and what there was to say about the pass."""
        return self._saved["transport"]

    def describe(self, node: int | None) -> DetailsModel | None:
        """What the panel shows of a node; None for None and for a node without saved details."""
        if node is None:
            return None
        found = self._saved["details"][node]
        if found is None:
            return undetailed(self.captured.drawn, node)
        return details_at(found, 0 if self.recording is None else self.recording.cursor)

    def saved(self) -> SavedGraph:
        """What it was made of."""
        return self._saved


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
            plain = {k: v for k, v in data.items() if k != "kind"}
            graph.add_edge(source, target, key=key, **plain)
    return graph


def replayed(graph: nx.MultiDiGraph, recording: Recording | None) -> TransportModel:
    """What an opened graph will say of travelling.

    Args:
        graph: What is drawn.
        recording: The pass that is saved with it.
    """
    if recording is None:
        return {"owned": False, "note": None, "blocked": _blocked(graph)}
    note = "Opened from a file: stepping shows what was recorded and moves no .grad."
    if recording.note is not None:
        note = f"{recording.note} {note}"
    return {"owned": False, "note": note, "blocked": None}


def _blocked(graph: nx.MultiDiGraph) -> str:
    """Why no backward can run."""
    made_by = graph.graph.get("made_by")  # of a static graph
    return NO_LIVE_GRAPH if made_by is None else no_backward(made_by)


def undetailed(graph: nx.MultiDiGraph, node: int) -> DetailsModel:
    """What is known of a node from the graph alone."""
    missing = "Not saved: a file keeps the details of the first nodes of a large graph only."
    blank = blank_details(graph, node, missing, missing)
    return {**blank, "no_grad_inputs": graph.nodes[node]["no_grad_inputs"]}
