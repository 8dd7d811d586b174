"""From the captured graph to what is sent to the browser."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from .details import label
from .observe import Observer
from .wire import WIRE_VERSION, EdgeModel, GraphModel, NodeModel, RootModel, StateModel


def graph_model(graph: nx.MultiDiGraph) -> GraphModel:
    """The wire model of a captured graph.

    Args:
        graph: What `gradwalk.capture` gave.

    Returns:
        Plain JSON values; ``nodes[i]`` has id ``i``.
    """
    nodes: list[NodeModel] = [
        {
            "id": node,
            "kind": data["kind"],
            "op": data["op"],
            "label": label(data),
            "name": data["name"],
            "shape": None if data["shape"] is None else list(data["shape"]),
            "no_grad_inputs": data["no_grad_inputs"],
        }
        for node, data in graph.nodes(data=True)
    ]
    edges: list[EdgeModel] = [
        {
            "source": source,
            "target": target,
            "argument": data["argument"],
            "input_nr": data["input_nr"],
            "output_nr": data["output_nr"],
        }
        for source, target, data in graph.edges(data=True)
    ]
    roots: list[RootModel] = []
    for node, output_nr in graph.graph["roots"]:
        outputs = graph.nodes[node]["outputs"]
        name = outputs[output_nr]["name"] if output_nr < len(outputs) else None
        roots.append({"node": node, "output_nr": output_nr, "name": name})
    return {"v": WIRE_VERSION, "nodes": nodes, "edges": edges, "roots": roots}


def state_model(observer: Observer, freed: Iterable[int], graph: nx.MultiDiGraph) -> StateModel:
    """What has been seen of backward.

    Args:
        observer: What watched it.
        freed: Ids of the nodes whose saved tensors are gone.
        graph: What `gradwalk.capture` gave.

    Returns:
        Plain JSON values, with a sentence for the status line.
    """
    freed = sorted(freed)
    last, total = observer.last, len(graph)
    steps = last.steps if last else {}
    reached = sorted(
        node for node, step in steps.items() if any(grad is not None for grad in step.grad_outputs)
    )
    flowed = [
        place
        for place, (source, _, input_nr) in enumerate(graph.edges(data="input_nr"))
        if source in steps and steps[source].grad_inputs[input_nr] is not None
    ]
    if last is None:
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
        "flowed": flowed,
        "freed": freed,
        "note": note,
    }
