"""The base of the callbacks for all training libraries."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from ...result import make
from .follow import FollowedRun
from .program import Program


class Follows:
    """Follows a training from `_begin` to `_end`."""

    def __init__(self, *, at: int = 1, keep: bool = False, strict: bool = False) -> None:
        """Prepare to look at step ``at``."""
        super().__init__()
        if not isinstance(at, int) or at < 1:
            raise ValueError(f"at was given {at!r}. Give the number of a step, from 1.")
        self.run: FollowedRun | None = None
        self._at, self._keep, self._strict = at, keep, strict
        self._is_quiet = False

    def _begin(self, model: nn.Module, *, is_quiet: bool) -> None:
        """Begin; ``is_quiet``: another process prints the report."""
        self._end()
        self._is_quiet = is_quiet
        program = Program([], models={"": model})
        try:
            self.run = make(
                FollowedRun, program, at=self._at, say=self._heard, keeps_look=self._keep
            )
            self.run.__enter__()
        except Exception as error:  # the training goes on in any case
            self.run = None
            self._print(f"the training is not looked at. {type(error).__name__}: {error}")

    def _end(self, error: BaseException | None = None) -> None:
        run = self.run
        if run is None or not run.is_open:
            return
        run.__exit__(type(error) if error is not None else None, error, None)
        grave = [each for each in run.findings if each.severity != "info"]
        if self._strict and grave and error is None:
            raise RuntimeError(
                f"gradwalk found {len(grave)} problems. The first: {grave[0].message}"
            )

    def _heard(self, what: Any) -> None:
        text = str(what)
        if not self._is_quiet or text.startswith("error"):
            self._print(text)

    def _print(self, text: str) -> None:
        print(f"gradwalk: {text}", file=sys.stderr)
