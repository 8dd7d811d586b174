"""From the captured graph to what is sent to the browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..backward.grad_timeline import GradTimeline, Moment
from ..backward.kept_gradients import KeptGradient, norms
from ..backward.observe import Observer
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun
from ..backward.steps import seeds as seeds_at
from ..graph.adjacency import attributes, edge_count, predecessors, successors
from ..graph.labels import label
from ..graph.symbols import node_symbols
from ..schema.backward import FewModel, HeldModel, RunModel, StateModel
from ..schema.graph import (
    CheckpointModel,
    DtypesModel,
    EdgeModel,
    GraphModel,
    ModulesModel,
    NodeModel,
    RootModel,
)
from ..schema.graph_json import drawing_order
from ..schema.values import Values
from ..torch_api.json_values import json_number, plain_values

if TYPE_CHECKING:
    import networkx as nx
    from torch.autograd.graph import Node

FEW = 6
"""So many numbers of a gradient still fit into a picture."""

_Key = TypeVar("_Key")


def graph_model(
    graph: nx.MultiDiGraph,
    namespaces: Mapping[int, str] | None = None,
    modules: ModulesModel | None = None,
    values: Mapping[int, Values] | None = None,
    behind: Sequence[Node] = (),
    *,
    boxes: Mapping[int, str | None] | None = None,
    changed: Mapping[int, bool | None] | None = None,
    regions: Mapping[int, int] | None = None,
    checkpoints: list[CheckpointModel] | None = None,
    derivatives: Iterable[tuple[int, int]] = (),
) -> GraphModel:
    """The wire model of a captured graph.

    Args:
        graph: What `gradwalk.capture` gave, with or without annotations.
        namespaces: The modules of its nodes as far as they are inferred.
        modules: The classes of the modules, where any are known.
        values: What the nodes hold or gave, as far as that is known and small.
        behind: The autograd nodes behind its first nodes, where there are any.
        boxes: The boxes of operations outside of modules, in checkpointed regions and inside of
            compiled code, instead of their namespaces; None draws a node with what takes it.
        changed: The leaves that are not what operations took, True, or may not be, None.
        regions: The checkpointed regions that nodes are in, by number.
        checkpoints: These regions.
        derivatives: Nodes that gave the derivative of what others gave, with these.

    Returns:
        Plain JSON values; ``nodes[i]`` has id ``i``. Edges along which gradients flow come first,
        in the order in which the graph without annotations has them.
    """
    inferred = namespaces or {}
    spaces: dict[int, str | None] = {**inferred, **(boxes or {})}
    known, since, numbers = values or {}, changed or {}, regions or {}
    signs, said = node_symbols(graph, behind)
    nodes: list[NodeModel] = [
        {
            "id": node,
            "kind": data["kind"],
            "op": data["op"],
            "sign": signs[node],
            "said_by": said.get(node),
            "label": label(data),
            "name": data["name"],
            "shape": None if data["shape"] is None else list(data["shape"]),
            "no_grad_inputs": data["no_grad_inputs"],
            "namespace": spaces.get(node, data.get("namespace")),
            "value": known.get(node, data.get("value")),
            "changed": since.get(node, False),
            "inferred": data.get("inferred", node in inferred),
            "checkpoint": numbers.get(node),
            "inside": data.get("inside"),
            "recomputed": data.get("recomputed", False),
        }
        for node, data in attributes(graph).items()
    ]
    edges: list[EdgeModel] = [
        {
            "source": source,
            "target": target,
            "argument": data["argument"],
            "input_nr": data["input_nr"],
            "output_nr": data["output_nr"],
            "kind": data.get("kind", "gradient"),
            "via": data.get("via"),
        }
        for source, following in successors(graph).items()
        for target, between in following.items()
        for data in between.values()
    ]
    edges.sort(key=drawing_order(nodes))  # stable
    roots: list[RootModel] = []
    given = graph.graph.get("root_names")  # of a static graph
    for i, (node, output_nr) in enumerate(graph.graph["roots"]):
        outputs = graph.nodes[node]["outputs"]
        name = outputs[output_nr]["name"] if output_nr < len(outputs) else None
        name = name if given is None else given[i]
        roots.append({"node": node, "output_nr": output_nr, "name": name})
    static = bool(graph.graph.get("static", False))
    return {
        "static": static,
        "modules": modules or modules_model({}),
        "nodes": nodes,
        "edges": edges,
        "roots": roots,
        "checkpoints": checkpoints or [],
        "derivatives": [{"node": node, "of": of} for node, of in dict.fromkeys(derivatives)],
        "ranks": None,
    }


def modules_model(classes: Mapping[str, str]) -> ModulesModel:
    """The class names of modules by namespace, each name once."""
    names: dict[str, int] = {}
    places = [names.setdefault(name, len(names)) for name in classes.values()]
    return {"namespaces": list(classes), "classes": places, "names": list(names)}


def dtypes_model(graph: nx.MultiDiGraph) -> DtypesModel:
    """The dtype of every node, each name once."""
    names: dict[str, int] = {}
    nodes = [
        -1 if dtype is None else names.setdefault(dtype, len(names))
        for _, dtype in graph.nodes(data="dtype")
    ]
    return {"names": list(names), "nodes": nodes}


def state_model(
    observer: Observer,
    freed: Iterable[int],
    graph: nx.MultiDiGraph,
    inside: Sequence[int] = (),
    held: Sequence[HeldModel] = (),
) -> StateModel:
    """What has been seen of backward.

    Args:
        observer: What watched it.
        freed: Ids of the nodes whose saved tensors are gone.
        graph: What `gradwalk.capture` gave.
        inside: For each edge inside of compiled code along which gradients flow, the compiled node.
        held: What leaves hold in ``.grad`` that no pass tells.

    Returns:
        Plain JSON values, with a sentence for the status line.
    """
    freed = sorted(freed)
    last, total = observer.last, len(graph)
    steps = last.steps if last else {}
    reached = sorted(
        node
        for node, step in steps.items()
        if step.grad_outputs.count(None) < len(step.grad_outputs)
    )
    unseen = "compiled autograd runs it as one program, and shows only what is in .grad afterwards"
    if observer.compiled and (last is None or not last.steps):
        note = f"How gradients flowed in a backward pass through this graph is not known: {unseen}."
    elif last is None:
        note = "No backward pass through this graph has been seen yet."
    else:
        note = f"Backward pass {observer.runs}: gradients reached {len(reached)} of {total} nodes"
        note += " before it stopped with an error." if last.state == "stopped" else "."
    if freed:
        whose = (
            "1 node has freed its" if len(freed) == 1 else f"{len(freed)} nodes have freed their"
        )
        note += (
            f" {whose} saved tensors, so running backward again needs a new forward pass "
            "(or retain_graph=True the first time)."
        )
    return {
        "runs": observer.runs,
        "reached": reached,
        "flowed": [
            *(place for place, _ in _flows(graph, last)),
            *(place for place, node in enumerate(inside, edge_count(graph)) if node in steps),
        ],
        "freed": freed,
        "held": [*held],
        "note": note,
    }


def run_model(
    recording: RecordedPass, inside: Iterable[tuple[bool, KeptGradient | None]] = ()
) -> RunModel:
    """What flowed in a backward pass, in few numbers.

    Args:
        recording: The pass.
        inside: For each edge inside of compiled code along which gradients flow, whether one did,
            and which, where that is known.

    Returns:
        Plain JSON values. Norms of many gradients are read from their device at once.
    """
    graph, run = recording.graph, recording.run
    seeds = {
        (node, nr): KeptGradient(seed)
        for node in dict.fromkeys(root for root, _ in graph.graph["roots"])
        for nr, seed in seeds_at(graph, run, node)
    }
    flows: dict[int, KeptGradient | None] = dict(_flows(graph, run))
    for place, (did, kept) in enumerate(inside, edge_count(graph)):
        if did:
            flows[place] = kept
    known = few_of({place: kept for place, kept in flows.items() if kept is not None})
    unknown: FewModel = {"values": None, "norm": None}
    flowed = {place: known.get(place, unknown) for place in flows}
    grown = list(_changed(run))
    held = few_of({i: as_kept(one.moments[-1]) for i, one in enumerate(grown)})
    before = few_of(
        {i: as_kept(t.moments[0]) for i, t in enumerate(grown) if t.moments[0].grad is not None}
    )
    return {
        "run": run.number,
        "ended": "stopped" if run.state == "stopped" else "done",
        "seeds": [
            {"node": node, "output_nr": nr, **few} for (node, nr), few in few_of(seeds).items()
        ],
        "edges": list(flowed),
        "values": [few["values"] for few in flowed.values()],
        "norms": [few["norm"] for few in flowed.values()],
        "arrived": [
            {"node": node, **few} for node, few in few_of(dict(_added_up(graph, run))).items()
        ],
        "grads": [
            {**held[i], "node": one.node, "before": before.get(i), "changed": False, "now": None}
            for i, one in enumerate(grown)
        ],
        "marks": recording.marks,
    }


def _added_up(graph: nx.MultiDiGraph, run: RecordedRun) -> Iterator[tuple[int, KeptGradient]]:
    """What arrived at the nodes with one output, where that is not one edge's gradient alone."""
    takers, steps = predecessors(graph), run.steps
    for node, step in steps.items():
        came = step.grad_outputs[0] if len(step.grad_outputs) == 1 else None
        if came is None or not takers[node]:
            continue
        source, between = next(iter(takers[node].items()))
        if len(takers[node]) == len(between) == 1:
            (key,) = between
            passed = steps[source].grad_inputs[key] if source in steps else None
            # Without its values, a gradient kept twice is the same only if it is the same record.
            if passed is None or passed is came or _is_same(passed, came):
                continue
        yield node, came


