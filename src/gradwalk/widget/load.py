"""`load`: a saved graph in a widget, far from where it was made."""

from __future__ import annotations

from typing import Any

from ..subject.opened import Opened
from ..wire.saved_graph import read_saved
from .graph_widget import GraphWidget


def load(path: Any) -> GraphWidget:
    """Open a file that `gradwalk.save` wrote.

    Args:
        path: The file's name.

    Returns:
        A widget that shows what was saved. Its cursor moves over what was recorded and never
        touches a ``.grad``; what needs the live graph raises an error that says so.

    Raises:
        TypeError: ``path`` is no path.
        OSError: The file cannot be read.
        ValueError: It is damaged, cut off, of another version, or not a file of ours.

    Example::

        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from gradwalk import save
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> load(save(x**2, Path(tempfile.mkdtemp()) / "run.gw"))
        GraphWidget(2 nodes, 1 edge, 1 leaf)
    """
    saved = read_saved(path)
    widget = GraphWidget._of(
        Opened(saved), direction=saved["direction"], constants=saved["constants"]
    )
    widget.selected = saved["selected"]
    return widget
