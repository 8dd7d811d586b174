"""Capture a static graph with the data that a widget needs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ..graph.outputs import Program
from ..tracing.source_line import SourceLine
from .control_flow import enter
from .fx_graph import capture_program, held_by
from .fx_node import source_line

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class StaticCapture:
    """A static graph with the data for its details.

    Attributes:
        graph: The graph from `gradwalk.capture`.
        fx_nodes: The fx nodes; ``fx_nodes[i]`` is node ``i`` of ``graph``.
        tensors_held: Node -> its parameter, buffer or constant.
        bodies: Node -> the inner graph, for control flow that is not entered.
        entered: The control flow calls whose graphs are drawn.
    """

    graph: nx.MultiDiGraph
    fx_nodes: list[Node]
    tensors_held: Mapping[int, torch.Tensor]
    bodies: Mapping[int, GraphModule]
    entered: frozenset[int]

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
    """Capture a static graph for drawing.

    Args:
        program: A result of ``torch.export.export`` or ``torch.fx.symbolic_trace``.

    Returns:
        The graph. It keeps the program's parameters alive, and runs nothing.
    """
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
            edge = {key: number[key] for key in ("input_nr", "argument")}
            drawn.add_edge(node, made, key=edge["input_nr"], **edge, output_nr=0, kind="constant")
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
