"""Act once the program has imported torch, after what it sets for that."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


class ImportOfTorch:
    """Calls a function once this thread has imported torch; an entry of ``sys.meta_path``."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._thread = threading.get_ident()
        self._asks = False

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Find torch as Python does, with a loader that calls the function afterwards."""
        if name != "torch" or self._asks or threading.get_ident() != self._thread:
            return None
        self._asks, spec = True, None
        with contextlib.suppress(ImportError, ValueError):  # Python asks again, and raises it
            spec = importlib.util.find_spec(name)
        self._asks = False
        loader = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                execute(module)
                self._then()

            with contextlib.suppress(AttributeError, TypeError):  # a loader of another kind
                loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
