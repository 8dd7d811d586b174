"""networkx, imported when it is first used, because its import is slow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["nx"]

if TYPE_CHECKING:
    import networkx as nx
else:

    class _Lazily:
        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("networkx"), name)

    nx = _Lazily()
