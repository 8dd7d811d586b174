"""`load`: a saved graph in a widget, far from where it was made."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..export.disk import read_file
from ..graph.capture import MOST_NODES, read_most
from ..graph.garbage_collector import collector_paused
from ..graph.integers import read_int
from ..plugins import Hook
from ..schema.file_format import MOST_BYTES, unpack
from ..sources.saved_graph import SavedGraph
from .graph_widget import GraphWidget

OPENERS: Hook[
    Callable[[list[tuple[bytes, str]], int | None, int | None], tuple[SavedGraph, list[str]]]
] = Hook()
"""Opens several files as one graph: their bytes and names, the rank to show, the most nodes.

It returns the graph, and what the user should know about the files.
"""


def load(path: Any, *, rank: int | None = None, max_nodes: int | None = MOST_NODES) -> GraphWidget:
    """Open a file that `gradwalk.save` wrote, or those of all ranks of a run as one.

    Args:
        path: The file's name. Or the files that the ranks of one run have saved: a pattern, such as
            "run-*.gw", or a list of names.
        rank: The rank whose graph is shown, if the files are of several; None for the first.
        max_nodes: The most nodes. A file with a larger graph raises an error, so that it cannot
            take all memory. None opens a file of any size.

    Returns:
        A widget that shows the saved graph. Its cursor moves over the recorded steps and never
        changes a ``.grad``. A method that needs the live graph raises an error that says so. With
        several ranks, ``details["ranks"]`` has the local and the reduced gradient of a leaf on
        each rank, and `GraphWidget.diagnose` compares them.

    Raises:
        TypeError: ``path`` is not a path, or ``rank`` or ``max_nodes`` is not a whole number.
        OSError: A file cannot be read, or does not exist.
        ValueError: A file is damaged, cut off, too large, of another version, or not from
            gradwalk. Or the files are not of one run, or none is of that rank.

    Example::

        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from gradwalk import save
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> load(save(x**2, Path(tempfile.mkdtemp()) / "run.gw"))
        GraphWidget(2 nodes, 1 edge, 1 leaf)
    """
    max_nodes = read_most(max_nodes)
    most = None if max_nodes is None else MOST_BYTES
    several = _several(path)
    if several is not None:
        files = [read_file(each, "load", most) for each in several]
        open_several = OPENERS.first()
        assert open_several is not None
        with collector_paused():
            opened, sentences = open_several(files, _read_rank(rank), max_nodes)
        for sentence in sentences:
            warnings.warn(sentence, stacklevel=2)
        return _showing(opened)
    if rank is not None:
        raise ValueError(
            f"load() was given rank={rank!r} along with one file. Give the files of all ranks, as "
            "in load('run-*.gw', rank=1), or leave it out."
        )
    data, name = read_file(path, "load", most)
    with collector_paused():
        opened = SavedGraph(unpack(data, name, max_nodes))
    return _showing(opened)


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


def _showing(opened: SavedGraph) -> GraphWidget:
    saved = opened.saved
    widget = GraphWidget._of(opened, direction=saved["direction"], constants=saved["constants"])
    widget.selected = saved["selected"]
    if saved["inner"]:
        widget.inner = saved["inner"]
    return widget
