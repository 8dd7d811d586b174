"""Open a file that `gradwalk.save` wrote, or those of all ranks of a run as one graph."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..graph.adjacency import collector_paused
from ..graph.arguments import MOST_NODES, read_int, read_most
from ..plugins import Hook
from ..schema.file_format import MOST_BYTES, split_graphs, unpack
from ..sources.graph_source import Snapshot
from ..sources.saved_graph import SavedGraph
from .disk import read_file
from .pictures import Exports

OPENERS: Hook[
    Callable[[list[tuple[bytes, str]], int | None, int | None], tuple[SavedGraph, list[str]]]
] = Hook()
"""Opens several files as one graph: their bytes and names, the rank to show, the most nodes.

It returns the graph, and what the user should know about the files.
"""


@dataclass(frozen=True)
class OpenedFile(Exports):
    """A graph from a file, from which pages and pictures are made without a widget."""

    subject: SavedGraph  # the graph
    notes: list[str]  # sentences about the files, for the user

    def _graphs_shown(self) -> dict[str, Snapshot]:
        return {"": self._shown()}

    def _shown(self) -> Snapshot:
        """Return what was shown when it was saved."""
        saved = self.subject.saved
        return Snapshot(
            self.subject,
            saved["direction"],
            saved["constants"],
            saved["selected"],
            saved["findings"],
            saved["inner"],
        )


def open_file(path: Any, rank: Any = None, max_nodes: Any = MOST_NODES) -> OpenedFile:
    """Read and check one saved graph; arguments and errors are those of `gradwalk.load`."""
    opened = open_graphs(path, rank, max_nodes)
    if len(opened) > 1:
        raise ValueError(
            f"{os.fspath(path)!r} holds a comparison of {len(opened)} graphs, and one is asked for "
            "here. Open it with gradwalk.load()."
        )
    (only,) = opened.values()
    return only


def open_graphs(path: Any, rank: Any = None, max_nodes: Any = MOST_NODES) -> dict[str, OpenedFile]:
    """Read and check the graphs of a file, by label; "" for the only one."""
    max_nodes = read_most(max_nodes)
    most = None if max_nodes is None else MOST_BYTES
    several = _several(path)
    if several is not None:
        files = [read_file(each, "load", most) for each in several]
        open_several = OPENERS.first()
        assert open_several is not None
        with collector_paused():
            return {"": OpenedFile(*open_several(files, _read_rank(rank), max_nodes))}
    if rank is not None:
        raise ValueError(
            f"load() was given rank={rank!r} along with one file. Give the files of all ranks, as "
            "in load('run-*.gw', rank=1), or leave it out."
        )
    data, name = read_file(path, "load", most)
    graphs = split_graphs(data, name) or {"": data}
    with collector_paused():
        return {
            label: OpenedFile(SavedGraph(unpack(each, name, max_nodes)), [])
            for label, each in graphs.items()
        }


def _several(path: Any) -> list[Any] | None:
    """The files that are meant by a pattern or a list; None where one file is meant."""
    if isinstance(path, (list, tuple)):
        if not path:
            raise ValueError(
                "load() was given an empty list. Give the files that the ranks of a run saved."
            )
        return [*path]
    if not isinstance(path, (str, os.PathLike)) or not glob.has_magic(str(path)):
        return None
    pattern = os.path.expanduser(str(path))  # noqa: PTH111  a pattern is not a path
    if Path(pattern).exists():  # its name has such a character in it
        return None
    found = sorted(glob.glob(pattern))  # noqa: PTH207  the pattern may be absolute
    if not found:
        raise FileNotFoundError(
            f"load() was given the pattern {str(path)!r}, and no file fits it. Give the names of "
            "files that gradwalk.save() wrote, such as 'run-*.gw'."
        )
    return [*found]


def _read_rank(rank: Any) -> int | None:
    instead = "Give the number of a rank, or None for the first."
    return None if rank is None else read_int(rank, "load() was given rank=", instead)
