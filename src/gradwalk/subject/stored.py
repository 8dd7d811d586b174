"""The ``.grad`` of small leaves around passes that the program runs itself.

Of gradwalk's own passes `gradwalk.backward.grads` knows every moment. Of others it is noted what
was there before and right afterwards, because ``zero_grad()`` may come next.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..backward.observe import weakly
from ..graph.capture import Capture
from ..graph.modes import unseen
from ..graph.nodes import leaf_tensor
from ..graph.summary import summarise
from ..wire import FewModel, GrownModel

_FEW = 4  # numbers of a leaf that is noted
_MOST = 1_000  # leaves that are


class Stored:
    """Notes what small leaves hold, before and after each pass, and then tells.

    Attributes:
        grown: What grew in the last pass that ended.
    """

    def __init__(self, captured: Capture) -> None:
        self.grown: list[GrownModel] = []
        self._captured = captured
        self._before: dict[int, FewModel] = {}
        self._begun: Callable[[], Callable[[], None] | None] = lambda: None
        self._ended: Callable[[], Callable[[], None] | None] = lambda: None
        self._small = [
            node
            for node, data in captured.graph.nodes(data=True)
            if data["kind"] == "leaf"
            and data["device"] == "cpu"  # reading would wait for any other
            and data["shape"] is not None
            and math.prod(data["shape"]) <= _FEW
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
        self._before = self._read()
        _call(self._begun())

    def end(self) -> None:
        """A pass has ended."""
        before, self._before = self._before, {}
        self.grown = [
            {"node": node, **now, "before": before.get(node)}
            for node, now in self._read().items()
            if before.get(node) != now
        ]
        _call(self._ended())

    def _read(self) -> dict[int, FewModel]:
        """What the ``.grad`` of each small leaf holds, of those that have one."""
        found: dict[int, FewModel] = {}
        with unseen(), torch.no_grad():
            for node in self._small:
                leaf = leaf_tensor(self._captured.nodes[node])
                if leaf is None or leaf.grad is None:
                    continue
                summary = summarise(leaf.grad)
                found[node] = {"values": summary["values"], "norm": summary["norm"]}
        return found


def _call(told: Callable[[], None] | None) -> None:
    if told is not None:
        told()
