"""Open a file that `gradwalk.save` wrote, or those of all ranks of a run as one graph."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..graph.adjacency import collector_paused
from ..graph.arguments import MOST_NODES, read_int, read_most
from ..lazily import nx
from ..plugins import Hook
from ..schema.file_format import MOST_BYTES, split_graphs, unpack
from ..sources.graph_source import Snapshot
from ..sources.saved_graph import SavedGraph
from . import pictures
from .disk import read_file
from .text import size_of

OPENERS: Hook[
    Callable[[list[tuple[bytes, str]], int | None, int | None], tuple[SavedGraph, list[str]]]
] = Hook()
"""Opens several files as one graph: their bytes and names, the rank to show, the most nodes.

It returns the graph, and what the user should know about the files.
"""


@dataclass(frozen=True)
class OpenedFile:
    """A graph from a file, from which pages and pictures are made without a widget."""

    source: SavedGraph  # the graph
    notes: list[str]  # sentences about the files, for the user

    def _shown(self) -> Snapshot:
        """Return what was shown when it was saved."""
        saved = self.source.saved
        return Snapshot(
            self.source,
            saved["direction"],
            saved["constants"],
            saved["selected"],
            saved["findings"],
            saved["inner"],
        )


class SavedFile:
    """The graphs of a file where torch is not installed: pages and pictures, without a widget."""

    to_svg, to_png, to_pdf = pictures.to_svg, pictures.to_png, pictures.to_pdf
    to_html, to_json, to_dot = pictures.to_html, pictures.to_json, pictures.to_dot

    def __init__(self, graphs: Mapping[str, OpenedFile]) -> None:
        self.graphs = graphs

    def _graphs_shown(self) -> dict[str, Snapshot]:
        return {label: each._shown() for label, each in self.graphs.items()}

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the graph; a comparison is matched with torch."""
        if len(self.graphs) > 1:
            raise ImportError("to_json() of a comparison needs torch. Install it.")
        (only,) = self.graphs.values()
        return only.source.to_networkx()

    def __repr__(self) -> str:
        sizes = [size_of(each.source.to_networkx()) for each in self.graphs.values()]
        return f"SavedFile({'; '.join(sizes)}: to_html() and pictures; a widget needs torch)"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name!r} needs the widget, and torch is not installed. Install torch, or use "
            "to_html() and the other to_ methods."
        )


def open_graphs(path: Any, rank: Any = None, max_nodes: Any = MOST_NODES) -> dict[str, OpenedFile]:
    """Read and check the graphs of a file, by label; "" for the only one. See `gradwalk.load`."""
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
