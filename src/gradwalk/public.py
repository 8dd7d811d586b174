"""Imports what public names stand for, when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from .torch_api.capability import NEWEST, OLDEST, torch_version


def import_public(name: str, place: str | None) -> Any:
    """Import a public name, from a module of the package, or a module that is called so itself.

    Args:
        name: The full name, as in "gradwalk.plan".
        place: The module that has it, as seen from the package; None for a module.

    Returns:
        The function, class or module.

    Raises:
        ImportError: If torch, another package or a file is missing. It says which.
    """
    try:
        if place is None:
            return importlib.import_module(name)
        return getattr(importlib.import_module(f".{place}", __package__), name.rpartition(".")[2])
    except Exception as error:
        # One that does not name torch says what is missing: another package, the browser's files.
        if isinstance(error, ImportError) and not str(error.name).startswith("torch"):
            raise
        # Not an AttributeError, of which Python says "cannot import name" and nothing else.
        raise ImportError(_why_not_imported(name, error)) from error


def _why_not_imported(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return (
            f"{name} needs torch, which is not installed. gradwalk.load() and "
            "python -m gradwalk make pages and pictures of saved files without it."
        )
    return (
        f"{name} cannot be imported with torch {torch_version()}: {type(error).__name__}: "
        f"{error}. gradwalk was tested with torch {OLDEST} to {NEWEST}: install one "
        "of these, or a newer gradwalk. If yours is one of these, please report the error above."
    )
