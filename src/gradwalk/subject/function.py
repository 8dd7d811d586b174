"""What the panel shows of a custom ``autograd.Function``: its source, and what its backward ran."""

from __future__ import annotations

from torch.autograd.graph import Node

from ..backward.run import Run
from ..derivatives.custom_source import written_backward
from ..forward.source_line import shown_file
from ..graph.nodes import custom_function, is_of_torch
from ..wire import FunctionModel, OperationModel


def function_model(node: Node) -> FunctionModel | None:
    """The source of the backward that somebody wrote; None for a node of torch's own.

    Args:
        node: An autograd node. Nothing of it is run.
    """
    custom = custom_function(node)
    if custom is None or is_of_torch(custom):
        return None
    found = written_backward(custom)
    if found is None:
        return {
            "method": f"{custom.__name__}.backward",
            "place": None,
            "code": "",
            "note": f"The source of {custom.__name__}.backward cannot be found: it was not read "
            "from a file or a cell.",
        }
    return {
        "method": f"{custom.__name__}.{found.method}",
        "place": {
            "file": shown_file(found.file),
            "line": found.line,
            "text": "",
            "function": f"{custom.__name__}.{found.method}",
        },
        "code": found.code,
        "note": None,
    }


def operation_models(run: Run | None, node: int) -> list[OperationModel]:
    """What the backward of a custom Function ran, the first of it; none where it was not noted."""
    found = None if run is None else run.operations.get(node)
    return [
        {"called": each.called, "behind": each.behind, "gave": each.gave}
        for each in (found.listed if found is not None else ())
    ]


def operation_count(run: Run | None, node: int) -> int:
    """How many operations that were."""
    found = None if run is None else run.operations.get(node)
    return 0 if found is None else found.count
