"""Describe the nodes of a static graph."""

from __future__ import annotations

from typing import Any

from ..graph.labels import label
from .capture_static import StaticCapture


def how_to_run(made_by: str) -> str:
    """Return code that runs a static graph.

    Args:
        made_by: "torch.export" or "torch.fx".
    """
    return "program.module()(x)" if made_by == "torch.export" else "program(x)"


def no_backward(made_by: str) -> str:
    """Say why the graph has no backward, and how to get one.

    Args:
        made_by: "torch.export" or "torch.fx".
    """
    return (
        "A static graph is the program written down before it runs: it holds no values to "
        "differentiate, so it has no backward. Run it and pass what it returns, for example "
        f"GraphWidget({how_to_run(made_by)})."
    )


_MOST_NAMED = 6  # calls of a subgraph, in one sentence

_RUNS = {
    "cond": "Runs one of two graphs, each in its box. The predicate chooses in each call.",
    "while_loop": (
        "Runs its body while its condition returns True. Each is in its box, with the inputs of "
        "the first turn; in later turns its inputs are the outputs of the body."
    ),
    "map_impl": (
        "Runs the graph in its box once for each row along the first dimension of its inputs, "
        "and stacks the results. The box shows the shapes of one row."
    ),
    "wrap_with_set_grad_enabled": (
        "Runs the graph in its box with gradients switched on or off, as torch.no_grad() does."
    ),
}


def about(captured: StaticCapture, node: int) -> str:
    """Describe a node in a sentence or two.

    Args:
        captured: The static graph.
        node: The node of ``captured.drawn``.
    """
    data = captured.drawn.nodes[node]
    if data["op"] == "number" and data["kind"] == "constant":
        return f"The number {data['value']}, written into the program: the same in every call."
    sentence = _about_call(captured, node) if data["kind"] == "op" else _about_input(captured, node)
    return f"{sentence}{_unused(captured, node)}"


def _about_input(captured: StaticCapture, node: int) -> str:
    data = captured.graph.nodes[node]
    name, op = data["name"], data["op"]
    if op == "placeholder":
        return (
            f"{name} is an input of the program: a tensor that each call brings along. The graph "
            "was made without its values."
        )
    if op == "subgraph":
        return _about_subgraph(captured, node)
    called = f" The graph calls it {data['fx_name']}." if data["fx_name"] != name else ""
    if op == "parameter":
        return (
            f"{name} is a parameter: a tensor of the module that an optimizer may change.{called}"
        )
    if op == "buffer":
        changed = f"updated {name}" in captured.graph.graph["root_names"]
        more = " Each call returns a new value for it." if changed else ""
        return (
            f"{name} is a buffer: a tensor that the module keeps, and that no optimizer changes."
            f"{more}{called}"
        )
    return (
        f"{name} is a constant: a tensor that was there when the program was written down, and "
        f"that is part of it now.{called}"
    )


def _about_subgraph(captured: StaticCapture, node: int) -> str:
    users = [captured.graph.nodes[user]["op"] for user in captured.graph.predecessors(node)]
    by = f" that {users[0]} may run" if users else ""
    body = captured.bodies.get(node)
    if body is None:
        return f"A graph of its own{by}."
    calls = [str(each.target) for each in body.graph.nodes if each.op.startswith("call_")]
    if not calls:
        return f"A graph of its own{by}; it calls nothing."
    more = f" and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    return f"A graph of its own{by}. It calls {', '.join(calls[:_MOST_NAMED])}{more}."


def _about_call(captured: StaticCapture, node: int) -> str:
    data: dict[str, Any] = captured.graph.nodes[node]
    fx_node = captured.fx_nodes[node]
    if node in captured.entered:
        return _RUNS.get(data["op"], f"A call of {data['op']}, which runs the graph in its box.")
    if fx_node.op == "call_module":
        return (
            f"A call of the module {data['name']}, of class {data['op']}. torch.fx does not look "
            "inside of torch's own modules."
        )
    if data["op"] == "getitem":
        (taken,) = set(captured.graph.successors(node)) or {node}
        return f"Takes one part of what {label(captured.graph.nodes[taken])} gave."
    if fx_node.op == "call_method":
        return f"A call of the method {data['op']}() of its first input."
    return f"A call of {data['op']}, as {captured.made_by} wrote it down."


def _unused(captured: StaticCapture, node: int) -> str:
    graph = captured.graph
    is_output = any(root == node for root, _ in graph.graph["roots"])
    if is_output or graph.in_degree(node):
        return ""
    if graph.nodes[node]["kind"] == "op":
        return " Nothing uses its output: it checks something, or changes a tensor in place."
    return " Nothing in the program uses it."
