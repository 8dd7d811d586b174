"""`compare`: the graphs behind several tensors, side by side in a notebook."""

from __future__ import annotations

from ..graph.names import Names, caller_names
from ..sources.graph_source import are_small, read_constants
from ..torch_api.compiled import refuse_while_compiling
from ..types import CompareNames, Graphs
from .compare_widget import CompareWidget
from .inputs import read_graphs


def compare(
    *graphs: Graphs,
    names: CompareNames | None = None,
    constants: bool | None = None,
    opened: bool = False,
    stacklevel: int = 1,
) -> CompareWidget:
    """Draw two to four graphs side by side, with common nodes at the same place.

    What only some of them have is marked; selecting, moving and stepping through backward go
    together; a table sets ``requires_grad``, ``is_leaf`` and ``.grad`` of the leaves side by side.

    Args:
        *graphs (Graphs): A mapping from labels to what `gradwalk.capture` takes (tensors that
            require grad, or lists and dicts of them) or to static graphs of torch.export and
            torch.fx; or such, one by one or in a list. The first is the one that the others are
            compared with.
        names (CompareNames, optional): What to call tensors: a mapping from names to tensors or
            modules, or one module, for all graphs; or a mapping from each label to such, for each
            graph its own. By default names are looked up among the caller's variables.
        constants (bool, optional): Whether to draw operands that need no grad, and cuts. None draws
            them when every graph has up to 200 nodes.
        opened (bool, optional): Whether compiled code is opened: beside the same program that is
            not compiled, what became of each of its operations is marked and listed, also in
            ``.compiled``. Default: ``False``.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The widget. It keeps the graphs alive, so `close` it when done with large ones.

    Raises:
        TypeError: ``graphs`` or ``names`` is of the wrong kind, a label is not a string, or
            ``constants`` is neither True, False nor None.
        ValueError: There are fewer than two graphs or more than four, a label is empty, a
            tensor does not require grad, or compiled code cannot be opened; the message says why.

    Example::

        >>> import torch
        >>> from gradwalk import compare
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> widget = compare({"all": w * x, "x.detach()": w * x.detach()})
        >>> widget
        CompareWidget('all' and 'x.detach()': 2 nodes in common, 3 only in some)
        >>> widget.backward()
        >>> [cell["now"] for cell in widget.table["rows"][0]["cells"]]
        [{'values': [1.0], 'norm': 1.0}, {'values': [1.0], 'norm': 1.0}]
        >>> widget.close()
    """
    refuse_while_compiling("compare()")
    constants = read_constants(constants)
    given = graphs[0] if len(graphs) == 1 else graphs
    # The labels are already drawn above the graphs.
    found = Names() if names is not None else caller_names(None, "compare", stacklevel, given)
    sources = read_graphs(given, names, found, constants)
    if opened:
        for source in sources.values():
            for node in source.openable:
                source.expand(node)
    constants = are_small(sources.values()) if constants is None else constants
    return CompareWidget._of(sources, constants)
