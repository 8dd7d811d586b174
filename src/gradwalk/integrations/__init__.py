"""Callbacks for training libraries. Each module imports its own library, when it is first used."""

import importlib
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name not in ("lightning", "transformers"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)
