"""The ``.grad`` of small leaves around passes that the program runs itself.

Of gradwalk's own passes `gradwalk.backward.grads` knows every moment. Of others it is noted what
was there before and right afterwards, because ``zero_grad()`` may come next.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..backward.kept import Kept
from ..backward.observe import weakly
from ..graph.capture import Capture
from ..graph.modes import unseen
from ..graph.nodes import leaf_tensor
from ..wire import GrownModel
from .model import FEW, few_of

_MOST = 1_000  # leaves that are


class Stored:
    """Copies what small leaves hold, before and after each pass, and then tells."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        self._before: dict[int, torch.Tensor] = {}
        self._after: dict[int, torch.Tensor] = {}
        self._began: dict[int, torch.Tensor] = {}  # of a pass that has not ended yet
        self._begun: Callable[[], Callable[[], None] | None] = lambda: None
        self._ended: Callable[[], Callable[[], None] | None] = lambda: None
        self._small = [
            node
            for node, data in captured.graph.nodes(data=True)
            if data["kind"] == "leaf"
            and data["shape"] is not None
            and math.prod(data["shape"]) <= FEW
        ][:_MOST]

    def tell(self, ended: Callable[[], None], begun: Callable[[], None] | None) -> None:
        """Whom to tell.

        Args:
            ended: Called when a pass has ended. Held weakly when it is a bound method.
            begun: Called when a pass has begun. Held likewise.
        """
        self._ended = weakly(ended)
        self._begun = weakly(begun) if begun is not None else self._begun

    def begin(self) -> None:
        """A pass has begun, and has changed nothing yet."""
        self._began = self._copied()
        _call(self._begun())

    def end(self) -> None:
        """A pass has ended."""
        self._before, self._began = self._began, {}
        self._after = self._copied()
        _call(self._ended())

    def grown(self) -> list[GrownModel]:
        """What grew in the last pass that ended."""
        with unseen():
            before, after = (
                few_of({node: Kept(grad) for node, grad in grads.items()})
                for grads in (self._before, self._after)
            )
        return [
            {"node": node, **now, "before": before.get(node)}
            for node, now in after.items()
            if before.get(node) != now
        ]

    def _copied(self) -> dict[int, torch.Tensor]:
        """The ``.grad`` of each small leaf that has one, on its device: nothing waits for it."""
        found: dict[int, torch.Tensor] = {}
        with unseen(), torch.no_grad():
            for node in self._small:
                leaf = leaf_tensor(self._captured.nodes[node])
                if leaf is not None and leaf.grad is not None:
                    found[node] = leaf.grad.detach().clone()
        return found


def _call(told: Callable[[], None] | None) -> None:
    if told is not None:
        told()
