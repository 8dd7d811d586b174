"""Free memory, and the limits of a real step."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

_UNKNOWN = 2**32  # bytes that are taken as free where the system does not say


def free_bytes(devices: Iterable[torch.device]) -> int:
    """Return the free memory of the accelerator among some devices, else of the computer."""
    for each in devices:
        if each.type not in ("cpu", "meta"):
            return int(torch.get_device_module(each).mem_get_info(each)[0])
    return _free_in_linux() or _free_in_posix() or _UNKNOWN


def _free_in_linux() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        amounts = dict(line.split(":", 1) for line in lines)
        return 1024 * int(amounts["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def _free_in_posix() -> int | None:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
