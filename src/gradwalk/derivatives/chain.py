"""The chain rule, from the outputs to one node: products along paths, summed over the paths."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

import torch

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import seeds
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import MOST_COUNTED, PathCounts, count_paths, predecessors
from ..graph.capture import Capture
from ..lazily import nx
from ..schema.details import ChainModel, FactorModel, FormulaModel, PathModel
from ..torch_api.reading import one_number
from ..torch_api.summary import plain_values
from .evaluation import compared
from .formulas import formulas
from .own_backward import may_be_called, passed_for_one

MOST_PATHS = 8  # paths that are shown; further ones are counted

MOST_ON_BOARD = 60  # nodes of a graph that is read as a formula, every operation of it

LONGEST_PATH = 60  # the most edges of a readable path


_FEW = 16  # inputs of a node whose formulas are worked out together


class Hop(NamedTuple):
    """One edge of a path."""

    source: int  # the node whose backward passes the gradient on
    target: int  # the node it passes it to
    arg_nr: int  # which input of ``source``
    output_nr: int  # which output of ``target``
    arrived: int  # which output of ``source`` the path came in by


def has_chain(graph: nx.MultiDiGraph, node: int) -> bool:
    """Return whether a node gets a chain rule: leaves, and numbers in a small graph."""
    data = graph.nodes[node]
    if data["kind"] == "leaf":
        return True
    return len(graph) <= MOST_ON_BOARD and data["shape"] == () and len(data["outputs"]) <= 1


def chain_model(along: Along, end: int) -> ChainModel | None:
    """Return the first paths to a node, and the derivatives along them; None for an output."""
    graph = along.captured.graph
    if end in {node for node, _ in graph.graph["roots"]}:
        return None
    known = count_paths(graph, LONGEST_PATH)
    total = known.paths[end]
    within = _distances_to(graph, end, known)
    roots = [root for root in dict.fromkeys(graph.graph["roots"]) if root[0] in within]
    found_paths = ((root, path) for root in roots for path in _walk(along, root, end, within))
    hops = list(islice(found_paths, MOST_PATHS))
    found = [_path(along, root, path) for root, path in hops]
    paths = [model for model, _ in found]
    products = [product for _, product in found]
    written, value = None, None
    numbers = [product for product in products if product is not None]
    if total == len(numbers) and numbers:
        with torch.no_grad():
            value = torch.stack(numbers).sum()
        added = " + ".join(map(_short, numbers)).replace("+ -", "- ")
        written = f"{added} = {_short(value)}" if len(numbers) > 1 else _short(value)
    return {
        "paths": paths,
        "total_paths": total,
        "written": written,
        "sum": None if value is None else plain_values(value),
        "note": _note(graph, end, total, len(paths), value is not None),
    }


def _distances_to(graph: nx.MultiDiGraph, end: int, known: PathCounts) -> dict[int, int]:
    """Return the smallest number of edges to a node, for nodes on short paths."""
    before, depths = predecessors(graph), known.depths
    found = {end: 0}
    waiting = [end]
    for node in waiting:  # grows while we walk
        further = found[node] + 1
        for source in before[node]:
            if source in found or source not in depths:
                continue
            if depths[source] + further <= LONGEST_PATH:
                found[source] = further
                waiting.append(source)
    return found


def _walk(
    along: Along, root: tuple[int, int], end: int, distances: dict[int, int]
) -> Iterator[list[Hop]]:
    """Yield the first short paths from an output to a node, depth-first."""

    def edges(node: int, arrived: int) -> Iterator[Hop]:
        return iter([hop for hop in along.hops(node, arrived) if hop.target in distances])

    path: list[Hop] = []
    open_edges = [edges(*root)]
    found = 0
    while open_edges and found < MOST_PATHS:
        hop = next(open_edges[-1], None)
        if hop is None:
            open_edges.pop()
            del path[-1:]
        elif hop.target == end:
            found += 1
            yield [*path, hop]
        elif len(path) + 1 + distances[hop.target] <= LONGEST_PATH:
            path.append(hop)
            open_edges.append(edges(hop.target, hop.output_nr))


def _path(
    along: Along, root: tuple[int, int], path: list[Hop]
) -> tuple[PathModel, torch.Tensor | None]:
    known = along.factors
    factors = [known[hop] if hop in known else along.factor(hop) for hop in path]
    seed = along.seed(root)
    parts: list[torch.Tensor] = []
    for hop in path if seed is not None else ():
        part = along.derivative(hop)
        if part is None:
            break
        parts.append(part)
    if seed is None or len(parts) < len(path):
        return {"factors": factors, "written": None, "product": None}, None
    with torch.no_grad():
        product = seed
        for part in parts:
            product = product * part
    # Leave out the factor 1 that backward starts from.
    shown = parts if seed.item() == 1 else [seed, *parts]
    written = f"{' * '.join(map(_short, shown))} = {_short(product)}" if len(shown) > 1 else None
    return {
        "factors": factors,
        "written": written or _short(product),
        "product": plain_values(product),
    }, product


class Along:
    """Derivatives along the edges of a graph, each worked out once: many leaves share them."""

    def __init__(self, captured: Capture, run: RecordedRun | None) -> None:
        self.captured = captured  # the graph
        # The backward pass that is shown, for what it started from; None before the first, when
        # outputs count as started from 1.
        self.run = run
        self._hops: dict[tuple[int, int], list[Hop]] = {}
        # The panel's description of each edge that was asked for.
        self.factors: dict[Hop, FactorModel] = {}
        self._formulas: dict[int, dict[int, FormulaModel]] = {}
        self._derivatives: dict[Hop, torch.Tensor | None] = {}

    def hops(self, node: int, arrived: int) -> list[Hop]:
        """Return the edges that lead on from a node, in the order of its inputs."""
        found = self._hops.get((node, arrived))
        if found is None:
            edges = [
                (edge["arg_nr"], target, edge["output_nr"])
                for target, between in self.captured.successors[node].items()
                for edge in between.values()
            ]
            found = [Hop(node, target, nr, out, arrived) for nr, target, out in sorted(edges)]
            self._hops[node, arrived] = found
        return found

    def formulas(self, node: int, inputs: Collection[int]) -> list[FormulaModel]:
        """Return the formulas of a node, each worked out once, without numbers.

        They have been compared with the pass that is shown.
        """
        known = self._formulas.setdefault(node, {})
        missing = [nr for nr in inputs if nr not in known]
        if missing:
            found = formulas(self.captured.nodes[node], missing)
            step = None if self.run is None else self.run.steps.get(node)
            if step is not None:
                found = compared(found, self.captured.nodes[node], step)
            known.update({each["arg_nr"]: each for each in found})
        return [known[nr] for nr in sorted(inputs) if nr in known]

    def factor(self, hop: Hop) -> FactorModel:
        """Describe an edge for the panel."""
        if hop not in self.factors:
            graph, value = self.captured.graph, self.derivative(hop)
            place = count_paths(graph, LONGEST_PATH).place
            self.factors[hop] = {
                "edge": place(graph, hop.source, hop.target, hop.arg_nr),
                "node": hop.source,
                "target": hop.target,
                "code": self._code(hop),
                "value": None if value is None else plain_values(value),
                "note": None if value is not None else self._why_not(hop),
            }
        return self.factors[hop]

    def derivative(self, hop: Hop) -> torch.Tensor | None:
        """Return the derivative along an edge, a 0-dim tensor; None if not one number."""
        if hop not in self._derivatives:
            self._derivatives[hop] = self._derivative(hop)
        return self._derivatives[hop]

    def _code(self, hop: Hop) -> str:
        beside = {each.arg_nr for each in self.hops(hop.source, hop.arrived)}
        found = self.formulas(hop.source, beside if len(beside) <= _FEW else [hop.arg_nr])
        return next((each["code"] for each in found if each["arg_nr"] == hop.arg_nr), "")

    def seed(self, root: tuple[int, int]) -> torch.Tensor | None:
        """Return the gradient that backward starts from at an output; None if not one number."""
        given = None
        if self.run is not None:
            given = dict(seeds(self.captured.graph, self.run, root[0])).get(root[1])
        if given is not None:
            return None if given.is_complex() else one_number(given)
        return torch.ones(()) if _is_one_real(self.captured, *root) else None

    def _derivative(self, hop: Hop) -> torch.Tensor | None:
        graph, node = self.captured.graph, self.captured.nodes[hop.source]
        outputs = graph.nodes[hop.source]["outputs"]
        ones = all(_is_one_real(self.captured, hop.source, nr) for nr in range(len(outputs)))
        if not ones or not _is_one_real(self.captured, hop.target, hop.output_nr):
            return None
        if may_be_called(node):
            passed = passed_for_one(node, hop.arrived)
            return None if passed is None else one_number(passed[hop.arg_nr])
        return self._ratio(hop) if len(outputs) == 1 else None

    def _why_not(self, hop: Hop) -> str:
        ends = [(hop.source, hop.arrived), (hop.target, hop.output_nr)]
        if all(_is_one_real(self.captured, *end) for end in ends):
            return "Not known: torch has no formula for it, and no gradient has flowed through it."
        if all(_is_one(self.captured, *end) for end in ends):
            return (
                "A matrix: a complex number is two real ones, with a derivative for each of the two"
                " above and below."
            )
        return "A matrix: one derivative for each number above and each below (the Jacobian)."

    def _ratio(self, hop: Hop) -> torch.Tensor | None:
        """From what flowed: backward is linear in the gradient."""
        step = self.run.steps.get(hop.source) if self.run is not None else None
        if step is None:
            return None
        above, below = _only(step.grad_outputs[0]), _only(step.grad_inputs[hop.arg_nr])
        if above is None or below is None or above.item() == 0:
            return None
        return below / above


def _only(kept: KeptGradient | None) -> torch.Tensor | None:
    return None if kept is None else one_number(kept.tensor)


def _is_one(captured: Capture, node: int, output_nr: int) -> bool:
    outputs = captured.graph.nodes[node]["outputs"]
    shape = outputs[output_nr]["shape"] if output_nr < len(outputs) else None
    return shape is not None and torch.Size(shape).numel() == 1


def _is_one_real(captured: Capture, node: int, output_nr: int) -> bool:
    if not _is_one(captured, node, output_nr):
        return False
    dtype = captured.graph.nodes[node]["outputs"][output_nr]["dtype"]
    return not dtype.startswith("torch.complex")


def _short(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _note(graph: nx.MultiDiGraph, end: int, total: int, shown: int, numbers: bool) -> str:
    unnamed = "this leaf" if graph.nodes[end]["kind"] == "leaf" else "this node"
    name = graph.nodes[end]["name"] or unnamed
    if total == 1:
        note = f"One path leads to {name}: the derivatives along it multiply."
    else:
        counted = f"{total:,}" if total < MOST_COUNTED else f"{MOST_COUNTED:,} or more"
        note = (
            f"{counted} paths lead to {name}: along each the derivatives multiply, and what the "
            "paths bring adds up."
        )
    if shown < total:
        note += f" {shown} of them are shown." if shown else " Each is too long to be shown."
    if shown and not numbers:
        note += (
            " Where a tensor on the way has more than one number (a complex one counts as two), a "
            "derivative is a matrix, which torch never forms. The code says what it multiplies "
            "with the gradient."
        )
    return note
