"""The union of the graphs of several ranks, with the nodes that only some of them have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...graph.adjacency import walk
from ...graph.labels import PLUMBING
from ...lazily import nx
from ...matching.match import match
from ...schema.details import StageModel
from ...schema.file_format import SavedEdge, SavedGraphModel
from ...schema.findings import FindingModel
from ...schema.graph import DerivativeModel, DtypesModel, EdgeModel
from ...schema.graph_json import drawing_order
from ...schema.validate import renumbered
from ...sources.graph_model import modules_model
from ...sources.saved_graph import SavedGraph, details_at

_Each = TypeVar("_Each")

_A_NODE = re.compile(r"\(node (\d+)\)")


@dataclass(frozen=True)
class _UnitedIds:
    """The places of a graph's nodes, edges and checkpointed regions in the union."""

    nodes: list[int]
    edges: list[int]
    regions: list[int]


class United:
    """The union of some graphs: each node has one place, for every shown rank."""

    def __init__(
        self,
        graphs: Mapping[str, SavedGraphModel],
        ranks: Mapping[str, int],
    ) -> None:
        """Unite graphs that have nodes in common.

        Each is matched with the union of those before. So nodes that several graphs have are there
        once, and the union has no cycle.
        """
        self._graphs, self._ranks = graphs, ranks
        self._whole = nx.MultiDiGraph(roots=[])
        edges: dict[Hashable, EdgeModel] = {}
        regions: dict[Hashable, int] = {}
        found = {key: self._laid(saved, edges, regions) for key, saved in graphs.items()}
        # Autograd nodes come first, and the edges along which gradients flow.
        kinds = [{"id": node, "kind": kind} for node, kind in self._whole.nodes(data="kind")]
        nodes = _sorted(kinds, lambda node: node["kind"] not in ("op", "leaf"))
        order = _sorted([*edges.values()], drawing_order(kinds))
        self._places = {}
        for key, own in found.items():
            moved = [nodes[i] for i in own.nodes], [order[i] for i in own.edges]
            self._places[key] = _UnitedIds(*moved, own.regions)
        roots = [(nodes[node], nr) for node, nr in self._whole.graph["roots"]]
        self._whole = nx.relabel_nodes(self._whole, dict(enumerate(nodes)))
        self._whole.graph["roots"] = roots
        self._moved: dict[str, SavedGraphModel] = {}

    def _laid(
        self,
        saved: SavedGraphModel,
        edges: dict[Hashable, EdgeModel],
        regions: dict[Hashable, int],
    ) -> _UnitedIds:
        """Add one more graph to the union."""
        there, whole = SavedGraph(saved).drawn, self._whole
        place_of = {node: place for place, node in self.matched(there).items()}
        for node, data in there.nodes(data=True):
            if node not in place_of:
                place_of[node] = len(whole)
                whole.add_node(place_of[node])
                whole.nodes[place_of[node]].update(data)  # not as keywords: of any name
        if not whole.graph["roots"]:
            whole.graph["roots"] = [(place_of[node], nr) for node, nr in there.graph["roots"]]
        nodes = [place_of[node] for node in range(len(there))]
        at: list[int] = []
        times: Counter[Hashable] = Counter()
        places = {key: place for place, key in enumerate(edges)}
        for edge in saved["graph"]["edges"]:
            ends = nodes[edge["source"]], nodes[edge["target"]]
            via = None if edge["via"] is None else nodes[edge["via"]]
            what = (*ends, edge["arg_nr"], edge["argument"], edge["output_nr"], edge["kind"], via)
            key = (*what, times[what])
            times[what] += 1
            if key not in places:
                places[key] = len(places)
                edges[key] = {**edge, "source": ends[0], "target": ends[1]}
                data = {name: edge[name] for name in ("arg_nr", "output_nr", "kind")}
                whole.add_edge(*ends, **data)
            at.append(places[key])
        own: list[int] = []
        for region in saved["graph"]["checkpoints"]:
            parent = None if region["parent"] is None else own[region["parent"]]
            box = parent, region["box"]
            own.append(regions.setdefault((box, times[box]), len(regions)))
            times[box] += 1
        return _UnitedIds(nodes, at, own)

    def matched(self, other: nx.MultiDiGraph) -> dict[int, int]:
        """Map places to the same nodes of another graph."""
        if not len(self._whole):
            return {}
        pairs = _of_same_names(match(self._whole, other).pairs, self._whole, other)
        taken = set(pairs.values())
        left = {
            data["name"]: node
            for node, data in other.nodes(data=True)
            if data["kind"] == "leaf" and data["name"] is not None and node not in taken
        }
        for place, data in self._whole.nodes(data=True):
            if data["kind"] == "leaf" and place not in pairs and data["name"] in left:
                pairs[place] = left.pop(data["name"])
        return pairs

    def pairs(self, structure: str) -> dict[int, int]:
        """Map places to the nodes of one of the graphs."""
        return {place: node for node, place in enumerate(self._places[structure].nodes)}

    def showing(self, structure: str, saved: SavedGraphModel) -> SavedGraphModel:
        """Return the union with one rank's numbers; where it lacks a node, with another rank's."""
        shown = _moved(saved, self._places[structure])
        whole = [(shown, self._places[structure], 0)]
        for other, graph in self._graphs.items():
            if other != structure:
                if other not in self._moved:
                    self._moved[other] = _moved(graph, self._places[other])
                whole.append((self._moved[other], self._places[other], self._ranks[other]))
        nodes = _of_each([each.nodes for _, each, _ in whole])
        edges = _of_each([each.edges for _, each, _ in whole])
        regions = _of_each([each.regions for _, each, _ in whole])
        held = Counter(place for _, each, _ in whole for place in each.edges)

        def gathered(
            at: Sequence[tuple[int, int]], of: Callable[[SavedGraphModel], Sequence[_Each]]
        ) -> list[_Each]:
            lists = [of(graph) for graph, *_ in whole]
            return [lists[which][own] for which, own in at]

        classes: dict[str, str] = {}
        for graph, *_ in whole:
            classes |= {n: kind for n, kind in _classes_of(graph).items() if n not in classes}
        drawn = gathered(edges, lambda graph: graph["graph"]["edges"])
        beyond = gathered(nodes, lambda graph: graph["network"]["nodes"])
        details = gathered(nodes, lambda graph: graph["details"])
        lacked = [which > 0 for which, _ in nodes]
        return {
            **shown,
            "graph": {
                **shown["graph"],
                "modules": modules_model(classes),
                "nodes": gathered(nodes, lambda graph: graph["graph"]["nodes"]),
                "edges": drawn,
                "roots": [
                    root
                    for i, (graph, *_) in enumerate(whole)
                    for root in graph["graph"]["roots"]
                    if nodes[root["node"]][0] == i
                ],
                "checkpoints": gathered(regions, lambda graph: graph["graph"]["checkpoints"]),
                "derivatives": _derivatives([graph for graph, *_ in whole], lacked),
            },
            "network": {
                "graph": shown["network"]["graph"],
                "nodes": [
                    {**node, "ranks": "others"} if is_lacked else node
                    for node, is_lacked in zip(beyond, lacked, strict=True)
                ],
                "edges": _network_edges(
                    drawn,
                    gathered(edges, lambda graph: graph["network"]["edges"]),
                    [
                        "others" if which > 0 else "some" if held[place] < len(whole) else None
                        for place, (which, _) in enumerate(edges)
                    ],
                ),
            },
            "dtypes": _dtypes_model(gathered(nodes, _dtypes_of)),
            "overlays": [],  # of the nodes of one rank
            "details": [
                _at_its_end(stages, whole[which][0]["cursor"], whole[which][2]) if which else stages
                for stages, (which, _) in zip(details, nodes, strict=True)
            ],
        }


