"""The panel's details of a custom ``autograd.Function``: its source and its operations."""

from __future__ import annotations

from torch.autograd.graph import Node

from ..backward.recorded_run import RecordedRun
from ..derivatives.custom_source import written_backward
from ..schema.details import FunctionModel, OperationModel
from ..torch_api.nodes import custom_function, is_of_torch
from ..torch_api.summary import Summarise
from ..tracing.source_line import shown_file
from .extra_details import MOST_LISTED


def function_model(node: Node) -> FunctionModel | None:
    """Find the source of a custom backward; None for torch's own nodes.

    Args:
        node: An autograd node. It is not run.
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
            "note": f"The source of {custom.__name__}.backward was not found: it does not come "
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


def operations_of(
    run: RecordedRun | None, node: int, summarised: Summarise
) -> tuple[list[OperationModel], int]:
    """List the first operations that a custom backward ran, and count all of them.

    The list is empty if they were not recorded.
    """
    found = None if run is None else run.operations.get(node)
    if found is None:
        return [], 0
    return [
        {
            "called": each.called,
            "behind": each.behind,
            "gave": each.gave[0].kept.summarise(summarised) if each.gave and each.gave[0] else None,
        }
        for each in found.listed[:MOST_LISTED]
    ], found.count
