"""What we compute while the program trains: its modes do not see it, and no error reaches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...torch_api.modes import is_watched, unseen


class Guard:
    """Hides what we compute from the program's modes, and ends with an error of ours."""

    __slots__ = ("_failed", "_unseen")

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        """``failed``: is given the error."""
        self._failed = failed
        self._unseen = unseen() if is_watched() else None

    def __enter__(self) -> None:
        if self._unseen is not None:
            self._unseen.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        if self._unseen is not None:
            self._unseen.__exit__(kind, error, traceback)
        if isinstance(error, Exception):
            self._failed(error)
            return True
        return False
