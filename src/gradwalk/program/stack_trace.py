"""The line of the user's program that an fx node came from, read off the trace that fx keeps."""

from __future__ import annotations

import re

from torch.fx import Node

from ..forward.source_line import SourceLine, is_library

_FRAME = re.compile(r'File "(.*)", line (\d+), in (.*)(?:\n[ \t]+(?!File ")(.*))?')

_WRITTEN_BY_FX = "<eval_with_key>"


def source_line(node: Node) -> SourceLine | None:
    """The innermost line outside torch; None where fx kept no trace, or only lines of torch's.

    Args:
        node: Of torch.export, which keeps traces, or of torch.fx, which mostly does not.
    """
    found = _FRAME.findall(node.stack_trace or "")
    for file, line, function, text in reversed(found):
        if not is_library(file) and not file.startswith(_WRITTEN_BY_FX):
            return SourceLine(file, int(line), text.strip(), function.strip())
    return None
