"""Save a graph and its recorded pass to a file, for other machines to open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch

from ..checks.finding import finding_models
from ..graph.garbage_collector import collector_paused
from ..graph.integers import read_int
from ..graph.names import Names, caller_names
from ..schema.columns import encode
from ..schema.details import DetailsModel, StageModel
from ..schema.file_format import FORMAT, VERSION, SavedGraphModel
from ..schema.graph_json import beyond_drawn, graph_to_data
from ..schema.ranks import RankModel, with_rank
from ..sources.graph_model import dtypes_model
from ..sources.graph_source import GraphSource
from ..sources.read_source import read_source
from ..sources.saved_graph import undetailed
from ..sources.snapshot import MOST_SHOWN, Snapshot, TakesSnapshots
from ..torch_api.saved_tensors import saved_read_once
from .disk import read_path, write_file
from .without_source import without_source

MOST_AT_EVERY_CURSOR = 500
"""Up to this many nodes, details are saved for every cursor; above, for the current one only."""

MOST_DETAILED = 2_000
"""Most nodes whose details are saved, counted from the outputs."""

FEWEST_DETAILED = 50
"""The same on every rank but the first."""

_STAGE = (
    "Give the number of the stage, from 0, where torch.distributed is initialised and the graph is "
    "live."
)


def save(
    *outputs: Any,
    path: Any = None,
    names: Mapping[str, Any] | torch.nn.Module | None = None,
    source: bool = True,
    stage: int | None = None,
) -> Path:
    """Save a graph and its recorded backward pass to a file.

    The file holds plain values: structure, names, modules, source lines, the recorded pass, the
    findings of `gradwalk.diagnose`, the memory held for backward, and the details of every node,
    with at most 64 numbers of a tensor. `gradwalk.load` needs neither the model nor its devices,
    and does not use pickle. Saving does not run backward: to save gradients, call
    ``widget.backward()`` first.

    Where ``torch.distributed`` is initialised, each rank writes its own file, as in
    ``save(widget, f"run-{rank}.gw")``, with its local and reduced gradients, without waiting for
    the others. With many ranks, only the first saves the details of all nodes.

    Args:
        *outputs: A `GraphWidget`, or what `GraphWidget` takes: tensors that require grad, any
            number, also in lists, tuples and dicts; or a static graph of torch.export or torch.fx.
            The last one is the path, unless ``path`` has it.
        path: The file, such as "run.gw"; an existing file is replaced, with a warning.
        names: Names of tensors, as for `GraphWidget`; not with a widget, which has its names.
        source: Whether to include the program's lines that `watch` recorded: text and positions.
            False removes them from sentences as well.
        stage: The number of this rank's pipeline stage, from 0 at the input. `gradwalk.load` ties
            the output of each stage to the input of the next one.

    Returns:
        The path. `gradwalk.load` opens it.

    Raises:
        TypeError: An output's type carries no autograd graph, or the path is missing.
        ValueError: An output does not require grad, the widget is closed or given with names, or
            ``stage`` is given in a process without a rank.
        OSError: The file cannot be written.

    Example::

        >>> import tempfile
        >>> from gradwalk import GraphWidget, load
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> widget = GraphWidget(x**2)
        >>> widget.backward()
        >>> path = save(widget, Path(tempfile.mkdtemp()) / "run.gw.json.gz")
        >>> load(path).run["grads"][0]["values"]
        6.0
    """
    if path is None:
        if len(outputs) < 2:
            raise TypeError(
                "save() was given no path. Pass the path last, as in save(loss, 'run.gw')."
            )
        *given, path = outputs
    else:
        given = list(outputs)
    read_path(path, "save")
    if len(given) == 1 and isinstance(given[0], TakesSnapshots):
        if names is not None:
            raise ValueError(
                "save() was given names along with a widget, which has its own. Leave them out."
            )
        return write_file(path, _contents(given[0]._shown(), source, stage), "save")
    called = caller_names(names, "save")
    subject = read_source(tuple(given), called, "save", named=names is not None)
    try:
        shown = Snapshot(subject, subject.direction, subject.size <= MOST_SHOWN)
        return write_file(path, _contents(shown, source, stage), "save")
    finally:
        subject.close()


def _contents(shown: Snapshot, source: bool, stage: int | None) -> bytes:
    """The file's content: the graph, and in distributed training this rank's part."""
    rank = shown.subject.rank()
    if stage is not None and (rank is None or read_int(stage, "stage was given ", _STAGE) < 0):
        raise ValueError(f"save() was given stage={stage!r}. {_STAGE}")
    graph = packed_graph(shown, source, _most_detailed(rank))
    if rank is None:
        return graph
    rank["stage"] = stage
    if not source:
        rank["leaves"] = [{**leaf, "line": None, "branch": None} for leaf in rank["leaves"]]
    return with_rank(graph, rank)


def _most_detailed(rank: RankModel | None) -> int:
    """The number of nodes whose details are saved; with many ranks, only the first saves all."""
    if rank is None or rank["rank"] == 0:
        return MOST_DETAILED
    return max(FEWEST_DETAILED, MOST_DETAILED // rank["world_size"])


def packed_graph(shown: Snapshot, source: bool = True, most: int = MOST_DETAILED) -> bytes:
    """Encode `saved_graph` as the bytes of a file.

    Args:
        shown: The graph to save.
        source: Whether to include lines of the program.
        most: Most nodes whose details are included.
    """
    with collector_paused():
        return encode(saved_graph(shown, source, most))


def saved_graph(shown: Snapshot, source: bool = True, most: int = MOST_DETAILED) -> SavedGraphModel:
    """Collect the contents of the file.

    Args:
        shown: The graph to save.
        source: Whether to include lines of the program.
        most: Most nodes whose details are included.

    Returns:
        Plain values.
    """
    subject = shown.subject
    total = len(subject.drawn)
    every = total <= MOST_AT_EVERY_CURSOR
    details = _details(subject, min(total, most), every)
    findings = shown.findings
    if findings is None:
        findings = finding_models(subject.findings(Names()))
    saved: SavedGraphModel = {
        "format": FORMAT,  # type: ignore[typeddict-item]
        "version": VERSION,
        "graph": subject.model,
        "network": beyond_drawn(graph_to_data(subject.drawn)),  # type: ignore[typeddict-item]
        "dtypes": dtypes_model(subject.drawn),
        "watched": subject.is_watched,
        "memory": subject.memory(),
        "findings": findings,
        "direction": shown.direction,  # type: ignore[typeddict-item]
        "constants": shown.constants,
        "selected": shown.selected,
        "cursor": subject.cursor,
        "inner": shown.inner,
        "state": subject.state(),
        "steps": subject.steps,
        "run": subject.run,
        "transport": subject.reopened(),
        "details": [*details, *[None] * (total - len(details))],
        "undetailed": undetailed(subject.drawn, len(details)) if len(details) < total else None,
        "all_cursors": every,
    }
    return saved if source else without_source(saved)


def _details(subject: GraphSource, nodes: int, every: bool) -> list[list[StageModel]]:
    """Collect the details of the first nodes at every cursor, without moving the cursor.

    Args:
        subject: The graph to save.
        nodes: The number of nodes of ``subject.drawn``.
        every: Whether to read every cursor; otherwise the current one represents all.

    Returns:
        For each node, its details at the start, then each change with its cursor.
    """
    details = subject.looking()
    with saved_read_once():
        if every:
            return [_stages(details, node, subject.changes(node)) for node in range(nodes)]
        now = (cast(dict[str, Any], details(node, None)) for node in range(nodes))
        return [[{"from_step": 0, "fields": fields}] for fields in now]


def _stages(
    details: Callable[[int, int | None], DetailsModel], node: int, cursors: list[int]
) -> list[StageModel]:
    found: list[StageModel] = []
    before: dict[str, Any] = {}
    for cursor in cursors:
        now = cast(dict[str, Any], details(node, cursor))
        changed = {name: value for name, value in now.items() if before.get(name, ...) != value}
        if changed:
            found.append({"from_step": cursor, "fields": changed})
        before = now
    return found
