"""Estimate the time of recorded operations from the peak rates of a device."""

from __future__ import annotations

from collections.abc import Sequence

from ...torch_api.data_sheets import DataSheet
from .recorder import Operation


def estimated_seconds(operations: Sequence[Operation], sheet: DataSheet) -> list[float]:
    """Return the least time of each operation: that of its work, or of its memory traffic."""
    return [
        max(
            each.flops / sheet.flops[each.dtype] if each.dtype in sheet.flops else 0.0,
            each.moved / sheet.bandwidth,
        )
        for each in operations
    ]
