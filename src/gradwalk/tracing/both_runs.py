"""Note some numbers that a checkpointed part saves, in its forward pass and when it runs again."""

from __future__ import annotations

import contextlib
from collections import deque

import torch

from ..torch_api.checkpoints import BothRuns, Frame, both_runs
from ..torch_api.modes import unseen
from ..torch_api.reading import is_plain
from .source_line import SourceLine

_SAMPLED = 64  # numbers of a tensor
_noted: deque[tuple[Frame, BothRuns]] = deque(maxlen=256)  # the latest parts


def few_numbers(tensor: torch.Tensor) -> torch.Tensor | None:
    """Copy some numbers of a tensor; None where they cannot be read."""
    if not is_plain(tensor) or not tensor.numel() or not tensor.is_contiguous():
        return None
    flat = tensor.detach().view(-1)
    return flat[:: max(1, flat.numel() // _SAMPLED)][:_SAMPLED].clone()


def note_line(frame: Frame, line: SourceLine | None) -> None:
    """Note the line of a call that has returned within a checkpointed part."""
    found = both_runs(frame, _copied)
    if found is not None:
        if not found.ends:
            _noted.append((frame, found))
        found.ends.append((found.count, line))


def _copied(tensor: torch.Tensor) -> torch.Tensor | None:
    with contextlib.suppress(Exception), unseen(), torch.no_grad():  # a class may refuse
        return few_numbers(tensor)
    return None


def runs_of(frame: Frame | None) -> BothRuns | None:
    """Return what is noted of a part; None for an unknown one."""
    return next((runs for each, runs in reversed(_noted) if each is frame), None)
