"""The row under the picture: buttons for a step of gradient descent, and for a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from ..quiz.typed_numbers import written
from .descent import LR, Step


class Row(ipywidgets.HBox):  # type: ignore[misc]
    """Buttons for a step and for a check, and what came of the last one."""

    def __init__(self, step: Callable[[float], Step], check: Callable[[], dict[str, Any]]) -> None:
        """Make the buttons.

        Args:
            step: Takes a step with a learning rate.
            check: Compares every gradient with a finite difference.
        """
        self._step, self._check = step, check
        self._lr = ipywidgets.FloatText(value=LR, description="lr")
        self._lr.layout.width = "160px"
        self._said = ipywidgets.Label()
        stepping = ipywidgets.Button(description="Step", tooltip="w ← w − lr · w.grad")
        checking = ipywidgets.Button(
            description="Check", tooltip="Compare each gradient with a finite difference"
        )
        stepping.on_click(lambda _: self._do(self._stepped))
        checking.on_click(lambda _: self._do(self._checked))
        super().__init__(children=[self._lr, stepping, checking, self._said])

    def _do(self, what: Callable[[], str]) -> None:
        try:
            self._said.value = what()
        except Exception as error:  # a button has nobody to raise to
            self._said.value = str(error)

    def _stepped(self) -> str:
        found = self._step(self._lr.value)
        moved = [
            f"{name} {_short(was)} → {_short(now)}" for name, (was, now) in found.moved.items()
        ]
        return ", ".join([*moved, f"loss {_short(found.before)} → {_short(found.after)}"])

    def _checked(self) -> str:
        pairs = [
            each
            for found in self._check().values()
            for each in (found if isinstance(found, list) else [found])
        ]
        told = [pair for pair in pairs if pair.is_finite]
        wrong = sum(not pair.agrees for pair in told)
        said = "agree" if not wrong else f"agree, but {wrong}"
        untold = len(pairs) - len(told)
        more = f"; of {untold} more there is none that is finite" if untold else ""
        return f"{len(told)} gradients and finite differences {said}{more}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return written(value)
