"""Static graphs of torch.export and torch.fx, captured and described."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ..graph.labels import label
from ..lazily import nx
from ..tracing.source_line import SourceLine
from ..types import Program
from .control_flow import enter
from .fx_graph import capture_program, held_by, source_line


@dataclass(frozen=True)
class StaticCapture:
    """A static graph with the data for its details."""

    graph: nx.MultiDiGraph  # the graph from `gradwalk.capture`
    fx_nodes: list[Node]  # the fx nodes; ``fx_nodes[i]`` is node ``i`` of ``graph``
    tensors_held: Mapping[int, torch.Tensor]  # node -> its parameter, buffer or constant
    # Node -> the inner graph, for control flow that is not entered.
    bodies: Mapping[int, GraphModule]
    entered: frozenset[int]  # the control flow calls whose graphs are drawn

    @functools.cached_property
    def drawn(self) -> nx.MultiDiGraph:
        """The graph, followed by a node for each number written into the program."""
        return _with_numbers(self.graph)

    @functools.cached_property
    def modules(self) -> Mapping[str, str]:
        """Namespace -> class name of the modules."""
        return _classes_of_modules(self.fx_nodes, dict(self.graph.nodes(data="namespace")))

    @property
    def made_by(self) -> str:
        """The tool that made it: "torch.export" or "torch.fx"."""
        return str(self.graph.graph["made_by"])

    def source(self, node: int) -> SourceLine | None:
        """Return the user's source line of a node."""
        return source_line(self.fx_nodes[node]) if node < len(self.fx_nodes) else None


def capture_static(program: Program) -> StaticCapture:
    """Capture a static graph for drawing. It keeps the parameters alive, and runs nothing."""
    module = program.graph_module if isinstance(program, ExportedProgram) else program
    entered = enter(program.graph, module)
    graph, nodes = capture_program(program, entered)
    tensors: dict[int, torch.Tensor] = {}
    bodies: dict[int, GraphModule] = {}
    for i, data in graph.nodes(data=True):
        if data["op"] in ("parameter", "buffer", "constant", "subgraph"):
            own = nodes[i].graph.owning_module if nodes[i].graph is not program.graph else program
            held = held_by(own, str(data["name"]))
            if isinstance(held, torch.Tensor):
                tensors[i] = held
            elif isinstance(held, GraphModule):
                bodies[i] = held
    calls = frozenset(i for i, node in enumerate(nodes) if node in entered.bodies)
    return StaticCapture(graph, nodes, tensors, bodies, calls)


def _classes_of_modules(nodes: list[Node], spaces: Mapping[int, str | None]) -> dict[str, str]:
    """Map namespaces to the class names of modules: {"encoder/0": "Linear"}."""
    found: dict[str, str] = {}
    for i, node in enumerate(nodes):
        own = spaces[i] or ""
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            name = kind.__qualname__ if isinstance(kind, type) else str(kind)
            plain = path.replace(".", "/")
            if plain:
                found[plain] = name.rpartition(".")[2]
            if plain and own.endswith(f"/{plain}"):  # in the box of a body
                found[own] = name.rpartition(".")[2]
    return found


def _with_numbers(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Return a copy with a node for each number that replaces a tensor."""
    drawn = graph.copy()
    for _, target, edge in drawn.edges(data=True):
        edge["kind"] = "constant" if drawn.nodes[target]["kind"] == "constant" else "gradient"
    for node, data in graph.nodes(data=True):
        for number in data["numbers"]:
            made = len(drawn)
            drawn.add_node(made, **_number(number["value"]))
            edge = {key: number[key] for key in ("arg_nr", "argument")}
            drawn.add_edge(node, made, key=edge["arg_nr"], **edge, output_nr=0, kind="constant")
    return drawn


def _number(value: str) -> dict[str, Any]:
    return {
        "kind": "constant",
        "op": "number",
        "name": None,
        "shape": None,
        "dtype": None,
        "device": None,
        "requires_grad": None,
        "is_leaf": False,
        "sequence_nr": None,
        "outputs": [],
        "no_grad_inputs": [],
        "namespace": None,
        "source": None,
        "value": value,
    }


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
    """Describe a node in a sentence or two."""
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
        (producer,) = set(captured.graph.successors(node)) or {node}
        return f"Takes one part of what {label(captured.graph.nodes[producer])} gave."
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
