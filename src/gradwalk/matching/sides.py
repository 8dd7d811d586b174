"""The data of two graphs for matching, and the pairs so far."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import networkx as nx


@dataclass(frozen=True)
class Side:
    """One graph prepared for matching; all dictionaries are by node.

    Attributes:
        operation: Kind and class name, which must be equal.
        shape: Shape of the first output, if the other graph has it, too.
        name: The user's name.
        inputs: input_nr -> (producer, output_nr); unknown input numbers are negative.
        users: The inverse: (user, input_nr, output_nr).
        roots: (position among the roots, output_nr); empty for most nodes.
        order: All nodes, producers first: leaves, then operations as forward ran them.
    """

    operation: dict[int, tuple[str, str]]
    shape: dict[int, Hashable]
    name: dict[int, str | None]
    inputs: dict[int, dict[int, tuple[int, int]]]
    users: dict[int, list[tuple[int, int, int]]]
    roots: dict[int, list[tuple[int, int]]]
    order: list[int]

    def is_end(self, node: int) -> bool:
        """Return whether a node is a leaf or another node without inputs except an operation."""
        return self.operation[node][0] != "op" and not self.inputs[node]

    def producers(self) -> dict[int, list[int]]:
        """Return the producers of each node."""
        return {node: [child for child, _ in self.inputs[node].values()] for node in self.order}

    def neighbours(self, node: int, pair_of: Mapping[int, int]) -> set[tuple[int, int, int]]:
        """Return a node's matched neighbours: (pair, input_nr, 0 for a producer, 1 for a user)."""
        inputs = self.inputs[node].items()
        producers = {(pair_of[n], nr, 0) for nr, (n, _) in inputs if n in pair_of}
        return producers | {(pair_of[n], nr, 1) for n, nr, _ in self.users[node] if n in pair_of}

    def rank(self) -> tuple[int, str]:
        """Return a sort key that differs for graphs that matching can distinguish."""
        nodes = [
            (node, self.operation[node], self.shape[node], self.name[node], self.roots[node])
            for node in self.order
        ]
        return len(nodes), repr((nodes, [sorted(self.inputs[node].items()) for node in self.order]))


@dataclass
class Pairs:
    """The matched nodes; pairs are only added."""

    left: Side
    right: Side
    right_of: dict[int, int] = field(default_factory=dict)
    left_of: dict[int, int] = field(default_factory=dict)

    def free(self, node: int, other: int) -> bool:
        """Return whether both nodes are unmatched and of the same class."""
        return (
            node not in self.right_of
            and other not in self.left_of
            and self.left.operation[node] == self.right.operation[other]
        )

    def add(self, node: int, other: int) -> None:
        """Match two nodes."""
        self.right_of[node], self.left_of[other] = other, node

    def shared_inputs(self, node: int, other: int) -> list[tuple[int, int]]:
        """Return the pairs of inputs of two matched nodes at the same argument."""
        there = self.right.inputs[other]
        inputs = self.left.inputs[node].items()
        return [(child, there[nr][0]) for nr, (child, _) in inputs if nr in there]


def read_side(graph: nx.MultiDiGraph) -> Side:
    """Prepare a graph for matching."""
    inputs: dict[int, dict[int, tuple[int, int]]] = {node: {} for node in graph}
    users: dict[int, list[tuple[int, int, int]]] = {node: [] for node in graph}
    roots: dict[int, list[tuple[int, int]]] = {node: [] for node in graph}
    for source, target, data in graph.edges(data=True):
        nr = data["input_nr"]
        if nr is None:  # the operand number of a constant is unknown
            nr = -1 - len(inputs[source])
        inputs[source][nr] = (target, data["output_nr"])
        users[target].append((source, nr, data["output_nr"]))
    for position, (node, output_nr) in enumerate(graph.graph["roots"]):
        roots[node].append((position, output_nr))
    nodes = graph.nodes
    return Side(
        operation={node: (nodes[node]["kind"], nodes[node]["op"]) for node in graph},
        shape={node: nodes[node]["shape"] for node in graph},
        name={node: nodes[node]["name"] for node in graph},
        inputs=inputs,
        users=users,
        roots=roots,
        order=_forward_order(graph),
    )


def _forward_order(graph: nx.MultiDiGraph) -> list[int]:
    """Return all nodes, producers first: leaves, then operations in forward order."""

    def ready(node: int) -> tuple[bool, int, int]:
        data = graph.nodes[node]
        return data["kind"] == "op", data["sequence_nr"] or 0, -node

    waiting = {node: graph.out_degree(node) for node in graph}
    heap = [(ready(node), node) for node, inputs in waiting.items() if inputs == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        node = heapq.heappop(heap)[1]
        order.append(node)
        for user, _ in graph.in_edges(node):
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(heap, (ready(user), user))
    return order
