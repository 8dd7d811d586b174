"""`load`: a saved graph in a widget, far from where it was made."""

from __future__ import annotations

from typing import Any

from ..files.disk import read_file
from ..graph.capture import MOST_NODES, read_most
from ..subject.opened import Opened
from ..wire.saved_graph import MOST_BYTES, unpack
from .graph_widget import GraphWidget


def load(path: Any, *, max_nodes: int | None = MOST_NODES) -> GraphWidget:
    """Open a file that `gradwalk.save` wrote.

    Args:
        path: The file's name.
        max_nodes: A file that holds more than a graph of so many nodes is refused, rather than take
            all memory. None opens a file of any size.

    Returns:
        A widget that shows what was saved. Its cursor moves over what was recorded and never
        touches a ``.grad``; what needs the live graph raises an error that says so.

    Raises:
        TypeError: ``path`` is no path, or ``max_nodes`` is no whole number.
        OSError: The file cannot be read.
        ValueError: It is damaged, cut off, too large, of another version, or not a file of ours.

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
    data, name = read_file(path, "load", None if max_nodes is None else MOST_BYTES)
    saved = unpack(data, name, max_nodes)
    widget = GraphWidget._of(
        Opened(saved), direction=saved["direction"], constants=saved["constants"]
    )
    widget.selected = saved["selected"]
    return widget
