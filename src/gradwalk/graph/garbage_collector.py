"""Python's garbage collector, kept out of the way while a graph is built."""

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
    """Within it no garbage is collected, by any thread.

    A graph is many small long-lived objects: collecting while they are made doubles the time.
    Nothing else is touched: what was made counts towards the next collection as ever.
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
