"""Calls when the event loop of the program is idle."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any


class IdleCallback:
    """Calls a bound method once when the event loop is next idle, however often it was requested.

    It uses the event loop that was running at its creation. In a notebook's kernel the method runs
    after the current cell, or at once when none is running.
    """

    def __init__(self, method: Callable[[], None], longest: float = 1.0) -> None:
        """Store the method; ``longest``: seconds after which the next request calls it directly."""
        self._method = weakref.WeakMethod(method)
        self._longest = longest
        self._waiting = False  # whether a call is scheduled
        self._last = 0.0
        self._loop = _running_loop()

    def ask(self) -> bool:
        """Request a call, from any thread."""
        waited = self._waiting
        if not self.wait():
            return False
        now = time.monotonic()
        if not waited:
            self._last = now
        elif now - self._last > self._longest:
            self._last = now
            self._call()
        return True

    def wait(self) -> bool:
        """Request a call when the event loop is idle, and not before."""
        if self._loop is None or not self._loop.is_running():
            return False
        if not self._waiting:
            self._waiting = True
            try:
                self._loop.call_soon_threadsafe(_rest, weakref.ref(self))
            except RuntimeError:  # it has been closed meanwhile
                self._waiting = False
                return False
        return True

    def _call(self) -> None:
        method = self._method()
        if method is not None:
            method()


def _rest(asked: weakref.ref[IdleCallback]) -> None:
    soon = asked()
    if soon is not None:
        soon._waiting = False  # first, so that the method can request another call
        soon._call()


class MainThread:
    """Runs calls in the main thread, whose code an interrupt of the kernel stops.

    JupyterLab may deliver a widget's messages to another thread of the kernel, even while a cell
    runs. There a backward pass could not be interrupted, and would run beside the user's code.
    """

    def __init__(self) -> None:
        """Store the event loop of the main thread, if it runs and this is the main thread."""
        self._loop = _running_loop() if _is_main() else None

    def call(self, action: Callable[[], None]) -> None:
        """Call it: at once in the main thread or without its event loop, else after this cell."""
        loop = self._loop
        if _is_main() or loop is None or not loop.is_running():
            action()
        else:
            ended = threading.Event()
            loop.call_soon_threadsafe(_until_interrupted, action, ended)
            ended.wait()


def _until_interrupted(action: Callable[[], None], ended: threading.Event) -> None:
    # Between cells IPython's kernel ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # An interrupt would end the event loop, and the kernel with it.
        with contextlib.suppress(KeyboardInterrupt):
            action()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        ended.set()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_heard(channel: Any | None) -> bool:
    """Whether a widget's comm has a front end; ``channel``: the comm, None for a closed widget."""
    dropping = getattr(sys.modules.get("comm"), "DummyComm", None)
    return channel is not None and type(channel) is not dropping
