"""Convert a captured graph to the model that is sent to the browser."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from torch.nn import Parameter

from ..backward.kept_gradients import KeptGradient, norms
from ..backward.leaf_grads import GradTimeline, Moment
from ..backward.observe import Observer
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_pass import seeds as seeds_at
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import attributes, edge_count, predecessors, successors
from ..graph.labels import label
from ..graph.symbols import node_symbols
from ..lazily import nx
from ..schema.backward import FewModel, HeldModel, RunModel, StateModel
from ..schema.graph import (
    CheckpointModel,
    EdgeModel,
    GraphModel,
    ModulesModel,
    NodeModel,
    RootModel,
)
from ..schema.graph_json import drawing_order
from ..schema.json_values import json_number
from ..schema.values import Values
from ..torch_api.capability import lost_sentences
from ..torch_api.nodes import leaf_tensor
from ..torch_api.summary import plain_values

if TYPE_CHECKING:
    from torch.autograd.graph import Node

FEW = 6  # most numbers of a gradient that fit into a picture

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
    in_backward: Container[int] = (),
) -> GraphModel:
    """Convert a captured graph to its wire model.

    ``nodes[i]`` has id ``i``. Edges that carry gradients come first, in the order of the graph
    without annotations. ``boxes`` replace namespaces; None draws a node beside its consumer.
    ``changed``: the leaves that have changed since operations used them (True), or may have (None).
    """
    inferred = namespaces or {}
    spaces: dict[int, str | None] = {**inferred, **(boxes or {})}
    known, since, numbers = values or {}, changed or {}, regions or {}
    signs, said_by = node_symbols(graph, behind)
    nodes: list[NodeModel] = [
        {
            "id": node,
            "kind": data["kind"],
            "op": data["op"],
            "sign": signs[node],
            "said_by": said_by.get(node),
            "label": _label(data, behind[node] if node < len(behind) else None),
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
            "in_backward": node in in_backward,
        }
        for node, data in attributes(graph).items()
    ]
    return {
        "static": bool(graph.graph.get("static", False)),
        "modules": modules or modules_model({}),
        "nodes": nodes,
        "edges": sorted(_edges(graph), key=drawing_order(nodes)),
        "roots": _roots(graph),
        "checkpoints": checkpoints or [],
        "derivatives": [{"node": node, "of": of} for node, of in dict.fromkeys(derivatives)],
        "ranks": None,
        "plan": None,
    }


def _label(data: dict[str, Any], behind: Node | None) -> str:
    leaf = None if behind is None or data["name"] is not None else leaf_tensor(behind)
    return "parameter" if isinstance(leaf, Parameter) else label(data)


def _edges(graph: nx.MultiDiGraph) -> list[EdgeModel]:
    return [
        {
            "source": source,
            "target": target,
            "argument": data["argument"],
            "arg_nr": data["arg_nr"],
            "output_nr": data["output_nr"],
            "kind": data.get("kind", "gradient"),
            "via": data.get("via"),
        }
        for source, following in successors(graph).items()
        for target, between in following.items()
        for data in between.values()
    ]


def _roots(graph: nx.MultiDiGraph) -> list[RootModel]:
    given = graph.graph.get("root_names")  # of a static graph
    roots: list[RootModel] = []
    for i, (node, nr) in enumerate(graph.graph["roots"]):
        outputs = graph.nodes[node]["outputs"]
        name = outputs[nr]["name"] if nr < len(outputs) else None
        roots.append({"node": node, "output_nr": nr, "name": given[i] if given else name})
    return roots


def modules_model(classes: Mapping[str, str]) -> ModulesModel:
    """Return the class names of modules by namespace, each name once."""
    names: dict[str, int] = {}
    places = [names.setdefault(name, len(names)) for name in classes.values()]
    return {"namespaces": list(classes), "classes": places, "names": list(names)}


def state_model(
    observer: Observer,
    freed: Iterable[int],
    graph: nx.MultiDiGraph,
    inside: Sequence[int] = (),
    held: Sequence[HeldModel] = (),
) -> StateModel:
    """Summarise the observed backward passes, with a sentence for the status line."""
    freed = sorted(freed)
    last, total = observer.last, len(graph)
    steps = last.steps if last else {}
    reached = sorted(
        node
        for node, step in steps.items()
        if step.grad_outputs.count(None) < len(step.grad_outputs)
    )
    if observer.unseen is not None and (last is None or not last.steps):
        note = (
            "How gradients flowed in a backward pass through this graph is not known: "
            f"{observer.unseen}."
        )
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
    note = " ".join([note, *lost_sentences()])
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
    """Summarise the gradients of a pass; ``inside`` says it for the edges in open nodes."""
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
    """The incoming gradients of nodes with one output that are sums over edges."""
    takers, steps = predecessors(graph), run.steps
    for node, step in steps.items():
        incoming = step.grad_outputs[0] if len(step.grad_outputs) == 1 else None
        if incoming is None or not takers[node]:
            continue
        source, between = next(iter(takers[node].items()))
        if len(takers[node]) == len(between) == 1:
            (key,) = between
            passed = steps[source].grad_inputs[key] if source in steps else None
            # Without its values, a gradient kept twice is the same only if it is the same record.
            if passed is None or passed is incoming:
                continue
            if passed.tensor is not None and passed.tensor is incoming.tensor:
                continue
        yield node, incoming


def _changed(run: RecordedRun) -> Iterator[GradTimeline]:
    for timeline in run.grads.timelines if run.grads is not None else ():
        if len(timeline.moments) > 1 and timeline.moments[-1].grad is not None:
            yield timeline


def as_kept(moment: Moment) -> KeptGradient:
    """Return the ``.grad`` at a moment that has one."""
    if moment.values is not None:
        return KeptGradient(moment.values)
    return KeptGradient(moment.grad, moment.version, norm=moment.norm)


def _flows(graph: nx.MultiDiGraph, run: RecordedRun | None) -> Iterator[tuple[int, KeptGradient]]:
    """The index of every edge that carried a gradient, with the gradient."""
    if run is None:
        return
    place, steps = 0, run.steps
    for source, following in successors(graph).items():
        step = steps.get(source)
        for edges in following.values():
            for edge in edges.values():
                kept = step.grad_inputs[edge["arg_nr"]] if step is not None else None
                if kept is not None:
                    yield place, kept
                place += 1


def few_of(gradients: Mapping[_Key, KeptGradient]) -> dict[_Key, FewModel]:
    """Return the norm of each gradient, and the values of those with at most six."""
    models: dict[int, FewModel] = {}  # reads a gradient of several edges once
    for kept, norm in zip(gradients.values(), norms(list(gradients.values())), strict=True):
        if id(kept) not in models:
            number = None if norm is None else json_number(norm)
            models[id(kept)] = {"values": _values(kept), "norm": number}
    return {key: models[id(kept)] for key, kept in gradients.items()}


def _values(kept: KeptGradient) -> Values | None:
    tensor = kept.tensor
    if tensor is None or tensor.is_nested or tensor.numel() > FEW:
        return None
    if kept.number is not None:
        return json_number(kept.number)
    return plain_values(tensor)
