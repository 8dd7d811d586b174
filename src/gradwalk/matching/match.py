"""Match the nodes of two captured graphs.

The most certain evidence comes first, and matched nodes stay matched. Shapes that only one graph
has are ignored, so a different batch size does not matter:

1. *Names*: nodes whose name, operation and shape are unique in either graph, and the only user of
   a named leaf.
2. *The same below*: equal subgraphs down to their leaves, used through one operation only, and
   unique in either graph, the largest first.
3. *The same above*: from the roots down, nodes that only matched nodes use, at the same arguments.
4. *The same order*: the remaining operations, in forward order, are aligned like the lines of two
   texts. Operations of the same class score, and more with the same shape, with matched neighbours
   at the same arguments, or right after a matched producer. So blocks stay whole.

Last, pairs that share only the operation are dropped, pairs that make the merged graph cyclic are
dropped, and remaining leaves follow the operations that use them. An edit changes the subgraph
below some nodes and above others, rarely both. So steps 2 and 3 settle most nodes, and the
alignment, whose time grows with the product of the lengths, only runs between edits.

A static graph names the call of an operation, "aten.conv2d.default", "conv2d" or the module
"Conv2d", where an autograd graph names the derivative, "ConvolutionBackward0". `family` finds the
function of each in torch's own list, and in a table of names that torch gives one function.
"""

from __future__ import annotations

import functools
import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from ..lazily import nx
from ..torch_api.signatures import signature
from .alignment import align, integers, longest_rising, uncrossed

_DECORATION = re.compile(
    r"^native|legit(functional|notraining)?$|withindices$|forward$|(?<=[a-z])[123]d$"
)
_SYNONYMS = {
    "convolution": ("conv",),
    "matmul": ("linear", "addmm", "mm", "bmm", "baddbmm", "mv", "dot"),
    "view": ("flatten", "reshape", "reshapealias", "unflatten", "unsafeview"),
    "transpose": ("permute", "t", "numpyt", "movedim"),
    "div": ("truediv",),
    "nllloss": ("crossentropyloss", "crossentropy"),
    "tocopy": ("to",),
    "attention": (
        "scaleddotproductattention",
        "scaleddotproductflashattentionforcpu",
        "scaleddotproductflashattention",
        "scaleddotproductefficientattention",
    ),
}
_FAMILY = {word: family for family, words in _SYNONYMS.items() for word in words}

_ROLES = {
    "addmm": {"self": "bias", "mat1": "input", "mat2": "weight"},
    "baddbmm": {"self": "bias", "batch1": "input", "batch2": "weight"},
    "mm": {"mat2": "weight"},
    "bmm": {"mat2": "weight"},
    "matmul": {"other": "weight"},
}
_SAME_ROLE = {"self": "input", "a": "input", "b": "other"}


def in_shared_words(
    left: nx.MultiDiGraph, right: nx.MultiDiGraph
) -> tuple[nx.MultiDiGraph, nx.MultiDiGraph]:
    """Return copies of two graphs with comparable attributes, if one of them is static."""
    if not any(graph.graph.get("static") for graph in (left, right)):
        return left, right
    numbers: dict[str, int] = {}
    found = []
    for graph, other in ((left, right), (right, left)):
        translated = graph.copy()
        ours, theirs = ({n for _, n in each.nodes(data="name") if n} for each in (graph, other))
        called = without_root(ours, theirs)
        for _, data in translated.nodes(data=True):
            kind, operation = family(data)
            name = None if kind == "op" else called.get(data["name"])
            data.update(kind=kind, op=operation, name=name)
        for source, _, edge in translated.edges(data=True):
            word = role(graph.nodes[source]["op"], edge["argument"], edge["arg_nr"])
            edge["arg_nr"] = numbers.setdefault(word, len(numbers))
        found.append(translated)
    return found[0], found[1]


