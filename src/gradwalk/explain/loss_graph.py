"""The graph of a loss, and questions about tensors in it or outside it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.autograd.graph import Node

from ..backward.failures import FirstZero, first_nan, first_zeros
from ..backward.leaf_grads import inner_leaves
from ..backward.record import Recording
from ..backward.recorded_pass import source_of
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import walk
from ..graph.capture import Capture, capture_nodes
from ..graph.names import Names
from ..graph.outputs import read_outputs, values_in
from ..torch_api.nodes import (
    gradient_edge,
    is_accumulate_grad,
    keeps_tensors,
    leaf_tensor,
    node_class,
)
from ..torch_api.saved_tensors import is_freed
from ..tracing.annotate import Annotated, annotate, watched
from ..tracing.annotations import Use, cuts_of, uses_in, was_watched
from ..tracing.cuts import Cut, Reading
from ..tracing.records import ran_under_watch, reading_lines
from .passes import remedy_for, stopped_node
from .zero_derivatives import Blocking, margins

_MOST_ALIKE = 16  # leaves of one shape


@dataclass(frozen=True)
class LossGraph:
    """The graph of a loss."""

    # The graph with its annotations; None when no part of the loss requires grad.
    captured: Annotated | None
    without_grad: tuple[torch.Tensor, ...]  # the parts of the loss that do not require grad
    name: str  # the name of the loss in a sentence
    # ``id`` of a parameter that FSDP2 shards -> that of its gathered leaf.
    gathered: Mapping[int, int] = field(default_factory=dict)
    run: RecordedRun | None = None  # the recorded backward pass, if one has ended

    @property
    def is_leaf(self) -> bool:
        """Whether the loss is a leaf, so that no operation leads to it."""
        return self.captured is not None and not self.captured.operations

    @property
    def is_watched(self) -> bool:
        """Whether `watch` saw the forward pass, or a part of it."""
        captured = self.captured
        if captured and (captured.annotations or self.cuts or ran_under_watch(captured)):
            return True
        leaves = map(leaf_tensor, self.captured.nodes) if self.captured is not None else ()
        return any(was_watched(t) for t in (*self.without_grad, *leaves) if t is not None)

    def node_of(self, tensor: torch.Tensor) -> int | None:
        """Return the node that made a tensor or accumulates into it; None if there is none."""
        if self.captured is None:
            return None
        if tensor.is_leaf:  # also one that needs no grad now, but did when the graph was recorded
            return self._leaves.get(self.gathered.get(id(tensor), id(tensor)))
        return self._ids.get(gradient_edge(tensor)[0])

    def cuts_from(self, tensor: torch.Tensor) -> list[Cut]:
        """List the cuts before a tensor, each cause once; what reconnects it comes first."""
        found = [cut for group in self._behind if (cut := group.cut_of(tensor)) is not None]
        first = {cut.cause for chain in self.reconnecting(tensor)[:1] for cut in chain}
        return sorted(found, key=lambda cut: cut.cause not in first)

    def reconnecting(self, tensor: torch.Tensor) -> list[list[Cut]]:
        """The smallest sets of cuts of which each, once removed, lets a gradient reach a tensor."""
        chains = [(cut, group) for group in self._behind if (cut := group.ends_at(tensor))]
        found: list[list[Cut]] = []
        for cut, group in chains:
            chain, above = [cut], group.via
            while above is not None:
                chain.append(above.cuts[0])
                above = above.via
            found.append(chain)
        least = min(map(_size, found), default=0)
        return [chain for chain in found if _size(chain) == least]

    def readings_of(self, tensor: torch.Tensor) -> list[Reading]:
        """The lines that read values computed from a tensor out of torch, the latest last."""
        return [reading for reading, behind in self._readings if id(tensor) in behind]

    @functools.cached_property
    def sees_all(self) -> bool:
        """Whether `watch` saw every operation of the graph, and all that led to its constants."""
        if self.captured is None or not all(cut.complete for cut in self.cuts):
            return False
        annotations, graph = self.captured.annotations, self.captured.graph
        return self.unseen_leaf is None and all(
            node in annotations
            and all(c.origin is None or c.origin.complete for c in annotations[node].constants)
            for node, kind in graph.nodes(data="kind")
            if kind == "op"
        )

    @functools.cached_property
    def holds_derivatives(self) -> bool:
        """Whether derivatives went into the loss."""
        if self.captured is None:
            return False
        ops = self.captured.graph.nodes(data="op")
        return bool(self.captured.derivatives) or any("BackwardBackward" in op for _, op in ops)

    def taken_as_constant(self, tensor: torch.Tensor) -> int | None:
        """Return the operation that took a tensor while it needed no grad; None if none did."""
        return self._constants.get(id(tensor))

    def leaves_like(self, tensor: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
        """The first other leaves of a tensor's shape, dtype and device, with their nodes."""
        if self.captured is None:
            return []
        alike = self._by_shape.get((tuple(tensor.shape), tensor.dtype, tensor.device), ())
        leaves = ((node, leaf_tensor(self.captured.nodes[node])) for node in alike[:_MOST_ALIKE])
        return [(node, leaf) for node, leaf in leaves if leaf is not None and leaf is not tensor]

    @functools.cached_property
    def unseen_leaf(self) -> int | None:
        """A leaf without name, outside of modules, that was not seen being made; None for none."""
        for node in self._leaves.values():
            assert self.captured is not None
            leaf, annotations = leaf_tensor(self.captured.nodes[node]), self.captured.annotations
            named = self.captured.graph.nodes[node]["name"]
            if leaf is None or named is not None or was_watched(leaf):
                continue
            takers = (annotations.get(each) for each in self.captured.predecessors[node])
            modules = [each.module for each in takers if each is not None]
            if not isinstance(leaf, torch.nn.Parameter) or None in modules:
                return node
        return None

    def inner_node_of(self, tensor: torch.Tensor) -> int | None:
        """The custom Function whose backward runs one of its own, which may reach a leaf."""
        return self.inside.get(id(tensor))

    def backward_ran(self, node: int) -> bool:
        """Whether an operation that passes gradients to a node has freed its saved tensors.

        Operations without saved tensors give no evidence, so those before them are asked.
        """
        return node in self._ran

    @functools.cached_property
    def _ran(self) -> set[int]:
        assert self.captured is not None
        nodes, following = self.captured.nodes, self.captured.successors
        ran = [i for i, node in enumerate(nodes) if _keeps(node) and is_freed(node)]
        after = (each for node in ran for each in following[node])
        return set(walk(after, lambda i: () if _keeps(nodes[i]) else following[i]))

    def custom_function_before(self, node: int) -> str | None:
        """The nearest custom Function by which gradients come to a node; None if none does."""
        nearest = self._nearest_functions.get(node)
        if nearest is None or self.captured is None:
            return None
        op: str = self.captured.attributes[nearest]["op"]
        return op

    @functools.cached_property
    def _nearest_functions(self) -> dict[int, int]:
        """By node: the nearest custom Function by which gradients come to it."""
        if not self.has_functions or self.captured is None:
            return {}
        nodes, following = self.captured.nodes, self.captured.successors
        functions = [i for i, node in enumerate(nodes) if node_class(type(node)).is_function]
        found: dict[int, int] = {}
        waiting = [(target, each) for each in functions for target in following[each]]
        for node, function in waiting:  # grows while we walk
            if node not in found:
                found[node] = function
                waiting += [(target, function) for target in following[node]]
        return found

    @functools.cached_property
    def blocking(self) -> Blocking:
        """Where operations block gradients of this graph."""
        assert self.captured is not None
        return Blocking(self.captured)

    @functools.cached_property
    def margins(self) -> set[int]:
        """The nodes that clamp margins in the loss."""
        return set() if self.captured is None else margins(self.captured)

    @functools.cached_property
    def first_nan(self) -> int | None:
        """The node of the pass that made the first NaN or Inf; None if none did."""
        if self.captured is None or self.run is None:
            return None
        first = first_nan(self.captured, self.run)
        return None if first is None else first[0]

    @functools.cached_property
    def stopped_at(self) -> int | None:
        """The node where the pass stopped; None if it did not, or elsewhere."""
        if self.captured is None or self.run is None:
            return None
        return stopped_node(self.captured, self.run)

    @functools.cached_property
    def remedy(self) -> str:
        """What to do about the pass, which stopped."""
        assert self.captured is not None
        assert self.run is not None
        return remedy_for(self.captured, self.run)

    def first_zero(self, node: int) -> FirstZero | None:
        """Where the gradient of a node became zero in the pass; None if that is not known."""
        if self.captured is None or self.run is None:
            return None
        if not is_accumulate_grad(self.captured.nodes[node]):
            return first_zeros(self.captured, self.run, [node]).get(node)
        return self._first_zeros.get(node)

    @functools.cached_property
    def _first_zeros(self) -> dict[int, FirstZero]:
        """The same for all leaves, in one walk."""
        if self.captured is None or self.run is None:
            return {}
        return first_zeros(self.captured, self.run, self._leaves.values())

    @functools.cached_property
    def has_functions(self) -> bool:
        """Whether custom Functions are among its nodes."""
        nodes = self.captured.nodes if self.captured is not None else []
        return any(node_class(kind).is_function for kind in set(map(type, nodes)))

    @functools.cached_property
    def _ids(self) -> dict[Node, int]:
        return {node: i for i, node in enumerate(self.captured.nodes)} if self.captured else {}

    @functools.cached_property
    def _leaves(self) -> dict[int, int]:
        nodes = self.captured.nodes if self.captured is not None else []
        leaves = [(i, node) for i, node in enumerate(nodes) if is_accumulate_grad(node)]
        return {id(leaf_tensor(node)): i for i, node in leaves}

    @functools.cached_property
    def _constants(self) -> dict[int, int]:
        """``id`` of each living tensor that went in without grad -> the node that took it."""
        if self.captured is None:
            return {}
        return {
            id(tensor): node
            for node, annotation in self.captured.annotations.items()
            for constant in annotation.constants
            if constant.tensor is not None and (tensor := constant.tensor()) is not None
        }

    @functools.cached_property
    def _by_shape(self) -> dict[tuple[Any, ...], list[int]]:
        assert self.captured is not None
        found: dict[tuple[Any, ...], list[int]] = {}
        for node in self._leaves.values():
            leaf = leaf_tensor(self.captured.nodes[node])
            if leaf is not None:
                kind = tuple(leaf.shape), leaf.dtype, leaf.device
                found.setdefault(kind, []).append(node)
        return found

    @functools.cached_property
    def inside(self) -> dict[int, int]:
        """``id`` of each leaf that a custom Function can reach; see `inner_node_of`."""
        nodes = self.captured.nodes if self.captured is not None else []
        return {id(leaf): i for i, node in enumerate(nodes) for leaf in inner_leaves(node)}

    @functools.cached_property
    def cuts(self) -> list[Cut]:
        """Where gradient was lost on the way to the loss."""
        cuts = _cuts_in(self.captured) if self.captured is not None else []
        cuts += [cut for tensor in self.without_grad for cut in cuts_of(tensor)]
        return list(dict.fromkeys(sorted(cuts, key=lambda cut: len(cut.again))))

    @functools.cached_property
    def uses(self) -> dict[int, Use]:
        """By ``id`` of each leaf that `watch` saw used, one use; empty for an unwatched loss."""
        if self.captured is None or not self.is_watched:
            return {}
        return uses_in(self.captured)

    @functools.cached_property
    def _readings(self) -> list[tuple[Reading, dict[int, Cut]]]:
        return [(reading, _by_tensor(reading.cuts)) for reading in reading_lines()]

    @functools.cached_property
    def _behind(self) -> list[_Behind]:
        return list(_behind(self.cuts))


