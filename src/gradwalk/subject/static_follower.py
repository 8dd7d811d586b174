"""A static graph in a widget: there is nothing to follow, and every question has its sentence."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ..program.kinds import no_backward
from ..program.static_capture import StaticCapture
from ..wire import DetailsModel, MemoryModel, StateModel, TransportModel
from .static_details import static_details


class StaticFollower:
    """Stands where a `gradwalk.subject.follower.Follower` would, and never sees a backward.

    Attributes:
        captured: The graph.
        observer: Itself, as far as a widget asks: nothing goes wrong here.
        fault: None.
        recording: None.
        runs: 0.
        namespaces: None are inferred: the program says where its nodes came from.
    """

    fault = None
    recording = None
    runs = 0

    def __init__(self, captured: StaticCapture) -> None:
        self.captured = captured
        self.observer = self
        self.namespaces: dict[int, str] = {}

    def close(self) -> None:
        """Nothing is hooked."""

    def paused(self) -> AbstractContextManager[None]:
        """There is nothing to pause."""
        return nullcontext()

    def backward(self, **_: Any) -> None:
        """There is nothing to run.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(no_backward(self.captured.made_by))

    def notice(self) -> bool:
        """No pass ends here."""
        return False

    def state(self) -> StateModel:
        """That nothing was seen, and why."""
        return {"runs": 0, "reached": [], "flowed": [], "freed": [], "note": _note(self.captured)}

    def transport(self) -> TransportModel:
        """That no backward can be started."""
        return {"owned": False, "note": None, "blocked": no_backward(self.captured.made_by)}

    def memory(self) -> MemoryModel:
        """That nothing is held for backward."""
        return {
            "nodes": [],
            "bytes": [],
            "namespaces": [],
            "namespace_bytes": [],
            "total": 0,
            "unknown": 0,
        }

    def describe(self, node: int | None) -> DetailsModel | None:
        """What the panel shows of a node; None for None."""
        if node is None:
            return None
        # A click can be handled on another thread, in whatever grad mode that thread is in.
        with torch.no_grad():
            return static_details(self.captured, node)


def _note(captured: StaticCapture) -> str:
    graph = captured.graph
    calls = sum(kind == "op" for _, kind in graph.nodes(data="kind"))
    return (
        f"Static graph of {captured.made_by}: {calls} call{'s' * (calls != 1)}, the same whatever "
        "goes in. It holds no gradients."
    )
