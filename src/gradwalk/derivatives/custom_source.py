"""The source of the backward of a custom ``autograd.Function``; it is read, and never called."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass

import torch

from ..torch_api.nodes import is_of_torch
from ..tracing.source_line import NO_FILE

_MOST_LINES = 60


@dataclass(frozen=True)
class WrittenBackward:
    """The source code of a custom backward.

    Attributes:
        method: "backward", or "vjp", which torch takes as well.
        code: Its source; of a long one the first lines.
        file: Where it stands.
        line: The line on which it begins.
    """

    method: str
    code: str
    file: str
    line: int


def written_backward(custom: type[torch.autograd.Function]) -> WrittenBackward | None:
    """Return the source of a Function's backward; None if Python does not know it.

    Args:
        custom: The class.

    Example::

        >>> class Twice(torch.autograd.Function):
        ...     backward = None  # nobody wrote one
        >>> written_backward(Twice) is None
        True
    """
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
