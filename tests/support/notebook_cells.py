"""An IPython shell in the process of the tests, whose cells show plain text."""

from __future__ import annotations

import builtins
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import gradwalk
from gradwalk.features.cells import extension
from gradwalk.tracing import failed_call


class Notebook:
    """A real IPython shell."""

    def __init__(self) -> None:
        self.shell: Any = InteractiveShell.instance(
            config=Config(
                HistoryManager={"enabled": False},
                InteractiveShell={"colors": "nocolor"},
            )
        )

    def run(self, *lines: str, fails: bool | None = False) -> Any:
        """Run one cell; afterwards nothing watches. Returns its last value.

        ``fails``: whether it has to; None: it may.
        """
        before = [*torch.overrides._get_current_function_mode_stack()]
        done = self.shell.run_cell("\n".join(lines), store_history=True)
        assert fails is None or done.success is not fails, done
        left = torch.overrides._get_current_function_mode_stack()
        assert not [
            each for each in left if type(each).__name__ == "_Watcher" and each not in before
        ]
        return done.result

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@contextmanager
def open_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """Run a shell that knows nothing of others, and leave no trace of it."""
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell makes its own
    monkeypatch.delattr(builtins, "_", raising=False)  # which doctests leave, and IPython minds
    monkeypatch.setattr(extension, "_said", set())
    made = Notebook()
    try:
        with warnings.catch_warnings():
            yield made
    finally:
        gradwalk.unload_ipython_extension(made.shell)
        made.shell.reset(new_session=False)
        InteractiveShell.clear_instance()
        while torch.overrides._get_current_function_mode_stack():  # of a test that failed
            torch.overrides._pop_mode()
        failed_call.keep(None)
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)  # of cells that failed