@dataclass(frozen=True)
class _Behind:
    """Cuts of one cause, with the graphs that still live behind them."""

    cuts: list[Cut]  # the cuts
    # ``id`` of each tensor that lives of those known to be behind one -> that cut.
    known: dict[int, Cut]
    leaves: frozenset[int]  # ``id`` of each leaf of these graphs
    nodes: frozenset[Node]  # their nodes
    # The cuts whose graphs have these nodes; None for the graph of the loss itself.
    via: _Behind | None

    def ends_at(self, tensor: torch.Tensor) -> Cut | None:
        """The cut whose source was computed from a tensor, with no other cut between."""
        for cut in self.cuts:
            if cut.source() is tensor or any(leaf() is tensor for leaf in cut.direct):
                return cut
        return self._first_before(tensor)

    def cut_of(self, tensor: torch.Tensor) -> Cut | None:
        """The cut that a tensor is behind; None where it is behind none of these."""
        found = self.known.get(id(tensor))
        return found if found or not tensor.requires_grad else self._first_before(tensor)

    def _first_before(self, tensor: torch.Tensor) -> Cut | None:
        if tensor.is_leaf:
            return self.cuts[0] if id(tensor) in self.leaves else None
        return self.cuts[0] if gradient_edge(tensor)[0] in self.nodes else None


