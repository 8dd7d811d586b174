"""Whether `watch` can work with this torch."""

from __future__ import annotations

from .capability import is_there, note
from .engine import next_sequence_nr
from .modes import is_tracing, pop_mode, push_mode, top_mode, without_overrides
from .nodes import outputs_metadata, sequence_nr
from .reading import base_of


def can_watch() -> bool:
    """Whether torch has all that `watch` needs to see calls, and to find them again."""
    seeing = push_mode, pop_mode, top_mode, without_overrides, is_tracing
    if is_there(*seeing, next_sequence_nr, sequence_nr, outputs_metadata, base_of):
        return True
    note("watch() records nothing")
    return False