def _is_same(one: KeptGradient, other: KeptGradient) -> bool:
    return one.tensor is not None and one.tensor is other.tensor


def _changed(run: RecordedRun) -> Iterator[GradTimeline]:
    """The tensors whose ``.grad`` holds something new."""
    for timeline in run.grads.timelines if run.grads is not None else ():
        if len(timeline.moments) > 1 and timeline.moments[-1].grad is not None:
            yield timeline


def as_kept(moment: Moment) -> KeptGradient:
    """What a ``.grad`` held at a moment that has one."""
    if moment.values is not None:
        return KeptGradient(moment.values)
    return KeptGradient(moment.grad, moment.version, norm=moment.norm)


def _flows(graph: nx.MultiDiGraph, run: RecordedRun | None) -> Iterator[tuple[int, KeptGradient]]:
    """Every edge that carried a gradient: its place among the graph's edges, and the gradient."""
    if run is None:
        return
    place, steps = 0, run.steps
    for source, following in successors(graph).items():
        step = steps.get(source)
        for edges in following.values():
            for edge in edges.values():
                kept = step.grad_inputs[edge["input_nr"]] if step is not None else None
                if kept is not None:
                    yield place, kept
                place += 1


def few_of(gradients: Mapping[_Key, KeptGradient]) -> dict[_Key, FewModel]:
    """The values of those gradients that have at most six, and the norm of each."""
    told: dict[int, FewModel] = {}  # a gradient that flowed along several edges is read once
    for kept, norm in zip(gradients.values(), norms(list(gradients.values())), strict=True):
        if id(kept) not in told:
            number = None if norm is None else json_number(norm)
            told[id(kept)] = {"values": _values(kept), "norm": number}
    return {key: told[id(kept)] for key, kept in gradients.items()}


def _values(kept: KeptGradient) -> Values | None:
    """The numbers of a gradient that has at most six."""
    tensor = kept.tensor
    if tensor is None or tensor.is_nested or tensor.numel() > FEW:
        return None
    if kept.number is not None:
        return json_number(kept.number)
    return plain_values(tensor)