def _size(chain: list[Cut]) -> int:
    """Count the cuts to remove: each cut of a chain, and each later cut of its values."""
    return len({cause for cut in chain for cause in (cut.cause, *cut.again)})


def _behind(cuts: Iterable[Cut]) -> Iterator[_Behind]:
    """Cuts by their cause, those behind other cuts included; each graph is walked once."""
    waiting: list[tuple[Cut, _Behind | None]] = [(cut, None) for cut in cuts]
    known = {cut for cut, _ in waiting}
    while waiting:
        by_cause: dict[Any, tuple[list[Cut], _Behind | None]] = {}
        for cut, via in waiting:
            by_cause.setdefault(cut.cause, ([], via))[0].append(cut)
        waiting = []
        for group, via in by_cause.values():
            sources = [cut.source() for cut in group]
            living = [s for s in sources if s is not None and s.requires_grad and not s.is_leaf]
            if not living:
                yield _Behind(group, _by_tensor(group), frozenset(), frozenset(), via)
                continue
            # As a capture, which sees to it that what was walked can be freed.
            captured = capture_nodes(read_outputs((living,), "explain_grad"), Names())
            leaves = [leaf for node in captured.nodes if (leaf := leaf_tensor(node)) is not None]
            of_leaves = frozenset(map(id, leaves))
            found = _Behind(group, _by_tensor(group), of_leaves, frozenset(captured.nodes), via)
            yield found
            further = [cut for cut in _cuts_seen(captured) if cut not in known]
            known.update(further)
            waiting += [(cut, found) for cut in further]


