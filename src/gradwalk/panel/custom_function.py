"""The source of a custom ``autograd.Function``, and the operations that its backward ran."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass

import torch
from torch.autograd.graph import Node

from ..backward.recorded_run import RecordedRun
from ..schema.details import FunctionModel, OperationModel
from ..torch_api.nodes import custom_function, is_of_torch
from ..torch_api.summary import Summarise
from ..tracing.source_line import NO_FILE, shown_file
from .neighbours import MOST_LISTED

_MOST_LINES = 60


@dataclass(frozen=True)
class WrittenBackward:
    """The source code of a custom backward.

    Attributes:
        method: "backward", or "vjp", which torch takes as well.
        code: Its source, at most the first 60 lines.
        file: Its file.
        line: Its first line.
    """

    method: str
    code: str
    file: str
    line: int


def written_backward(custom: type[torch.autograd.Function]) -> WrittenBackward | None:
    """Return the source of a Function's backward, without calling it; None if Python lacks it."""
    for method in ("backward", "vjp"):
        written = inspect.getattr_static(custom, method, None)
        written = inspect.unwrap(getattr(written, "__func__", written))
        if is_of_torch(written):
            continue  # the one that only says that it must be overridden
        try:
            lines, first = inspect.getsourcelines(written)
            file = inspect.getsourcefile(written) or inspect.getfile(written)
        except (OSError, TypeError, ValueError):
            continue
        if file == NO_FILE:
            continue
        listed = textwrap.dedent("".join(lines)).rstrip().split("\n")
        if len(listed) > _MOST_LINES:
            rest = len(listed) - _MOST_LINES + 1
            listed = [*listed[: _MOST_LINES - 1], f"    # ... {rest} more lines"]
        return WrittenBackward(method, "\n".join(listed), file, first)
    return None


def function_model(node: Node) -> FunctionModel | None:
    """Find the source of a custom backward; None for torch's own nodes."""
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
            "called": each.name,
            "behind": each.inner_node,
            "gave": each.outputs[0].kept.summarise(summarised)
            if each.outputs and each.outputs[0]
            else None,
        }
        for each in found.listed[:MOST_LISTED]
    ], found.count
