"""Findings about tensors to learn that no module registers: in lists, attributes, buffers."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..english import list_some, plural
from ..torch_api.nodes import leaf_tensor
from .context import CheckContext
from .finding import Finding

_MOST_NODES = 100


def unregistered_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Find leaves of the graph that `parameters()` of the program's modules leaves out.

    Args:
        evidence: The evidence.
    """
    yield from _unregistered(evidence)
    yield from _plain_attributes(evidence)
    yield from _no_leaf(evidence)


def _unregistered(evidence: CheckContext) -> Iterator[Finding]:
    """Parameters that a module uses and does not have: made in forward, or in a Python list."""
    graph, annotations = evidence.captured.graph, evidence.captured.annotations
    known = {key for parameters in evidence.called.parameters.values() for key in parameters}
    owned: dict[int, set[int]] = {}
    lost: list[int] = []
    root = None
    for key, node in evidence.leaves.items():
        leaf = leaf_tensor(evidence.captured.nodes[node])
        if not isinstance(leaf, torch.nn.Parameter) or key in known or key in evidence.called.known:
            continue
        if node in evidence.reduced:
            continue  # FSDP2 gathered it from a parameter that is registered
        for user in graph.pred[node]:
            seen = annotations.get(user)
            module = seen.outermost() if seen is not None and seen.outermost is not None else None
            if module is None:
                continue
            if id(module) not in owned:
                owned[id(module)] = {id(parameter) for parameter in module.parameters()}
            if key not in owned[id(module)]:
                lost.append(node)
                root = module
                break
        else:
            if not annotations and evidence.models and not evidence.is_explicit:
                lost.append(node)
    if not lost:
        return
    shapes = [str(tuple(graph.nodes[node]["shape"] or ())) for node in lost]
    users = [next(iter(graph.pred[node])) for node in lost if graph.pred[node]]
    first = f" First use: {evidence.place(users[0])}." if users else ""
    whose = type(root).__name__ if root is not None else "No module that a variable holds"
    does = "does not register" if root is not None else "registers"
    yield Finding(
        "unregistered",
        "warning",
        lost[:_MOST_NODES],
        f"{whose} {does} {plural(len(lost), 'Parameter')} that this graph uses, of shape "
        f"{list_some(shapes)}, so an optimizer made from parameters() leaves "
        f"{'it' if len(lost) == 1 else 'them'} out. Use nn.ModuleList or nn.ParameterList for a "
        f"Python list, and make Parameters in __init__.{first}",
        {"parameters": len(lost)},
    )


def _plain_attributes(evidence: CheckContext) -> Iterator[Finding]:
    """Leaves that a module holds as plain tensors, and does not know as parameters."""
    for reference, _, path in evidence.called.places.values():
        module = reference()
        if module is None:
            continue
        yield from _buffers(evidence, module, path)
        for name, value in list(vars(module).items()):
            if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
                continue
            if value.requires_grad and not value.is_leaf:
                yield from _computed_attribute(evidence, f"{path}.{name}" if path else name, value)
                continue
            node = evidence.leaves.get(id(value))
            if node is None or id(value) in evidence.held or evidence.called.name_of(value):
                continue
            whole = f"{path}.{name}" if path else name
            yield Finding(
                "unregistered",
                "info",
                [node],
                f"{whole} is a tensor that requires grad, but not a Parameter: parameters(), "
                f"state_dict() and to() leave it out. To learn it, write self.{name} = "
                "nn.Parameter(...).",
            )


def _buffers(evidence: CheckContext, module: torch.nn.Module, path: str) -> Iterator[Finding]:
    """Leaves that a module holds as buffers."""
    for name, value in module._buffers.items():
        node = None if value is None else evidence.leaves.get(id(value))
        if node is None or id(value) in evidence.held:
            continue
        yield Finding(
            "unregistered",
            "info",
            [node],
            f"{path}.{name} is a buffer that requires grad: ".lstrip(".")
            + "parameters() leaves it out. To learn it, write "
            f"self.{name} = nn.Parameter(...).",
        )


def _computed_attribute(
    evidence: CheckContext, name: str, value: torch.Tensor
) -> Iterator[Finding]:
    """An attribute of a module that was computed from a leaf which is none of its parameters."""
    node = evidence.loss.node_of(value)
    behind = [] if node is None else list(evidence.captured.graph.succ[node])
    leaf = leaf_tensor(evidence.captured.nodes[behind[0]]) if len(behind) == 1 else None
    if node is None or leaf is None or _is_held(evidence, behind[0], leaf):
        return
    if leaf.shape == value.shape:
        yield Finding(
            "not a leaf",
            "info",
            [node, behind[0]],
            f"{name} is not a leaf: {evidence.place(node)} made it from a leaf "
            "that no variable and no module here holds, and that leaf gets the gradient. "
            f"parameters() leaves {name} out, so an optimizer made from that does not update it: "
            "convert the numbers first, and make the Parameter last.",
        )


def _is_held(evidence: CheckContext, node: int, leaf: torch.Tensor) -> bool:
    """Whether a variable, a module or an optimizer is known to hold a leaf, by now or before."""
    named = evidence.captured.graph.nodes[node]["name"] is not None
    return named or evidence.called.name_of(leaf) is not None or id(leaf) in evidence.held


def _no_leaf(evidence: CheckContext) -> Iterator[Finding]:
    """Variables that were made to be learned, and computed from a leaf that has no name."""
    captured = evidence.captured
    roots = set(captured.roots)
    for place, reference in captured.tensors.items():
        tensor, (node, nr) = reference(), place
        outputs = captured.graph.nodes[node]["outputs"]
        name = outputs[nr]["name"] if nr < len(outputs) else None
        behind = list(captured.graph.succ[node])
        if place in roots or tensor is None or name is None or tensor.retains_grad or behind[1:]:
            continue
        leaf = leaf_tensor(captured.nodes[behind[0]]) if behind else None
        if leaf is None or leaf.shape != tensor.shape:
            continue
        seen = captured.annotations.get(node)
        if isinstance(leaf, torch.nn.Parameter) and seen is not None and seen.module is not None:
            continue  # one of a module that no variable holds
        if _is_held(evidence, behind[0], leaf):
            continue
        yield Finding(
            "not a leaf",
            "info",
            [node, behind[0]],
            f"{name} is not a leaf: {evidence.place(node)} made it from a leaf "
            f"that no variable here holds, so {name}.grad stays None and that leaf gets the "
            f"gradient. If {name} is to be learned, make it whole first and call "
            "requires_grad_() last.",
        )
