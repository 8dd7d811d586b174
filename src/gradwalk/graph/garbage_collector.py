"""Pause Python's garbage collector while a graph is built."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pausing = 0  # threads that are in `collector_paused`
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Return a context in which no thread collects garbage.

    A graph has many small long-lived objects: collecting while they are created doubles the time.
    The new objects still count towards the next collection.
    """
    global _pausing, _was_enabled  # noqa: PLW0603
    with _lock:
        if not _pausing:
            _was_enabled = gc.isenabled()
        _pausing += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pausing -= 1
            if not _pausing and _was_enabled:
                gc.enable()