def _cuts_in(captured: Annotated) -> list[Cut]:
    """The cuts that led to constants and leaves of a graph."""
    taken = [each.constant.cuts for each in captured.extras if each.constant is not None]
    return [cut for cuts in taken for cut in cuts] + _cuts_of_leaves(captured)


def _cuts_seen(captured: Capture) -> list[Cut]:
    """The same of a graph that was not annotated."""
    seen = [cut for annotation in watched(captured).values() for cut in annotation.cuts]
    return seen + _cuts_of_leaves(captured)


def _cuts_of_leaves(captured: Capture) -> list[Cut]:
    return [cut for _, leaf in captured.leaves() for cut in cuts_of(leaf)]


def read_loss(loss: Any, names: Names) -> LossGraph:
    """Capture the graph of a loss, or use the one that an open widget has captured."""
    given = values_in(loss)
    if len(given) == 1 and isinstance(given[0], Recording):
        recorded = given[0]._pass
        captured = _annotated(recorded.captured, names)
        return replace(graph_of(captured, recorded.run), gathered=names.leaves_of_parameters())
    without = tuple(
        value for value in given if isinstance(value, torch.Tensor) and not value.requires_grad
    )
    rest = [value for value in given if not any(value is each for each in without)]
    known = [names.name_of(value) for value in given if isinstance(value, torch.Tensor)]
    name = known[0] if len(given) == 1 and known and known[0] else "the loss"
    if without and not rest:
        return LossGraph(None, without, name)
    outputs = read_outputs((rest,), "explain_grad")
    source = source_of([(output.node, output.output_nr) for output in outputs])
    captured = _annotated(source.captured if source else capture_nodes(outputs, names), names)
    run = _ended(source.last_run if source else None)
    return LossGraph(captured, without, name, names.leaves_of_parameters(), run)


def _annotated(captured: Capture, names: Names) -> Annotated:
    return captured if isinstance(captured, Annotated) else annotate(captured, names, infer=True)


def graph_of(captured: Annotated, run: RecordedRun | None = None) -> LossGraph:
    """Make the graph of a loss that has been captured already."""
    outputs = captured.graph.nodes(data="outputs")
    roots = captured.graph.graph["roots"]
    names = {outputs[node][nr]["name"] for node, nr in roots if nr < len(outputs[node])}
    only = names.pop() if len(names) == 1 else None
    return LossGraph(captured, (), only or "the loss", run=_ended(run))


def _ended(run: RecordedRun | None) -> RecordedRun | None:
    return None if run is None or run.state == "running" else run


def _keeps(node: Node) -> bool:
    return keeps_tensors(type(node))


def _by_tensor(cuts: Iterable[Cut]) -> dict[int, Cut]:
    """``id`` of each tensor that a cut began at, and of each leaf behind one -> the cut."""
    cuts = list(cuts)
    found: dict[int, Cut] = {}
    for cut in cuts:
        found.update({id(t): cut for leaf in cut.leaves if (t := leaf()) is not None})
    found.update({id(source): cut for cut in cuts if (source := cut.source()) is not None})
    return found
