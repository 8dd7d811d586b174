"""Save a graph and its recorded pass to a file, for other machines to open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..graph.arguments import read_int
from ..graph.names import caller_names
from ..schema.file_format import join_graphs
from ..schema.ranks import RankModel, with_rank
from ..sources.graph_source import MOST_SHOWN, HasGraphs, Snapshot
from ..sources.read_source import read_source
from ..types import HasWidget, Outputs, Program, RecordedGraph, TensorNames
from .contents import MOST_DETAILED, packed_graph
from .disk import read_path, write_file

FEWEST_DETAILED = 50  # most nodes whose details are saved on every rank but the first

_STAGE = (
    "Give the number of the stage, from 0, where torch.distributed is initialised and the graph is "
    "live."
)


def save(
    obj: Outputs | Program | RecordedGraph | HasWidget,
    path: str | os.PathLike[str],
    *,
    names: TensorNames | None = None,
    source: bool = True,
    stage: int | None = None,
    stacklevel: int = 1,
) -> Path:
    """Save a graph, or a comparison, and its recorded backward passes to a file.

    The file holds plain values: structure, names, modules, source lines, the recorded pass, the
    findings of `gradwalk.diagnose`, the memory held for backward, and the details of every node,
    with at most 64 numbers of a tensor. `gradwalk.load` needs neither the model nor its devices,
    and does not use pickle. Saving does not run backward: to save gradients, call
    ``widget.backward()`` first.

    Where ``torch.distributed`` is initialised, each rank writes its own file, as in
    ``save(widget, f"run-{rank}.gw")``, with its local and reduced gradients, without waiting for
    the others. With many ranks, only the first saves the details of all nodes.

    Args:
        obj (Outputs | Program | RecordedGraph | HasWidget): A loss; a tuple, list or dict of
            outputs; a static graph of torch.export or torch.fx; a `Recording`, a `GraphWidget` or a
            `CompareWidget`; or a result with a picture, such as a `NumericsComparison`.
        path (str | os.PathLike[str]): The file, such as "run.gw"; an existing file is replaced,
            with a warning.
        names (TensorNames, optional): Names of tensors: a mapping from names to tensors or modules,
            or one module. By default the caller's variables. Not for a widget, which has its names.
        source (bool, optional): Whether to include the program's lines that `watch` recorded: text
            and positions. False removes them from sentences as well. Default: ``True``.
        stage (int, optional): The number of this rank's pipeline stage, from 0 at the input.
            `gradwalk.load` shows one stage, and compares only the ranks that run the same one. None
            for a run without stages.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The path. `gradwalk.load` opens it.

    Raises:
        TypeError: ``obj`` carries no autograd graph, or ``path`` is not a path.
        ValueError: An output does not require grad, the widget is closed or given with names, or
            ``stage`` is given in a process without a rank.
        OSError: The file cannot be written.

    Example::

        >>> import torch
        >>> import tempfile
        >>> from gradwalk import GraphWidget, load
        >>> from pathlib import Path
        >>> from gradwalk import save
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> widget = GraphWidget(x**2)
        >>> widget.backward()
        >>> path = save(widget, Path(tempfile.mkdtemp()) / "run.gw.json.gz")
        >>> load(path).run["grads"][0]["values"]
        6.0
    """
    read_path(path, "save")
    shown: object = obj.widget if isinstance(obj, HasWidget) else obj
    if isinstance(shown, HasGraphs):
        if names is not None:
            raise ValueError(
                "save() was given names along with a widget, which has its own. Leave them out."
            )
        return write_file(path, _contents_of(shown._graphs_shown(), source, stage), "save")
    called = caller_names(names, "save", stacklevel)
    origin = read_source((shown,), called, "save", named=names is not None)
    try:
        snapshot = Snapshot(origin, origin.direction, origin.size <= MOST_SHOWN)
        return write_file(path, _contents(snapshot, source, stage), "save")
    finally:
        origin.close()


def _contents_of(shown: Mapping[str, Snapshot], source: bool, stage: int | None) -> bytes:
    """Return the content of the file: one graph, or all graphs of a comparison."""
    if len(shown) == 1:
        (only,) = shown.values()
        return _contents(only, source, stage)
    if stage is not None:
        raise ValueError("save() was given stage= along with a comparison, which is of no rank.")
    return join_graphs({label: packed_graph(each, source) for label, each in shown.items()})


def _contents(shown: Snapshot, source: bool, stage: int | None) -> bytes:
    """The file's content: the graph, and in distributed training this rank's part."""
    rank = shown.source.rank()
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
