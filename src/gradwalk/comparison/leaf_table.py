"""The table under a comparison: every leaf's `.grad`, before backward and now, graph by graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ..backward.kept_gradients import KeptGradient
from ..backward.leaf_grads import GradTimeline
from ..graph.labels import label
from ..lazily import nx
from ..schema.backward import FewModel
from ..schema.comparison import LeafCellModel, LeafRowModel, LeafTableModel
from ..sources.graph_model import as_kept, few_of
from ..sources.graph_source import GraphSource

BeforeAndNow = tuple[FewModel | None, FewModel | None]

MOST_ROWS = 100  # most leaves in the table; leaves that differ come first


class LeafColumn:
    """The leaves of one graph that the table shows."""

    def __init__(self, source: GraphSource, nodes: Iterable[int | None]) -> None:
        """Read the current leaves; None in ``nodes`` for one that is in other graphs only."""
        self._source = source
        self._nodes = [node for node in nodes if node is not None]
        self._before: dict[int, FewModel | None] = {}
        self._begun = False
        self._look()

    def begin(self) -> None:
        """Remember every ``.grad`` at the start of a backward pass."""
        self._begun = True
        self._look()

    def _look(self) -> None:
        self._before = _models({node: self._live(node) for node in self._nodes})

    def cells(self) -> dict[int, BeforeAndNow]:
        """Return each leaf's ``.grad`` before backward, and now."""
        if not self._begun:
            self._look()
        grads = self._source.grads
        if grads is None:
            now = _models({node: self._live(node) for node in self._nodes})
            return {node: (self._before[node], now[node]) for node in self._nodes}
        # This pass does not change a tensor that it does not accumulate into, even if other passes
        # from the same start do.
        known = {timeline.node: timeline for timeline in grads.timelines}
        moved = [node for node in self._nodes if node in known]
        before = {**self._before, **_models({node: _moment(known[node], 0) for node in moved})}
        if grads.fixed:
            now = _models({node: self._live(node) for node in self._nodes})
        else:
            at = self._source.cursor
            now = {**before, **_models({node: _moment(known[node], at) for node in moved})}
        return {node: (before[node], now[node]) for node in self._nodes}

    def _live(self, node: int) -> KeptGradient | None:
        tensor = self._source.leaf(node)
        if tensor is None or tensor.grad is None:
            return None
        return KeptGradient(tensor.grad.detach())


def _moment(timeline: GradTimeline, step: int) -> KeptGradient | None:
    moment = timeline.moments[timeline.at(step)]
    return None if moment.grad is None else as_kept(moment)


def _models(grads: Mapping[int, KeptGradient | None]) -> dict[int, FewModel | None]:
    with torch.no_grad():
        found = few_of({node: kept for node, kept in grads.items() if kept is not None})
    return {node: found.get(node) for node in grads}


def rows_shown(
    leaves: Sequence[Mapping[str, Any]], graphs: Mapping[str, nx.MultiDiGraph]
) -> list[dict[str, Any]]:
    """Return the leaves of the table; with too many, those that differ between graphs first."""
    ranked = sorted(range(len(leaves)), key=lambda i: (_is_alike(leaves[i]), i))
    return [
        {**leaves[i], "name": leaves[i]["name"] or _label(leaves[i], graphs)}
        for i in sorted(ranked[:MOST_ROWS])
    ]


def _label(row: Mapping[str, Any], graphs: Mapping[str, nx.MultiDiGraph]) -> str:
    found = ((graphs[name], cell["node"]) for name, cell in row["graphs"].items())
    data = next(graph.nodes[node] for graph, node in found if node is not None)
    words = label(data)
    is_bare = words in {"leaf", "constant"} and data["shape"]
    return f"{words} {tuple(data['shape'])}" if is_bare else words


def _is_alike(row: Mapping[str, Any]) -> bool:
    kinds = {
        (cell["present"], cell["requires_grad"], cell["is_leaf"]) for cell in row["graphs"].values()
    }
    return len(kinds) == 1


def table_model(
    rows: Sequence[Mapping[str, Any]],
    total: int,
    cells: Mapping[str, Mapping[int, BeforeAndNow]],
    places: Mapping[str, Mapping[int, int]],
) -> LeafTableModel:
    """Build the current table.

    ``cells``: label -> the result of `LeafColumn.cells`. ``places``: label -> node of that graph ->
    its number in the united graph.
    """

    def across(graph: str, cell: Mapping[str, Any]) -> LeafCellModel:
        node = cell["node"]
        before, now = (None, None) if node is None else cells[graph][node]
        return {
            "node": None if node is None else places[graph][node],
            "requires_grad": cell["requires_grad"],
            "is_leaf": cell["is_leaf"],
            "before": before,
            "now": now,
        }

    models: list[LeafRowModel] = [
        {"name": row["name"], "cells": [across(*each) for each in row["graphs"].items()]}
        for row in rows
    ]
    return {"rows": models, "total": total}
