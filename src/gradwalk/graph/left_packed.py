"""What a checkpointed part saved is left packed, also where torch does not tell who packed it."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

_IS_TOLD = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")


class LeftPackedError(Exception):
    """Raised instead of running a checkpointed part again."""


class _Looking:
    """Stands in for what torch's checkpoints call before they unpack, while somebody looks.

    Before torch tells who packed a saved tensor, this alone says whose unpacking runs a part again
    (outside of a pass), or takes it from the pass that runs, which then would not find it.
    """

    def __init__(self) -> None:
        self._here = threading.local()
        self._lock = threading.Lock()
        self._times = 0
        own = vars(torch.utils.checkpoint)
        calls = ("_recomputation_hook", "_internal_assert")  # in a pass: before and after it ran
        self._own = {name: own[name] for name in ("uuid", *calls) if name in own}
        self._ours: dict[str, Any] = {name: self._asked(own[name]) for name in calls if name in own}
        self._ours |= {"uuid": self} if "uuid" in own else {}

    def _asked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            self._refuse()
            return call(*args, **kwargs)

        return asked

    def _refuse(self) -> None:
        """In other threads torch goes on."""
        if getattr(self._here, "looks", False):
            raise LeftPackedError

    def __getattr__(self, name: str) -> Any:
        return getattr(uuid, name)

    def uuid4(self) -> uuid.UUID:
        """The number of no pass, which torch asks for outside of one."""
        self._refuse()
        return uuid.uuid4()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Within it, this thread unpacks nothing that a checkpointed part saved."""
        with self._lock:
            self._times += 1
            vars(torch.utils.checkpoint).update(self._ours)
        before, self._here.looks = getattr(self._here, "looks", False), True
        try:
            yield
        finally:
            self._here.looks = before
            with self._lock:
                self._times -= 1
                if not self._times:
                    vars(torch.utils.checkpoint).update(self._own)


_looking = _Looking()


def left_packed() -> contextlib.AbstractContextManager[None]:
    """Within it, whatever unpacks what a checkpointed part saved raises `LeftPackedError` instead.

    Where torch tells who packed a saved tensor, nobody comes to unpack one, and nothing is done.
    """
    return contextlib.nullcontext() if _IS_TOLD else _looking.looking()
