"""Copies of what the nodes of a small graph saved, so that they can run after torch freed it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from ...backward.recorded_run import RecordedRun
from ...derivatives.evaluation import passed_with, reproduces
from ...graph.capture import Capture
from ...torch_api.dtensors import PLAIN
from ...torch_api.modes import unseen
from ...torch_api.nodes import keeps_tensors
from ...torch_api.reading import is_plain
from ...torch_api.saved_tensors import at_hand, is_freed

MOST_BYTES = 2**20  # the largest memory of the copies of one graph
MOST_NODES = 500  # the largest graph of which copies are made

_Gradients = Sequence[torch.Tensor | None]


class SavedCopies:
    """Copies of the saved tensors of a graph's nodes; none for a graph that saves more than 1 MiB.

    After backward has freed what a node saved, its formula runs with the copies. It must give what
    torch gave in the recorded pass, up to rounding.
    """

    def __init__(self, captured: Capture) -> None:
        """Copy the saved tensors of a graph that no backward pass has freed."""
        self.captured = captured
        _made[id(captured)] = self
        self._saved: dict[int, dict[str, torch.Tensor]] = {}
        if len(captured.nodes) <= MOST_NODES:
            with unseen(), torch.no_grad():
                self._saved = _copies(captured)

    def __contains__(self, node: object) -> bool:
        return node in self._saved

    def call(self, node: int, arrived: _Gradients) -> list[torch.Tensor | None]:
        """Return the outgoing gradients of a node for incoming ones.

        Raises:
            RuntimeError: No formula of the node can run with these gradients.
        """
        passed = passed_with(self.captured.nodes[node], self._saved[node], arrived)
        if passed is None:
            raise RuntimeError("no formula is known for these gradients")
        return passed

    def lacks_any(self, run: RecordedRun | None) -> bool:
        """Return whether a freed node cannot run with the copies as it did in a recorded pass."""
        if run is not None and run.keeps_graph:
            return False
        nodes, steps = self.captured.nodes, {} if run is None else run.steps
        return any(
            is_freed(nodes[i])
            and not (
                i in self._saved
                and (i not in steps or reproduces(nodes[i], self._saved[i], steps[i]))
            )
            for i in self.captured.of_classes(keeps_tensors)
        )


_made: weakref.WeakValueDictionary[int, SavedCopies] = weakref.WeakValueDictionary()


def copies_of(captured: Capture) -> SavedCopies | None:
    """Return the copies that an open widget holds of a graph; None if it has none."""
    found = _made.get(id(captured))
    return found if found is not None and found.captured is captured else None


def _copies(captured: Capture) -> dict[int, dict[str, torch.Tensor]]:
    found: dict[int, dict[str, torch.Tensor]] = {}
    copies: dict[tuple[Any, ...], torch.Tensor] = {}  # nodes may save the same tensor
    left = MOST_BYTES
    for i in captured.of_classes(keeps_tensors):
        saved = {
            name: each for name, each in at_hand(captured.nodes[i]).items() if each is not None
        }
        if not all(type(each) in PLAIN and is_plain(each) for each in saved.values()):
            continue
        for name, tensor in saved.items():
            key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if key not in copies:
                left -= tensor.numel() * tensor.element_size()
                if left < 0:
                    return {}
                copies[key] = tensor.detach().clone()
            saved[name] = copies[key]
        found[i] = saved
    return found
