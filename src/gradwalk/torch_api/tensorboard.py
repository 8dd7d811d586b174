"""Reach the file that a ``torch.utils.tensorboard.SummaryWriter`` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from .capability import capability


def _file_of(writer: Any) -> Any:
    return writer.file_writer


# Not tried: that would make a file.
@capability("SummaryWriter._get_file_writer()", otherwise=_file_of)
def file_writer(read: Any) -> Callable[[Any], Any]:
    """Return the file writer of a ``SummaryWriter``, which it makes anew once it is closed."""
    return cast("Callable[[Any], Any]", read)
