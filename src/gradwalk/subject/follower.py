"""Following one captured graph through its backward passes: observed, recorded, freed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..backward.observe import Observer, Run
from ..backward.recording import Recording
from ..backward.run_backward import run_backward
from ..findings.memory import memory_model, saved_memory
from ..forward.annotate import Annotated
from ..graph.guarded import could_not
from ..graph.modes import unseen
from ..graph.saved import is_freed
from ..reasons import why
from ..wire import DetailsModel, MemoryModel, StateModel, TransportModel
from .blank import blank_details
from .details import details
from .model import state_model


class Follower:
    """One captured graph, and what has been seen of backward through it.

    Attributes:
        captured: The graph.
        observer: Watches its nodes.
        freed: Ids of the nodes whose saved tensors are gone.
        recording: The pass that is shown; None before any.
    """

    def __init__(
        self,
        captured: Annotated,
        changed: Callable[[], None],
        budget: int,
        begun: Callable[[], None] | None = None,
        namespaces: Mapping[int, str] | None = None,
    ) -> None:
        """Start watching.

        Args:
            captured: The graph.
            changed: Called when a pass that someone else started has ended. Held weakly when it is
                a bound method.
            budget: Bytes of gradients to keep of each pass.
            begun: Called when any pass has begun, before a leaf's ``.grad`` has changed. Held
                likewise.
            namespaces: The modules of the nodes as far as they are inferred; None for those that
                were watched.
        """
        graph = captured.graph
        self.captured = captured
        self.namespaces = namespaces or {
            node: space for node, space in captured.drawn.nodes(data="namespace") if space
        }
        self.freed = {i for i, node in enumerate(captured.nodes) if is_freed(node)}
        self.recording: Recording | None = None
        self.observer = Observer(
            captured.nodes,
            [kind == "leaf" for _, kind in graph.nodes(data="kind")],
            changed,
            {node for node, _ in graph.graph["roots"]},
            budget,
            on_begin=begun,
        )
        self._seen: Run | None = None
        self._told_compiled = False

    def close(self) -> None:
        """Remove every hook and let go of what was recorded."""
        self.recording = self._seen = None
        self.observer.close()

    def backward(self, **asked: Any) -> None:
        """Run the real backward; `notice` then finds it.

        Args:
            **asked: As for `gradwalk.backward.run_backward.run_backward`.

        Raises:
            RuntimeError: Tensors that backward needs were freed by an earlier one.
            Exception: What `gradwalk.backward.run_backward.run_backward` raises.
        """
        if self.freed:
            raise RuntimeError(why.freed(self.captured, self.freed))
        run_backward(self.captured, self.observer, **asked)

    def notice(self) -> bool:
        """Take note of a pass that has ended.

        It is shown from now on, unless the user stands within a pass of gradwalk's own, not to be
        taken elsewhere.

        Returns:
            Whether there was one since the last call.
        """
        last = self.observer.last
        compiled = self.observer.compiled and not self._told_compiled
        self._told_compiled = self.observer.compiled
        if last is None or last is self._seen or last.state == "running":
            return compiled
        self._seen = last
        if not last.keeps_graph:
            self.freed.update(i for i in last.steps if is_freed(self.captured.nodes[i]))
        if not self._is_travelling(last):
            self.recording = Recording(self.captured, last)
        return True

    def _is_travelling(self, last: Run) -> bool:
        shown = self.recording
        return (
            last.grads is None
            and shown is not None
            and shown.run.grads is not None
            and shown.cursor < len(shown.run.steps)
        )

    def state(self) -> StateModel:
        """What has been seen of backward."""
        return state_model(self.observer, self.freed, self.captured.graph)

    def memory(self) -> MemoryModel:
        """The bytes that the nodes hold for backward."""
        return memory_model(saved_memory(self.captured, self.namespaces))

    def transport(self) -> TransportModel:
        """Whether travelling moves ``.grad``, and why not."""
        shown = self.recording
        return {
            "owned": shown is not None and shown.owned,
            "note": None if shown is None else shown.note,
            "blocked": why.freed(self.captured, self.freed) if self.freed else self._missing,
        }

    @functools.cached_property
    def _missing(self) -> str | None:
        """Why backward cannot start by itself, whatever was freed."""
        return why.blocked(self.captured)

    def describe(self, node: int | None) -> DetailsModel | None:
        """What the panel shows of a node; None for None."""
        if node is None:
            return None
        # A click can be handled on another thread, in whatever grad mode that thread is in.
        with unseen(), torch.no_grad():
            try:
                found = details(self.captured, node, self.recording)
            except Exception as error:  # the picture and every other node still work
                sentence = could_not("details", error)
                found = blank_details(self.captured.drawn, node, sentence, sentence)
        if found["module"] is None and self.namespaces.get(node):
            found["module"] = self.namespaces[node].replace("/", ".")
        return found