def _of_same_names(
    pairs: Mapping[int, int], whole: nx.MultiDiGraph, other: nx.MultiDiGraph
) -> dict[int, int]:
    """Drop pairs of leaves with different names, and pairs of operations that take them."""
    leaves = [place for place in pairs if whole.nodes[place]["kind"] == "leaf"]
    names = {at: {whole.nodes[at]["name"], other.nodes[pairs[at]]["name"]} for at in leaves}
    renamed = [at for at, both in names.items() if len(both - {None}) > 1]

    def users(place: int) -> Iterator[int]:
        # Beyond plumbing, such as the transpose of a weight.
        if whole.nodes[place]["kind"] == "leaf" or whole.nodes[place]["op"] in PLUMBING:
            taking = (user for user in whole.predecessors(place) if user in pairs)
            yield from (user for user in taking if other.has_edge(pairs[user], pairs[place]))

    wrong = set(walk(renamed, users))
    return {place: node for place, node in pairs.items() if place not in wrong}


def _sorted(records: Sequence[Any], order: Callable[[Any], int]) -> list[int]:
    """Return the place of each record after sorting."""
    places = [0] * len(records)
    for place, i in enumerate(sorted(range(len(records)), key=lambda i: order(records[i]))):
        places[i] = place
    return places


def _of_each(graphs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return, for each place, the first graph that has it, and its number there."""
    found: dict[int, tuple[int, int]] = {}
    for which, places in enumerate(graphs):
        for own, place in enumerate(places):
            found.setdefault(place, (which, own))
    return [found[place] for place in range(len(found))]


def _moved(saved: SavedGraphModel, places: _UnitedIds) -> SavedGraphModel:
    """Return a graph with the places in the union as its numbers."""
    found = _renumbered_at(saved, places.nodes, places.edges, places.regions)
    graph = found["network"]["graph"]
    roots = [[places.nodes[node], output_nr] for node, output_nr in graph["roots"]]
    return {
        **found,
        "network": {**found["network"], "graph": {**graph, "roots": roots}},
        "findings": [_finding_at(each, places.nodes) for each in found["findings"]],
    }


def _derivatives(
    graphs: Sequence[SavedGraphModel], lacked: Sequence[bool]
) -> list[DerivativeModel]:
    """Return the shown graph's, and those of other graphs with an end that it lacks."""
    shown, *others = (graph["graph"]["derivatives"] for graph in graphs)
    beyond = (each for found in others for each in found)
    marked = [each for each in beyond if lacked[each["node"]] or lacked[each["of"]]]
    return [*{(each["node"], each["of"]): each for each in (*shown, *marked)}.values()]


def _network_edges(
    drawn: Sequence[EdgeModel], beyond: Sequence[SavedEdge], ranks: Sequence[Any]
) -> list[SavedEdge]:
    """Return edges with unique keys; the shown graph's keys do not change."""
    known = {
        (edge["source"], edge["target"], more["key"])
        for edge, more, who in zip(drawn, beyond, ranks, strict=True)
        if who != "others"
    }
    found: list[SavedEdge] = []
    for edge, more, who in zip(drawn, beyond, ranks, strict=True):
        ends = edge["source"], edge["target"]
        key = more["key"]
        if who == "others":
            while (*ends, key) in known:
                key += 1
            known.add((*ends, key))
        saved: SavedEdge = {**more, "key": key}
        found.append(saved if who is None else {**saved, "ranks": who})
    return found


def _at_its_end(stages: list[StageModel] | None, cursor: int, rank: int) -> list[StageModel] | None:
    """Return a node's details of another rank after its pass, for every cursor."""
    if stages is None:
        return None
    details = details_at(stages, cursor)
    elsewhere = f"These values are from rank {rank}, at the end of its recorded pass."
    about = f"{elsewhere} {details['about']}"
    # The other rank's pass has its own steps.
    return [{"from_step": 0, "fields": {**details, "about": about, "contributions": None}}]


def _renumbered_at(
    saved: SavedGraphModel, nodes: Sequence[int], edges: Sequence[int], regions: Sequence[int]
) -> SavedGraphModel:
    """Return a graph with other numbers for its nodes, edges and checkpointed regions."""
    places = {"nodes": nodes, "edges": edges, "checkpoints": regions}
    places |= {"autograd nodes": nodes, "edges with gradients": edges}
    found: SavedGraphModel = renumbered(saved, SavedGraphModel, places)
    return found


def _dtypes_of(saved: SavedGraphModel) -> list[str | None]:
    """Return the dtype of each node."""
    dtypes = saved["dtypes"]
    return [None if place < 0 else dtypes["names"][place] for place in dtypes["nodes"]]


def _dtypes_model(dtypes: Sequence[str | None]) -> DtypesModel:
    """Return the dtypes of nodes, each name once."""
    places = {name: i for i, name in enumerate(dict.fromkeys(filter(None, dtypes)))}
    return {"names": [*places], "nodes": [-1 if each is None else places[each] for each in dtypes]}


def _classes_of(saved: SavedGraphModel) -> dict[str, str]:
    """Return the class of each module, by namespace."""
    modules = saved["graph"]["modules"]
    pairs = zip(modules["namespaces"], modules["classes"], strict=True)
    return {namespace: modules["names"][place] for namespace, place in pairs}


def _finding_at(found: FindingModel, places: Sequence[int]) -> FindingModel:
    """Return a rank's finding with the node numbers of the union, in its message too."""

    def node(text: str) -> str:
        place = int(text)
        return str(places[place] if place < len(places) else place)

    return {
        **found,
        "message": _A_NODE.sub(lambda match: f"(node {node(match[1])})", found["message"]),
        "numbers": [
            {**each, "name": node(each["name"]) if each["name"].isdigit() else each["name"]}
            for each in found["numbers"]
        ],
    }
