"""What became of one graph in the next: which node it was, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeGuard

from ..english import list_some, plural, with_counts
from ..lazily import nx
from ..matching.match import match
from ..schema.graph import GraphModel, NodeModel
from ..schema.updates import ChangeModel, UpdateModel
from ..schema.values import JsonNumber, Values

MOST_MATCHED = 5_000
"""A graph of more nodes is not matched with another: it takes longer than anybody waits for."""

_MOST_NAMED = 3


class Pictured(NamedTuple):
    """A graph as it was last shown: plain values, and its structure without any tensor."""

    graph: nx.MultiDiGraph  # its autograd nodes
    model: GraphModel  # the graph as the browser received it


def opened_model(number: int, was: Pictured, now: Pictured) -> UpdateModel:
    """What became of a graph of which something was opened or closed."""
    there = _by_standing(was.model)
    before = [there.get(key) for key in _by_standing(now.model)]
    return {"number": number, "before": before, "words": "", "changes": []}


def _by_standing(model: GraphModel) -> dict[tuple[str, int | None, int], int]:
    """Nodes by what they are inside of, and as which: the same however much else is open."""
    seen: Counter[tuple[str, int | None]] = Counter()
    found: dict[tuple[str, int | None, int], int] = {}
    for node in model["nodes"]:
        kind = "autograd" if node["kind"] in ("op", "leaf") else "extra"
        stands = (node["kind"] if node["inside"] is not None else kind), node["inside"]
        found[(*stands, seen[stands])] = node["id"]
        seen[stands] += 1
    return found


def update_model(number: int, was: Pictured, now: Pictured) -> UpdateModel:
    """Return what became of a graph; ``before`` is None if the two differ in their numbers only."""
    before: list[int | None] | None
    if is_same_structure(was.model, now.model):
        of = {node["id"]: node["id"] for node in now.model["nodes"]}
        before, words = None, _of_rank(was.model, now.model) or "graph unchanged"
    elif _is_laid_alike(was.model, now.model):
        of = {node["id"]: node["id"] for node in now.model["nodes"]}
        before, words = [*of], _of_rank(was.model, now.model)
    else:
        of = _partners(was, now)
        before = [of.get(node["id"]) for node in now.model["nodes"]]
        words = _changes_text(was.model, now.model, of)
    changes = _changes(was.model, now.model, of)
    return {"number": number, "before": before, "words": words, "changes": changes}


def is_same_structure(was: GraphModel, now: GraphModel) -> bool:
    """Whether two graphs are equal but for the numbers that their nodes hold."""
    if len(was["nodes"]) != len(now["nodes"]):
        return False
    return _are_equal(was, now, ("static", "modules", "edges", "roots")) and all(
        # Whether a number is known at a node at all: its card has another form without.
        (one["value"] is None) == (other["value"] is None)
        and {**one, "value": other["value"]} == other
        for one, other in zip(was["nodes"], now["nodes"], strict=True)
    )


def _are_equal(was: GraphModel, now: GraphModel, parts: Iterable[str]) -> bool:
    return all(was[part] == now[part] for part in parts)  # type: ignore[literal-required]


def _is_laid_alike(was: GraphModel, now: GraphModel) -> bool:
    """Whether two ranks of a run are shown in one picture, in which each node has one place."""
    if was["ranks"] is None or now["ranks"] is None or len(was["nodes"]) != len(now["nodes"]):
        return False

    def structure(graph: GraphModel) -> object:
        nodes = [(node["kind"], node["op"]) for node in graph["nodes"]]
        return nodes, [(edge["source"], edge["target"]) for edge in graph["edges"]]

    return structure(was) == structure(now)


def _of_rank(was: GraphModel, now: GraphModel) -> str:
    """Compare the rank that is shown now with the one before, in words; "" without ranks."""
    if was["ranks"] is None or now["ranks"] is None:
        return ""
    before, after = (
        {each["node"] for each in ranks["nodes"] if each["here"]}
        for ranks in (was["ranks"], now["ranks"])
    )
    rank = was["ranks"]["shown"]
    parts = ((f"not on rank {rank}", after - before), ("gone", before - after))
    changes = [
        f"{word}: {_kinds_of(now['nodes'][node] for node in sorted(nodes))}"
        for word, nodes in parts
        if nodes
    ]
    return "; ".join(changes) or f"the same graph as on rank {rank}"


def _partners(was: Pictured, now: Pictured) -> dict[int, int]:
    """Node of the new graph -> which it was."""
    if max(len(was.graph), len(now.graph)) > MOST_MATCHED:
        return {}
    found = {new: old for old, new in match(was.graph, now.graph).pairs.items()}
    # `match` leaves out constants and cuts: they go with the operation that takes them.
    there = _by_taker(was.model, lambda node: node)
    for key, node in _by_taker(now.model, found.get).items():
        if key in there:
            found.setdefault(node, there[key])
    return found


def _by_taker(model: GraphModel, called: Callable[[int], int | None]) -> dict[object, int]:
    """Constants and cuts by the node that takes them, as which input, and what they are."""
    found: dict[object, int] = {}
    for edge in model["edges"]:
        kind = model["nodes"][edge["target"]]["kind"]
        taker = called(edge["source"])
        if kind not in ("leaf", "op") and taker is not None:
            found.setdefault((taker, edge["arg_nr"], kind), edge["target"])
    return found


def _changes_text(was: GraphModel, now: GraphModel, of: Mapping[int, int]) -> str:
    """List new and removed nodes in a few words, without the constants and cuts."""
    kept = set(of.values())
    new = [n for n in now["nodes"] if n["id"] not in of and n["kind"] in ("op", "leaf")]
    gone = [n for n in was["nodes"] if n["id"] not in kept and n["kind"] in ("op", "leaf")]
    changes = [
        f"{word}: {_kinds_of(nodes)}" for word, nodes in (("new", new), ("gone", gone)) if nodes
    ]
    if changes:
        return "; ".join(changes)
    # Nodes without a partner are all there is to say, unless a name, a shape or an edge changed.
    nodes = [(was["nodes"][old], now["nodes"][new]) for new, old in of.items()]
    if reshaped := sum(before["shape"] != after["shape"] for before, after in nodes):
        return f"another shape at {plural(reshaped, 'node')}"
    if renamed := sum(before["label"] != after["label"] for before, after in nodes):
        return f"another name at {plural(renamed, 'node')}"
    # A node may say something new of its tensor, such as a change in place, in the same graph.
    is_same = of == {new: new for new in of} and _are_equal(was, now, ("edges", "roots"))
    return "graph unchanged" if is_same else "the same operations, connected in another way"


def _kinds_of(nodes: Iterable[NodeModel]) -> str:
    """Nodes by what they are called on a board, most frequent first."""
    words = Counter(node["name"] or node["sign"] or node["label"] for node in nodes)
    return list_some(with_counts(dict(words.most_common())), _MOST_NAMED)


def _changes(was: GraphModel, now: GraphModel, of: Mapping[int, int]) -> list[ChangeModel]:
    """Named leaves and outputs that are one number and became another, while they are few."""
    outputs = {root["node"]: root["name"] for root in now["roots"]}
    leaves: list[ChangeModel] = []
    ends: list[ChangeModel] = []
    for node in now["nodes"]:
        old = of.get(node["id"])
        is_end = node["id"] in outputs
        if old is None or not (is_end or node["kind"] == "leaf"):
            continue
        before, after = was["nodes"][old]["value"], node["value"]
        if _is_number(before) and _is_number(after) and before != after:
            name = outputs.get(node["id"]) or node["name"] or ("output" if is_end else None)
            if name is not None:
                (ends if is_end else leaves).append({"name": name, "was": before, "now": after})
    return [*(leaves if len(leaves) <= _MOST_NAMED else []), *ends[:_MOST_NAMED]]


def _is_number(value: Values | None) -> TypeGuard[JsonNumber]:
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)
