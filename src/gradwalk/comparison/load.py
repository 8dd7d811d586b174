"""`load`: a saved graph in a widget, far from where it was made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..export.open_file import SavedFile, open_graphs
from ..graph.arguments import MOST_NODES
from ..hosts.progress import progress

if TYPE_CHECKING:
    from ..widget.graph_widget import GraphWidget
    from .compare_widget import CompareWidget


def load(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    rank: int | None = None,
    max_nodes: int | None = MOST_NODES,
) -> GraphWidget | CompareWidget:
    """Open a file that `gradwalk.save` wrote, or those of all ranks of a run as one.

    Args:
        path (str | os.PathLike[str] | Sequence[str | os.PathLike[str]]): The file's name. Or the
            files that the ranks of one run have saved: a pattern, such as ``"run-*.gw"``, or a list
            of names.
        rank (int, optional): The rank whose graph is shown, if the files are of several; None for
            the first.
        max_nodes (int | None, optional): The most nodes. A file with a larger graph raises an
            error, so that it cannot take all memory. None opens a file of any size. Default:
            ``200_000``.

    Returns:
        A `GraphWidget` that shows the saved graph, or a `CompareWidget` for the file of a
        comparison. Its cursor moves over the recorded steps and never changes a ``.grad``. A method
        that needs the live graph raises an error that says so. With several ranks,
        ``details["ranks"]`` has the local and the reduced gradient of a leaf on each rank, and
        `GraphWidget.diagnose` compares them. Where torch is not installed, an object with the
        ``to_`` methods alone.

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
        >>> from gradwalk import load
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> load(save(x**2, Path(tempfile.mkdtemp()) / "run.gw"))
        GraphWidget(2 nodes, 1 edge, 1 leaf)
    """
    with progress("load"):
        graphs = open_graphs(path, rank, max_nodes)
    for opened in graphs.values():
        for sentence in opened.notes:
            warnings.warn(sentence, stacklevel=2)
    try:
        from ..widget.graph_widget import GraphWidget  # noqa: PLC0415  they need torch
        from .compare_widget import CompareWidget  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return SavedFile(graphs)  # type: ignore[return-value]
    saved = opened.source.saved
    how: dict[str, Any] = {"direction": saved["direction"], "constants": saved["constants"]}
    if len(graphs) > 1:
        return CompareWidget._of({label: each.source for label, each in graphs.items()}, **how)
    widget = GraphWidget._of(opened.source, **how)
    widget.selected = saved["selected"]
    if saved["inner"]:
        widget.inner = saved["inner"]
    return widget