def family(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return a key equal for nodes that may match, if a graph is static: ("op", "convolution")."""
    if data["kind"] == "op":
        return "op", _function(data["op"])
    return ("end" if data["kind"] in ("leaf", "constant") else data["kind"]), ""


@functools.cache
def _function(op: str) -> str:
    word = called(op).lower().replace("_", "")
    while (plain := _DECORATION.sub("", word)) not in (word, ""):
        word = plain
    return _FAMILY.get(word, word)


def called(op: str) -> str:
    """Return torch's name of the function of an operation: "addmm", "max_pool2d"."""
    known = signature(op)
    if known is not None:
        return known.forward.partition("(")[0].partition(".")[0]
    return op.split(".")[1] if op.startswith("aten.") else op


def role(op: str, argument: str | None, arg_nr: int | None) -> str:
    """Return the role of an input, such as "weight", equal for both kinds of graph."""
    if argument is None:
        return str(arg_nr)
    known = _ROLES.get(called(op), {})
    return known.get(argument, _SAME_ROLE.get(argument, argument))


def without_root(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Map names to the other graph's: "net.conv1.weight" of a program to "conv1.weight".

    The first part that most often leads to a known name is removed from all.
    """
    given, known = list(names), set(known)
    split = {name: name.partition(".") for name in given if name not in known}
    roots = Counter(root for root, _, rest in split.values() if rest in known)
    best = max(roots, key=lambda root: roots[root], default=None)
    return {
        name: split[name][2] if name in split and split[name][0] == best else name for name in given
    }


@dataclass(frozen=True)
class Side:
    """One graph prepared for matching; all dictionaries are by node."""

    operation: dict[int, tuple[str, str]]  # kind and class name, which must be equal
    shape: dict[int, Hashable]  # shape of the first output, if the other graph has it, too
    name: dict[int, str | None]  # the user's name
    # Arg_nr -> (producer, output_nr); unknown positions are negative.
    inputs: dict[int, dict[int, tuple[int, int]]]
    users: dict[int, list[tuple[int, int, int]]]  # the inverse: (user, arg_nr, output_nr)
    # (position among the roots, output_nr); empty for most nodes.
    roots: dict[int, list[tuple[int, int]]]
    order: list[int]  # all nodes, producers first: leaves, then operations as forward ran them

    def is_end(self, node: int) -> bool:
        """Return whether a node is a leaf or another node without inputs except an operation."""
        return self.operation[node][0] != "op" and not self.inputs[node]

    def producers(self) -> dict[int, list[int]]:
        """Return the producers of each node."""
        return {node: [child for child, _ in self.inputs[node].values()] for node in self.order}

    def neighbours(self, node: int, pair_of: Mapping[int, int]) -> set[tuple[int, int, int]]:
        """Return a node's matched neighbours: (pair, arg_nr, 0 for a producer, 1 for a user)."""
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
        nr = data["arg_nr"]
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


_MOST_CELLS = 30_000_000
"""The largest alignment table: it takes about a second, and a byte per cell."""


@dataclass(frozen=True)
class Matching:
    """The matched nodes of two graphs."""

    pairs: dict[int, int]  # node of the left graph -> the same node of the right graph
    only_left: list[int]  # nodes of the left graph without a partner, ascending
    only_right: list[int]  # nodes of the right graph without a partner, ascending


def match(left: nx.MultiDiGraph, right: nx.MultiDiGraph) -> Matching:
    """Match the nodes of two graphs by operation, argument position, names and shapes.

    Only nodes of the same ``kind`` and ``op`` are matched, each at most once; in a static graph,
    nodes of the same `gradwalk.matching.match.family`. The two graphs, merged at matched nodes,
    have no cycle. ``match(b, a)`` is the inverse of ``match(a, b)``, and a graph matched with
    itself gives the identity.
    """
    a, b = map(read_side, in_shared_words(left, right))
    if a.rank() <= b.rank():  # a fixed order makes the result symmetric
        found = _pair(a, b)
    else:
        found = {there: here for here, there in _pair(b, a).items()}
    matched = set(found.values())
    return Matching(
        pairs=dict(sorted(found.items())),
        only_left=sorted(node for node in left if node not in found),
        only_right=sorted(node for node in right if node not in matched),
    )


def _pair(left: Side, right: Side) -> dict[int, int]:
    # A shape that the other graph lacks, as with another batch size, does not separate nodes.
    known = set(left.shape.values()) & set(right.shape.values())
    for side in (left, right):
        side.shape.update((node, None) for node, shape in side.shape.items() if shape not in known)
    pairs = Pairs(left, right)
    _same_name(pairs)
    _same_below(pairs)
    _same_above(pairs)
    _same_order(pairs)
    kept = uncrossed(left.producers(), right.producers(), _likely(pairs))
    pairs = Pairs(left, right, kept, {other: node for node, other in kept.items()})
    _leaves(pairs)
    return pairs.right_of


def _same_name(pairs: Pairs) -> None:
    def unique(side: Side) -> dict[Hashable, int]:
        keys = {
            node: (side.operation[node], side.shape[node], name)
            for node, name in side.name.items()
            if name
        }
        count = Counter(keys.values())
        return {key: node for node, key in keys.items() if count[key] == 1}

    there = unique(pairs.right)
    for key, node in unique(pairs.left).items():
        if key in there:
            pairs.add(node, there[key])
    for _ in range(2):  # a weight's transpose, and its user
        for pair in list(pairs.right_of.items()):
            _only_user(pairs, *pair)


def _only_user(pairs: Pairs, node: int, other: int) -> None:
    """Match the only users of two nodes that are made of named leaves alone."""
    left, right = pairs.left, pairs.right
    if len(left.users[node]) == len(right.users[other]) == 1 and len(left.inputs[node]) <= 1:
        (user, nr, out), (there, *place) = left.users[node][0], right.users[other][0]
        if (
            [nr, out] == place
            and pairs.free(user, there)
            and left.shape[user] == right.shape[there]
        ):
            pairs.add(user, there)


def _same_below(pairs: Pairs) -> None:
    numbers: dict[Hashable, int] = {}
    below_left = _below(pairs.left, pairs.right_of, numbers)
    below_right = _below(pairs.right, {other: other for other in pairs.left_of}, numbers)
    count_left, count_right = Counter(below_left.values()), Counter(below_right.values())
    closed_left, closed_right = _closed(pairs.left), _closed(pairs.right)
    there = {below_right[node]: node for node in closed_right}
    for top in reversed(pairs.left.order):
        number = below_left[top]
        if top not in closed_left or (count_left[number], count_right[number]) != (1, 1):
            continue
        if number not in there:
            continue
        stack = [(top, there[number])]
        while stack:
            node, other = stack.pop()
            if pairs.free(node, other):
                pairs.add(node, other)
                stack += pairs.shared_inputs(node, other)


def _below(side: Side, named: dict[int, int], numbers: dict[Hashable, int]) -> dict[int, int]:
    """A number for each node, equal for equal subgraphs; ``named`` are matched by name."""
    found: dict[int, int] = {}
    for node in side.order:
        inputs = sorted((nr, found[child], out) for nr, (child, out) in side.inputs[node].items())
        key = (side.operation[node], side.shape[node], named.get(node), tuple(inputs))
        found[node] = numbers.setdefault(key, len(numbers))
    return found


def _closed(side: Side) -> set[int]:
    """Return the operations that are the only way to the operations below them.

    A block is such a subgraph. The first operations of the next block are not, because a residual
    connection bypasses them; they also look like those of other blocks.
    """
    # In a static graph, a node that nothing uses is a start, too.
    starts = [node for node in side.order if side.roots[node] or not side.users[node]]
    graph = nx.DiGraph((-1, node) for node in starts)
    graph.add_edges_from((user, node) for node in side.order for user, _, _ in side.users[node])
    above = nx.immediate_dominators(graph, -1)
    depth = {-1: 0}
    for node in reversed(side.order):
        depth[node] = depth[above[node]] + 1
    highest: dict[int, int] = {}  # the smallest depth from which a node below is used
    for node in side.order:
        children = [child for child, _ in side.inputs[node].values() if not side.is_end(child)]
        uses = [min(depth[above[child]], highest.get(child, len(depth))) for child in children]
        if uses:
            highest[node] = min(uses)
    return {node for node, use in highest.items() if use >= depth[node]}


def _same_above(pairs: Pairs) -> None:
    left, right = pairs.left, pairs.right

    def key(side: Side, node: int, users: list[tuple[int | None, int, int]]) -> Hashable:
        roots = tuple(side.roots[node])
        return side.operation[node], side.shape[node], frozenset(users), roots

    there = {key(right, node, [*right.users[node]]): node for node in right.order}
    for node in reversed(left.order):
        users = [(pairs.right_of.get(user), nr, out) for user, nr, out in left.users[node]]
        other = there.get(key(left, node, users))
        if other is not None and pairs.free(node, other):
            pairs.add(node, other)


def _same_order(pairs: Pairs) -> None:
    lefts = [node for node in pairs.left.order if not pairs.left.is_end(node)]
    rights = [node for node in pairs.right.order if not pairs.right.is_end(node)]
    place = {node: i for i, node in enumerate(rights)}
    fixed = [
        (i, place[pairs.right_of[node]]) for i, node in enumerate(lefts) if node in pairs.right_of
    ]
    fixed = [fixed[i] for i in longest_rising([j for _, j in fixed])]
    for (i, j), (next_i, next_j) in pairwise([(-1, -1), *fixed, (len(lefts), len(rights))]):
        some_left = [node for node in lefts[i + 1 : next_i] if node not in pairs.right_of]
        some_right = [other for other in rights[j + 1 : next_j] if other not in pairs.left_of]
        if len(some_left) * len(some_right) > _MOST_CELLS:
            continue
        here = {pairs.left.operation[node] for node in some_left}
        if any(pairs.right.operation[other] in here for other in some_right):
            before = (lefts[i], rights[j]) if i >= 0 else (-1, -1)
            chosen = align(
                _scores(pairs, some_left, some_right),
                _following(pairs.left, some_left, before[0]),
                _following(pairs.right, some_right, before[1]),
            )
            for a, b in chosen:
                pairs.add(some_left[a], some_right[b])


def _following(side: Side, nodes: list[int], before: int) -> list[int]:
    """Return the argument at which each node uses the one before it in the list, or -1."""
    uses = [{child: nr for nr, (child, _) in side.inputs[node].items()} for node in nodes]
    return [used.get(each, -1) for each, used in zip([before, *nodes], uses, strict=False)]


def _scores(pairs: Pairs, lefts: list[int], rights: list[int]) -> Iterator[torch.Tensor]:
    """Yield, for each left node, the score of each right node; 0 for another operation."""
    left, right = pairs.left, pairs.right
    numbers: dict[Hashable, int] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    operations = integers([number(right.operation[other]) for other in rights])
    shapes = integers([number(right.shape[other]) for other in rights])
    beside: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for place, other in enumerate(rights):
        for neighbour in right.neighbours(other, pairs.left_of):
            beside[neighbour].append(place)
    places = {neighbour: integers(found) for neighbour, found in beside.items()}
    itself = {node: node for node in pairs.right_of}
    for node in lefts:
        row = 4 + 8 * (shapes == number(left.shape[node])).int()
        for neighbour in left.neighbours(node, itself):
            if neighbour in places:
                row[places[neighbour]] += 8
        yield row * (operations == number(left.operation[node]))


def _likely(pairs: Pairs) -> dict[int, int]:
    """Return the pairs with more evidence than the class of the operation."""
    left, right, itself = pairs.left, pairs.right, {node: node for node in pairs.right_of}
    return {
        node: other
        for node, other in pairs.right_of.items()
        if left.shape[node] == right.shape[other]
        or set(left.roots[node]) & set(right.roots[other])
        or left.neighbours(node, itself) & right.neighbours(other, pairs.left_of)
    }


def _leaves(pairs: Pairs) -> None:
    left, right = pairs.left, pairs.right
    votes: Counter[tuple[int, int]] = Counter()
    for node, other in pairs.right_of.items():
        for child, there in pairs.shared_inputs(node, other):
            if left.is_end(child) and pairs.free(child, there):
                votes[child, there] += 1

    def rank(pair: tuple[int, int]) -> tuple[bool, bool, int, tuple[int, int]]:
        renamed = left.name[pair[0]] != right.name[pair[1]]
        reshaped = left.shape[pair[0]] != right.shape[pair[1]]
        return renamed, reshaped, -votes[pair], pair

    named = {right.name[other]: other for other in right.order if right.is_end(other)}
    by_name = [
        (node, named[left.name[node]])
        for node in left.order
        if left.is_end(node) and left.name[node] and left.name[node] in named
    ]
    for node, other in sorted(votes, key=rank) + by_name:
        if pairs.free(node, other):
            pairs.add(node, other)


@dataclass(frozen=True)
class Counterpart:
    """The compiled code of one operation."""

    calls: tuple[int, ...] = ()  # the calls of its backward, in the order in which they run
    main: int | None = None  # the first call that uses the gradient; None without calls
    again: tuple[int, ...] = ()  # calls of its forward that run again
    # Whether the compiler removed it: its incoming gradient passes on unchanged. If it is False and
    # ``calls`` is empty, no counterpart was found.
    is_dropped: bool = False


@dataclass(frozen=True)
class Counterparts:
    """The counterparts of a graph's operations in a graph whose compiled code is open."""

    # Operation of the first graph -> its counterpart, in forward order. Operations that both graphs
    # have are left out.
    of: dict[int, Counterpart]
    # Calls that add up the gradients of a tensor that is used several times, which the engine does
    # in the first graph.
    adding: list[int]
    others: list[int]  # calls without an operation, including forward calls that run again
