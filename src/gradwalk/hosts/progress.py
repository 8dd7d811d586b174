"""Show how far work has come that takes over a second: a bar in a notebook, a line in a terminal.

A thread of its own reads a count and shows it, so that the work itself has nothing to call, and an
interrupt ends it as ever. No dependency does this: tqdm needs a call for each step, and keeps a
thread and locks for the rest of the process.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import time
from collections.abc import Callable, Iterator

from .host import ProgressWriter
from .this_host import this_host

FEWEST = 200
"""The fewest steps that are worth a thread, which takes as long to start as some 20 of them."""

_BEFORE, _BETWEEN = 1.0, 0.25  # seconds

_shown = threading.Lock()  # one at a time: the outermost


@contextlib.contextmanager
def progress(
    what: str, done: Callable[[], int] | None = None, total: int | None = None, unit: str = "nodes"
) -> Iterator[None]:
    """Show progress while the block runs, from the first second on.

    Nothing is shown in a pipe, and for work that another thread or the browser has started.

    Args:
        what: The work, in a few words: "save".
        done: Returns the number of completed steps; called in another thread. None if there is
            none: then the seconds are shown.
        total: The number of steps; None if it is not known.
        unit: The steps, in the plural.
    """
    small = total is not None and total < FEWEST
    if small or threading.current_thread() is not threading.main_thread():
        yield
        return
    write = this_host().progress_writer()
    if write is None or not _shown.acquire(blocking=False):
        yield
        return
    try:
        end = threading.Event()
        line = functools.partial(_line, what, done, total, unit)
        # Its context says which cell the output belongs to.
        run = contextvars.copy_context().run
        given = _tell, end, write, line
        thread = threading.Thread(target=run, args=given, daemon=True, name="gradwalk")
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
    finally:
        _shown.release()


def _tell(
    end: threading.Event, write: ProgressWriter, line: Callable[[], tuple[str, float | None]]
) -> None:
    start = time.monotonic()
    if end.wait(_BEFORE):
        return
    with contextlib.suppress(Exception):  # the work goes on without it
        while True:
            text, share = line()
            write(f"{text}{time.monotonic() - start:.0f} s", share)
            if end.wait(_BETWEEN):
                break
        write(None, None)


def _line(
    what: str, done: Callable[[], int] | None, total: int | None, unit: str
) -> tuple[str, float | None]:
    """Return the words before the seconds, and the share that is done if it is known."""
    if done is None:
        return f"{what}: ", None
    count = done()
    of = f" of {total:,}" if total else ""
    return f"{what}: {count:,}{of} {unit}, ", count / total if total else None
