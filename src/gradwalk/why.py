"""The sentences that explain: what a node is, and why a gradient is not there."""

from __future__ import annotations

from typing import Any

import networkx as nx
import torch
from torch.autograd.graph import Node

from .observe import Observer, Step
from .signatures import signature

_NOTHING_SEEN = (
    "No backward pass through this graph has been seen yet: call backward() on the output, and the "
    "gradient appears here."
)


def what_is(data: dict[str, Any], node: Node) -> str:
    """A sentence or two on what a node is, from its attributes in the captured graph."""
    if data["kind"] == "leaf":
        name = data["name"] or "This tensor"
        return (
            f"{name} is a leaf: a tensor the program made, not the result of a recorded operation. "
            "Its AccumulateGrad node adds every gradient that arrives to "
            f"{data['name'] or 'the tensor'}.grad."
        )
    custom = getattr(node, "_forward_cls", None)
    if custom is not None:
        return (
            f"The backward of the custom autograd.Function {custom.__name__}: it calls "
            f"{custom.__name__}.backward with the gradient of what forward returned."
        )
    found = signature(data["op"])
    if found is None:
        return "A step of backward that torch defines by hand."
    operation = found.forward.split("(")[0].split(".")[0]
    arguments = [argument.name for argument in found.arguments]
    into = _listed(arguments)
    return (
        f"The backward of {operation}: it takes the gradient of what {operation} returned and "
        f"computes from it the gradient of {into}."
    )


def no_grad(
    graph: nx.MultiDiGraph, node_id: int, tensor: torch.Tensor | None, observer: Observer
) -> str:
    """Why the ``.grad`` of a node's tensor is None.

    Args:
        graph: The captured graph.
        node_id: The node.
        tensor: Its tensor: a leaf, an intermediate tensor, or None when it is not at hand.
        observer: What was seen of backward.

    Returns:
        One sentence or two, true for this very node.
    """
    data = graph.nodes[node_id]
    name = data["name"] or ("this leaf" if data["kind"] == "leaf" else "this tensor")
    if data["kind"] == "op":
        if tensor is not None and tensor.retains_grad:
            return f"{name} keeps its gradient, as retain_grad() asked. " + no_flow(
                observer, observer.last.steps.get(node_id) if observer.last else None
            )
        call = (
            f"{data['name']}.retain_grad()" if _is_variable(data["name"]) else "retain_grad() on it"
        )
        return (
            f"Not a leaf, so torch drops the gradient of {name} once it has been used: "
            f"call {call} before backward() to keep it in .grad."
        )
    if tensor is not None and not tensor.requires_grad:
        return f"requires_grad of {name} has been turned off since the graph was recorded."
    if observer.last is None:
        return _NOTHING_SEEN
    step = observer.last.steps.get(node_id)
    if step is None:
        if _was_handed_back(graph, node_id, observer):
            return (
                f"The last backward pass computed a gradient for {name} but did not accumulate it: "
                "torch.autograd.grad returns gradients and leaves .grad alone."
            )
        return f"The last backward pass did not reach {name}, so nothing was added to its .grad."
    if step.grad_outputs and step.grad_outputs[0] is None:
        return f"The gradient that arrived at {name} was None, so torch added nothing to its .grad."
    return (
        f"The last backward pass did add a gradient to {name}.grad, but it has been cleared since, "
        "for example by zero_grad()."
    )


def no_flow(observer: Observer, step: Step | None) -> str:
    """Why no gradient is known to have flowed into a node."""
    if observer.last is None:
        return _NOTHING_SEEN
    if step is None and observer.last.state == "stopped":
        return "The last backward pass stopped with an error before this node ran."
    return "The last backward pass did not reach this node."


def nothing_passed_on(data: dict[str, Any], observer: Observer, step: Step | None) -> str:
    """Why a node passed no gradient on."""
    if data["kind"] == "leaf":
        return "A leaf is where gradients end: it adds them to .grad and passes nothing on."
    if step is not None:
        return "None of this node's inputs requires grad, so it passed nothing on."
    return no_flow(observer, step)


def _was_handed_back(graph: nx.MultiDiGraph, node_id: int, observer: Observer) -> bool:
    """Whether a consumer passed a gradient to a leaf that then did not run."""
    assert observer.last is not None
    for consumer, _, edge in graph.in_edges(node_id, data=True):
        step = observer.last.steps.get(consumer)
        if step is not None and step.grad_inputs[edge["input_nr"]] is not None:
            return True
    return False


def _is_variable(name: str | None) -> bool:
    return name is not None and all(part.isidentifier() for part in name.split("."))


def _listed(words: list[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
