"""Python's garbage collector, kept out of the way while a graph is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Within it no garbage is collected.

    A graph is many small long-lived objects: collecting while they are made doubles the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                gc.freeze()  # straight to the oldest generation, so that they are not searched
                gc.unfreeze()  # right away either
            gc.enable()
